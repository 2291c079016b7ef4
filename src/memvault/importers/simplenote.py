"""Import Simplenote's export: ``source/notes.json`` in its zip.

The file has ``activeNotes`` and ``trashedNotes``: objects with ``content``, whose first line is the
title; ``markdown`` if the text is markdown; ``tags`` and times. The ``.txt`` files in the zip are
copies (desktop program 2.23, lib/utils/export).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, json_source, plain_text, records
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault.markdown import replace_outside_code

_SIGN = b'"activeNotes"'
_NAME = "notes.json"
_LINK = lazy_pattern(
    r"\[([^\[\]\n]*)\]\(simplenote://note/([\w.~%-]+)\)|simplenote://note/([\w.~-]+)"
)
_TASK = lazy_pattern(r"([ \t]*[-*+] \[[ xX]\])(?:[ \t]+|\Z)")
_HEADING = lazy_pattern(r"\A#++[ \t]++")
_MARK = "\ue000"
"""A placeholder for a link while the text is escaped; a private-use character."""
_MAX_TITLE = 100
_USED = frozenset(
    "id content creationDate lastModified markdown pinned tags publicURL systemTags deleted".split()
)


def _files(source: Source) -> list[str]:
    names = (
        name for name in source.with_endings(_NAME) if posixpath.basename(name).lower() == _NAME
    )
    return [name for name in names if _SIGN in source.head(name)]


def claims(source: Source) -> Collection[str]:
    """Return the note files, and the copies."""
    note_files = _files(source)
    folders = {posixpath.dirname(posixpath.dirname(name)) for name in note_files}
    folders |= {posixpath.join(folder, "trash") for folder in folders}
    copies = (name for name in source.with_endings(".txt") if posixpath.dirname(name) in folders)
    return [*note_files, *copies]


def read(source: Source) -> Iterator[Item]:
    """Yield the notes, except those in the trash."""
    seen: Counter[str] = Counter()
    for name in _files(source):
        notes = json_source.objects(source, name, "activeNotes")
        yield from records.convert_each(notes, _note, source, seen)
        for _ in json_source.array_items(source, name, "trashedNotes"):
            source.counts.omitted("note in the trash")


def _note(
    location: str, entry: dict[str, Any], source: Source, seen: Counter[str]
) -> ImportedNote | SkippedItem:
    content = entry.get("content")
    if not isinstance(content, str):
        return SkippedItem(location, "a note without text")
    source.counts.unused_properties("note", entry, _USED)
    source.counts.converted("note")
    text = content.replace("\r\n", "\n").replace("\r", "\n").replace(_MARK, "")
    flags = _texts(entry, "systemTags")
    is_markdown = bool(entry.get("markdown")) or "markdown" in flags
    first = next(filter(str.strip, text.split("\n")), "")
    title = convert.one_line(_HEADING.sub("", first, 1) if is_markdown else first)[:_MAX_TITLE]
    tags = [convert.tag(tag) for tag in _texts(entry, "tags")]
    if entry.get("pinned") or "pinned" in flags:
        tags.append("pinned")
    header = {
        "title": title.strip() or "Untitled",
        "tags": [tag for tag in tags if tag],
        "created": convert.parsed_time(entry.get("creationDate")),
        "modified": convert.parsed_time(entry.get("lastModified")),
        "source": convert.text(entry.get("publicURL")),
    }
    key = convert.text(entry.get("id")) or f"{header['created']} {title}"
    text = replace_outside_code(_LINK, _link, text) if is_markdown else _plain(text)
    unique_key = convert.unique_key(key, seen)
    return ImportedNote(
        unique_key,
        note_path(str(header["title"])),
        convert.protect_first_line(text),
        header,
        (key,),
    )


def _texts(entry: dict[str, Any], key: str) -> list[str]:
    return [text for text in convert.list_at(entry, key) if isinstance(text, str)]


def _link(match: re.Match[str]) -> str:
    shown = match[1] if match[3] is None else ""
    return convert.id_link(match[2] or match[3], shown, match)


def _plain(text: str) -> str:
    """Escape plain text, but leave tasks and links to notes as they are."""
    links = map(_link, _LINK.finditer(text))
    lines: list[str] = []
    is_after_task = False
    for line in _LINK.sub(_MARK, text).split("\n"):
        task = _TASK.match(line)
        if is_after_task and task is None and line.strip():
            lines.append("")  # the next line is not part of the task
        is_after_task = task is not None
        rest = plain_text.escaped(line[task.end() :] if task else line)
        lines.append(f"{task[1]} {rest}" if task else rest)
    return re.sub(_MARK, lambda _: next(links), "\n".join(lines)).strip("\n")
