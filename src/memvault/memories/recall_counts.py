"""How often each memory was recalled on this machine, ``.memvault/access.json``.

A recall is an answer that hands the memory out: of the tools for experience,
and of those that recall, show or load memories or write the context for a task.
The counts lie outside the memories' files, so that recalling changes nothing
that travels with git. Losing the file, or a part of it, loses counts only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.plain_files import STATE
from memvault.vault import atomic
from memvault.vault.lock import FileLock
from memvault.vault.store import private_folder

__all__ = ["count", "counts"]

_FILE = "access.json"
_LOCK = "access.lock"


def counts(root: Path) -> dict[str, int]:
    """Return how often each memory was recalled, by memId; what is damaged counts as never."""
    return {mem_id: entry["count"] for mem_id, entry in _read(root / ".memvault").items()}


def count(root: Path, mem_ids: Iterable[str], seconds: float = 30.0) -> dict[str, int]:
    """Count one more recall of each of these memories; return how often each was by now.

    Others that count at the same time are waited for, at most so many seconds.

    Raises:
        StorageError: the vault cannot be written.
        Refused: ``.memvault`` leads out of the vault.
        TimedOut: another process holds the lock.
    """
    recalled = list(dict.fromkeys(mem_ids))
    if not recalled:
        return {}
    folder = private_folder(root)
    with FileLock(folder / _LOCK, seconds):
        found = _read(folder)
        stamp = clock.iso()
        for mem_id in recalled:
            before = found.get(mem_id, {"count": 0})
            found[mem_id] = {"count": before["count"] + 1, "last": stamp}
        text = json.dumps(found, ensure_ascii=False)
        atomic.put(folder / _FILE, text.encode("utf-8", "replace"))
    return {mem_id: found[mem_id]["count"] for mem_id in recalled}


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the entries that are whole."""
    found: dict[str, dict[str, Any]] = {}
    if folder.is_symlink():
        return found
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        for mem_id, entry in json.loads(atomic.read(folder / _FILE, STATE)).items():
            number = entry.get("count") if isinstance(entry, dict) else None
            if isinstance(number, int) and not isinstance(number, bool) and number > 0:
                found[mem_id] = {"count": number, "last": str(entry.get("last", ""))}
    return found
