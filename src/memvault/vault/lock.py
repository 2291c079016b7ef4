"""A lock between processes that a killed holder never leaves behind.

``filelock`` would serve, but takes about 40 ms to import, four times what
starting Python takes; the operating system's own lock is a few lines.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from memvault.errors import TimedOut
from memvault.vault import atomic

_PAUSE = 0.01


class FileLock:
    """An exclusive lock on a file; use with ``with``, or ``acquire`` and ``release``."""

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self.path = path
        self.timeout = timeout
        self._handle: int | None = None

    def acquire(self, timeout: float | None = None) -> bool:
        """Take the lock within ``timeout`` seconds; say whether that succeeded.

        Raises:
            OSError: the lock's file cannot be made or opened.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir():  # nothing of ours; the lock must be a file
            self.path.rename(self.path.with_name(f"lock-{time.time_ns()}.old"))
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.path, flags, 0o644)
        while not _try_lock(handle):
            if time.monotonic() >= deadline:
                os.close(handle)
                return False
            time.sleep(_PAUSE)
        if not _still_there(handle, self.path):  # someone deleted the folder meanwhile
            os.close(handle)
            return self.acquire(max(0.0, deadline - time.monotonic()))
        self._handle = handle
        return True

    @property
    def is_there(self) -> bool:
        """Whether the lock is held, and its file still has its name."""
        return self._handle is not None and _still_there(self._handle, self.path)

    def release(self) -> None:
        """Give the lock back; doing so twice does no harm."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def __enter__(self) -> FileLock:
        with atomic.explained(self.path):
            taken = self.acquire()
        if not taken:
            raise TimedOut(
                f"Another process has held {self.path} for {self.timeout:.0f} seconds",
                "try again; if no memvault is running, restart the machine that holds it",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            os.lseek(handle, 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
