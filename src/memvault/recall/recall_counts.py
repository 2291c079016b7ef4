"""Count how often each memory was recalled on this machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.files.plain_files import MAX_STATE_BYTES
from memvault.vault.private_folder import existing_private, private_folder

_COUNTS_FILE = "access.json"
_RECENT_FILE = "access.jsonl"
_LOCK_FILE = "access.lock"
_MAX_RECENT_BYTES = 64 * 1024
"""Size in bytes at which recent recalls are merged into the counts."""
_MAX_COUNTED = 50_000
"""Maximum number of memories with counts; the most recently recalled ones are kept, so the file
stays far below the maximum size.
"""
_RETENTION = timedelta(days=90)
"""How long to keep counts of missing memories, which may be in the trash or on another git branch.
"""

Counts = dict[str, dict[str, Any]]


def counts(root: Path) -> dict[str, int]:
    """Return how often each memory was recalled, by memId; damaged entries count as zero."""
    folder = existing_private(root)
    entries = _read_counts(folder) if folder else {}
    return {mem_id: entry["count"] for mem_id, entry in entries.items()}


def count(root: Path, mem_ids: Iterable[str], seconds: float = 30.0) -> None:
    """Increment the recall count of each of these memories.

    ``seconds`` is how long to wait for other processes that are counting.

    Raises:
        StorageError: the vault cannot be written.
        Refused: ``.memvault`` is a link that leads out of the vault, or a file in it is not a
            regular file.
        TimedOut: another process holds the lock.
    """
    recalled = list(dict.fromkeys(mem_ids))
    if not recalled:
        return
    folder = private_folder(root)
    with FileLock(folder / _LOCK_FILE, seconds):
        line = json.dumps([clock.iso(), *recalled], ensure_ascii=False)
        atomic.append_line(folder / _RECENT_FILE, line.encode("utf-8", "replace"))
        if (folder / _RECENT_FILE).stat().st_size > _MAX_RECENT_BYTES:
            _replace_counts(folder, _read_counts(folder))


def prune(root: Path, existing_ids: Collection[str]) -> None:
    """Delete the counts of memories that are missing and have not been recalled for 90 days.

    Raises:
        StorageError: the vault cannot be written.
        TimedOut: another process holds the lock.
    """
    folder = private_folder(root)
    with FileLock(folder / _LOCK_FILE):
        stored = _read_counts(folder)
        since = clock.iso(clock.now() - _RETENTION)
        retained = {
            mem_id: entry
            for mem_id, entry in stored.items()
            if mem_id in existing_ids or entry["last"] >= since
        }
        if len(retained) < len(stored):
            _replace_counts(folder, retained)


def _replace_counts(folder: Path, stored: Counts) -> None:
    """Replace both files with the given counts.

    If the process is killed between the two writes, recent recalls are counted twice.
    """
    latest = sorted(stored.items(), key=lambda item: item[1]["last"])[-_MAX_COUNTED:]
    text = json.dumps(dict(latest), ensure_ascii=False)
    atomic.write(folder / _COUNTS_FILE, text.encode("utf-8", "replace"))
    with atomic.map_os_errors(folder / _RECENT_FILE):
        (folder / _RECENT_FILE).unlink(missing_ok=True)


def _read_counts(folder: Path) -> Counts:
    """Return the intact entries of both files.

    The recent recalls are read first, because another process may move them to the other file in
    between.
    """
    entries: Counts = {}
    lines: list[bytes] = []
    with contextlib.suppress(OSError):
        lines = plain_files.read(folder / _RECENT_FILE, MAX_STATE_BYTES).splitlines()
    for mem_id, entry in plain_files.read_json(folder / _COUNTS_FILE).items():
        number = entry.get("count") if isinstance(entry, dict) else None
        if type(number) is int and number > 0:
            entries[mem_id] = {"count": number, "last": str(entry.get("last", ""))}
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError, TypeError):
            stamp, *mem_ids = json.loads(line)
            for mem_id in mem_ids:
                if isinstance(mem_id, str) and isinstance(stamp, str):
                    before = entries.get(mem_id, {"count": 0})
                    entries[mem_id] = {"count": before["count"] + 1, "last": stamp}
    return entries
