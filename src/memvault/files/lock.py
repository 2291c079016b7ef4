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

_HELD = ".held"
_CHECK = ".checked"
_GUARD = _HELD + _CHECK
_ELSEWHERE = 600.0
"""Seconds after which a marker held on another machine, whose processes are unknown, is stale."""
_HERE = 24 * 3_600.0
"""The same for a live process of this machine, whose id may have been reused by then."""
_BEAT = 60.0
"""Seconds between two updates of the marker file's time by its holder."""
_CHECKED = 60.0
"""Seconds after which the guard of a process that was checking a marker is stale."""


class MarkerLock:
    """A marker file that represents a lock."""

    def __init__(self, lock: Path) -> None:
        self.path = lock.with_name(f"{lock.name}{_HELD}")
        self._own = b""
        self._end_beat: Callable[[], None] | None = None

    def try_acquire(self) -> bool:
        """Try to acquire the lock, and return whether that succeeded.

        Raises:
            StorageError: the marker file cannot be written.
        """
        holder = f"{os.getpid()} {clock.random_id(12)} {_machine()}".encode()
        for _ in range(2):
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                atomic.create(self.path, holder)
                self._own = holder
                self._end_beat = self._beating()
                return True
            self.break_if_stale()
        return False

    @property
    def is_taken(self) -> bool:
        """Whether this object acquired the lock and has not released it."""
        return bool(self._own)

    @property
    def is_valid(self) -> bool:
        """Whether the marker file still names this object as the holder."""
        with contextlib.suppress(OSError):
            return self.is_taken and self._read() == self._own
        return False

    def release(self) -> None:
        """Release the lock."""
        if self._end_beat is not None:
            self._end_beat()
        if self.is_valid:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._own = b""

    def _beating(self) -> Callable[[], None]:
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
        guard = self.path.with_name(f"{self.path.name}{_CHECK}")
        with contextlib.suppress(OSError):
            found = self._read()
            if not _is_left(found, self.path.lstat().st_mtime):
                return
            try:
                atomic.create(guard, b"")
            except FileExistsError:
                if time.time() - guard.lstat().st_mtime > _CHECKED:
                    os.unlink(guard)
                return
            try:
                if self._read() == found:
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
                if name.endswith(_HELD):
                    if _is_left(plain_files.read(path, plain_files.SETTING), created):
                        yield path
                elif name.endswith(_GUARD) and time.time() - created > _CHECKED:
                    yield path


def sweep_below(folder: Path) -> None:
    """Delete the files that ``stale_markers`` yields."""
    for path in stale_markers(folder):
        if path.name.endswith(_HELD):
            MarkerLock(path.with_name(path.name.removesuffix(_HELD))).break_if_stale()
        else:
            path.unlink(missing_ok=True)


def _is_left(holder: bytes, created: float) -> bool:
    """Return whether the holder named in a marker file is gone."""
    number, _, rest = holder.decode("utf-8", "replace").partition(" ")
    age = time.time() - created
    if rest.partition(" ")[2] != _machine() or not number.isdecimal():
        return age > _ELSEWHERE
    return age > _HERE or not atomic.is_alive(int(number[:9]))


def _machine() -> str:
    import platform  # only needed on file systems without locks

    return platform.node()


_PAUSE = 0.01
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS}
"""Error numbers of file systems without locks, such as some network file systems."""


class FileLock:
    """An exclusive lock on a file; use it in ``with``, or with ``acquire`` and ``release``.

    ``meanwhile`` is called by ``with`` if another process holds the lock; what it does then need
    not be done while others wait for this process. Without ``makes_folder``, a missing folder is an
    error.
    """

    def __init__(
        self,
        path: Path,
        timeout: float = 30.0,
        meanwhile: Callable[[], object] | None = None,
        makes_folder: bool = True,
    ) -> None:
        self.path = path
        self.timeout = timeout
        self._makes_folder = makes_folder
        self._meanwhile = meanwhile
        self._handle: int | None = None
        self._held = MarkerLock(path)

    def acquire(self, timeout: float | None = None) -> bool:
        """Acquire the lock within ``timeout`` seconds, and return whether that succeeded.

        Raises:
            OSError: the lock file cannot be created or opened.
            StorageError: the same, on a file system without locks.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        if self._makes_folder:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir():  # not created by this program; the lock must be a file
            self.path.rename(self.path.with_name(f"lock-{time.time_ns()}.old"))
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self.path, flags, 0o644)
        try:
            taken = self._taken(handle, deadline)
        except BaseException:
            os.close(handle)
            raise
        if not taken:
            os.close(handle)
            return False
        if not _still_there(handle, self.path):  # the folder was deleted meanwhile
            self._held.release()
            os.close(handle)
            return self.acquire(max(0.0, deadline - time.monotonic()))
        self._handle = handle
        return True

    def _taken(self, handle: int, deadline: float) -> bool:
        """Wait for the system's lock, or for the marker file on a file system without locks."""
        take: Callable[[], bool] = partial(_try_lock, handle)
        while True:
            if not self._makes_folder:
                os.stat(self.path)  # fails if it was deleted meanwhile
            try:
                if take():
                    return True
            except OSError as error:
                if error.errno not in _NO_LOCKS or take == self._held.try_acquire:
                    raise
                take = self._held.try_acquire
                continue
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE)

    @property
    def is_valid(self) -> bool:
        """Whether the lock is held, and its file still exists under its name."""
        if self._handle is None or not _still_there(self._handle, self.path):
            return False
        return self._held.is_valid or not self._held.is_taken

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._held.release()
            os.close(handle)

    def __enter__(self) -> FileLock:
        with atomic.map_os_errors(self.path):
            taken = self.acquire(0.0 if self._meanwhile else None)
        if not taken and self._meanwhile:
            self._meanwhile()
            with atomic.map_os_errors(self.path):
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
