"""Import of Zotero's notes and annotations from its database, ``zotero.sqlite``.

Notes are HTML in ``itemNotes``, annotations of PDF files in ``itemAnnotations``; the data of the
item that they belong to are in ``itemData`` and ``creators`` (Zotero 7, github.com/zotero/zotero,
resource/schema/userdata.sql). Deleted items are left out. Close Zotero first, which locks the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import html_markdown, records, values
from memvault.importers.database import SourceDatabase, UnreadableDatabase, open_database, tables
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source

_TABLES = frozenset({"itemNotes", "items", "itemData", "itemDataValues"})
_NOTES = """
    SELECT items.itemID, items.key, items.dateAdded, items.dateModified, itemNotes.note,
           itemNotes.title, itemNotes.parentItemID AS parent
    FROM itemNotes JOIN items USING (itemID)
    WHERE items.itemID NOT IN (SELECT itemID FROM deletedItems) ORDER BY items.itemID
"""
_ANNOTATIONS = """
    SELECT items.itemID, items.key, items.dateAdded, items.dateModified, text, comment, pageLabel,
           itemAttachments.parentItemID AS parent
    FROM itemAnnotations JOIN items USING (itemID)
    JOIN itemAttachments ON itemAttachments.itemID = itemAnnotations.parentItemID
    WHERE items.itemID NOT IN (SELECT itemID FROM deletedItems)
    ORDER BY itemAttachments.parentItemID, sortIndex
"""
_FIELDS = """
    SELECT fields.fieldName, itemDataValues.value FROM itemData
    JOIN fields USING (fieldID) JOIN itemDataValues USING (valueID) WHERE itemID = ?
"""
_CREATORS = """
    SELECT lastName FROM itemCreators JOIN creators USING (creatorID) WHERE itemID = ?
    ORDER BY orderIndex
"""
_ITEM_TAGS = "SELECT name FROM itemTags JOIN tags USING (tagID) WHERE itemID = ? ORDER BY name"


def recognise(source: Source) -> int:
    """Return ``SURE`` if there is Zotero's database."""
    return SURE if _database(source) else NO


def _database(source: Source) -> str:
    return next((n for n in source.named(".sqlite") if tables(source, n) >= _TABLES), "")


def claims(source: Source) -> list[str]:
    """Return the name of the database, and those of its journals and backups."""
    database = _database(source)
    return [name for name in source.names if name.startswith(database)] if database else []


def read(source: Source) -> Iterator[Item]:
    """Yield the notes, and for each item with annotations a note with all of them."""
    name = _database(source)
    if not name:
        return
    try:
        with open_database(source, name) as database:
            for row in database.rows(_NOTES):
                yield from records.items_of(f"{name}, {row['key']}", _note, database, dict(row))
            if "itemAnnotations" in tables(source, name):
                yield from _annotated(database)
    except UnreadableDatabase as error:
        yield Unreadable(name, f"it cannot be read: {error}; close Zotero, or import a copy")


def _about(database: SourceDatabase, item: Any) -> dict[str, str]:
    """Return what the header says of the item that a note belongs to."""
    if item is None:
        return {}
    fields = {row["fieldName"]: str(row["value"]) for row in database.rows(_FIELDS, [item])}
    names = [row["lastName"] for row in database.rows(_CREATORS, [item])]
    year = fields.get("date", "")[:4]
    about = {
        "work": fields.get("title", ""),
        "authors": ", ".join(filter(None, names)),
        "year": year if year.isdigit() and year != "0000" else "",
        "source": fields.get("url", "") or fields.get("DOI", ""),
    }
    return {key: value for key, value in about.items() if value}


def _citation(about: dict[str, str]) -> str:
    parts = (about.get("authors"), about.get("work"), about.get("year"))
    return ", ".join(part for part in parts if part)


def _note(database: SourceDatabase, row: dict[str, Any]) -> Item:
    text = html_markdown.markdown(str(row["note"] or ""))
    about = _about(database, row["parent"])
    title = " ".join(str(row["title"] or about.get("work") or "Note").split())
    tags = [values.tag(tag["name"]) for tag in database.rows(_ITEM_TAGS, [row["itemID"]])]
    citation = _citation(about)
    return ImportedNote(
        str(row["key"]),
        note_path(title[:80]),
        f"{text}\n\n{citation}".strip() if citation else text,
        {"title": title, "tags": tags, **about, **_times(row)},
    )


def _times(row: dict[str, Any]) -> dict[str, str]:
    return {
        "created": values.parsed_time(row["dateAdded"]),
        "modified": values.parsed_time(row["dateModified"]),
    }


def _annotated(database: SourceDatabase) -> Iterator[Item]:
    """Yield a note for each item with the annotations of its files, in the order of the pages."""
    rows: dict[Any, list[dict[str, Any]]] = {}
    for row in database.rows(_ANNOTATIONS):
        rows.setdefault(row["parent"], []).append(dict(row))
    for item, found in rows.items():
        place = f"the annotations of {found[0]['key']}"
        yield from records.items_of(place, _annotations, database, item, found)


def _annotations(database: SourceDatabase, item: Any, found: list[dict[str, Any]]) -> ImportedNote:
    about = _about(database, item)
    title = f"Annotations of {about.get('work') or 'a file'}"
    lines = []
    for row in found:
        quoted = " ".join(str(row["text"] or "").split())
        comment = " ".join(str(row["comment"] or "").split())
        page = f" (p. {row['pageLabel']})" if row["pageLabel"] else ""
        lines.append(f"> {quoted}{page}" if quoted else f"{comment}{page}")
        lines += [comment] if quoted and comment else []
    text = "\n\n".join(lines)
    return ImportedNote(
        f"annotations-{found[0]['key']}",
        note_path(title[:100]),
        f"{text}\n\n{_citation(about)}".strip(),
        {"title": title, **about, **_times(found[-1])},
    )
