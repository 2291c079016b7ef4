"""A lock for file systems that have none: a file that only one process can create.

It says which process of which machine holds it, so that what a killed holder
left is taken away: at once on the same machine, after a while on another. As
long as it is held, however long that is, a thread touches it each minute.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from memvault import clock, plain_files
from memvault.vault import atomic

_HELD = ".held"
_CHECK = ".checked"
_GUARD = _HELD + _CHECK
_ELSEWHERE = 600.0
"""Seconds after which a holder on another machine, of which nothing is known, counts as gone."""
_HERE = 24 * 3_600.0
"""The same of a process that is alive here: by then its number may be another one's."""
_BEAT = 60.0
"""Seconds after which a holder says again that it is there."""
_CHECKED = 60.0
"""Seconds after which whoever looked after a file is gone."""


class MarkerLock:
    """The file that stands for a lock."""

    def __init__(self, lock: Path) -> None:
        self.path = lock.with_name(f"{lock.name}{_HELD}")
        self._own = b""
        self._end_beat: Callable[[], None] | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; say whether it was.

        Raises:
            StorageError: the disk refused.
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
        """Whether this object took the lock and has not let go of it."""
        return bool(self._own)

    @property
    def is_valid(self) -> bool:
        """Whether the file still says so."""
        with contextlib.suppress(OSError):
            return self.is_taken and self._read() == self._own
        return False

    def release(self) -> None:
        """Let go of the lock."""
        if self._end_beat is not None:
            self._end_beat()
        if self.is_valid:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._own = b""

    def _beating(self) -> Callable[[], None]:
        """Touch the file from now on, until what is returned is called."""
        import threading  # only where there are no locks

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
        """Take the file away if its holder is gone.

        Only one process may do so at a time. So a file that is still there after
        its holder was found gone is that holder's, and no new one's.
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
    """Yield the files below a folder that stand for locks of processes that are gone."""
    from memvault.vault.walk import walk

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
    """Take away what ``left_below`` yields."""
    for path in stale_markers(folder):
        if path.name.endswith(_HELD):
            MarkerLock(path.with_name(path.name.removesuffix(_HELD))).break_if_stale()
        else:
            path.unlink(missing_ok=True)


def _is_left(holder: bytes, created: float) -> bool:
    """Say whether the holder that a file names is gone."""
    number, _, rest = holder.decode("utf-8", "replace").partition(" ")
    age = time.time() - created
    if rest.partition(" ")[2] != _machine() or not number.isdecimal():
        return age > _ELSEWHERE
    return age > _HERE or not atomic.is_alive(int(number[:9]))


def _machine() -> str:
    import platform  # only where there are no locks

    return platform.node()
