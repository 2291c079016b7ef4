"""A SQLite file of an index; errors are mapped to index errors."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from memvault.errors import TimedOut
from memvault.index.protocol import IndexCorrupted

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

PATIENCE = 10.0
"""Seconds to wait for another process's transaction, which takes a fraction of a second."""
MAX_VARIABLES = 900
"""Values per statement; some builds of SQLite allow at most 999."""
_MAX_CACHED = 512
"""The maximum number of cached rows of a kind; a recall reads about 100."""
_BATCH_ROWS = 500
"""The number of rows per query in ``Database.visit``."""
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
"""Temporary errors from the system or SQLite, which do not mean that the file is corrupted."""


class _ChangedError(Exception):
    """The file has changed between two queries."""


class Database:
    """An open SQLite file; every method may raise ``IndexCorrupted``."""

    def __init__(self, path: Path, schema: str = "") -> None:
        """Open a file; with a ``schema``, create it."""
        with _mapped_errors():
            if not schema and not path.is_file():
                raise IndexCorrupted(f"no {path.stem}")
            self._path = path
            self._db = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            if schema:
                self._db.executescript(schema)
            self._file = _file_identity(path)
            self._is_inside = False
            self._cached: dict[str, Any] = {}
            self._cached_at: tuple[int, int] = 0, 0

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def exists(self) -> bool:
        """Return whether the path still refers to the opened file."""
        return self._file == _file_identity(self._path)

    @contextmanager
    def transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Run the block in one transaction, or in the enclosing one if there is one."""
        if self._is_inside:
            yield
            return
        with self._checked():
            self._db.execute(begin)
            self._is_inside = True
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._cached.clear()  # cached values may come from within the transaction
                if self._db.in_transaction:  # False if SQLite has rolled back by itself
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._is_inside = False

    def execute(self, statement: str, values: Sequence[Any] = ()) -> None:
        """Execute a statement."""
        self._db.execute(statement, values)

    def execute_each(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each row of values."""
        self._db.executemany(statement, rows)

    def rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Return all rows of a query at once, because an open cursor would keep the file open."""
        with self._checked():
            return iter(self._db.execute(query, values).fetchall())

    def visit(self, query: str, visit: Callable[[Iterator[list[tuple[Any, ...]]]], Value]) -> Value:
        """Pass the rows of a query to a function in batches, and return its result.

        The first column must be the ``uid``, and the query ends with a condition. The file is not
        locked while ``visit`` runs; if the file changes, ``visit`` is called again with all rows of
        one query.
        """
        version = self._version()

        def read() -> Iterator[list[tuple[Any, ...]]]:
            last = 0
            while True:
                values = (last, _BATCH_ROWS)
                rows = list(self.rows(f"{query} AND uid > ? ORDER BY uid LIMIT ?", values))
                if self._version() != version:
                    raise _ChangedError
                if not rows:
                    return
                yield rows
                last = rows[-1][0]

        try:
            return visit(read())
        except _ChangedError:
            rows = list(self.rows(f"{query} ORDER BY uid"))
        starts = range(0, len(rows), _BATCH_ROWS)
        return visit(rows[start : start + _BATCH_ROWS] for start in starts)

    def _version(self) -> tuple[int, int]:
        """Return a value that changes whenever this or another connection changes the file."""
        ((version,),) = self.rows("PRAGMA data_version")
        return version, self._db.total_changes

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return the result of ``compute``, which is cached until the file changes.

        The caller must not change the value.
        """
        version = self._version()
        if self._cached_at != version:
            self._cached, self._cached_at = {}, version
        if name not in self._cached:
            self._cached[name] = compute()
        value: Value = self._cached[name]
        return value

    def cached_each(
        self,
        name: str,
        keys: Collection[Key],
        compute: Callable[[list[Key]], Mapping[Key, Value]],
    ) -> dict[Key, Value]:
        """Return values by key; up to 512 of each kind are cached until the file changes.

        Keys that ``compute`` omits are missing from the result. The caller must not change the
        values.
        """
        cache = self.cached(name, dict[Key, Value])
        missing = [key for key in keys if key not in cache]
        if missing:
            if len(cache) + len(missing) > _MAX_CACHED:
                cache.clear()
                missing = list(keys)
            if len(missing) > _MAX_CACHED:
                cache = {}
            cache |= compute(missing)
        return {key: cache[key] for key in keys if key in cache}

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Map SQLite's errors, and reject a file that has been replaced by another index.

        SQLite finds the journal by the file's name. After a replacement, SQLite would use the new
        file's journal: it would report a disk error, or delete the journal during a write.
        """
        replaced = "another index has replaced it"
        if not self.exists:
            raise IndexCorrupted(replaced)
        try:
            with _mapped_errors():
                yield
        except OSError as error:
            if self.exists:
                raise
            raise IndexCorrupted(replaced) from error


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        code = error.sqlite_errorcode & 0xFF
        if code in _BUSY:  # locked by another process, not corrupted
            raise TimedOut(
                f"Another process has locked the index for {PATIENCE:g} seconds", "try again"
            ) from error
        if code in _REFUSALS:
            number = _REFUSALS[code]
            raise OSError(number, os.strerror(number)) from error
        raise IndexCorrupted(str(error)) from error
    except sqlite3.Error as error:
        raise IndexCorrupted(f"{type(error).__name__}: {error}") from error


def _file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def batches(values: Iterable[int], size: int = MAX_VARIABLES) -> Iterator[tuple[int, ...]]:
    """Yield values in batches that fit into one statement."""
    rest = iter(values)
    while some := tuple(islice(rest, size)):
        yield some


def placeholders(values: Sequence[int]) -> str:
    """Return one SQL placeholder per value."""
    return ",".join("?" * len(values))
