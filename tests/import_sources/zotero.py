"""A database of Zotero 7 (resource/schema/userdata.sql): a note and annotations of a book."""

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
    made.mkdir()
    with closing(sqlite3.connect(made / "zotero.sqlite")) as database:
        database.executescript(SCHEMA)
    return made
