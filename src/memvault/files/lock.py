"""Lock files between processes; the system releases a lock when its process is killed.

The ``filelock`` package does the same but takes 40 ms to import, four times as long as starting
Python.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from pathlib import Path

from memvault.errors import TimedOut
from memvault.files import atomic

_PAUSE = 0.01
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
"""Error numbers from file systems without lock support, such as some network file systems."""
_NO_LOCKS_MESSAGE = "This file system has no file locks"


class FileLock:
    """An exclusive lock on a file.

    Use it in a ``with`` statement, or call ``acquire`` and ``release``. Without
    ``makes_folder``, a missing folder is an error.
    """

    def __init__(self, path: Path, timeout: float = 30.0, makes_folder: bool = True) -> None:
        self.path = path
        self.timeout = timeout
        self._makes_folder = makes_folder
        self._handle: int | None = None

    def acquire(self, timeout: float | None = None) -> bool:
        """Acquire the lock within ``timeout`` seconds, and return whether that succeeded.

        Raises:
            OSError: the lock file cannot be created or opened, or (``ENOLCK``) the file system has
                no locks.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        if self._makes_folder:
            atomic.make_folders(self.path.parent)
        if self.path.is_dir():  # memvault did not create it; only a regular file can be locked.
            self.path.rename(self.path.with_name(f"lock-{time.time_ns()}.old"))
        handle = self._open()
        try:
            acquired = self._wait_for_lock(handle, deadline)
        except BaseException:
            os.close(handle)
            raise
        if not acquired:
            os.close(handle)
            return False
        # The lock file was deleted or replaced after it was opened.
        if not _is_same_file(handle, self.path):
            os.close(handle)
            return self.acquire(max(0.0, deadline - time.monotonic()))
        self._handle = handle
        return True

    def _open(self) -> int:
        """Open or create the lock file; another user's file is opened read-only if necessary."""
        flags = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(self.path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            if not os.access(self.path.parent, os.W_OK):
                raise
            return os.open(self.path, flags | os.O_RDONLY)  # Read access is enough for flock.
        atomic.adopt(handle, self.path)
        return handle

    def _wait_for_lock(self, handle: int, deadline: float) -> bool:
        """Wait until the lock is free; return whether it was acquired before the deadline."""
        while True:
            if not self._makes_folder:
                os.stat(self.path)  # fails if the file was deleted
            try:
                if _try_lock(handle):
                    return True
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    raise OSError(errno.ENOLCK, _NO_LOCKS_MESSAGE, str(self.path)) from error
                raise
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE)

    @property
    def is_valid(self) -> bool:
        """Whether the lock is held, and its file still exists under its name."""
        return self._handle is not None and _is_same_file(self._handle, self.path)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.close(handle)

    def __enter__(self) -> FileLock:
        with atomic.map_os_errors(self.path):
            acquired = self.acquire()
        if not acquired:
            raise TimedOut(
                f"Another process has held {self.path} for {self.timeout:.0f} seconds",
                "try again; if no memvault is running, restart the machine that holds it",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _is_same_file(handle: int, path: Path) -> bool:
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
