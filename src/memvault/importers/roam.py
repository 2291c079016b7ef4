"""Import of Roam Research's export as JSON.

The file is an array of pages with a ``title`` and nested ``children``, blocks with a ``string`` and
a ``uid``; ``((uid))`` refers to a block (export of November 2026). EDN is not read: Roam exports
the same as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, records, values
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, POSSIBLE, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.markdown import replace_outside_code

_REFERENCE = lazy_pattern(r"\(\(([\w-]{9,12})\)\)")
_TASK = lazy_pattern(r"\{\{\[?\[?(TODO|DONE)\]?\]?\}\}[ \t]*")
_DAY = lazy_pattern(r"([A-Z][a-z]+) (\d{1,2})(?:st|nd|rd|th), (\d{4})")
_HIGHLIGHT = lazy_pattern(r"\^\^([^^\n]+)\^\^")
_ITALIC = lazy_pattern(r"(?<!_)__([^_\n]+)__(?!_)")
_TAG = lazy_pattern(r"#\[\[([^\[\]\n]+)\]\]")
_MAX_DEPTH = 200
_MONTHS = (
    "January February March April May June July August September October November December"
).split()


def recognise(source: Source) -> int:
    """Return ``SURE`` for a JSON array of pages; ``POSSIBLE`` for an export as EDN."""
    if _files(source):
        return SURE
    return (
        POSSIBLE if any(b"datascript" in source.head(name) for name in source.named(".edn")) else NO
    )


def _files(source: Source) -> list[str]:
    found = []
    for name in source.named(".json"):
        head = source.head(name).lstrip()
        is_array = head[:1] == b"[" and b'"title"' in head
        if is_array and b'"children"' in head and b'"string"' in source.head(name, 1 << 16):
            found.append(name)
    return found


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each page."""
    name, *others = _files(source) or [""]
    if not name:
        for edn in source.named(".edn"):
            yield Unreadable(edn, "EDN is not read: export the graph as JSON")
        return
    for other in others:
        yield Unreadable(other, "another graph: import it by itself")
    blocks: dict[str, str] = {}
    for page in json_source.array_items(source, name):
        if isinstance(page, dict):
            records.items_of(name, _collect, page, blocks, 0)
    for found in json_source.objects(source, name):
        if isinstance(found, Unreadable):
            yield found
        elif values.text(found[1].get("title")).strip():
            yield from records.items_of(found[0], _page, found[1], blocks)
        else:
            yield Unreadable(found[0], "a page without a title")


def _children(node: dict[str, Any]) -> list[dict[str, Any]]:
    children = node.get("children")
    return (
        [child for child in children if isinstance(child, dict)]
        if isinstance(children, list)
        else []
    )


def _collect(node: dict[str, Any], blocks: dict[str, str], depth: int) -> None:
    """Collect the text of each block that can be referred to."""
    if depth < _MAX_DEPTH:
        for child in _children(node):
            blocks[str(child.get("uid", ""))] = str(child.get("string", ""))[:300]
            _collect(child, blocks, depth + 1)


def _page(page: dict[str, Any], blocks: dict[str, str]) -> ImportedNote:
    title = " ".join(page["title"].split())
    lines: list[str] = []
    _write(page, blocks, 0, lines)
    day = _DAY.fullmatch(title)
    name = title
    if day and day[1] in _MONTHS:
        name = f"{day[3]}-{_MONTHS.index(day[1]) + 1:02}-{int(day[2]):02}"
    header: dict[str, Any] = {
        "title": title,
        "created": values.time_of(page.get("create-time"), 1e-3),
        "modified": values.time_of(page.get("edit-time"), 1e-3),
    }
    path = note_path(name, *(("daily",) if day else ()))
    key = str(page.get("uid") or title)
    return ImportedNote(key, path, "\n".join(lines), header, (title,))


def _write(node: dict[str, Any], blocks: dict[str, str], depth: int, lines: list[str]) -> None:
    """Append the blocks below a node as items of a list, or headings at the top."""
    if depth >= _MAX_DEPTH:
        return
    for child in _children(node):
        text = _text(str(child.get("string", "")), blocks)
        level = child.get("heading")
        if depth == 0 and isinstance(level, int) and 1 <= level <= 3:
            lines += ["", f"{'#' * (level + 1)} {text}", ""]
            _write(child, blocks, 0, lines)
            continue
        indent = "  " * depth
        first, *others = text.split("\n")
        lines.append(f"{indent}- {first}")
        lines += [f"{indent}  {line}" for line in others]
        _write(child, blocks, depth + 1, lines)


def _text(string: str, blocks: dict[str, str]) -> str:
    """Return a block's text as markdown."""
    text = string
    for pattern, written in (
        (_REFERENCE, lambda match: f"“{blocks[match[1]]}”" if match[1] in blocks else match[0]),
        (_TASK, lambda match: f"[{'x' if match[1] == 'DONE' else ' '}] "),
        (_HIGHLIGHT, lambda match: f"=={match[1]}=="),
        (_ITALIC, lambda match: f"*{match[1]}*"),
        (_TAG, lambda match: f"#{'-'.join(match[1].split())}"),
    ):
        text = replace_outside_code(pattern, written, text)
    return text
