"""Databases of Zotero 7 (resource/schema/userdata.sql): notes and annotations of a book; and more.

The databases follow the schema in Zotero's repository; no real database was available.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

SCHEMA = """
CREATE TABLE items (itemID INTEGER PRIMARY KEY, itemTypeID INT, dateAdded TEXT,
    dateModified TEXT, key TEXT);
CREATE TABLE deletedItems (itemID INTEGER PRIMARY KEY);
CREATE TABLE itemNotes (itemID INTEGER PRIMARY KEY, parentItemID INT, note TEXT, title TEXT);
CREATE TABLE itemAttachments (itemID INTEGER PRIMARY KEY, parentItemID INT, path TEXT);
CREATE TABLE itemAnnotations (itemID INTEGER PRIMARY KEY, parentItemID INT, text TEXT,
    comment TEXT, pageLabel TEXT, sortIndex TEXT);
CREATE TABLE fields (fieldID INTEGER PRIMARY KEY, fieldName TEXT);
CREATE TABLE itemDataValues (valueID INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE itemData (itemID INT, fieldID INT, valueID INT);
CREATE TABLE creators (creatorID INTEGER PRIMARY KEY, firstName TEXT, lastName TEXT);
CREATE TABLE itemCreators (itemID INT, creatorID INT, orderIndex INT);
CREATE TABLE tags (tagID INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE itemTags (itemID INT, tagID INT);
INSERT INTO items VALUES (1, 1, '2026-11-03 09:15:00', '2026-11-03 09:15:00', 'BOOK0001'),
    (2, 2, '2026-11-03 09:15:00', '2026-11-04 10:15:00', 'NOTE0001'),
    (3, 3, '2026-11-03 09:15:00', '2026-11-03 09:15:00', 'FILE0001'),
    (4, 4, '2026-11-03 09:15:00', '2026-11-05 11:15:00', 'ANNO0001'),
    (5, 2, '2026-11-03 09:15:00', '2026-11-03 09:15:00', 'GONE0001');
INSERT INTO deletedItems VALUES (5);
INSERT INTO itemNotes VALUES (2, 1, '<p>Waggle <strong>dance</strong></p>', 'Waggle dance'),
    (5, 1, '<p>gone</p>', 'Gone');
INSERT INTO itemAttachments VALUES (3, 1, 'storage:bees.pdf');
INSERT INTO itemAnnotations VALUES (4, 3, 'Bees tell the way', 'to check', '12', '00001');
INSERT INTO fields VALUES (1, 'title'), (2, 'date');
INSERT INTO itemDataValues VALUES (1, 'The Bees'), (2, '1967-00-00 1967');
INSERT INTO itemData VALUES (1, 1, 1), (1, 2, 2);
INSERT INTO creators VALUES (1, 'Karl', 'Frisch');
INSERT INTO itemCreators VALUES (1, 1, 0);
INSERT INTO tags VALUES (1, 'bee talk');
INSERT INTO itemTags VALUES (2, 1);
"""


def make(folder: Path) -> Path:
    """Write the folder with the database."""
    made = folder / "Zotero"
    made.mkdir(parents=True)
    with closing(sqlite3.connect(made / "zotero.sqlite")) as database:
        database.executescript(SCHEMA)
    return made


LIBRARY = """
CREATE TABLE items (itemID INTEGER PRIMARY KEY, itemTypeID INT, dateAdded TEXT,
    dateModified TEXT, clientDateModified TEXT, libraryID INT, key TEXT, version INT);
CREATE TABLE itemTypes (itemTypeID INTEGER PRIMARY KEY, typeName TEXT);
CREATE TABLE groups (groupID INTEGER PRIMARY KEY, libraryID INT, name TEXT);
CREATE TABLE deletedItems (itemID INTEGER PRIMARY KEY, dateDeleted TEXT);
CREATE TABLE itemNotes (itemID INTEGER PRIMARY KEY, parentItemID INT, note TEXT, title TEXT);
CREATE TABLE itemAttachments (itemID INTEGER PRIMARY KEY, parentItemID INT, linkMode INT,
    contentType TEXT, path TEXT);
CREATE TABLE itemAnnotations (itemID INTEGER PRIMARY KEY, parentItemID INT, type INT,
    authorName TEXT, text TEXT, comment TEXT, color TEXT, pageLabel TEXT, sortIndex TEXT,
    position TEXT, isExternal INT);
CREATE TABLE fields (fieldID INTEGER PRIMARY KEY, fieldName TEXT);
CREATE TABLE itemDataValues (valueID INTEGER PRIMARY KEY, value);
CREATE TABLE itemData (itemID INT, fieldID INT, valueID INT);
CREATE TABLE creators (creatorID INTEGER PRIMARY KEY, firstName TEXT, lastName TEXT);
CREATE TABLE creatorTypes (creatorTypeID INTEGER PRIMARY KEY, creatorType TEXT);
CREATE TABLE itemCreators (itemID INT, creatorID INT, creatorTypeID INT, orderIndex INT);
CREATE TABLE tags (tagID INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE itemTags (itemID INT, tagID INT, type INT);
CREATE TABLE collections (collectionID INTEGER PRIMARY KEY, collectionName TEXT);
CREATE TABLE collectionItems (collectionID INT, itemID INT);
INSERT INTO itemTypes VALUES (1, 'book'), (2, 'note'), (3, 'attachment'), (4, 'annotation');
INSERT INTO groups VALUES (7, 2, 'Bee club');
INSERT INTO fields VALUES (1, 'title'), (2, 'date'), (3, 'DOI'), (4, 'url'), (5, 'numPages');
INSERT INTO creators VALUES (1, 'Karl', 'Frisch'), (2, 'Leigh', 'Chadwick');
INSERT INTO creatorTypes VALUES (1, 'author'), (2, 'translator');
INSERT INTO tags VALUES (1, 'bee talk'), (2, 'dances');
INSERT INTO collections VALUES (1, 'To read');
"""
_TIMES = "'2026-11-03 09:15:00', '2026-11-04 10:15:00', ''"


def _library(path: Path, is_logged: bool = False) -> None:
    items = (
        *((1, 1, "BOOK0001", 1), (2, 2, "NOTE0001", 1), (3, 3, "FILE0001", 1)),
        *((4, 4, "ANNO0001", 1), (5, 4, "ANNO0002", 1), (6, 4, "ANNO0003", 1)),
        *((7, 1, "BOOK0002", 1), (8, 1, "BOOK0003", 1), (9, 2, "NOTE0002", 1)),
        *((10, 2, "NOTE0001", 2), (11, 3, "PICT0001", 1)),
    )
    with closing(sqlite3.connect(path)) as database:
        if is_logged:
            database.execute("PRAGMA journal_mode = WAL")
        database.executescript(LIBRARY)
        for item, kind, key, library in items:
            database.execute(
                f"INSERT INTO items VALUES ({item}, {kind}, {_TIMES}, {library}, '{key}', 0)"
            )
        note = (
            '<div data-schema-version="8"><p>See <a href="zotero://select/library/items/NOTE0001">'
            'this</a> <img data-attachment-key="PICT0001" width="9"> and '
            '<img data-attachment-key="GONE0001"></p></div>'
        )
        database.execute("INSERT INTO itemNotes VALUES (2, 1, ?, 'Waggle dance')", [note])
        database.executescript(
            """
            INSERT INTO deletedItems VALUES (8, '2026');
            INSERT INTO itemNotes VALUES (9, 8, '<p>gone</p>', 'Gone'),
                (10, NULL, '<p>of the club</p>', 'Club');
            INSERT INTO itemAttachments VALUES (3, 1, 1, 'application/pdf', 'storage:bees.pdf'),
                (11, 2, 4, 'image/png', 'storage:image.png');
            INSERT INTO itemAnnotations VALUES
                (4, 3, 1, '', 'Bees * tell <i>the</i> way', 'to check', '#ff6666', '12', '00012',
                    '{}', 0),
                (5, 3, 2, 'Ana', NULL, 'a note', '#ffd400', '3', '00003', '{}', 0),
                (6, 3, 3, '', NULL, '', '#123456', '4', '00004', '{}', 0);
            INSERT INTO itemDataValues VALUES (1, 'The Bees'), (2, '1967-05-00 May 1967'),
                (3, '10.1/x'), (4, 'https://example.org'), (5, '99'), (6, 'Unread');
            INSERT INTO itemData VALUES (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 4), (1, 5, 5),
                (7, 1, 6);
            INSERT INTO itemCreators VALUES (1, 1, 1, 0), (1, 2, 2, 1);
            INSERT INTO itemTags VALUES (1, 1, 0), (4, 2, 0);
            INSERT INTO collectionItems VALUES (1, 1);
            """
        )
        database.commit()
        if is_logged:  # a checkpoint would empty the log
            log = path.with_name(f"{path.name}-wal")
            files = path.read_bytes(), log.read_bytes()
    if is_logged:
        path.write_bytes(files[0])
        log.write_bytes(files[1])


def with_log(folder: Path) -> Path:
    """Write a database whose rows are all in its write-ahead log."""
    folder.mkdir()
    _library(folder / "zotero.sqlite", is_logged=True)
    return folder


def make_library(folder: Path) -> Path:
    """Write two databases, and an image in a note."""
    made = folder / "Zotero"
    (made / "storage/PICT0001").mkdir(parents=True)
    (made / "storage/PICT0001/image.png").write_bytes(b"a picture")
    _library(made / "zotero.sqlite")
    (made / "old").mkdir()
    _library(made / "old/zotero.sqlite")
    return made
