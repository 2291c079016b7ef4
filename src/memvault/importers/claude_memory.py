"""Import Claude's memory files: ``CLAUDE.md``, auto memory, and folders of the memory tool.

Auto memory is ``~/.claude/projects/PROJECT/memory/*.md`` with ``name``, ``description`` and
``type`` in each header (Claude Code 2.1, https://code.claude.com/docs/en/memory). The memory tool
stores text files in a folder ``memories`` (docs.claude.com, tool memory_20250818).
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator

from memvault.importers import convert, folder
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item
from memvault.importers.source import Source
from memvault.vault.document import Document

_INSTRUCTIONS = ("claude.md", "claude.local.md")
_INDEX = "MEMORY.md"
_HOME, _MEMORIES = ".claude", "memories"
_FOLDERS = frozenset({_HOME, _MEMORIES})
_MAX_SNIFFED = 20
_PROGRAM_FOLDERS = frozenset(
    "agents cache commands debug file-history hooks ide output-styles plugins session-env "
    "shell-snapshots skills statsig tasks teams telemetry todos".split()
)
"""Folders of ``~/.claude`` without memories."""
_PROGRAM_FILES = ("settings.json", "settings.local.json", "history.jsonl", "stats-cache.json")
_TEXTS = (".md", ".txt", ".xml", ".json", ".yaml", ".yml")
_TYPES = {
    "user": "user-preference",
    "feedback": "user-preference",
    "project": "project-preference",
    "reference": "context",
}


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` for ``CLAUDE.md`` alone, auto memory, or a folder ``memories``."""
    names = _memories(source)
    if len(source.names) == 1:
        return Confidence.sure_if(source.names[0].lower() in _INSTRUCTIONS)
    if not _FOLDERS.isdisjoint(_folder_names(source)):
        return Confidence.sure_if(names)
    return Confidence.sure_if(any(posixpath.basename(name) == _INDEX for name in names))


def _folder_names(source: Source) -> tuple[str, str]:
    return source.path.name, source.label


def claims(source: Source) -> set[str]:
    """Return the memory files, and other files in ``~/.claude``."""
    memories = _memories(source)
    is_home = _HOME in _folder_names(source)
    others = [
        name
        for name in source.names
        if name.partition("/")[0] in _PROGRAM_FOLDERS or name in _PROGRAM_FILES
    ]
    return {*memories, *(others if is_home else ())}


def _memories(source: Source) -> list[str]:
    """Return the instruction, auto-memory and rule files, and the files in ``memories``."""
    names = source.with_endings(*_TEXTS)
    if len(source.names) == 1 or _MEMORIES in _folder_names(source):
        return names
    notes: dict[str, list[str]] = {}
    for name in source.with_endings(".md"):
        notes.setdefault(posixpath.dirname(name), []).append(name)
    indexed = {
        folder_name
        for folder_name, beside in notes.items()
        if _is_auto_memory(source, folder_name, beside)
    }
    home = f"/{_HOME}/" if _HOME in _folder_names(source) else "/"
    return [name for name in names if _is_memory(name, indexed, home)]


def _is_memory(name: str, indexed: Collection[str], home: str) -> bool:
    """Return whether a file is a memory; ``indexed`` contains the folders of auto memory."""
    *folders, file = name.split("/")
    path = f"{home}{name}"
    if file.lower() in _INSTRUCTIONS or f"/{_MEMORIES}/" in path:
        return True
    is_indexed = bool(indexed) and any(
        "/".join(folders[:depth]) in indexed for depth in range(len(folders) + 1)
    )
    return name.endswith(".md") and (is_indexed or f"/{_HOME}/rules/" in path)


def _is_auto_memory(source: Source, folder_name: str, notes: list[str]) -> bool:
    """Return whether a folder is an auto-memory folder.

    It must contain ``MEMORY.md``, and either be named ``memory`` or be made up mostly of notes with
    ``name`` and ``description`` keys.
    """
    index = f"{folder_name}/{_INDEX}" if folder_name else _INDEX
    if index not in source.name_set:
        return False
    if posixpath.basename(folder_name or source.label) == "memory":
        return True
    heads = [source.head(name) for name in notes[:_MAX_SNIFFED] if name != index]
    named = sum(b"\nname:" in head and b"\ndescription:" in head for head in heads)
    return named > 0 and named * 2 > len(heads)


def read(source: Source) -> Iterator[Item]:
    """Yield each file as a note, in a folder named after its project."""
    for name in _memories(source):
        yield from folder.convert_note(source, name, _note, source)


def _note(item: ImportedNote, source: Source) -> ImportedNote:
    name = item.key
    parts = [part for part in name.split("/") if part not in ("projects", "memory")]
    shown_path = "/".join(part.lstrip("-.") for part in parts)
    own_header = Document.parse(item.text.encode("utf-8", "replace")).header or {}
    header = dict(item.header)
    kind = own_header.get("type") or convert.object_at(own_header, "metadata").get("type")
    header["memory_type"] = _TYPES.get(str(kind), "context")
    file = parts[-1].lower()
    if file in _INSTRUCTIONS or file == "memory.md":
        where = parts[-2].lstrip("-") if len(parts) > 1 else source.path.parent.name
        header["title"] = f"{parts[-1]} of {where or source.path.name}"
        if file in _INSTRUCTIONS:
            header["memory_type"] = "conventions-pattern"
    elif own_header.get("name") and not own_header.get("title"):
        header["title"] = str(own_header["name"])
    refs = (str(own_header["name"]),) if own_header.get("name") else ()
    path = f"{shown_path.rpartition('.')[0]}.md"
    return item._replace(path=path, header=header, refs=refs)
