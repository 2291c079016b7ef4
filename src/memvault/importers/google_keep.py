"""Import of Google Keep from Google Takeout: ``Keep/*.json`` and the files of the notes.

A note is a JSON object with ``title``, ``textContent`` or ``listContent``, ``labels``,
``attachments``, ``annotations`` with links, and times in microseconds (Takeout of November 2026).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from memvault.importers import folder, html_markdown, json_source, values
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_SIGN = b'"userEditedTimestampUsec"'
_LIST_MARK = lazy_pattern(r"\A\s*(?:- )?(?:\[[ x]\] )?")
_MAX_SNIFFED = 20
_MAX_TITLE = 60


def recognise(source: Source) -> int:
    """Return ``SURE`` if one of the first JSON files is a note of Keep."""
    names = source.named(".json")[:_MAX_SNIFFED]
    return SURE if any(_SIGN in source.head(name, 1 << 16) for name in names) else NO


def read(source: Source) -> Iterator[Item]:
    """Yield the notes, without those in the trash, and the files that they have."""
    files: set[str] = set()
    for name in source.named(".json"):
        try:
            note = json_source.read_object(source, name)
            if _SIGN.strip(b'"').decode() in note and not note.get("isTrashed"):
                yield _note(source, name, note)
                files |= {path for path in _files(source, name, note) if path in source.name_set}
        except (OSError, ValueError) as error:
            yield Unreadable(name, json_source.reason_of(error))
    for path in sorted(files):
        yield folder.attachment(source, path)


def _objects(note: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in a list of a note."""
    entries = note.get(key)
    listed = entries if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def _files(source: Source, name: str, note: dict[str, Any]) -> list[str]:
    """Return the paths of a note's files; Takeout names a JPEG .jpeg that it writes as .jpg."""
    found = []
    for entry in _objects(note, "attachments"):
        path = posixpath.join(posixpath.dirname(name), str(entry.get("filePath", "")))
        stem, suffix = posixpath.splitext(path)
        variants = (path, f"{stem}.jpg" if suffix == ".jpeg" else f"{stem}.jpeg")
        found.append(next((way for way in variants if way in source.name_set), path))
    return found


def _note(source: Source, name: str, note: dict[str, Any]) -> ImportedNote:
    html = note.get("textContentHtml")
    text = str(note.get("textContent") or "")
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
    embeds = [f"![[{path}]]" for path in _files(source, name, note)]
    parts = [text.strip(), "\n".join(items), "\n".join(links), "\n".join(embeds)]
    first = next((line for line in "\n".join(parts).splitlines() if line.strip(" -[]x")), "Note")
    title = " ".join(str(note.get("title") or _LIST_MARK.sub("", first)).split())[:_MAX_TITLE]
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
