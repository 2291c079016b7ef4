"""Read a source's SQLite databases.

An untrusted database can run code: generated columns, views and virtual tables compute values, so
that kilobytes become gigabytes. Only stored columns of plain tables are read, no SQL functions are
called, and sizes of values and numbers of steps are limited.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from memvault.importers.items import Item, SkippedItem
from memvault.importers.source import MAX_FILE, PlainSource, Source

_MAX_BYTES = 512 * 1024 * 1024
"""Maximum size of a database that must be copied because it is locked or in a zip."""
_JOURNAL_MODES = 18
"""Offset of the header bytes that enable the write-ahead log, which is missing from a copy."""
MAGIC = b"SQLite format 3\0"
_PIECE = 1 << 20
_STEPS = 100_000
"""Number of steps of SQLite's virtual machine between two checks of the time limit."""
_SECONDS = 60
"""Maximum CPU time for one row, in seconds."""
_SECONDS_LOCKED = 1
"""Seconds to wait for a locked database before a copy is read."""
_MAX_COLUMNS = 200
_LIMITS = {
    "LENGTH": MAX_FILE,
    "COLUMN": _MAX_COLUMNS,
    "EXPR_DEPTH": 100,
    "COMPOUND_SELECT": 5,
    "VDBE_OP": 100_000,
    "FUNCTION_ARG": 8,
    "ATTACHED": 0,
    "LIKE_PATTERN_LENGTH": 100,
    "TRIGGER_DEPTH": 1,
    "WORKER_THREADS": 0,
}
_PLAIN = 0
"""The value of ``hidden`` in ``PRAGMA table_xinfo`` for a stored column."""


class UnreadableDatabase(ValueError):
    """A damaged database, or one without the expected tables."""


class SourceDatabase:
    """An open database with readable plain tables."""

    def __init__(self, source: Source, connection: sqlite3.Connection) -> None:
        self._source = source
        self._connection = connection
        self._deadline = 0.0
        for name, most in _LIMITS.items():
            connection.setlimit(getattr(sqlite3, f"SQLITE_LIMIT_{name}"), most)
        connection.row_factory = sqlite3.Row
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.set_progress_handler(self._is_late, _STEPS)
        for pragma in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        self.columns = self._plain_columns()
        """The stored columns of each plain table."""
        connection.set_authorizer(self._authorize)

    def _is_late(self) -> bool:
        self._source.tick()
        return time.process_time() > self._deadline

    def _plain_columns(self) -> dict[str, frozenset[str]]:
        columns = {}
        for row in list(self._rows("SELECT name, type, sql FROM sqlite_master", ())):
            name, sql = str(row["name"]), str(row["sql"] or "")
            if row["type"] == "table" and not sql.upper().lstrip().startswith("CREATE VIRTUAL"):
                quoted = name.replace('"', '""')
                listed = self._rows(f'PRAGMA table_xinfo("{quoted}")', ())
                stored = (str(column["name"]) for column in listed if column["hidden"] == _PLAIN)
                columns[name] = frozenset(stored)
        return columns

    def _authorize(self, action: int, table: str | None, column: str | None, *_: object) -> int:
        """Allow only reading stored columns of plain tables."""
        is_read = action == sqlite3.SQLITE_READ and (
            not column or column in self.columns.get(table or "", ()) or column.upper() == "ROWID"
        )
        is_allowed = is_read or action == sqlite3.SQLITE_SELECT
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    def rows(self, query: str, arguments: Iterable[Any] = ()) -> Iterator[sqlite3.Row]:
        """Yield a query's rows.

        Raises:
            UnreadableDatabase: if a table or column is missing or computed, or a row is slow.
        """
        try:
            yield from self._rows(query, arguments)
        except sqlite3.Error as error:
            raise UnreadableDatabase(_reason(error)) from error

    def _rows(self, query: str, arguments: Iterable[Any]) -> Iterator[sqlite3.Row]:
        self._deadline = time.process_time() + _SECONDS
        for row in self._connection.execute(query, tuple(arguments)):
            yield row
            self._deadline = time.process_time() + _SECONDS

    def table(
        self, name: str, column_names: Iterable[str], rest: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table with the wanted columns that exist.

        ``rest`` is appended to the query, for example ``ORDER BY``. Raises ``UnreadableDatabase``.
        """
        columns = [column for column in column_names if column in self.columns.get(name, ())]
        if not columns:
            raise UnreadableDatabase(f"the table {name} is missing")
        for row in self.rows(f"SELECT {', '.join(columns)} FROM {name} {rest}"):
            yield dict(row)


@contextmanager
def open_database(source: Source, name: str) -> Iterator[SourceDatabase]:
    """Open a source's database; its rows are ``sqlite3.Row``.

    Raises:
        UnreadableDatabase: if the database cannot be read; also raised in the body of the ``with``
            statement.
    """
    try:
        with ExitStack() as opened:
            yield _opened(source, name, opened)
    # A schema may contain invalid text.
    except (sqlite3.Error, OSError, UnicodeError, MemoryError) as error:
        raise UnreadableDatabase(_reason(error)) from error


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "exceeds the memory limit"
    if str(error) == "interrupted":
        return f"a row takes more than {_SECONDS} seconds"
    if "prohibited" in str(error) or "not authorized" in str(error):
        return f"it computes values instead of storing them: {error}"
    return str(error)


def _opened(source: Source, name: str, opened: ExitStack) -> SourceDatabase:
    """Open a database in place, or a copy if it is zipped, locked, or would be modified."""
    source.begin(name)
    if isinstance(source, PlainSource) and not _is_left_by_program(source, name):
        connection = opened.enter_context(closing(_connect(source.file(name), "ro")))
        try:
            return SourceDatabase(source, connection)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
    copy = opened.enter_context(_copy(source, name))
    return SourceDatabase(source, opened.enter_context(closing(_connect(copy, "rw"))))


def _is_left_by_program(source: Source, name: str) -> bool:
    """Return whether a database has a write-ahead log, but no program has it open.

    In this case, even reading the database creates a file next to it.
    """
    has_log = f"{name}-wal" in source.name_set and f"{name}-shm" not in source.name_set
    return has_log and source.size(name) <= _MAX_BYTES


@contextmanager
def _copy(source: Source, name: str) -> Iterator[Path]:
    """Copy a database to a temporary folder, with its write-ahead log if it has one."""
    with tempfile.TemporaryDirectory(prefix="memvault-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder, "copy.db")
        size = _copied(source, name, copy)
        if f"{name}-wal" in source.name_set:
            _copied(source, f"{name}-wal", Path(folder, "copy.db-wal"))
        elif size > _JOURNAL_MODES + 2:
            with copy.open("r+b") as file:
                file.seek(_JOURNAL_MODES)
                file.write(b"\1\1")
        yield copy


def _copied(source: Source, name: str, to: Path) -> int:
    """Copy a file; return its size."""
    if source.size(name) > _MAX_BYTES:
        raise OSError(f"larger than {_MAX_BYTES >> 20} MB")
    with to.open("xb") as file, source.open(name) as packed:
        while piece := packed.read(_PIECE):
            source.tick()
            file.write(piece)
            if file.tell() > _MAX_BYTES:
                raise OSError(f"larger than {_MAX_BYTES >> 20} MB")
        return file.tell()


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?mode={mode}"
    return sqlite3.connect(address, uri=True, timeout=_SECONDS_LOCKED)


def read_database(
    source: Source, name: str, read: Callable[[Source, str, SourceDatabase], Iterable[Item]]
) -> Iterator[Item]:
    """Yield the items of a database, and a ``SkippedItem`` if it is unreadable."""
    try:
        with open_database(source, name) as database:
            yield from read(source, name, database)
    except UnreadableDatabase as error:
        yield SkippedItem(name, f"cannot be read: {error}")


def databases_with(source: Source, *tables: str) -> list[str]:
    """Return the names of the databases that contain all of the given plain tables."""
    names = source.with_endings(".db", ".sqlite")
    return [name for name in names if table_names(source, name).issuperset(tables)]


def table_names(source: Source, name: str) -> frozenset[str]:
    """Return the names of a database's plain tables; empty if it cannot be read."""
    if name not in source.tables:  # cached, because a database in a zip must be unpacked each time
        source.tables[name] = _tables(source, name)
    return source.tables[name]


def _tables(source: Source, name: str) -> frozenset[str]:
    if not source.head(name, len(MAGIC)).startswith(MAGIC):
        return frozenset()
    try:
        with open_database(source, name) as database:
            return frozenset(database.columns)
    except UnreadableDatabase:
        return frozenset()
