"""A SQLite file of the index, and what its errors mean."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memvault.errors import TimedOut
from memvault.index.errors import IndexCorrupted

PATIENCE = 10.0
"""Seconds to wait for another process's transaction, which takes a fraction of one."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_REFUSALS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_CANTOPEN: errno.EIO,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
    sqlite3.SQLITE_INTERRUPT: errno.EINTR,
    sqlite3.SQLITE_PROTOCOL: errno.EIO,
}
"""What the system or SQLite refuses just now, which says nothing of the file."""


class Database:
    """An open SQLite file; every method may raise ``DamagedIndex``."""

    def __init__(self, path: Path, schema: str = "") -> None:
        """Open a file; with a ``schema`` a new one."""
        with _mapped():
            if not schema and not path.is_file():
                raise IndexCorrupted(f"no {path.stem}")
            self._path = path
            self._db = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            if schema:
                self._db.executescript(schema)
            self._file = _identity(path)
            self._is_inside = False

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def is_there(self) -> bool:
        """Whether the file that was opened still has its name."""
        return self._file == _identity(self._path)

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Do all or nothing of what is done inside, another such among it."""
        if self._is_inside:
            yield
            return
        with self._there():
            self._db.execute(begin)
            self._is_inside = True
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # not so where SQLite has rolled back by itself
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._is_inside = False

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Run a statement."""
        self._db.execute(statement, values)

    def execute_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of some rows of values."""
        self._db.executemany(statement, rows)

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Return what a query finds, read whole: a cursor left open outlives the file."""
        with self._there():
            return iter(self._db.execute(query, values).fetchall())

    @contextmanager
    def _there(self) -> Iterator[None]:
        """Map SQLite's errors, and use no file whose place another index has taken.

        SQLite looks for a journal by the file's name: it would take the other's for its
        own, fail as if the disk had, or delete it while that one is being written.
        """
        taken = "another index has taken its place"
        if not self.is_there:
            raise IndexCorrupted(taken)
        try:
            with _mapped():
                yield
        except OSError as error:
            if self.is_there:
                raise
            raise IndexCorrupted(taken) from error


@contextmanager
def _mapped() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        code = error.sqlite_errorcode & 0xFF
        if code in _BUSY:  # held by another process is not damaged
            raise TimedOut(
                f"Another process has held the index for {PATIENCE:g} seconds", "try again"
            ) from error
        if code in _REFUSALS:
            number = _REFUSALS[code]
            raise OSError(number, os.strerror(number)) from error
        raise IndexCorrupted(str(error)) from error
    except sqlite3.Error as error:
        raise IndexCorrupted(f"{type(error).__name__}: {error}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
