"""Import Zotero's notes and annotations from its database, ``zotero.sqlite``.

Notes are HTML in ``itemNotes``, annotations of PDF files are in ``itemAnnotations``; their items'
data is in ``itemData``, ``creators``, ``collections`` and ``tags`` (Zotero 7,
github.com/zotero/zotero, resource/schema/userdata.sql). Items in the trash are skipped with their
notes and annotations. Items without notes are only counted.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from memvault.importers import convert, folder, html_markdown, outlines, plain_text, records
from memvault.importers.database import SourceDatabase, databases_with, read_database
from memvault.importers.items import ImportedNote, Item, note_path
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_TABLES = ("itemNotes", "items", "itemData", "itemDataValues")
_ITEM = "itemID itemTypeID key libraryID dateAdded dateModified".split()
_NOTE = "itemID parentItemID note title".split()
_ANNOTATION = "itemID parentItemID type authorName text comment color pageLabel sortIndex".split()
_FIELDS = """
    SELECT fields.fieldName, itemDataValues.value FROM itemData
    JOIN fields USING (fieldID) JOIN itemDataValues USING (valueID) WHERE itemID = ?
"""
_CREATORS = """
    SELECT lastName, firstName{} FROM itemCreators JOIN creators USING (creatorID) WHERE itemID = ?
    ORDER BY orderIndex
"""
_ITEM_TAGS = "SELECT name FROM itemTags JOIN tags USING (tagID) WHERE itemID = ? ORDER BY name"
_COLLECTIONS = """
    SELECT collectionName FROM collectionItems JOIN collections USING (collectionID)
    WHERE itemID = ? ORDER BY collectionName
"""
_TYPES = {1: "highlight", 2: "note", 3: "image", 4: "ink", 5: "underline", 6: "text"}
_COLORS = {
    "#ffd400": "yellow",
    "#ff6666": "red",
    "#5fb236": "green",
    "#2ea8e5": "blue",
    "#a28ae5": "purple",
    "#e56eee": "magenta",
    "#f19837": "orange",
    "#aaaaaa": "gray",
}
_USED_FIELDS = frozenset(
    ("title", "date", "url", "DOI", "publicationTitle", "abstractNote", "publisher", "ISBN")
)
_STORED = lazy_pattern(r"(?:storage|attachments):(.+)", re.DOTALL)
_TAG = lazy_pattern(r"(</?(?:b|i|sub|sup)>)")
_MARKS = {"b": "**", "i": "*"}
_NOTE_ADDRESS = lazy_pattern(r"zotero://\S{0,300}?/items/([A-Z0-9]{8})")


def _databases(source: Source) -> list[str]:
    return sorted(databases_with(source, *_TABLES), key=lambda name: (name.count("/"), name))


def claims(source: Source) -> list[str]:
    """Return the databases with their journals and backups, and the stored files."""
    databases = _databases(source)
    folders = [f"{posixpath.dirname(name)}/storage/".lstrip("/") for name in databases]
    return [name for name in source.names if name.startswith((*databases, *folders))]


def read(source: Source) -> Iterator[Item]:
    """Yield the notes, and a note with the annotations of each item."""
    seen: Counter[str] = Counter()
    for name in _databases(source):
        location = posixpath.dirname(name) or name
        for item in read_database(source, name, _library):
            yield _unique(item, location, seen)


def _library(source: Source, name: str, database: SourceDatabase) -> Iterator[Item]:
    return _ZoteroLibrary(database, source, posixpath.dirname(name)).read(name)


def _unique(item: Item, location: str, seen: Counter[str]) -> Item:
    """Return an item with a key that is unique across libraries."""
    if not isinstance(item, ImportedNote):
        return item
    fallback = f"{location}/{item.header.get('library', '')}/{item.key}"
    return item._replace(key=convert.unique_key_or(seen, item.key, fallback))


class _ZoteroLibrary:
    """Converts the notes and annotations of a database."""

    def __init__(self, database: SourceDatabase, source: Source, folder_name: str) -> None:
        self._database = database
        self._source = source
        self._counts = source.counts
        self._place = f"{folder_name}/" if folder_name else ""
        self._pictures: dict[str, str] = {}
        """File names of images by key."""
        self._note_keys: frozenset[str] = frozenset()
        self._roles: dict[Any, str] = {}
        self._items: dict[int, dict[str, Any]] = {}
        self._types: dict[Any, str] = {}
        self._groups: dict[Any, str] = {}
        self._deleted: set[Any] = set()
        self._files: dict[Any, list[str]] = {}
        """File names of each item."""
        self._parents: dict[Any, Any] = {}
        self._abouts: dict[Any, dict[str, Any]] = {}

    def _table(self, name: str, columns: list[str], rest: str = "") -> Iterator[dict[str, Any]]:
        """Yield a table's rows; none if the table or its first column is missing."""
        if columns[0] in self._database.columns.get(name, ()):
            yield from self._database.table(name, columns, rest)

    def read(self, name: str) -> Iterator[Item]:
        """Yield the notes of the database."""
        self._load()
        self._load_files()
        for key, file in self._pictures.items():
            yield folder.attachment(self._source, file, refs=(self._ref(key),))
        for note in self._table("itemNotes", _NOTE, "ORDER BY itemID"):
            row = {**self._items.get(note["itemID"], {}), **note}
            if self._is_in_use(row["itemID"], "note"):
                yield from records.convert_record(f"{name}, {row.get('key')}", self._note, row)
        yield from self._annotated()
        self._count_items()

    def _load(self) -> None:
        for row in self._table("items", _ITEM):
            self._items[row["itemID"]] = row
        for row in self._table("itemTypes", ["itemTypeID", "typeName"]):
            self._types[row["itemTypeID"]] = str(row["typeName"])
        for row in self._table("groups", ["libraryID", "name"]):
            self._groups[row.get("libraryID")] = convert.one_line(row.get("name"))
        if "creatorTypeID" in self._database.columns.get("itemCreators", ()):
            for row in self._table("creatorTypes", ["creatorTypeID", "creatorType"]):
                self._roles[row["creatorTypeID"]] = str(row["creatorType"])
        self._deleted = {row["itemID"] for row in self._table("deletedItems", ["itemID"])}

    def _load_files(self) -> None:
        keys = {row["itemID"]: str(row.get("key")) for row in self._items.values()}
        notes = {row["itemID"] for row in self._table("itemNotes", ["itemID"])}
        self._note_keys = frozenset(keys.get(item, "") for item in notes)
        for table in ("itemAttachments", "itemNotes", "itemAnnotations"):
            for row in self._table(table, ["itemID", "parentItemID"]):
                if row.get("parentItemID") is not None:
                    self._parents[row["itemID"]] = row["parentItemID"]
        for row in self._table("itemAttachments", ["itemID", "parentItemID", "path"]):
            if row["itemID"] not in self._deleted:
                self._add_file(row, keys.get(row["itemID"], ""), notes)

    def _add_file(self, row: dict[str, Any], key: str, notes: set[Any]) -> None:
        """Add the name of an attached file, or of an image in a note."""
        path = str(row.get("path") or "")
        stored = _STORED.fullmatch(path)
        file = (stored[1] if stored else path).replace("\\", "/").rpartition("/")[2]
        name = f"{self._place}storage/{key}/{file}"
        if row.get("parentItemID") not in notes:
            if file:
                owner = row.get("parentItemID") or row["itemID"]
                self._files.setdefault(owner, []).append(convert.one_line(file))
        elif name in self._source.name_set:
            self._pictures[key] = name

    def _is_in_use(self, item: Any, type_name: str) -> bool:
        """Count an item; return False if it or a parent is in the trash."""
        above, steps = item, 0
        while above is not None and steps < len(_TYPES):
            if above in self._deleted:
                self._counts.omitted(f"deleted {type_name}")
                return False
            above, steps = self._parents.get(above), steps + 1
        self._counts.converted(type_name)
        return True

    def _count_items(self) -> None:
        """Count the items that have neither notes nor annotations."""
        children = {row["itemID"] for row in self._table("itemNotes", ["itemID"])}
        children |= {row["itemID"] for row in self._table("itemAnnotations", ["itemID"])}
        files = {row["itemID"] for row in self._table("itemAttachments", ["itemID"])}
        for item, row in self._items.items():
            kind = self._types.get(row.get("itemTypeID"), "")
            if item in children:
                continue
            if item in files:
                self._counts.omitted("attached file")
            elif item in self._deleted:
                self._counts.omitted("deleted item")
            elif item in self._abouts:
                self._counts.converted(f"{kind} item".strip())
            else:
                self._counts.omitted(f"{kind} item without notes".strip())

    def _about(self, item: Any) -> dict[str, Any]:
        """Return the header keys for notes about an item."""
        if item is None:
            return {}
        if item not in self._abouts:
            self._abouts[item] = self._data(item)
        return self._abouts[item]

    def _data(self, item: Any) -> dict[str, Any]:
        rows = self._database.rows(_FIELDS, [item])
        fields = {str(row["fieldName"]): str(row["value"]) for row in rows}
        for name in fields:
            count = self._counts.converted if name in _USED_FIELDS else self._counts.omitted
            count("item field" if name in _USED_FIELDS else f'item field "{name}"')
        people = self._creators(item)
        date = fields.get("date", "")
        about = {
            "work": fields.get("title", ""),
            "authors": ", ".join(last for last, _, role in people if role in ("", "author")),
            "year": date[:4] if date[:4].isdigit() and date[:4] != "0000" else "",
            "source": fields.get("url", "") or fields.get("DOI", ""),
            "item_type": self._types.get(self._items.get(item, {}).get("itemTypeID"), ""),
            "creators": [_person(*person) for person in people],
            "published": date[:10].removesuffix("-00").removesuffix("-00").removesuffix("0000"),
            "doi": fields.get("DOI", ""),
            "isbn": fields.get("ISBN", ""),
            "publication": fields.get("publicationTitle", ""),
            "publisher": fields.get("publisher", ""),
            "abstract": convert.one_line(fields.get("abstractNote", "")),
            "collections": self._names(_COLLECTIONS, item),
            "files": self._files.get(item, []),
            "item_tags": self._names(_ITEM_TAGS, item),
        }
        return {key: value for key, value in about.items() if value}

    def _names(self, query: str, item: Any) -> list[str]:
        """Return the tags or collections of an item, if the tables exist."""
        if not set(re.findall(r"(?:FROM|JOIN) (\w+)", query)) <= self._database.columns.keys():
            return []
        return [convert.one_line(row[0]) for row in self._database.rows(query, [item]) if row[0]]

    def _creators(self, item: Any) -> list[tuple[str, str, str]]:
        """Return the last name, first name and role of each creator of an item."""
        rows = self._database.rows(
            _CREATORS.format(", creatorTypeID" if self._roles else ""), [item]
        )
        roles = self._roles
        return [
            (
                convert.one_line(row["lastName"]),
                convert.one_line(row["firstName"]),
                roles.get(row["creatorTypeID"], "") if roles else "",
            )
            for row in rows
        ]

    def _header(self, row: dict[str, Any], about: dict[str, Any], title: str) -> dict[str, Any]:
        item_header = {key: value for key, value in about.items() if key != "item_tags"}
        tags = [*self._names(_ITEM_TAGS, row["itemID"]), *about.get("item_tags", [])]
        return {
            "title": title,
            "tags": list(dict.fromkeys(map(convert.tag, tags))),
            **item_header,
            "library": self._groups.get(row.get("libraryID"), ""),
            "created": convert.parsed_time(row.get("dateAdded")),
            "modified": convert.parsed_time(row.get("dateModified")),
        }

    def _note(self, row: dict[str, Any]) -> Item:
        text = html_markdown.markdown(str(row.get("note") or ""), self._custom)
        about = self._about(row.get("parentItemID"))
        title = convert.one_line(row.get("title") or about.get("work") or "Note")
        citation = _citation(about)
        return ImportedNote(
            str(row.get("key")),
            note_path(title[:80]),
            f"{text}\n\n{citation}".strip() if citation else text,
            self._header(row, about, title),
            (self._ref(str(row.get("key"))),),
        )

    def _ref(self, key: str) -> str:
        return convert.id_from_name(f"{self._place}{key}")

    def _custom(self, element: Any) -> str | None:
        """Return an image, or a link to another note; None for other elements."""
        key = element.get("data-attachment-key") if element.tag == "img" else None
        if key is not None:
            is_there = key in self._pictures
            (self._counts.converted if is_there else self._counts.omitted)("image of a note")
            return convert.id_link(self._ref(key), "", is_embed=True) if is_there else ""
        note_address = (
            _NOTE_ADDRESS.match(element.get("href") or "") if element.tag == "a" else None
        )
        if note_address is None or note_address[1] not in self._note_keys:
            return None
        return convert.id_link(self._ref(note_address[1]), "".join(element.itertext()))

    def _annotated(self) -> Iterator[Item]:
        """Yield a note for each item with its annotations, in page order."""
        rows: dict[Any, list[dict[str, Any]]] = {}
        for annotation in self._table("itemAnnotations", _ANNOTATION):
            file = annotation.get("parentItemID")
            row = {**self._items.get(annotation["itemID"], {}), **annotation}
            rows.setdefault(self._parents.get(file, file), []).append(row)
        for item, item_rows in rows.items():
            rows_in_use = []
            for row in item_rows:
                type_name = _TYPES.get(row.get("type", 1), "of another type")
                if self._is_in_use(row["itemID"], f"annotation {type_name}"):
                    rows_in_use.append(row)
            if rows_in_use:
                location = f"the annotations of {rows_in_use[0].get('key')}"
                yield from records.convert_record(location, self._annotations, item, rows_in_use)

    def _annotations(self, item: Any, annotations: list[dict[str, Any]]) -> ImportedNote:
        about = self._about(item)
        title = f"Annotations of {about.get('work') or 'a file'}"
        first = min(annotations, key=lambda row: row["itemID"])
        last = max(annotations, key=lambda row: str(row.get("dateModified")))
        paragraphs: list[str] = []
        for row in sorted(annotations, key=lambda row: str(row.get("sortIndex"))):
            tags = self._names(_ITEM_TAGS, row["itemID"])
            paragraphs += _paragraphs(row, [f"#{convert.tag(tag)}" for tag in tags])
        text = "\n\n".join(paragraphs)
        header = self._header({**first, "dateModified": last.get("dateModified")}, about, title)
        return ImportedNote(
            f"annotations-{first.get('key')}",
            note_path(title[:100]),
            f"{text}\n\n{_citation(about)}".strip(),
            header,
            tuple(self._ref(str(row.get("key"))) for row in annotations),
        )


def _paragraphs(row: dict[str, Any], tags: list[str]) -> list[str]:
    """Return an annotation as a quote with its page and color, then its comment."""
    quoted = _escaped(" ".join(str(row.get("text") or "").split()))
    comment = _escaped(str(row.get("comment") or ""))
    color = str(row.get("color") or "").lower()
    page = f" (p. {row['pageLabel']})" if row.get("pageLabel") else ""
    about = page + (f", {_COLORS.get(color, color)}" if color else "")
    about += f", {convert.one_line(row['authorName'])}" if row.get("authorName") else ""
    about = " ".join([about, *tags]).rstrip()
    if quoted:
        return [f"> {quoted}{about}", *([comment] if comment else [])]
    kind = _TYPES.get(row.get("type", 0), "note")
    return [f"{comment or kind}{about}"]


def _escaped(text: str) -> str:
    """Convert an annotation's text, which is plain text with a few tags."""
    parts = _TAG.split(text.replace(outlines.PLACE, ""))
    escaped_parts = plain_text.escaped(outlines.PLACE.join(parts[::2])).split(outlines.PLACE)
    written = [_MARKS.get(tag.strip("</>"), tag) for tag in parts[1::2]]
    return "".join(
        part for pair in zip(escaped_parts, [*written, ""], strict=False) for part in pair
    )


def _person(last: str, first: str, role: str) -> str:
    name = f"{first} {last}".strip()
    return f"{name} ({role})" if role and role != "author" else name


def _citation(about: dict[str, Any]) -> str:
    parts = (about.get("authors"), about.get("work"), about.get("year"))
    return ", ".join(part for part in parts if part)
