"""Import a decrypted backup of Standard Notes.

The zip has ``Standard Notes Backup and Import File.txt``, an object with ``items``: notes, tags and
other items with ``uuid``, ``content_type``, ``content`` and times. The note type defines the format
of the text. ``Items/`` contains copies (format 004; source: packages/web and packages/features).
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, html_markdown, json_source, plain_text, records
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.lexical import LexicalDocument
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_NAMED = "standard notes backup"
_SIGNS = (b'"items"', b'"content_type"')
_MAX_SNIFFED, _SNIFFED = 20, 1 << 16
_MAX_DEPTH = 20
_ENCRYPTED = "number of encrypted items: {}; export a decrypted backup in Preferences, Backups"
_AUTHENTICATOR = "an authenticator note: its keys are secrets and are not imported"
_UUID = lazy_pattern(r"[\w-]{1,100}")
_FLAGS = ("pinned", "archived", "protected", "starred")
_EDITORS = {
    "code-editor": "code",
    "code-pro": "code",
    "bold-editor": "rich-text",
    "plus-editor": "rich-text",
    "token-vault": "authentication",
    "spreadsheets": "spreadsheet",
    "standard-sheets": "spreadsheet",
    "simple-task-editor": "task",
    "advanced-checklist": "task",
    "super-editor": "super",
}
"""Note types by the last part of the editor's identifier."""
_USED = frozenset(
    "title text references appData noteType editorIdentifier trashed conflict_of preview_plain "
    "preview_html hidePreview spellcheck locked editorWidth prefersPlainEditor "
    "mobilePrefersPlainEditor".split()
).union(_FLAGS)
_LATEST = "1970-01-02"
"""Items dated before this day were never synced."""


def _files(source: Source) -> list[str]:
    names = source.with_endings(".txt", ".json")
    named = [name for name in names if _NAMED in posixpath.basename(name).lower()]
    for name in named or names[:_MAX_SNIFFED]:
        head = source.head(name, _SNIFFED)
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and all(
            sign in head for sign in _SIGNS
        ):
            return [name]
    return []


def claims(source: Source) -> Collection[str]:
    """Return the backup, and the copies of its items."""
    backups = _files(source)
    folders = tuple(posixpath.join(posixpath.dirname(name), "Items/") for name in backups)
    return [*backups, *(name for name in source.names if folders and name.startswith(folders))]


def read(source: Source) -> Iterator[Item]:
    """Yield the notes outside the trash, and a ``SkippedItem`` for each uploaded file."""
    for name in _files(source):
        backup = _Backup(source)
        encrypted = 0
        for entry in json_source.array_items(source, name, "items"):
            if isinstance(entry, dict):
                records.convert_record(name, backup.add, entry)
        for item in json_source.objects(source, name, "items"):
            if isinstance(item, SkippedItem):
                yield item
            elif isinstance(item[1].get("content"), str):
                encrypted += 1
            else:
                yield from records.convert_record(item[0], backup.items, *item)
        if encrypted:
            yield SkippedItem(name, _ENCRYPTED.format(encrypted))


class _Backup:
    """Converts the items of a backup, with their titles and nested tags."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen: Counter[str] = Counter()
        self._titles: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self._tags_of: dict[str, list[str]] = {}

    def add(self, entry: dict[str, Any]) -> None:
        """Add the title or tag of an item, in a first pass."""
        item_id, kind, content = _parts(entry)
        if not item_id or entry.get("deleted"):
            return
        if kind in ("Note", "Tag", "File"):
            self._titles[item_id] = convert.one_line(content.get("title") or content.get("name"))
        if kind == "Tag":
            for reference in convert.objects_at(content, "references"):
                other = convert.text(reference.get("uuid"))
                if reference.get("content_type") == "Tag":
                    self._parents[item_id] = other
                else:
                    self._tags_of.setdefault(other, []).append(item_id)

    def items(self, location: str, entry: dict[str, Any]) -> Iterator[Item]:
        """Convert and count an item."""
        counts = self._source.counts
        item_id, kind, content = _parts(entry)
        if entry.get("deleted") or content.get("trashed"):
            counts.omitted(f"{kind.lower()} in the trash")
        elif kind == "Tag":
            counts.converted("tag")
        elif kind == "File":
            counts.omitted("file")
            title = convert.one_line(content.get("name")) or location
            yield SkippedItem(title, "backups do not include files: download it in Standard Notes")
        elif kind != "Note":
            counts.omitted(f"item {kind}")
        elif not item_id:
            yield SkippedItem(location, "a note without an id")
        else:
            yield from self._note(item_id, entry, content)

    def _note(self, item_id: str, entry: dict[str, Any], content: dict[str, Any]) -> Iterator[Item]:
        title = convert.one_line(content.get("title")) or "Untitled"
        text = convert.text(content.get("text"))
        kind = _type_of(content, text)
        if kind == "authentication":
            yield SkippedItem(title, _AUTHENTICATOR)
            return
        self._source.counts.unused_properties("note", content, _USED)
        key = convert.unique_key(item_id, self._seen)
        document = LexicalDocument(self._source.counts, key, self._titles)
        if kind == "super":
            root = json_source.parse(text or '{"root": {}}')
            text = document.markdown(root["root"])
            yield from document.files
        else:
            text = _markdown(text, kind)
        links = [
            convert.id_link(other, self._titles[other])
            for other in self._linked(content)
            if other not in document.linked
        ]
        linked = f"Linked notes: {', '.join(links)}" if links else ""
        text = "\n\n".join(filter(None, [text, linked]))
        tags = [self._tag(tag) for tag in self._tags_of.get(item_id, ())]
        program_data = convert.object_at(
            convert.object_at(content, "appData"), "org.standardnotes.sn"
        )
        tags += [flag for flag in _FLAGS if content.get(flag) or program_data.get(flag)]
        tags += ["conflict"] if content.get("conflict_of") else []
        header = {
            "title": title,
            "tags": list(dict.fromkeys(filter(None, tags))),
            "created": _time(entry.get("created_at")),
            "modified": _time(program_data.get("client_updated_at"))
            or _time(entry.get("updated_at")),
        }
        self._source.counts.converted(f"{kind} note")
        yield ImportedNote(
            key, note_path(title), convert.protect_first_line(text), header, (item_id,)
        )

    def _linked(self, content: dict[str, Any]) -> Iterator[str]:
        """Yield the ids of the notes that a note links to."""
        for reference in convert.objects_at(content, "references"):
            other = convert.text(reference.get("uuid"))
            if reference.get("content_type") == "Note" and self._titles.get(other):
                yield other

    def _tag(self, tag: str) -> str:
        """Return the full name of a nested tag."""
        names: list[str] = []
        while tag and len(names) < _MAX_DEPTH:
            names.insert(0, convert.tag(self._titles.get(tag, "")))
            tag = self._parents.get(tag, "")
        return "/".join(filter(None, names))


def _parts(entry: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return an item's id, type and content."""
    item_id = convert.text(entry.get("uuid"))
    kind = convert.text(entry.get("content_type"))
    return item_id if _UUID.fullmatch(item_id) else "", kind, convert.object_at(entry, "content")


def _time(value: object) -> str:
    time = convert.parsed_time(value)
    return time if time >= _LATEST else ""


def _type_of(content: dict[str, Any], text: str) -> str:
    """Return the type of a note, or a guess from its editor and text."""
    kind = convert.text(content.get("noteType"))
    if kind in ("", "unknown"):
        editor = convert.text(content.get("editorIdentifier")).rpartition(".")[2]
        kind = "markdown" if "markdown" in editor else _EDITORS.get(editor, kind)
    start = text[:200]
    if start.startswith('{"root":{'):
        return "super"
    is_secret = start.startswith("[{") and '"secret"' in text and '"service"' in text
    return "authentication" if is_secret else kind or "plain-text"


def _markdown(text: str, kind: str) -> str:
    """Convert the text of a note to markdown."""
    if kind == "markdown":
        return text
    if kind == "rich-text":
        return html_markdown.markdown(text)
    if kind == "code":
        return plain_text.fenced(text)
    if kind == "task":
        return _tasks(text)
    if kind == "spreadsheet":
        return _tables(text)
    return plain_text.escaped(text)


def _tasks(text: str) -> str:
    """Convert a checklist: JSON from the newer editor, or markdown from the older one."""
    if not text.lstrip().startswith("{"):
        return text
    parts = []
    for group in convert.objects_at(json_source.parse(text), "groups"):
        tasks = "\n".join(
            convert.task(convert.one_line(task.get("description")), bool(task.get("completed")))
            for task in convert.objects_at(group, "tasks")
        )
        name = plain_text.escaped(convert.one_line(group.get("name")), is_line=True)
        parts += [f"## {name}", tasks]
    return "\n\n".join(filter(None, parts))


def _tables(text: str) -> str:
    """Convert the sheets of a spreadsheet to tables."""
    parts, cells = [], 0
    for sheet in convert.objects_at(json_source.parse(text or "{}"), "sheets"):
        rows = [
            {
                cell["index"]: plain_text.escaped(convert.one_line(cell.get("value")), is_line=True)
                for cell in convert.objects_at(row, "cells")
                if isinstance(cell.get("index"), int) and 0 <= cell["index"] < plain_text.MAX_CELLS
            }
            for row in convert.objects_at(sheet, "rows")
        ]
        width = max((max(row, default=-1) + 1 for row in rows), default=0)
        cells += width * len(rows)
        if cells > plain_text.MAX_CELLS:
            raise ValueError(plain_text.TOO_MANY_CELLS)
        table = plain_text.table([row.get(index, "") for index in range(width)] for row in rows)
        name = plain_text.escaped(convert.one_line(sheet.get("name")), is_line=True)
        parts += [f"## {name}" if name else "", table]
    return "\n\n".join(filter(None, parts))
