"""Import mem0's memories.

A source is the result of ``get_all`` or an export: a JSON file with ``results`` or ``memories``
(docs.mem0.ai/api-reference, version 1); the local ``history.db``, where the last event of a memory
contains its text; or ``storage.sqlite`` of a local Qdrant, whose pickled points are parsed without
executing them (mem0ai 1.0, mem0/memory/storage.py; qdrant-client 1.15, local/persistence.py).
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from memvault.errors import UsageError
from memvault.importers import convert, json_source, pickles, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.database import SourceDatabase, databases_with, read_database
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source
from memvault.memories import create

_HISTORY_COLUMNS = "memory_id new_memory event created_at updated_at is_deleted".split()
_OWN_KEYS = ("user_id", "agent_id", "run_id", "app_id")
_SETTINGS = ("config.json", "meta.json")
_KEYS = frozenset("id memory data hash metadata categories created_at updated_at".split()).union(
    _OWN_KEYS
)
"""Keys of a memory that are converted, or that contain its hash."""


def claims(source: Source) -> list[str]:
    """Return the exports, the databases with their journals, and mem0's settings."""
    databases = (*databases_with(source, "history"), *databases_with(source, "points"))
    beside = [
        name
        for name in source.names
        if databases and (name.startswith(databases) or name.rpartition("/")[2] in _SETTINGS)
    ]
    return [*_exports(source), *beside]


def _exports(source: Source) -> list[str]:
    heads = ((name, source.head(name, 65_536)) for name in source.with_endings(".json"))
    marks = (b'"user_id"', b'"hash"', b'"agent_id"')
    return [
        name
        for name, head in heads
        if b'"memory":' in head.replace(b" ", b"") and any(mark in head for mark in marks)
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield each memory once, as a note titled by its first words."""
    seen: set[str] = set()
    for item in _read_all(source):
        key = getattr(item, "key", "")
        if not key or key not in seen:
            seen.add(key)
            if isinstance(item, ImportedNote):
                source.counts.converted("memory")
            yield item


def _read_all(source: Source) -> Iterator[Item]:
    for name in _exports(source):
        yield from _read_export(source, name)
    for table, read_items in (("points", _read_points), ("history", _read_history)):
        for name in databases_with(source, table):  # points first, because they have metadata
            yield from read_database(source, name, read_items)


def _read_export(source: Source, name: str) -> Iterator[Item]:
    is_array, has_items = source.head(name, 64).lstrip()[:1] == b"[", False
    for key in ("",) if is_array else ("results", "memories"):
        entries = json_source.objects(source, name, key)
        for item in records.convert_each(entries, _of_export, source.counts):
            has_items = True
            yield item
    if not is_array:
        for _ in json_source.array_items(source, name, "relations"):
            source.counts.omitted("relation")
        if not has_items:
            yield SkippedItem(name, "contains no memories")


def _of_export(_location: str, entry: dict[str, Any], counts: ContentCounts) -> Item:
    counts.unused_properties("memory", entry, _KEYS)
    return _note(convert.text(entry.get("memory")), entry, entry.get("metadata"))


def _read_history(source: Source, name: str, database: SourceDatabase) -> Iterator[Item]:
    last: dict[str, dict[str, Any]] = {}
    order = "ORDER BY memory_id, created_at, rowid"
    for entry in database.table("history", _HISTORY_COLUMNS, order):
        key = str(entry.get("memory_id"))
        first = last.get(key, entry).get("first", entry.get("created_at"))
        last[key] = {**entry, "first": first}
        source.counts.converted("history event")
    for key, entry in last.items():
        if str(entry.get("event")).upper() != "DELETE" and not entry.get("is_deleted"):
            memory = {**entry, "id": key, "created_at": entry["first"]}
            text = str(entry.get("new_memory") or "")
            yield from records.convert_record(f"{name}, {key}", _note, text, memory, None)
        else:
            source.counts.omitted("deleted memory")


def _read_points(_source: Source, name: str, database: SourceDatabase) -> Iterator[Item]:
    for row in database.rows("SELECT id, point FROM points ORDER BY id"):
        location = f"{name}, point {row['id']}"
        yield from records.convert_record(location, _of_point, location, row["id"], row["point"])


def _of_point(location: str, row_id: Any, data: Any) -> list[Item]:
    """Return the memories in a pickled point."""
    try:
        points = pickles.mappings_with(pickles.parse(data), "payload")
    except pickles.UnreadablePickle as error:
        return [SkippedItem(location, f"cannot be read: {error}")]
    notes = [note for point in points for note in _point(point, row_id)]
    return notes or [SkippedItem(location, "has no text")]


def _point(point: dict[Any, Any], row_id: Any) -> Iterator[Item]:
    payload, point_id = point["payload"], point.get("id")
    if isinstance(payload, dict) and isinstance(payload.get("data"), str):
        entry = {**payload, "id": point_id if isinstance(point_id, str | int) else row_id}
        kinds = (str, int, float, bool, list, dict)
        metadata = {
            str(key): value
            for key, value in payload.items()
            if key not in _KEYS and isinstance(value, kinds)
        }
        yield _note(payload["data"], entry, metadata)


def _note(text: str, entry: Mapping[str, Any], metadata: Any) -> Item:
    key = str(entry.get("id") or "")
    title = convert.title_of(text)
    if not title:
        return SkippedItem(f"the memory {key}", "its text is empty")
    categories = entry.get("categories")
    listed = categories if isinstance(categories, list) else [categories] if categories else []
    header: dict[str, Any] = {
        "title": title,
        "memory_type": "fact",
        "tags": _tags(listed),
        "created": convert.parsed_time(entry.get("created_at")),
        "modified": convert.parsed_time(entry.get("updated_at") or entry.get("created_at")),
        **{name: entry[name] for name in _OWN_KEYS if isinstance(entry.get(name), str)},
    }
    if isinstance(metadata, dict) and metadata:
        written = json.dumps(metadata, ensure_ascii=False, sort_keys=True, default=str)
        header["metadata"] = written
    key = key or f"{title} {zlib.crc32(text.encode('utf-8', 'replace')):08x}"
    return ImportedNote(key, note_path(title), text, header)


def _tags(categories: list[Any]) -> list[str]:
    """Return the valid tags among categories."""
    tags: list[str] = []
    for category in categories:
        if isinstance(category, str):
            with contextlib.suppress(UsageError):
                tags += create.clean_tags([convert.tag(category)])
    return tags
