"""Import of ``memory.jsonl``, the knowledge graph of the MCP reference server "memory".

Each line is an entity with a name, a type and observations, or a relation between two entities; see
the server's README in github.com/modelcontextprotocol/servers, src/memory. An entity becomes a note
named as it is, with a list of observations and a list of relations as links.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, records, values
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source

_MARKS = (b'"type":"entity"', b'"type":"relation"')


def recognise(source: Source) -> int:
    """Return ``SURE`` if a file's first line is an entity or a relation."""
    return SURE if claims(source) else NO


def claims(source: Source) -> list[str]:
    """Return the files whose first line is an entity or a relation."""
    found = []
    for name in source.named(".jsonl", ".json"):
        first = source.head(name).partition(b"\n")[0].replace(b" ", b"")
        if any(mark in first for mark in _MARKS):
            found.append(name)
    return found


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each entity, in the order of the file."""
    found = claims(source)
    if not found:
        return
    name, *others = found
    for other in others:
        yield Unreadable(other, "another knowledge graph: import it by itself")
    relations: dict[str, list[str]] = defaultdict(list)
    for _, entry in json_source.lines(source, name):
        if isinstance(entry, dict) and entry.get("type") == "relation":
            begin, end = str(entry.get("from", "")), str(entry.get("to", ""))
            kind = str(entry.get("relationType") or "related to")
            relations[begin].append(f"- {kind} [[import:{end}|{end}]]")
    for line, entry in json_source.lines(source, name):
        if isinstance(entry, str):
            yield Unreadable(f"{name}, line {line}", entry)
        elif entry.get("type") == "entity" and values.text(entry.get("name")).strip():
            found = relations.pop(entry["name"], [])
            yield from records.items_of(f"{name}, line {line}", _note, entry, found)
        elif entry.get("type") != "relation":
            yield Unreadable(f"{name}, line {line}", "neither an entity nor a relation")
    for begin in relations:
        yield Unreadable(f"{name}, the relations of {begin}", "there is no entity of that name")


def _note(entry: dict[str, Any], relations: list[str]) -> ImportedNote:
    name = " ".join(entry["name"].split())
    kind = str(entry.get("entityType") or "")
    observations = entry.get("observations")
    lines = [f"- {text}" for text in observations] if isinstance(observations, list) else []
    parts = ["\n".join(lines)] if lines else []
    if relations:
        parts.append("## Relations\n\n" + "\n".join(relations))
    tags = [values.tag(kind)] if kind.strip() else []
    header = {"title": name, "tags": tags, "entity_type": kind}
    return ImportedNote(name, note_path(name), "\n\n".join(parts), header, (entry["name"],))
