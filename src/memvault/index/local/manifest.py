"""The manifest: a SQLite file with the indexed memories, file states and keyword index files.

It has one row per memory, keyed by a ``uid`` that is never reused. It also lists the keyword
index's files with their sizes, times and inodes as of the last commit. If the files differ, for
example after a killed writer or a power failure, the index is rebuilt.
"""

from __future__ import annotations

import json
import os
import sys
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from itertools import chain, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memvault.files.plain_files import FileStamp, stamp_of
from memvault.index.local.block_table import BlockTable
from memvault.index.local.passage_table import PassageTable
from memvault.index.local.sqlite_file import Database, Value, batches, placeholders
from memvault.index.protocol import IndexCorrupted, LinkEntry, MemoryName, MemoryRecord, StoredLink
from memvault.index.text.sentence_blocks import EncodedBlock
from memvault.model import FileState, aliases_of
from memvault.named_tuple import NamedTuple
from memvault.vault.date_ranges import DateRange, declared_dates
from memvault.vault.header_links import SUPERSEDES, referenced_names
from memvault.vault.names import name_key, normalize_title


class IndexCommit(NamedTuple):
    """A commit of the index: its number, its fingerprint, and its keyword index files."""

    number: tuple[int, int]
    fingerprint: str
    files: dict[str, FileStamp]

    def holds(self, keyword: Path) -> bool:
        """Return whether the committed files of the keyword index in a folder are unchanged."""
        return all(
            stamp_of(os.path.join(keyword, name)) == state for name, state in self.files.items()
        )


_MAX_INTEGER = 2**63 - 1
_STATE_COLUMNS = "uid, checked, etag, path, size, mtime, ctime, inode"
_IS_DOCUMENT = "memory_type = 'document' AND lower(substr(path, -3)) <> '.md'"


_SCHEMA = """
CREATE TABLE memories (
    uid INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE,
    size INTEGER, mtime INTEGER, ctime INTEGER, inode INTEGER, checked INTEGER, etag TEXT,
    mem_id TEXT, title TEXT, memory_type TEXT, tags TEXT, created TEXT, modified TEXT,
    metadata TEXT, problem TEXT, language TEXT, created_from TEXT, modified_from TEXT,
    l_title INTEGER, l_headings INTEGER, l_body INTEGER, l_tags INTEGER, l_identifier INTEGER,
    folded TEXT, first_day TEXT, last_day TEXT, part_hash TEXT
);
CREATE INDEX by_id ON memories (mem_id);
CREATE INDEX by_title ON memories (folded);
CREATE INDEX by_language ON memories (language);
CREATE INDEX by_time ON memories (modified, path);
CREATE INDEX undated ON memories (uid) WHERE created_from IN ('git', 'file')
    OR modified_from IN ('git', 'file');
CREATE INDEX documents ON memories (uid) WHERE memory_type = 'document';
CREATE TABLE blocks (
    place INTEGER PRIMARY KEY, first INTEGER NOT NULL, passages TEXT NOT NULL,
    counts BLOB NOT NULL, codes BLOB NOT NULL, token_counts BLOB, tokens BLOB
);
CREATE INDEX missing_subwords ON blocks (place) WHERE tokens IS NULL;
CREATE TABLE passages (number INTEGER PRIMARY KEY, counts BLOB NOT NULL, hashes BLOB NOT NULL);
CREATE TABLE token_frequency (holding BLOB NOT NULL, memories INTEGER NOT NULL);
CREATE TABLE supersedes (name TEXT NOT NULL, uid INTEGER NOT NULL);
CREATE INDEX by_superseded ON supersedes (name);
CREATE INDEX by_superseding ON supersedes (uid);
CREATE TABLE aliases (name TEXT NOT NULL, uid INTEGER NOT NULL);
CREATE INDEX by_alias ON aliases (name);
CREATE INDEX by_aliased ON aliases (uid);
CREATE TABLE links (uid INTEGER PRIMARY KEY, names TEXT NOT NULL, links TEXT NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('next_uid', 1);
INSERT INTO counters VALUES ('identity', abs(random()));
INSERT INTO counters VALUES ('commits', 0);
INSERT INTO counters VALUES ('memories', 0), ('title', 0), ('headings', 0), ('body', 0),
    ('tags', 0), ('identifier', 0);
CREATE TABLE files (name TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE made_for (fingerprint TEXT NOT NULL);
"""
_COLUMNS = (
    "uid, path, size, etag, mem_id, title, memory_type, tags, created, modified, "
    "metadata, problem, language, created_from, modified_from"
)
_REPEATED = (6, 12, 13, 14)
"""The columns with the same few values in most rows, which are stored only once in memory."""
_FILE_COLUMNS = (
    "mtime, ctime, inode, checked, l_title, l_headings, l_body, l_tags, l_identifier, folded, "
    "first_day, last_day, part_hash"
)
_COLUMN_COUNT = len(f"{_COLUMNS}, {_FILE_COLUMNS}".split(", "))
_LENGTHS = slice(-9, -4)
"""The columns with the number of terms in each field."""
_READ_ALL_FROM = 500
"""The number of uids above which reading all paths is faster than selecting them one by one."""
_FIELDS = ("title", "headings", "body", "tags", "identifier")


class IndexedFile(NamedTuple):
    """The state of a memory's file when it was indexed; ``checked`` is when the state was read."""

    uid: int
    state: FileState
    checked: int
    etag: str


class ManifestRow(NamedTuple):
    """A memory's row in the manifest: its record, its file's state, and when the state was read.

    ``lengths`` maps each field to its number of terms. ``part_hash`` is the hash of the indexed
    part and the header of a memory too long to be indexed completely, empty for other memories.
    """

    record: MemoryRecord
    state: FileState
    checked: int
    lengths: Mapping[str, int]
    part_hash: str = ""


class Manifest:
    """The rows of an index's manifest; every method may raise ``IndexCorrupted``."""

    def __init__(self, path: Path, new: bool = False) -> None:
        self._db = Database(path, _SCHEMA if new else "")
        self.blocks = BlockTable(self._db)
        self.passages = PassageTable(self._db)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @property
    def exists(self) -> bool:
        """Return whether the path still refers to the opened file."""
        return self._db.exists

    def commit(self, fingerprint: str, states: Mapping[str, FileStamp]) -> None:
        """Store the index's fingerprint and the states of its keyword index files."""
        files = {name: json.dumps(state) for name, state in states.items()}
        with self._db.transaction():
            self._db.execute("DELETE FROM files")
            self._db.execute_each("INSERT INTO files VALUES (?, ?)", files.items())
            self._db.execute("DELETE FROM made_for")
            self._db.execute("INSERT INTO made_for VALUES (?)", (fingerprint,))
            self._db.execute("UPDATE counters SET value = value + 1 WHERE name = 'commits'")

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block in one transaction of the manifest."""
        return self._db.transaction()

    def committed(self) -> IndexCommit | None:
        """Return the last commit, or None."""
        with self._db.transaction("BEGIN"):
            made_for = next(self._db.rows("SELECT fingerprint FROM made_for"), None)
            rows = list(self._db.rows("SELECT name, state FROM files"))
            number = self._counter("identity"), self._counter("commits")
        if made_for is None:
            return None
        try:
            files = {name: tuple(json.loads(state)) for name, state in rows}
        except (ValueError, TypeError) as error:  # ``commit`` never writes such a row
            raise IndexCorrupted(str(error)) from error
        return IndexCommit(number, made_for[0], files)

    def known(self) -> dict[str, IndexedFile]:
        """Return every indexed file, by path."""
        return _indexed_files(self._db.rows(f"SELECT {_STATE_COLUMNS} FROM memories"))

    def known_of(self, paths: Collection[str]) -> dict[str, IndexedFile]:
        """Return the indexed files among the given paths, by path."""
        if len(paths) > max(_READ_ALL_FROM, self.count() // 4):
            wanted = set(paths)
            return self._db.visit(
                f"SELECT {_STATE_COLUMNS} FROM memories WHERE true",
                lambda batches: _indexed_files(
                    row for rows in batches for row in rows if _decoded(row[3]) in wanted
                ),
            )
        query = f"SELECT {_STATE_COLUMNS} FROM memories WHERE path = ?"
        rows = (self._db.rows(query, (_encoded(path),)) for path in paths)
        return _indexed_files(chain.from_iterable(rows))

    def lengths(self) -> dict[str, float]:
        """Return the number of terms of each field in all memories."""
        counters = dict(self._db.rows("SELECT name, value FROM counters"))
        try:
            return {name: float(counters[name]) for name in _FIELDS}
        except KeyError as error:
            raise IndexCorrupted(f"no {error}") from error

    def lengths_of(self, uid: int) -> dict[str, int]:
        """Return the number of terms of each field in one memory."""
        names = ", ".join(f"l_{name}" for name in _FIELDS)
        row = next(self._db.rows(f"SELECT {names} FROM memories WHERE uid = ?", (uid,)))
        return dict(zip(_FIELDS, row, strict=True))

    def languages(self) -> dict[str, int]:
        """Return the number of indexed memories by language."""
        query = "SELECT language, count(*) FROM memories GROUP BY language"
        return dict(self._db.cached("languages", lambda: dict(self._db.rows(query))))

    def part_hash_of(self, uid: int) -> str:
        """Return the hash of a memory's indexed part; empty if all of it is indexed."""
        row = next(self._db.rows("SELECT part_hash FROM memories WHERE uid = ?", (uid,)))
        return str(row[0])

    def language_of(self, uid: int) -> str:
        """Return the language in which a memory is indexed."""
        row = next(self._db.rows("SELECT language FROM memories WHERE uid = ?", (uid,)))
        return str(row[0])

    def uids(self) -> frozenset[int]:
        """Return the uids of all memories."""
        query = "SELECT uid FROM memories"
        return self._db.cached("uids", lambda: frozenset(uid for (uid,) in self._db.rows(query)))

    def count(self) -> int:
        """Return the number of memories."""
        return self._counter("memories")

    def count_documents(self) -> int:
        """Return the number of documents, which are included in ``count``."""
        ((count,),) = self._db.rows(f"SELECT count(*) FROM memories WHERE {_IS_DOCUMENT}")
        return int(count)

    def paths(self, uids: Iterable[int]) -> list[tuple[int, str]]:
        """Return (uid, path) of the given memories, in ascending order of uid."""
        selected = frozenset(uids)
        if len(selected) > _READ_ALL_FROM:
            return [entry for entry in self.uids_above(0) if entry[0] in selected]
        query = f"SELECT uid, path FROM memories WHERE uid IN ({','.join('?' * len(selected))})"
        rows = self._db.rows(f"{query} ORDER BY uid", list(selected))
        return [(uid, _decoded(path)) for uid, path in rows]

    def uids_above(self, uid: int) -> list[tuple[int, str]]:
        """Return (uid, path) of the memories with a higher uid, in ascending order."""
        query = "SELECT uid, path FROM memories WHERE uid > ? ORDER BY uid"
        return [(above, _decoded(path)) for above, path in self._db.rows(query, (uid,))]

    def record(self, uid: int) -> MemoryRecord | None:
        """See ``View.record``."""
        return next(iter(self.records_of((uid,))), None)

    def records_of(self, uids: Collection[int]) -> Iterable[MemoryRecord]:
        """Return the records of the given memories; missing ones are omitted."""
        return self._db.cached_each("records", uids, self._read_records).values()

    def _read_records(self, uids: Sequence[int]) -> dict[int, MemoryRecord]:
        return {
            record.uid: record
            for some in batches(uids)
            for record in self._select(f"WHERE uid IN ({placeholders(some)})", some)
        }

    def visit_records(self, visit: Callable[[Iterator[MemoryRecord]], Value]) -> Value:
        """Pass every record to a function one at a time, and return its result.

        If the index changes in the meantime, the function is called again with all records.
        """
        return self._db.visit(
            f"SELECT {_COLUMNS} FROM memories WHERE true",
            lambda batches: visit(chain.from_iterable(map(_records, batches))),
        )

    def visit_names(self, visit: Callable[[Iterator[MemoryName]], Value]) -> Value:
        """Pass the names of all memories to a function, as ``visit_records`` does."""
        query = (
            "SELECT uid, path, mem_id, title, "
            "CASE WHEN uid IN (SELECT uid FROM aliases) THEN metadata END FROM memories WHERE true"
        )
        return self._db.visit(
            query, lambda batches: visit(map(_name, chain.from_iterable(batches)))
        )

    def dated(self, days: DateRange) -> Iterator[MemoryRecord]:
        """Yield the records of memories with a date in a range, and possibly a few others.

        Stored times are in UTC, so the range is widened by a day at both ends.
        """
        wider = days.widened(1)
        first, last = wider.first.isoformat(), wider.last.isoformat() + "~"
        return self._select(
            "WHERE created BETWEEN ? AND ? OR modified BETWEEN ? AND ? "
            "OR (first_day <= ? AND last_day >= ?)",
            (first, last, first, last, last, first),
        )

    def latest(self, limit: int, offset: int) -> Iterator[MemoryRecord]:
        """Yield a page of the records except documents, in reverse order of ``by_time``."""
        page = min(limit, _MAX_INTEGER), min(offset, _MAX_INTEGER)
        where = f"WHERE NOT ({_IS_DOCUMENT})"
        return self._select(f"{where} ORDER BY modified DESC, path DESC LIMIT ? OFFSET ?", page)

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return the memories whose path, memId, title or alias matches a name.

        The path may omit ``.md``, and the memId may be abbreviated.
        """
        path, file = _encoded(name), _encoded(f"{name}.md")
        name = name.encode("utf-8", "replace").decode()
        where = (
            "WHERE path IN (?, ?) OR (mem_id >= ? AND mem_id < ?) OR folded = ? "
            "OR uid IN (SELECT uid FROM aliases WHERE name = ?)"
        )
        title = normalize_title(name)
        return list(self._select(where, (path, file, name, name + "\U0010ffff", title, title)))

    def superseding(self, names: Sequence[str] | None) -> Iterator[MemoryRecord]:
        """Yield the memories whose headers supersede one of ``names``; None stands for any name."""
        condition = "" if names is None else f" WHERE name IN ({','.join('?' * len(names))})"
        where = f"WHERE uid IN (SELECT uid FROM supersedes{condition})"
        return self._select(where, tuple(names or ()))

    def links(self, names: Set[str] | None = None) -> dict[int, LinkEntry]:
        """See ``View.links``."""
        condition = "true" if names is None or names else "links <> '[]'"

        def select(batches: Iterator[list[tuple[Any, ...]]]) -> dict[int, LinkEntry]:
            selected: dict[int, LinkEntry] = {}
            for rows in batches:
                parsed = (_parse_each(row[column] for row in rows) for column in (2, 3))
                selected |= {
                    uid: LinkEntry(_decoded(path), own_names, list(map(StoredLink._make, links)))
                    for (uid, path, _, _), own_names, links in zip(rows, *parsed, strict=True)
                    if names is None or links or not names.isdisjoint(own_names)
                }
            return selected

        query = "SELECT uid, path, names, links FROM memories JOIN links USING (uid)"
        try:
            return self._db.visit(f"{query} WHERE {condition}", select)
        except (TypeError, ValueError) as error:  # ``apply`` never writes such a row
            raise IndexCorrupted(str(error)) from error

    def has_undated(self) -> bool:
        """Return whether any memory's created or modified time comes from git or the file."""
        query = (
            "SELECT uid FROM memories WHERE created_from IN ('git', 'file') "
            "OR modified_from IN ('git', 'file') LIMIT 1"
        )
        return bool(list(self._db.rows(query)))

    def undated_paths(self) -> set[str]:
        """Return the paths of memories with a created or modified time from git or the file."""
        query = (
            "SELECT path FROM memories WHERE created_from IN ('git', 'file') "
            "OR modified_from IN ('git', 'file')"
        )
        return {_decoded(path) for (path,) in self._db.rows(query)}

    def date_source(self) -> int:
        """Return the source of git times (see ``CommitDates``), or 0 if there is none."""
        query = "SELECT value FROM counters WHERE name = 'date_source'"
        return next((int(value) for (value,) in self._db.rows(query)), 0)

    def set_date_source(self, source: int) -> None:
        """Store the source of git times."""
        with self._db.transaction():
            self._db.execute("INSERT OR REPLACE INTO counters VALUES ('date_source', ?)", (source,))

    def next_uid(self) -> int:
        """Return the lowest uid that was never used."""
        return self._counter("next_uid")

    def identity(self) -> int:
        """Return a number unique to this manifest; uids are valid only together with it."""
        return self._counter("identity")

    def _counter(self, name: str) -> int:
        for (value,) in self._db.rows("SELECT value FROM counters WHERE name = ?", (name,)):
            return int(value)
        raise IndexCorrupted(f"no {name}")

    def apply(
        self,
        removed: Iterable[int],
        added: Iterable[ManifestRow],
        blocks: Mapping[int, Sequence[EncodedBlock]] = MappingProxyType({}),
        links: Mapping[int, LinkEntry] = MappingProxyType({}),
        passages: Mapping[int, array[int]] = MappingProxyType({}),
    ) -> None:
        """Remove and add rows in one transaction, together with other data of their memories.

        ``blocks``, ``links`` and ``passages`` contain this data by uid; ``passages`` contains the
        hashes of passage texts.
        """
        removed_uids = list(removed)
        added_rows = list(added)
        rows = [columns_of(row) for row in added_rows]
        replaced = [
            (name_key(name), row.record.uid)
            for row in added_rows
            for name in referenced_names(row.record.metadata, SUPERSEDES)
        ]
        aliases = [
            (name, row.record.uid) for row in added_rows for name in _other_names(row.record)
        ]
        with self._db.transaction():
            self._count(removed_uids, rows)
            self.blocks.replace([*removed_uids, *blocks], blocks)
            self.passages.replace(removed_uids, passages)
            for table in ("memories", "links"):
                self._db.execute_each(
                    f"DELETE FROM {table} WHERE uid = ?", [(uid,) for uid in removed_uids]
                )
            self._db.execute_each(
                "INSERT OR REPLACE INTO links VALUES (?, ?, ?)",
                [
                    (uid, json.dumps(entry.names), json.dumps(entry.links))
                    for uid, entry in links.items()
                ],
            )
            changed_uids = [(uid,) for uid in [*removed_uids, *(row[0] for row in rows)]]
            self._db.execute_each("DELETE FROM supersedes WHERE uid = ?", changed_uids)
            self._db.execute_each("INSERT INTO supersedes VALUES (?, ?)", replaced)
            self._db.execute_each("DELETE FROM aliases WHERE uid = ?", changed_uids)
            self._db.execute_each("INSERT INTO aliases VALUES (?, ?)", aliases)
            self._db.execute_each(
                f"INSERT OR REPLACE INTO memories ({_COLUMNS}, {_FILE_COLUMNS}) "
                f"VALUES ({','.join('?' * _COLUMN_COUNT)})",
                rows,
            )
            self._db.execute(
                "UPDATE counters SET value = max(value, ?) WHERE name = 'next_uid'",
                (max((row[0] for row in rows), default=0) + 1,),
            )

    def _count(self, removed: Sequence[int], rows: Sequence[tuple[Any, ...]]) -> None:
        """Update the counts of memories and terms for removed and added rows."""
        changes = [len(rows), *map(sum, zip(*(row[_LENGTHS] for row in rows), strict=True))]
        changes += [0] * (1 + len(_FIELDS) - len(changes))
        following = self.next_uid()
        replaced = {*removed, *(row[0] for row in rows if row[0] < following)}
        sums = ", ".join(f"total(l_{name})" for name in _FIELDS)
        for some in batches(replaced):
            query = f"SELECT count(*), {sums} FROM memories WHERE uid IN ({placeholders(some)})"
            before = next(self._db.rows(query, some))
            changes = [now - int(then) for now, then in zip(changes, before, strict=True)]
        self._db.execute_each(
            "UPDATE counters SET value = value + ? WHERE name = ?",
            zip(changes, ("memories", *_FIELDS), strict=True),
        )

    def _select(self, where: str, values: tuple[Any, ...]) -> Iterator[MemoryRecord]:
        yield from _records(list(self._db.rows(f"SELECT {_COLUMNS} FROM memories {where}", values)))


def _records(rows: Sequence[tuple[Any, ...]]) -> Iterable[MemoryRecord]:
    """Return the records in rows of ``_COLUMNS``."""
    if not rows:
        return ()
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    columns[1] = map(_decoded, columns[1])
    columns[7], columns[10] = map(tuple, _parse_each(columns[7])), _parse_each(columns[10])
    for column in _REPEATED:
        columns[column] = map(sys.intern, columns[column])
    defaults = map(repeat, MemoryRecord._field_defaults.values())
    return map(MemoryRecord._make, zip(*columns, *defaults, strict=False))


def _parse_each(texts: Iterable[str]) -> list[Any]:
    """Parse JSON texts as one array, which takes half the time."""
    texts = list(texts)
    try:
        values = json.loads(f"[{','.join(texts)}]")
    except ValueError as error:  # this module never writes such a value
        raise IndexCorrupted(str(error)) from error
    if len(values) != len(texts):
        raise IndexCorrupted("a value is not exactly one JSON value")
    return list(values)


def _name(row: tuple[int, str | bytes, str, str, str | None]) -> MemoryName:
    """Return a memory's names; ``row`` has its header if it has aliases."""
    uid, path, mem_id, title, header = row
    aliases: tuple[str, ...] = ()
    if header is not None:
        (metadata,) = _parse_each([header])
        aliases = aliases_of(metadata)
    return MemoryName(uid, _decoded(path), mem_id, title, aliases)


def _other_names(record: MemoryRecord) -> set[str]:
    """Return a memory's normalized aliases, except its title."""
    names = {normalize_title(name.encode("utf-8", "replace").decode()) for name in record.aliases}
    return names - {normalize_title(record.title)}


def columns_of(row: ManifestRow) -> tuple[Any, ...]:
    """Return a row as column values for SQLite.

    Raises:
        ValueError: if a value cannot be represented in JSON or UTF-8.
        TypeError: if a value is not plain data.
    """
    record = row.record
    columns = (
        record.uid,
        _encoded(record.path),
        *record[2:7],
        json.dumps(record.tags),
        record.created,
        record.modified,
        json.dumps(record.metadata, allow_nan=False),
        record.problem,
        record.language,
        record.created_from,
        record.modified_from,
        *row.state[2:],
        row.checked,
        *(row.lengths.get(name, 0) for name in _FIELDS),
        normalize_title(record.title),
        *_declared_days(record),
        row.part_hash,
    )
    for value in columns:
        if isinstance(value, str):
            value.encode()
    return columns


def _declared_days(record: MemoryRecord) -> tuple[str | None, str | None]:
    """Return the first and last day that a memory's name and header declare, or None for each."""
    days = declared_dates(record.path, record.metadata)
    if not days:
        return None, None
    return min(days).first.isoformat(), max(span.last for span in days).isoformat()


def _indexed_files(rows: Iterable[tuple[Any, ...]]) -> dict[str, IndexedFile]:
    """Return the files in rows of ``_STATE_COLUMNS``, by path."""
    values = list(rows)
    if not values:
        return {}
    uids, checked, etags, paths, *state = zip(*values, strict=True)
    states = map(FileState._make, zip(map(_decoded, paths), *state, strict=True))
    files = map(IndexedFile, uids, states, checked, etags)
    return {indexed.state.path: indexed for indexed in files}


def _encoded(path: str) -> str | bytes:
    """Return a path in a form that SQLite can store: bytes if it is not valid UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(path)
        except UnicodeEncodeError:  # a lone surrogate, which cannot be in a file name
            return path.encode("utf-8", "replace").decode()
    return path


def _decoded(path: str | bytes) -> str:
    return os.fsdecode(path) if isinstance(path, bytes) else path
