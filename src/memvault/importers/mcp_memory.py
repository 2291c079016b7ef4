"""Import ``memory.jsonl``, the knowledge graph of the MCP reference server "memory".

Each line is an entity with a name, type and observations, or a relation between two entities
(github.com/modelcontextprotocol/servers, src/memory). An entity becomes a note with its name, a
list of observations, and a list of relations as links.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from memvault.importers import convert, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source

_ENTITY_KEYS = frozenset(("type", "name", "entityType", "observations"))
_RELATION_KEYS = frozenset(("type", "from", "to", "relationType"))
_MARKS = (b'"type":"entity"', b'"type":"relation"')


def claims(source: Source) -> list[str]:
    """Return the files whose first line is an entity or a relation."""
    graphs = []
    for name in source.with_endings(".jsonl", ".json"):
        first = source.head(name).partition(b"\n")[0].replace(b" ", b"")
        if any(mark in first for mark in _MARKS):
            graphs.append(name)
    return graphs


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each entity, in the order of the file."""
    graphs = claims(source)
    if not graphs:
        return
    name, *others = graphs
    for other in others:
        yield SkippedItem(other, "another knowledge graph: import it separately")
    relations = _relations(source, name)
    seen: Counter[str] = Counter()
    for line in json_source.json_lines(source, name):
        if isinstance(line, SkippedItem):
            yield line
            continue
        where, entry = line
        if entry.get("type") == "entity" and convert.text(entry.get("name")).strip():
            graphs = relations.pop(entry["name"], [])
            yield from records.convert_record(where, _note, entry, graphs, seen, source.counts)
        elif entry.get("type") == "relation":
            source.counts.converted("relation")
            source.counts.unused_properties("relation", entry, _RELATION_KEYS)
        else:
            yield SkippedItem(where, "neither an entity nor a relation")
    for begin in relations:
        yield SkippedItem(f"{name}, the relations of {begin}", "there is no such entity")


def _relations(source: Source, name: str) -> dict[str, list[str]]:
    """Return the relations of each entity as list items."""
    relations: dict[str, list[str]] = defaultdict(list)
    for line in json_source.json_lines(source, name):
        entry = {} if isinstance(line, SkippedItem) else line[1]
        if entry.get("type") == "relation":
            begin, end = str(entry.get("from", "")), str(entry.get("to", ""))
            kind = str(entry.get("relationType") or "related to")
            relations[begin].append(f"- {kind} [[import:{end}|{end}]]")
    return relations


def _note(
    entry: dict[str, Any], relations: list[str], seen: Counter[str], counts: ContentCounts
) -> ImportedNote:
    name = " ".join(entry["name"].split())
    kind = str(entry.get("entityType") or "")
    texts = convert.list_at(entry, "observations")
    lines = [
        f"- {text}" if "\n" not in text else "- " + text.replace("\n", "\n  ")
        for text in texts
        if isinstance(text, str)
    ]
    counts.converted("entity")
    counts.converted("observation", len(lines))
    counts.omitted("observation without text", len(texts) - len(lines))
    counts.unused_properties("entity", entry, _ENTITY_KEYS)
    parts = ["\n".join(lines)] if lines else []
    if relations:
        parts.append("## Relations\n\n" + "\n".join(relations))
    tags = [convert.tag(kind)] if kind.strip() else []
    header = {"title": name, "tags": tags, "entity_type": kind}
    key = convert.unique_key(name, seen)
    return ImportedNote(key, note_path(name), "\n\n".join(parts), header, (entry["name"],))
