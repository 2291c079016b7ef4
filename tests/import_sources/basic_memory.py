"""Basic Memory's notes (NOTE-FORMAT.md) and its database (models/knowledge.py), version 0.16."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from conftest import write

_COFFEE = """---
title: Coffee Brewing Methods
type: note
tags: [coffee, brewing]
permalink: drinks/coffee-brewing-methods
---

# Coffee Brewing Methods

## Observations
- [method] Pour over gives more clarity than a French press
- [technique] Water at 92 degrees #brewing (measured)

## Relations
- relates_to [[Tea Brewing Methods]]
"""
_TEA = """---
title: Tea Brewing Methods
type: note
permalink: drinks/tea
---

See [the coffee](memory://drinks/coffee-brewing-methods).
"""
_SCHEMA = """
CREATE TABLE entity (id INTEGER PRIMARY KEY, title TEXT, entity_type TEXT, entity_metadata JSON,
    content_type TEXT, permalink TEXT, file_path TEXT, checksum TEXT, created_at DATETIME,
    updated_at DATETIME, project_id INTEGER);
CREATE TABLE observation (id INTEGER PRIMARY KEY, entity_id INTEGER, content TEXT, category TEXT,
    context TEXT, tags JSON);
CREATE TABLE relation (id INTEGER PRIMARY KEY, from_id INTEGER, to_id INTEGER, to_name TEXT,
    relation_type TEXT, context TEXT);
"""


def make(folder: Path) -> Path:
    """Write two notes that link to each other."""
    write(folder, "basic-memory/drinks/Coffee Brewing Methods.md", _COFFEE)
    write(folder, "basic-memory/drinks/Tea Brewing Methods.md", _TEA)
    return folder / "basic-memory"


def make_database(folder: Path) -> Path:
    """Write the database of the same notes, with a relation to a note that does not exist."""
    times = ("2026-01-05 08:00:00+00:00", "2026-01-06 08:00:00+00:00")
    with closing(sqlite3.connect(folder / "memory.db")) as database:
        database.executescript(_SCHEMA)
        for number, title, path in ((1, "Coffee", "drinks/Coffee.md"), (2, "Tea", "drinks/Tea.md")):
            row = (number, title, "note", None, "text/markdown", title.lower(), path, "", *times, 1)
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO entity VALUES ({marks})", row)
        database.execute(
            "INSERT INTO observation VALUES (1, 1, 'Pour over is clear', 'method', 'tasted', '[]')"
        )
        database.execute("INSERT INTO relation VALUES (1, 1, 2, 'Tea', 'relates_to', NULL)")
        database.execute("INSERT INTO relation VALUES (2, 1, NULL, 'Cocoa', 'relates_to', NULL)")
        database.commit()
    return folder / "memory.db"
