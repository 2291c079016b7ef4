"""How often each memory was recalled on this machine: ``access.json`` and ``access.jsonl``.

A recall is an answer that hands the memory out: of the tools for experience,
and of those that recall, show or load memories or write the context for a task.
The counts lie outside the memories' files, so that recalling changes nothing
that travels with git. Each recall adds a line to the second file, which now and
then is folded into the first. Losing a file, or a part of it, loses counts only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from memvault import clock, plain_files
from memvault.plain_files import STATE
from memvault.vault import atomic
from memvault.vault.lock import FileLock
from memvault.vault.private import private_folder

_FILE = "access.json"
_RECENT = "access.jsonl"
_LOCK = "access.lock"
_MOST_RECENT = 64 * 1024
"""Bytes of the lines that are not folded in."""
_MOST = 50_000
"""Memories that counts are kept of, those recalled last; their file is then far from too large."""
_KEPT = timedelta(days=90)
"""How long counts of what is gone are kept: it may be in the trash, or on another branch."""

Counts = dict[str, dict[str, Any]]


def counts(root: Path) -> dict[str, int]:
    """Return how often each memory was recalled, by memId; what is damaged counts as never."""
    return {mem_id: entry["count"] for mem_id, entry in _read(root / ".memvault").items()}


def count(root: Path, mem_ids: Iterable[str], seconds: float = 30.0) -> None:
    """Count one more recall of each of these memories.

    Others that count at the same time are waited for, at most so many seconds.

    Raises:
        StorageError: the vault cannot be written.
        Refused: ``.memvault`` leads out of the vault, or there is no plain file.
        TimedOut: another process holds the lock.
    """
    recalled = list(dict.fromkeys(mem_ids))
    if not recalled:
        return
    folder = private_folder(root)
    with FileLock(folder / _LOCK, seconds):
        line = json.dumps([clock.iso(), *recalled], ensure_ascii=False)
        atomic.append_line(folder / _RECENT, line.encode("utf-8", "replace"))
        if (folder / _RECENT).stat().st_size > _MOST_RECENT:
            _fold(folder, _read(folder))


def prune(root: Path, known: Collection[str]) -> None:
    """Forget the counts of memories that are gone and were not recalled for long.

    Raises:
        StorageError: the vault cannot be written.
        TimedOut: another process holds the lock.
    """
    folder = private_folder(root)
    with FileLock(folder / _LOCK):
        found = _read(folder)
        since = clock.iso(clock.now() - _KEPT)
        kept = {
            mem_id: entry
            for mem_id, entry in found.items()
            if mem_id in known or entry["last"] >= since
        }
        if len(kept) < len(found):
            _fold(folder, kept)


def _fold(folder: Path, found: Counts) -> None:
    """Put counts in the place of both files; killed in between, the recent ones count twice."""
    latest = sorted(found.items(), key=lambda item: item[1]["last"])[-_MOST:]
    text = json.dumps(dict(latest), ensure_ascii=False)
    atomic.write(folder / _FILE, text.encode("utf-8", "replace"))
    with atomic.map_os_errors(folder / _RECENT):
        (folder / _RECENT).unlink(missing_ok=True)


def _read(folder: Path) -> Counts:
    """Return the entries that are whole; the recent ones first, which may move to the others."""
    found: Counts = {}
    if folder.is_symlink():
        return found
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = plain_files.read(folder / _RECENT, STATE).splitlines()
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError):
        for mem_id, entry in json.loads(plain_files.read(folder / _FILE, STATE)).items():
            number = entry.get("count") if isinstance(entry, dict) else None
            if type(number) is int and number > 0:
                found[mem_id] = {"count": number, "last": str(entry.get("last", ""))}
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError, TypeError):
            stamp, *mem_ids = json.loads(line)
            for mem_id in mem_ids:
                if isinstance(mem_id, str) and isinstance(stamp, str):
                    before = found.get(mem_id, {"count": 0})
                    found[mem_id] = {"count": before["count"] + 1, "last": stamp}
    return found
