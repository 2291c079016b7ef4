"""Cache the commit times of a vault's files in SQLite; its errors are raised as OSError."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from memvault.model import FileCommits
from memvault.named_tuple import NamedTuple

_SCHEMA = """
CREATE TABLE files (
    path BLOB PRIMARY KEY, created TEXT NOT NULL, modified TEXT NOT NULL, blob TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE pending (path BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE state (value TEXT NOT NULL);
"""
_PATIENCE = 10.0
"""Seconds to wait for another process's transaction."""


class CacheState(NamedTuple):
    """The repository state that a cache was read from.

    ``folder`` is the repository's folder, and ``prefix`` is the vault's path in the repository.
    ``shallow`` lists the commits whose parents a shallow clone lacks. ``stamp`` is the state of the
    files that change when HEAD moves. After an error, git is not run again until ``retry``, in
    seconds since 1970, or until ``grant`` changes; ``pause`` is the last delay in seconds. If git
    was stopped after ``limit`` seconds, it may be run earlier with a longer time limit.
    """

    folder: str = ""
    prefix: str = ""
    shallow: tuple[str, ...] = ()
    commit: str = ""
    stamp: str = ""
    retry: float = 0.0
    grant: str = ""
    pause: float = 0.0
    limit: float = 0.0


class CommitCache:
    """An open cache; every method may raise OSError."""

    def __init__(self, file: Path, new: bool = False) -> None:
        """Open a cache; with ``new``, replace it with an empty one."""
        self._path = file
        with _os_errors():
            if new:
                file.unlink(missing_ok=True)
            self._db = sqlite3.connect(file, timeout=_PATIENCE, check_same_thread=False)
            if new:
                self._db.executescript(_SCHEMA)
                identity = int.from_bytes(os.urandom(4), "big") >> 1 | 1
                self._db.execute(f"PRAGMA user_version = {identity}")
            self._inode = file.stat().st_ino

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def is_there(self) -> bool:
        """Whether the path still refers to the opened file."""
        return self._path.stat().st_ino == self._inode

    def identity(self) -> int:
        """Return a positive number that identifies this cache among all caches in the vault."""
        with _os_errors():
            ((identity,),) = self._db.execute("PRAGMA user_version").fetchall()
        return int(identity)

    def file(self, path: str) -> FileCommits | None:
        """Return the times of one file, or None if it was never committed."""
        query = "SELECT created, modified, blob FROM files WHERE path = ?"
        with _os_errors():
            row = self._db.execute(query, (_encoded(path),)).fetchone()
        return None if row is None else FileCommits(*row)

    def files(self) -> dict[str, FileCommits]:
        """Return the times of all files."""
        with _os_errors():
            rows = self._db.execute("SELECT path, created, modified, blob FROM files").fetchall()
        return {os.fsdecode(path): FileCommits(*entry) for path, *entry in rows}

    def state(self) -> CacheState:
        """Return the repository state that the cache was read from."""
        with _os_errors():
            ((value,),) = self._db.execute("SELECT value FROM state").fetchall() or (("[]",),)
            state = CacheState(*json.loads(value))
            return state._replace(shallow=tuple(state.shallow))

    def pending(self) -> set[str]:
        """Return the paths whose times have changed since they were indexed."""
        with _os_errors():
            rows = self._db.execute("SELECT path FROM pending").fetchall()
        return {os.fsdecode(path) for (path,) in rows}

    def settle(self, paths: Iterable[str]) -> None:
        """Mark paths as indexed."""
        with _os_errors(), self._db:
            rows = [(_encoded(path),) for path in paths]
            self._db.executemany("DELETE FROM pending WHERE path = ?", rows)

    def write(
        self,
        state: CacheState,
        removed: Iterable[str] = (),
        changed: Mapping[str, FileCommits] = MappingProxyType({}),
    ) -> None:
        """Store a state, and the file times that differ from the previous state."""
        gone = [(_encoded(path),) for path in removed]
        rows = [(_encoded(path), *entry) for path, entry in changed.items()]
        pending = [*gone, *((row[0],) for row in rows)]
        with _os_errors(), self._db:
            self._db.execute("DELETE FROM state")
            self._db.execute("INSERT INTO state VALUES (?)", (json.dumps(state),))
            self._db.executemany("DELETE FROM files WHERE path = ?", gone)
            self._db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)
            self._db.executemany("INSERT OR IGNORE INTO pending VALUES (?)", pending)


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise OSError(errno.EIO, str(error)) from error
