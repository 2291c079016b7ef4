"""What is indexed, in which state of its file, and how the keyword index was when it was written.

The manifest is a SQLite file: one row a memory, keyed by a ``uid`` that is never
used again. It also names the files of the keyword index with size, times and
inode as they were after the last commit: a killed writer, a power cut or
another program may leave others, and such an index is made anew.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from memvault.errors import TimedOut
from memvault.index.errors import DamagedIndex
from memvault.index.file_states import Commit, states_in
from memvault.index.protocol import Record
from memvault.model import FileState
from memvault.vault.normal_form import folded

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
_SCHEMA = """
CREATE TABLE memories (
    uid INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE,
    size INTEGER, mtime INTEGER, ctime INTEGER, inode INTEGER, checked INTEGER, etag TEXT,
    mem_id TEXT, title TEXT, memory_type TEXT, tags TEXT, created TEXT, modified TEXT,
    metadata TEXT, problem TEXT, language TEXT,
    l_title INTEGER, l_headings INTEGER, l_body INTEGER, l_tags INTEGER, l_type INTEGER,
    l_identifier INTEGER, folded TEXT
);
CREATE INDEX by_id ON memories (mem_id);
CREATE INDEX by_title ON memories (folded);
CREATE INDEX by_language ON memories (language);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('next_uid', 1);
INSERT INTO counters VALUES ('identity', abs(random()));
INSERT INTO counters VALUES ('commits', 0);
CREATE TABLE files (name TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE made_for (fingerprint TEXT NOT NULL);
"""
_COLUMNS = (
    "uid, path, size, etag, mem_id, title, memory_type, tags, created, modified, "
    "metadata, problem, language"
)
_FILE_COLUMNS = (
    "mtime, ctime, inode, checked, "
    "l_title, l_headings, l_body, l_tags, l_type, l_identifier, folded"
)
_FIELDS = ("title", "headings", "body", "tags", "type", "identifier")


class Known(NamedTuple):
    """A memory's file as it was when it was indexed; ``checked`` is when it was looked at."""

    uid: int
    state: FileState
    checked: int
    etag: str


class Row(NamedTuple):
    """What the manifest keeps of a memory: its record, its file's state and when it was looked at.

    ``lengths`` says how many terms it has in each field.
    """

    record: Record
    state: FileState
    checked: int
    lengths: Mapping[str, int]


class Manifest:
    """The manifest's rows; every method may raise ``DamagedIndex``."""

    def __init__(self, path: Path, new: bool = False) -> None:
        with _mapped():
            if not new and not path.is_file():
                raise DamagedIndex("no manifest")
            self._path = path
            self._db = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            if new:
                self._db.executescript(_SCHEMA)
            self._file = _identity(path)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def is_there(self) -> bool:
        """Whether the file that was opened still has its name."""
        return self._file == _identity(self._path)

    def commit(self, fingerprint: str, keyword: Path) -> None:
        """Write down what the index was made for, and its keyword index's files as they are now."""
        files = {name: json.dumps(state) for name, state in states_in(keyword).items()}
        with _mapped(), self._transaction():
            self._db.execute("DELETE FROM files")
            self._db.executemany("INSERT INTO files VALUES (?, ?)", files.items())
            self._db.execute("DELETE FROM made_for")
            self._db.execute("INSERT INTO made_for VALUES (?)", (fingerprint,))
            self._db.execute("UPDATE counters SET value = value + 1 WHERE name = 'commits'")

    def committed(self) -> Commit | None:
        """Return the last commit, or None where there was none."""
        with _mapped(), self._transaction("BEGIN"):
            made_for = next(self._rows("SELECT fingerprint FROM made_for"), None)
            rows = list(self._rows("SELECT name, state FROM files"))
            number = self._counter("identity"), self._counter("commits")
        if made_for is None:
            return None
        try:
            files = {name: tuple(json.loads(state)) for name, state in rows}
        except (ValueError, TypeError) as error:  # not as ``commit`` wrote it
            raise DamagedIndex(str(error)) from error
        return Commit(number, made_for[0], files)

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        self._db.execute(begin)
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # not so where SQLite has rolled back by itself
                self._db.execute("ROLLBACK")
            raise

    def _rows(self, query: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with _mapped():
            yield from self._db.execute(query, values)

    def known(self) -> dict[str, Known]:
        """Return every indexed file's state by its path."""
        rows = self._rows(
            "SELECT uid, path, size, mtime, ctime, inode, checked, etag FROM memories"
        )
        found = (Known(row[0], _state(row[1:6]), row[6], row[7]) for row in rows)
        return {known.state.path: known for known in found}

    def lengths(self) -> dict[str, float]:
        """Return how many terms each field has in all memories."""
        sums = ", ".join(f"total(l_{name})" for name in _FIELDS)
        row = next(self._rows(f"SELECT {sums} FROM memories"))
        return dict(zip(_FIELDS, row, strict=True))

    def lengths_of(self, uid: int) -> dict[str, int]:
        """Return how many terms each field has in one memory."""
        names = ", ".join(f"l_{name}" for name in _FIELDS)
        row = next(self._rows(f"SELECT {names} FROM memories WHERE uid = ?", (uid,)))
        return dict(zip(_FIELDS, row, strict=True))

    def languages(self) -> dict[str, int]:
        """Return how many memories are indexed as each language."""
        return dict(self._rows("SELECT language, count(*) FROM memories GROUP BY language"))

    def language_of(self, uid: int) -> str:
        """Return the language as which a memory is indexed."""
        row = next(self._rows("SELECT language FROM memories WHERE uid = ?", (uid,)))
        return str(row[0])

    def uids(self) -> set[int]:
        """Return the uids of all memories."""
        return {uid for (uid,) in self._rows("SELECT uid FROM memories")}

    def uids_above(self, uid: int) -> list[tuple[int, str]]:
        """Return (uid, path) of the memories with a higher uid, rising."""
        query = "SELECT uid, path FROM memories WHERE uid > ? ORDER BY uid"
        return [(above, _decoded(path)) for above, path in self._rows(query, (uid,))]

    def record(self, uid: int) -> Record | None:
        """Return one memory's record."""
        return next(self._select("WHERE uid = ?", (uid,)), None)

    def records(self) -> Iterator[Record]:
        """Yield every record."""
        return self._select("", ())

    def named(self, name: str) -> list[Record]:
        """Return the memories whose path, memId, beginning of a memId or title a name may be."""
        path = _encoded(name)
        name = name.encode("utf-8", "replace").decode()
        where = "WHERE path = ? OR (mem_id >= ? AND mem_id < ?) OR folded = ?"
        return list(self._select(where, (path, name, name + "\U0010ffff", folded(name))))

    def next_uid(self) -> int:
        """Return the lowest uid that was never used."""
        return self._counter("next_uid")

    def identity(self) -> int:
        """Return a number that no other manifest has; uids mean nothing without it."""
        return self._counter("identity")

    def _counter(self, name: str) -> int:
        for (value,) in self._rows("SELECT value FROM counters WHERE name = ?", (name,)):
            return int(value)
        raise DamagedIndex(f"no {name}")

    def apply(self, removed: Iterable[int], added: Iterable[Row]) -> None:
        """Take out and put in rows as one transaction."""
        rows = [columns_of(row) for row in added]
        with _mapped(), self._transaction():
            self._db.executemany("DELETE FROM memories WHERE uid = ?", [(uid,) for uid in removed])
            self._db.executemany(
                f"INSERT OR REPLACE INTO memories ({_COLUMNS}, {_FILE_COLUMNS}) "
                f"VALUES ({','.join('?' * 24)})",
                rows,
            )
            self._db.execute(
                "UPDATE counters SET value = max(value, ?) WHERE name = 'next_uid'",
                (max((row[0] for row in rows), default=0) + 1,),
            )

    def _select(self, where: str, values: tuple[Any, ...]) -> Iterator[Record]:
        for row in self._rows(f"SELECT {_COLUMNS} FROM memories {where}", values):
            try:
                tags, metadata = tuple(json.loads(row[7])), json.loads(row[10])
            except json.JSONDecodeError as error:  # not as ``columns_of`` wrote it
                raise DamagedIndex(str(error)) from error
            path = _decoded(row[1])
            yield Record._make((row[0], path, *row[2:7], tags, *row[8:10], metadata, *row[11:13]))


def columns_of(row: Row) -> tuple[Any, ...]:
    """Return a row as SQLite keeps it.

    Raises:
        ValueError: it holds what JSON or UTF-8 cannot spell.
        TypeError: it holds what is no plain value.
    """
    record = row.record
    columns = (
        record.key,
        _encoded(record.path),
        *record[2:7],
        json.dumps(record.tags),
        record.created,
        record.modified,
        json.dumps(record.metadata, allow_nan=False),
        record.problem,
        record.language,
        *row.state[2:],
        row.checked,
        *(row.lengths.get(name, 0) for name in _FIELDS),
        folded(record.title),
    )
    for value in columns:
        if isinstance(value, str):
            value.encode()
    return columns


def _encoded(path: str) -> str | bytes:
    """Return a path as SQLite can keep it: a name that is no UTF-8 as its bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(path)
        except UnicodeEncodeError:  # half a character: no file has such a name
            return path.encode("utf-8", "replace").decode()
    return path


def _decoded(path: str | bytes) -> str:
    return os.fsdecode(path) if isinstance(path, bytes) else path


def _state(columns: Sequence[Any]) -> FileState:
    return FileState(_decoded(columns[0]), *columns[1:])


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
        raise DamagedIndex(str(error)) from error
    except sqlite3.Error as error:
        raise DamagedIndex(f"{type(error).__name__}: {error}") from error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
