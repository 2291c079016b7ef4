"""Import Basic Memory: its folder of markdown, or its database if files are missing.

A note has a title, type and permalink in its header, observations ``- [category] text #tag`` and
relations ``- type [[Title]]`` (NOTE-FORMAT.md, version 0.16), and is imported unchanged. An entity
in ``memory.db`` becomes such a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from memvault.importers import convert, folder, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.database import SourceDatabase, databases_with, read_database
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.document import Document
from memvault.vault.markdown import replace_outside_code

_TABLES = ("entity", "observation", "relation")
_ENTITY = "id title entity_type entity_metadata permalink file_path created_at updated_at".split()
_PART = lazy_pattern(r"\n[ \t]*+- (?:(\[[^\[\]\n]{2,100}\] )|[^\[\]\n]{0,100}\[\[)")
"""Matches the start of a relation, or of an observation, with its category as group 1."""
_OBSERVATIONS = "SELECT category, content, context FROM observation WHERE entity_id = ? ORDER BY id"
_RELATIONS = """
    SELECT relation.to_id, relation.to_name, relation.relation_type, relation.context, entity.title
    FROM relation LEFT JOIN entity ON entity.id = relation.to_id
    WHERE from_id = ? ORDER BY relation.id
"""
_MAX_SNIFFED = 20
_MEMORY_URL = lazy_pattern(r"\[([^\[\]\n]{0,200})\]\(memory://([^\s()]{1,300})\)")


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` for its database, or if half of the notes have a permalink and type."""
    if databases_with(source, *_TABLES):
        return Confidence.SURE
    heads = [source.head(name) for name in _notes(source)[:_MAX_SNIFFED]]
    with_permalink = sum(b"\npermalink:" in head and b"\ntype:" in head for head in heads)
    return Confidence.sure_if(with_permalink and with_permalink * 2 >= len(heads))


def _notes(source: Source) -> list[str]:
    return [name for name in source.visible if name.lower().endswith(".md")]


def claims(source: Source) -> list[str]:
    """Return the files in a folder with notes, and the database with its journals."""
    return [*_files(source), *_database_files(source)]


def _files(source: Source) -> list[str]:
    if not _notes(source):
        return []
    database_files = frozenset(_database_files(source))
    return [name for name in source.visible if name not in database_files]


def _database_files(source: Source) -> list[str]:
    """Return the databases and their journals."""
    databases = tuple(databases_with(source, *_TABLES))
    return [name for name in source.names if databases and name.startswith(databases)]


def read(source: Source) -> Iterator[Item]:
    """Yield the notes and files in the folder, and entities of the database without a file."""
    files = _files(source)
    keys: Counter[str] = Counter()
    yield from folder.items(source, files, _note, source.counts, keys)
    parts = [file.split("/") for file in files]
    paths = {"/".join(part[start:]) for part in parts for start in range(len(part))}
    for name in databases_with(source, *_TABLES):
        yield from read_database(source, name, partial(_entities, keys, paths))


def _note(item: ImportedNote, counts: ContentCounts, keys: Counter[str]) -> ImportedNote:
    header = Document.parse(item.text.encode("utf-8", "replace")).header or {}
    permalink = convert.one_line(convert.text(header.get("permalink")))
    refs = (permalink,) if permalink else ()
    counts.converted("note")
    for category in _PART.findall(item.text):
        counts.converted("observation" if category else "relation")
    key = convert.unique_key_or(keys, permalink or item.key, item.key)  # permalinks may repeat
    return item._replace(key=key, text=_linked(item.text), refs=refs)


def _linked(text: str) -> str:
    """Convert links to ``memory://`` URLs to links to permalinks."""
    if "](memory://" not in text:
        return text
    return replace_outside_code(_MEMORY_URL, lambda url: f"[[import:{url[2]}|{url[1]}]]", text)


def _entities(
    permalinks: Collection[str],
    paths: Collection[str],
    source: Source,
    name: str,
    database: SourceDatabase,
) -> Iterator[Item]:
    """Yield the entities whose permalink and path belong to no file in the folder."""
    for entity in database.table("entity", _ENTITY, "ORDER BY id"):
        if entity.get("permalink") not in permalinks and entity.get("file_path") not in paths:
            location = f"{name}, entity {entity.get('id')}"
            yield from records.convert_record(
                location, _of_database, database, entity, source.counts
            )


def _of_database(
    database: SourceDatabase, entity: dict[str, Any], counts: ContentCounts
) -> ImportedNote:
    observations = database.rows(_OBSERVATIONS, [entity["id"]])
    relations = database.rows(_RELATIONS, [entity["id"]])
    lines = [_observation(dict(row)) for row in observations]
    links = [_relation(dict(row)) for row in relations]
    counts.converted("entity")
    counts.converted("observation", len(lines))
    counts.converted("relation", len(links))
    return _entity(entity, lines, links)


def _observation(row: dict[str, Any]) -> str:
    category = f"[{row['category']}] " if row.get("category") else ""
    context = f" ({row['context']})" if row.get("context") else ""
    return f"- {category}{convert.one_line(row.get('content'))}{context}"


def _relation(row: dict[str, Any]) -> str:
    name = convert.one_line(row.get("title") or row.get("to_name"))
    context = f" ({row['context']})" if row.get("context") else ""
    ref = row.get("to_id") or convert.label(name)
    return f"- {convert.one_line(row.get('relation_type'))} [[import:{ref}|{name}]]{context}"


def _metadata(text: Any) -> dict[str, Any]:
    """Return the additional header keys of an entity, stored as JSON."""
    return {
        key: [str(entry) for entry in value] if isinstance(value, list) else value
        for key, value in (json_source.object_in(text) or {}).items()
        if isinstance(value, str | int | float | list)
    }


def _entity(row: dict[str, Any], observations: list[str], relations: list[str]) -> ImportedNote:
    title = convert.one_line(row.get("title"))
    path = str(row.get("file_path") or f"{title}.md")
    sections = {"Observations": observations, "Relations": relations}
    body = "\n\n".join(
        f"## {name}\n\n" + "\n".join(lines) for name, lines in sections.items() if lines
    )
    header: dict[str, Any] = {
        "title": title,
        "type": str(row.get("entity_type") or ""),
        "permalink": str(row.get("permalink") or ""),
        "created": convert.parsed_time(row.get("created_at")),
        "modified": convert.parsed_time(row.get("updated_at")),
    }
    for name, value in _metadata(row.get("entity_metadata")).items():
        if name not in ("title", "type", "permalink", "created", "modified"):
            header.setdefault(name, value)
    key = str(row.get("permalink") or row["id"])
    return ImportedNote(key, path, body, header, (str(row["id"]),))
