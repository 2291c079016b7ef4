"""Import Joplin's exports: JEX, a tar of items, or "RAW", a folder of items.

An item is ``ID.md``: the title, the text and a last paragraph of ``key: value`` lines; ``type_`` is
1 for a note, 2 for a notebook, 4 for a file, 5 for a tag and 6 for the assignment of a tag. Files
are ``resources/ID.ext``, links are ``:/ID`` (Joplin 3;
https://joplinapp.org/help/api/references/rest_api, and its class ``BaseItem``).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator

from memvault import clock
from memvault.importers import convert, folder, html_markdown, records
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault.markdown import replace_outside_code

_ITEM = lazy_pattern(r"(?:.*/)?([0-9a-fA-F]{32})\.md")
_FILE = lazy_pattern(r"(?:.*/)?resources/([0-9a-fA-F]{32})(?:\.[^/]*)?")
_SIGN = lazy_pattern(r"(?:\A|\n)type_: *\d+\s*\Z")
_LINK = lazy_pattern(
    r"(!?)\[([^\[\]\n]*)\]\(<?(?::/|joplin://x-callback-url/openNote\?id=)([0-9a-fA-F]{32})"
    r"(?:#[^\s()<>]*)?>?(?:[ \t]+[\"'][^\"'\n]*[\"'])?\)"
)
_IMAGE = lazy_pattern(r"<img\b[^<>]*?\bsrc=[\"']?:/([0-9a-fA-F]{32})\b[^<>]*>", re.IGNORECASE)
_MAX_SNIFFED, _SNIFFED = 20, 1 << 16
_MAX_DEPTH = 50
_NOTE, _NOTEBOOK, _RESOURCE, _TAG, _NOTE_TAG = "1", "2", "4", "5", "6"
_TYPES = {_NOTE: "note", _NOTEBOOK: "notebook", _RESOURCE: "resource", _TAG: "tag"}
_REVISION = "13"
_HTML = "2"
_USED = frozenset(
    "id parent_id type_ created_time updated_time user_created_time user_updated_time is_conflict "
    "latitude longitude altitude author source_url is_todo todo_due todo_completed "
    "markup_language encryption_applied deleted_time "
    # used only by Joplin
    "source source_application order is_shared share_id master_key_id encryption_cipher_text "
    "encryption_blob_encrypted conflict_original_id mime filename file_extension size "
    "blob_updated_time note_id tag_id ocr_status ocr_driver_id selected_folder_id".split()
)


class _JoplinItem(NamedTuple):
    """An item of an export."""

    title: str
    text: str
    properties: dict[str, str]

    def get(self, key: str) -> str:
        """Return a property; empty if it is missing or 0."""
        value = self.properties.get(key, "")
        return "" if not value.strip("0.") else value


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` if most markdown files are named by an id, and at least one has a type."""
    items = _items(source)
    if not items or len(items) * 2 <= len(source.with_endings(".md")):
        return Confidence.NO
    heads = (source.head(name, _SNIFFED) for name in items[:_MAX_SNIFFED])
    return Confidence.sure_if(any(_SIGN.search(head.decode("utf-8", "replace")) for head in heads))


def _items(source: Source) -> list[str]:
    return [name for name in source.with_endings(".md") if _ITEM.fullmatch(name)]


def claims(source: Source) -> Collection[str]:
    """Return the items and files."""
    return [*_items(source), *(name for name in source.names if _FILE.fullmatch(name))]


def read(source: Source) -> Iterator[Item]:
    """Yield the files and the notes, except those in the trash."""
    export = _JoplinExport(source)
    files = [name for name in source.names if _FILE.fullmatch(name)]
    for name in files:
        yield from records.convert_record(name, export.file, name)
    exported_ids = {str(match[1]).lower() for match in map(_FILE.fullmatch, files) if match}
    for item_id, resource in export.resources.items():
        if item_id not in exported_ids:
            yield SkippedItem(resource.title or item_id, "missing from the export")
    for name in _items(source):
        yield from records.convert_record(name, export.item, name)


def _parsed(data: bytes) -> _JoplinItem:
    """Parse an item; raises ``ValueError`` if it has no type."""
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").rstrip()
    before, _, last = text.rpartition("\n\n")
    pairs = (line.partition(":") for line in last.split("\n"))
    properties = {key.strip(): value.strip() for key, _, value in pairs}
    if not properties.get("type_"):
        raise ValueError("not a Joplin item: type_ is missing")
    title, _, body = before.partition("\n\n")
    return _JoplinItem(" ".join(title.split()), body, properties)


class _JoplinExport:
    """Converts the items of an export, with their notebooks, tags and files."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._notebooks: dict[str, _JoplinItem] = {}
        self._tags: dict[str, str] = {}
        self._tags_of: dict[str, list[str]] = {}
        self._seen: Counter[str] = Counter()
        self.resources: dict[str, _JoplinItem] = {}
        self._paths: dict[str, str] = {}
        """The id of each file by its case-folded path."""
        for name in _items(source):
            try:
                self._add(_parsed(source.read(name)))
            except (OSError, ValueError):  # reported when the items are read
                continue

    def _add(self, item: _JoplinItem) -> None:
        item_id, kind = item.properties.get("id", "").lower(), item.properties["type_"]
        if item.get("encryption_applied"):
            return
        if kind == _NOTEBOOK:
            self._notebooks[item_id] = item._replace(text="")
        elif kind == _TAG:
            self._tags[item_id] = convert.tag(item.title)
        elif kind == _RESOURCE:
            self.resources[item_id] = item._replace(text="")
        elif kind == _NOTE_TAG:
            note, tag = (item.properties.get(key, "").lower() for key in ("note_id", "tag_id"))
            self._tags_of.setdefault(note, []).append(tag)

    def file(self, name: str) -> Item:
        """Return a file, named after its item's title."""
        match = _FILE.fullmatch(name)
        assert match is not None
        item_id = match[1].lower()
        item = self.resources.get(item_id)
        base = posixpath.basename(name)
        if item is not None:
            if item.get("encryption_blob_encrypted"):
                return SkippedItem(item.title or name, _ENCRYPTED)
            title = item.title or item.properties.get("filename", "") or base
            ending = posixpath.splitext(base)[1]
            base = title if posixpath.splitext(title)[1] else title + ending
        base = base.replace("/", "-")
        variants = (base, f"{item_id[:8]}-{base}", f"{item_id}-{base}")
        path = next(
            path
            for path in (f"resources/{variant}" for variant in variants)
            if self._paths.setdefault(path.casefold(), item_id) == item_id
        )
        return folder.attachment(self._source, name, path, (item_id,))

    def item(self, name: str) -> Item | None:
        """Count an item; return its note if it is one."""
        item, counts = _parsed(self._source.read(name)), self._source.counts
        kind = item.properties["type_"]
        if item.get("encryption_applied"):
            return SkippedItem(name, _ENCRYPTED)
        if kind == _NOTE_TAG:
            return None
        if kind not in _TYPES:
            counts.omitted("revision" if kind == _REVISION else f"item of type {kind}")
            return None
        if item.get("deleted_time"):
            counts.omitted(f"{_TYPES[kind]} in the trash")
            return None
        used = {key: item.get(key) for key in item.properties if item.properties[key] != "{}"}
        counts.unused_properties(_TYPES[kind], used, _USED)
        counts.converted(_TYPES[kind])
        return self._note(name, item) if kind == _NOTE else None

    def _note(self, name: str, item: _JoplinItem) -> ImportedNote:
        match = _ITEM.fullmatch(name)
        assert match is not None
        item_id = (item.get("id") or match[1]).lower()
        tags = [self._tags[tag] for tag in self._tags_of.get(item_id, ()) if tag in self._tags]
        header = {
            "title": item.title or "Untitled",
            "tags": [*tags, "conflict"] if item.get("is_conflict") else tags,
            "created": _time(item, "user_created_time", "created_time"),
            "modified": _time(item, "user_updated_time", "updated_time"),
            "source": item.get("source_url"),
            **{key: item.get(key) for key in ("author", "latitude", "longitude", "altitude")},
        }
        text = item.text
        if item.get("markup_language") == _HTML:
            text = html_markdown.markdown(text)
        text = replace_outside_code(_IMAGE, self._embed, text)
        text = replace_outside_code(_LINK, self._link, text)
        if item.get("is_todo"):
            text = f"{_task(item)}\n\n{text}"
        path = note_path(item.title or "Untitled", *self._folders(item))
        key = convert.unique_key(item_id, self._seen)
        return ImportedNote(key, path, convert.protect_first_line(text), header, (item_id,))

    def _folders(self, item: _JoplinItem) -> list[str]:
        """Return the titles of an item's notebooks, outermost first."""
        folders: list[str] = []
        while len(folders) < _MAX_DEPTH:
            notebook = self._notebooks.get(item.properties.get("parent_id", "").lower())
            if notebook is None:
                break
            folders.insert(0, notebook.title or "Untitled")
            item = notebook
        return folders

    def _embed(self, match: re.Match[str]) -> str:
        return convert.id_link(match[1].lower(), "", match, is_embed=True)

    def _link(self, match: re.Match[str]) -> str:
        item_id = match[3].lower()
        shown = match[2]
        if not shown.strip() and item_id in self.resources:
            shown = self.resources[item_id].title
        return convert.id_link(item_id, shown, match, bool(match[1]))


_ENCRYPTED = "encrypted: turn off encryption in Joplin, and export again"


def _time(item: _JoplinItem, *keys: str) -> str:
    """Return the first of the given properties that contains a time."""
    times = (convert.parsed_time(item.get(key)) for key in keys)
    return next(filter(None, times), "")


def _task(item: _JoplinItem) -> str:
    """Return the task for a to-do item."""
    due = convert.time_of(item.get("todo_due"), 1e-3)
    day = str(clock.local(due)) if due else ""
    return convert.task(item.title or "Untitled", bool(item.get("todo_completed")), day)
