"""A lock between processes that is released when its holder is killed.

On a file system without locks, a marker file is used (``MarkerLock``).

``filelock`` would do, but takes about 40 ms to import, four times the start of Python; using the
operating system's lock takes a few lines.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from memvault import clock
from memvault.errors import TimedOut
from memvault.files import atomic, plain_files

_MARKER_SUFFIX = ".held"
_GUARD_PART = ".checked"
_GUARD_SUFFIX = _MARKER_SUFFIX + _GUARD_PART
_REMOTE_STALE_SECONDS = 600.0
"""Seconds after which a marker held on another machine, whose processes are unknown, is stale."""
_LOCAL_STALE_SECONDS = 24 * 3_600.0
"""The same for a live process of this machine, whose id may have been reused by then."""
_BEAT = 60.0
"""Seconds between two updates of the marker file's time by its holder."""
_GUARD_STALE_SECONDS = 60.0
"""Seconds after which the guard of a process that was checking a marker is stale."""


class MarkerLock:
    """A marker file that represents a lock."""

    def __init__(self, lock: Path) -> None:
        self.path = lock.with_name(f"{lock.name}{_MARKER_SUFFIX}")
        self._holder = b""
        self._stop_heartbeat: Callable[[], None] | None = None

    def try_acquire(self) -> bool:
        """Try to acquire the lock, and return whether that succeeded.

        Raises:
            StorageError: the marker file cannot be written.
        """
        holder = f"{os.getpid()} {clock.random_id(12)} {_machine()}".encode()
        for _ in range(2):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                atomic.create(self.path, holder)
                self._holder = holder
                self._stop_heartbeat = self._start_heartbeat()
                return True
            self.break_if_stale()
        return False

    @property
    def is_taken(self) -> bool:
        """Whether this object acquired the lock and has not released it."""
        return bool(self._holder)

    @property
    def is_valid(self) -> bool:
        """Whether the marker file still names this object as the holder."""
        with contextlib.suppress(OSError):
            return self.is_taken and self._read() == self._holder
        return False

    def release(self) -> None:
        """Release the lock."""
        if self._stop_heartbeat is not None:
            self._stop_heartbeat()
        if self.is_valid:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._holder = b""

    def _start_heartbeat(self) -> Callable[[], None]:
        """Start touching the marker file periodically, and return the function that stops it."""
        import threading  # only needed on file systems without locks

        over = threading.Event()

        def beat() -> None:
            while not over.wait(_BEAT):
                if self.is_valid:
                    with contextlib.suppress(OSError):
                        os.utime(self.path)

        threading.Thread(target=beat, daemon=True).start()
        return over.set

    def _read(self) -> bytes:
        return plain_files.read(self.path, plain_files.SETTING)

    def break_if_stale(self) -> None:
        """Delete the marker file if its holder is gone.

        Only one process at a time may do that. A marker that still exists after its holder was
        found to be gone is therefore that holder's, not a new one's.
        """
        guard = self.path.with_name(f"{self.path.name}{_GUARD_PART}")
        with contextlib.suppress(OSError):
            holder = self._read()
            if not _is_stale(holder, self.path.lstat().st_mtime):
                return
            try:
                atomic.create(guard, b"")
            except FileExistsError:
                if time.time() - guard.lstat().st_mtime > _GUARD_STALE_SECONDS:
                    os.unlink(guard)
                return
            try:
                if self._read() == holder:
                    os.unlink(self.path)
            finally:
                os.unlink(guard)


def stale_markers(folder: Path) -> Iterator[Path]:
    """Yield the marker files below a folder whose processes are gone."""
    from memvault.files.walk import walk

    for parent, _, names in walk(folder):
        for name in names:
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                created = path.lstat().st_mtime
                if name.endswith(_MARKER_SUFFIX):
                    if _is_stale(plain_files.read(path, plain_files.SETTING), created):
                        yield path
                elif name.endswith(_GUARD_SUFFIX) and time.time() - created > _GUARD_STALE_SECONDS:
                    yield path


def sweep_below(folder: Path) -> None:
    """Delete the files that ``stale_markers`` yields."""
    for path in stale_markers(folder):
        if path.name.endswith(_MARKER_SUFFIX):
            MarkerLock(path.with_name(path.name.removesuffix(_MARKER_SUFFIX))).break_if_stale()
        else:
            path.unlink(missing_ok=True)


def _is_stale(holder: bytes, created: float) -> bool:
    """Return whether the holder named in a marker file is gone."""
    number, _, rest = holder.decode("utf-8", "replace").partition(" ")
    age = time.time() - created
    if rest.partition(" ")[2] != _machine() or not number.isdecimal():
        return age > _REMOTE_STALE_SECONDS
    return age > _LOCAL_STALE_SECONDS or not atomic.is_alive(int(number[:9]))


def _machine() -> str:
    import platform  # only needed on file systems without locks

    return platform.node()


_PAUSE = 0.01
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
"""Error numbers of file systems without locks, such as some network file systems."""


class FileLock:
    """An exclusive lock on a file; use it in ``with``, or with ``acquire`` and ``release``.

    Without ``makes_folder``, a missing folder is an error.
    """

    def __init__(self, path: Path, timeout: float = 30.0, makes_folder: bool = True) -> None:
        self.path = path
        self.timeout = timeout
        self._makes_folder = makes_folder
        self._handle: int | None = None
        self._marker = MarkerLock(path)

    def acquire(self, timeout: float | None = None) -> bool:
        """Acquire the lock within ``timeout`` seconds, and return whether that succeeded.

        Raises:
            OSError: the lock file cannot be created or opened.
            StorageError: the same, on a file system without locks.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        if self._makes_folder:
            atomic.make_folders(self.path.parent)
        if self.path.is_dir():  # not created by this program; the lock must be a file
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
        if not _is_same_file(handle, self.path):  # the folder was deleted in the meantime
            self._marker.release()
            os.close(handle)
            return self.acquire(max(0.0, deadline - time.monotonic()))
        self._handle = handle
        return True

    def _open(self) -> int:
        """Open or create the lock file; open another user's read-only if it cannot be written."""
        flags = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        try:
            handle = os.open(self.path, flags | os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:
            if not os.access(self.path.parent, os.W_OK):
                raise
            return os.open(self.path, flags | os.O_RDONLY)  # which is enough for flock
        atomic.adopt(handle, self.path)
        return handle

    def _wait_for_lock(self, handle: int, deadline: float) -> bool:
        """Wait for the system's lock, or for the marker file on a file system without locks."""
        try_lock: Callable[[], bool] = partial(_try_lock, handle)
        while True:
            if not self._makes_folder:
                os.stat(self.path)  # fails if it was deleted in the meantime
            try:
                if try_lock():
                    return True
            except OSError as error:
                if error.errno not in _NO_LOCKS or try_lock == self._marker.try_acquire:
                    raise
                try_lock = self._marker.try_acquire
                continue
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE)

    @property
    def is_valid(self) -> bool:
        """Whether the lock is held, and its file still exists under its name."""
        if self._handle is None or not _is_same_file(self._handle, self.path):
            return False
        return self._marker.is_valid or not self._marker.is_taken

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._marker.release()
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
