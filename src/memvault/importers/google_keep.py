"""Import of Google Keep from Google Takeout: ``Keep/*.json`` and the files of the notes.

A note is a JSON object with ``title``, ``textContent`` or ``listContent``, ``labels``,
``attachments``, ``annotations`` with links, and times in microseconds (Takeout of November 2026).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from memvault.importers import folder, html_markdown, json_source, records, values
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_SIGN = b'"userEditedTimestampUsec"'
_NOTE_KEYS = frozenset("userEditedTimestampUsec textContent textContentHtml listContent".split())
"""Keys of which each note has at least one."""
_LIST_MARK = lazy_pattern(r"\A\s*(?:- )?(?:\[[ x]\] )?")
_MAX_SNIFFED = 20
_MAX_TITLE = 60


def recognise(source: Source) -> int:
    """Return ``SURE`` if one of the first JSON files is a note of Keep."""
    names = source.named(".json")[:_MAX_SNIFFED]
    return SURE if any(_SIGN in source.head(name, 1 << 16) for name in names) else NO


def read(source: Source) -> Iterator[Item]:
    """Yield the notes, without those in the trash, and the files that they have.

    A folder with notes has no other JSON files; elsewhere in Takeout these are other programs'.
    """
    files: set[str] = set()
    folders: set[str] = set()
    others: list[str] = []
    for name in source.named(".json"):
        try:
            note = json_source.read_object(source, name)
            if _NOTE_KEYS.isdisjoint(note):
                others.append(name)
                continue
        except (OSError, ValueError) as error:
            yield Unreadable(name, records.reason_of(error))
            continue
        folders.add(posixpath.dirname(name))
        if not note.get("isTrashed"):
            attached = list(_attached(source, name, note))
            paths = [path for path in attached if isinstance(path, str)]
            yield from records.items_of(name, _note, name, note, paths)
            yield from (item for item in attached if isinstance(item, Unreadable))
            files.update(paths)
    for name in others:
        if posixpath.dirname(name) in folders:
            yield Unreadable(name, "no note of Keep")
    for path in sorted(files):
        yield folder.attachment(source, path)


def _objects(note: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in a list of a note."""
    entries = note.get(key)
    listed = entries if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def _attached(source: Source, name: str, note: dict[str, Any]) -> Iterator[str | Unreadable]:
    """Yield the paths of a note's files; Takeout names a JPEG .jpeg that it writes as .jpg."""
    for entry in _objects(note, "attachments"):
        given = values.text(entry.get("filePath"))
        stem, suffix = posixpath.splitext(posixpath.join(posixpath.dirname(name), given))
        path, other = stem + suffix, f"{stem}.jpg" if suffix == ".jpeg" else f"{stem}.jpeg"
        if given.startswith("/") or ".." in given.split("/"):
            yield Unreadable(f"{name}, {given}", "its path leads out of the folder")
        elif path in source.name_set or other in source.name_set:
            yield path if path in source.name_set else other
        else:
            yield Unreadable(f"{name}, {given or 'a file'}", "the export lacks the file")


def _note(name: str, note: dict[str, Any], files: list[str]) -> ImportedNote:
    html = note.get("textContentHtml")
    text = values.text(note.get("textContent"))
    if not text and isinstance(html, str):
        text = html_markdown.markdown(html)
    items = [
        f"- [{'x' if entry.get('isChecked') else ' '}] {values.line(entry.get('text'))}"
        for entry in _objects(note, "listContent")
    ]
    links = [
        f"- [{values.line(entry.get('title') or entry['url'])}]({entry['url']})"
        for entry in _objects(note, "annotations")
        if str(entry.get("url", "")).startswith(("http:", "https:"))
    ]
    embeds = [f"![[{path}]]" for path in files]
    parts = [text.strip(), "\n".join(items), "\n".join(links), "\n".join(embeds)]
    first = next((line for line in "\n".join(parts).splitlines() if line.strip(" -[]x")), "Note")
    named = values.text(note.get("title")) or _LIST_MARK.sub("", first)
    title = " ".join(named.split())[:_MAX_TITLE]
    tags = [values.tag(values.line(label.get("name"))) for label in _objects(note, "labels")]
    tags += [flag for flag in ("pinned", "archived") if note.get(f"is{flag.title()}")]
    header = {
        "title": title,
        "tags": [tag for tag in tags if tag],
        "created": values.time_of(note.get("createdTimestampUsec"), 1e-6),
        "modified": values.time_of(note.get("userEditedTimestampUsec"), 1e-6),
    }
    text = "\n\n".join(part for part in parts if part)
    return ImportedNote(posixpath.basename(name), note_path(title), text, header)
