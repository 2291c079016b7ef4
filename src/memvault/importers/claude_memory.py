"""Import of what Claude keeps in files: ``CLAUDE.md``, its auto memory, and memory tool folders.

Auto memory is ``~/.claude/projects/PROJECT/memory/*.md`` with ``name``, ``description`` and
``type`` in each header (Claude Code 2.1, https://code.claude.com/docs/en/memory); the memory tool
keeps any text files in a folder ``memories`` (docs.claude.com, tool memory_20250818).
"""

from __future__ import annotations

from collections.abc import Iterator

from memvault.importers import folder, records
from memvault.importers.items import ImportedNote, Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.vault.document import Document

_INSTRUCTIONS = ("claude.md", "claude.local.md")
_TEXTS = (".md", ".txt", ".xml", ".json", ".yaml", ".yml")
_TYPES = {
    "user": "user-preference",
    "feedback": "user-preference",
    "project": "project-preference",
    "reference": "context",
}


def recognise(source: Source) -> int:
    """Return ``SURE`` for ``CLAUDE.md`` alone, auto memory, or a folder ``memories``."""
    if len(source.names) == 1 and source.names[0].lower() in _INSTRUCTIONS:
        return SURE
    if source.path.name in (".claude", "memories"):
        return SURE if source.named(*_TEXTS) and _names(source) else NO
    return SURE if any(f"/{name}".endswith("/MEMORY.md") for name in source.names) else NO


def _names(source: Source) -> list[str]:
    """Return the names of the files with memories."""
    names = source.named(*_TEXTS)
    if source.path.name == ".claude" or any("/memory/" in f"/{name}" for name in names):
        return [
            name
            for name in names
            if name.rpartition("/")[2].lower() in _INSTRUCTIONS
            or ("/memory/" in f"/{name}" and name.endswith(".md"))
            or (f"/{name}".startswith("/rules/") and name.endswith(".md"))
        ]
    return names


def read(source: Source) -> Iterator[Item]:
    """Yield each file as a note; a project's are in a folder of its name."""
    for name in _names(source):
        item = folder.read_file(source, name)
        if isinstance(item, Unreadable):
            yield item
        else:
            yield from records.items_of(name, _note, source, name, item)


def _note(source: Source, name: str, item: Item) -> Item:
    assert isinstance(item, ImportedNote)
    parts = [part for part in name.split("/") if part not in ("projects", "memory")]
    place = "/".join(part.lstrip("-.") for part in parts)
    own = Document.parse(item.text.encode("utf-8", "replace")).header or {}
    header = dict(item.header)
    nested = own.get("metadata")
    kind = own.get("type") or (nested.get("type") if isinstance(nested, dict) else None)
    header["memory_type"] = _TYPES.get(str(kind), "context")
    file = parts[-1].lower()
    if file in _INSTRUCTIONS or file == "memory.md":
        where = parts[-2].lstrip("-") if len(parts) > 1 else source.path.parent.name
        header["title"] = f"{parts[-1]} of {where or source.path.name}"
        if file in _INSTRUCTIONS:
            header["memory_type"] = "conventions-pattern"
    elif own.get("name") and not own.get("title"):
        header["title"] = str(own["name"])
    refs = (str(own["name"]),) if own.get("name") else ()
    path = f"{place.rpartition('.')[0]}.md"
    return item._replace(path=path, header=header, refs=refs)
