"""Compute transformer vectors in the background: ``python -P -m memvault.index.embedding_worker``.

The process runs at the lowest priority and prints nothing. Workers of several vaults take turns. A
worker exits after ten minutes, when no work is left, when the vault's settings change, when the
vault or its index is deleted, or when another process computes the same vectors in the foreground.
It never recreates a deleted index.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from memvault.errors import MemvaultError
from memvault.files.lock import FileLock
from memvault.files.plain_files import stamp_of
from memvault.files.user_folders import SETTINGS_FILE
from memvault.index import open_index
from memvault.index.folder import IndexFolder
from memvault.index.local import background_embedding
from memvault.settings.vault_settings import load_settings
from memvault.store.memory_store import MemoryStore

_LIFETIME = 600.0
_SESSION_NICE = 10
"""The niceness of the session. At 10 the session gets a tenth of a busy processor; at 19 it gets
almost nothing, so a constantly busy machine would never compute any vectors.
"""
_TURN = "embedding.lock"
"""The lock that lets only one worker at a time compute vectors, across all of a user's indexes."""
_TURN_PAUSE = 0.5
_GRACE_PERIOD = 60
"""Seconds after ``_LIFETIME`` for finishing the last batch, before the system kills the process."""
_MAX_MEMORY = 4 << 30
"""Maximum size of the process's data segment, in bytes."""


def main(root: Path, folder: Path) -> None:
    """Compute a vault's missing vectors; ``folder`` contains its transformer vectors."""
    started = time.monotonic()
    _limit_resources()
    lock = FileLock(folder / background_embedding.BACKGROUND_LOCK, makes_folder=False)
    turn = FileLock(folder.parent.parent / _TURN, makes_folder=False)
    try:
        if not lock.acquire(1.0):
            return
        while not turn.acquire(0.0):  # another vault's worker is running
            is_over = time.monotonic() - started > _LIFETIME or not lock.is_valid
            if is_over or background_embedding.is_running(
                folder, background_embedding.FOREGROUND_LOCK
            ):
                return
            time.sleep(_TURN_PAUSE)
    except FileNotFoundError:  # the index was deleted
        return
    settings = stamp_of(root / SETTINGS_FILE)
    store = MemoryStore(root, load_settings(root), find_index=lambda: folder.parent)
    index = open_index(store, IndexFolder(folder.parent), lambda *_: None)
    model = index.transformer.choice.name

    def should_continue() -> bool:
        return (
            time.monotonic() - started < _LIFETIME
            and lock.is_valid
            and index.exists
            and stamp_of(root / SETTINGS_FILE) == settings
            and not background_embedding.is_running(folder, background_embedding.FOREGROUND_LOCK)
        )

    try:
        background_embedding.record_start(folder)
        index.schedule.embed_missing(should_continue)
    except (Exception, MemoryError) as error:
        message = error.message if isinstance(error, MemvaultError) else type(error).__name__
        if lock.is_valid:
            background_embedding.record_failure(folder, model, message)


def _limit_resources() -> None:
    """Close inherited files, lower the priority, and limit run time and memory."""
    if sys.platform == "win32":
        return
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 65_536))
    os.nice(19)
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        # Most desktops divide the processor evenly between sessions, so ``nice`` has an effect only
        # within a session.
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_bytes(str(_SESSION_NICE).encode())
    signal.alarm(int(_LIFETIME) + _GRACE_PERIOD)
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
