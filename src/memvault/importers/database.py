"""SQLite databases of a source, opened for reading only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from memvault.importers.source import Source, local_file

_MAX_BYTES = 512 * 1024 * 1024
"""Maximum size of a database in a zip, which is read into memory."""
_JOURNAL_MODES = slice(18, 20)
"""The bytes of the header that stand for a write-ahead log, which a copy does not have."""
MAGIC = b"SQLite format 3\0"


class UnreadableDatabase(Exception):
    """A database that is damaged or has other tables than expected; the message is the reason."""


@contextmanager
def open_database(source: Source, name: str) -> Iterator[sqlite3.Connection]:
    """Open a database of a source; its rows are ``sqlite3.Row``.

    Raises:
        UnreadableDatabase: it cannot be read; the body of the ``with`` statement raises it, too.
    """
    try:
        with closing(_connect(source, name)) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            yield connection
    except (sqlite3.Error, OSError, UnicodeError) as error:  # a damaged schema is no text
        raise UnreadableDatabase(str(error)) from error


def _connect(source: Source, name: str) -> sqlite3.Connection:
    path = local_file(source, name)
    if path is not None:
        return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    data = bytearray(source.read(name, _MAX_BYTES))
    data[_JOURNAL_MODES] = b"\1\1"
    connection = sqlite3.connect(":memory:")
    connection.deserialize(bytes(data))
    return connection


def tables(source: Source, name: str) -> frozenset[str]:
    """Return the names of a database's tables; empty if it is none, or cannot be read."""
    if name not in source.tables:  # a database in a zip is unpacked for it
        source.tables[name] = _tables(source, name)
    return source.tables[name]


def _tables(source: Source, name: str) -> frozenset[str]:
    if not source.head(name, len(MAGIC)).startswith(MAGIC):
        return frozenset()
    try:
        with open_database(source, name) as database:
            rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return frozenset(row["name"] for row in rows)
    except UnreadableDatabase:
        return frozenset()
