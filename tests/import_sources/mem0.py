"""mem0's memories: a get_all response (docs.mem0.ai/api-reference, v1), history.db and Qdrant."""

from __future__ import annotations

import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from conftest import write

_MEMORY = {
    "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e",
    "memory": "Prefers morning meetings and asynchronous communication",
    "hash": "bae54550202e",
    "metadata": {"team": "api"},
    "categories": ["work preferences"],
    "created_at": "2026-03-08T10:30:00.000000-08:00",
    "updated_at": "2026-03-09T10:30:00.000000-08:00",
    "user_id": "arjun",
}
_SCHEMA = """
CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT,
    event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT,
    role TEXT);
"""


class PointStruct:
    """A replacement for qdrant_client.models.PointStruct, which a local Qdrant pickles."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def make(folder: Path) -> Path:
    """Write an export with two memories, one of them without text."""
    whole = {"count": 2, "results": [_MEMORY, {"id": "2", "memory": "", "user_id": "arjun"}]}
    return write(folder, "mem0-export.json", json.dumps(whole, indent=2))


def make_databases(folder: Path) -> Path:
    """Write a history with one changed and one deleted memory, and a Qdrant with one memory."""
    with closing(sqlite3.connect(write(folder, "mem0/history.db", b""))) as database:
        database.executescript(_SCHEMA)
        events = (
            ("1", "a", None, "Likes tea", "ADD", "2026-01-01T00:00:00-08:00", 0),
            ("2", "a", "Likes tea", "Likes green tea", "UPDATE", "2026-01-02T00:00:00-08:00", 0),
            ("3", "b", None, "Lives in Rome", "ADD", "2026-01-01T00:00:00-08:00", 0),
            ("4", "b", "Lives in Rome", None, "DELETE", "2026-01-03T00:00:00-08:00", 1),
        )
        for event, memory, old, new, kind, when, deleted in events:
            row = (event, memory, old, new, kind, when, when, deleted, None, None)
            database.execute(f"INSERT INTO history VALUES ({', '.join('?' * 10)})", row)
        database.commit()
    store = write(folder, "mem0/collection/mem0/storage.sqlite", b"")
    with closing(sqlite3.connect(store)) as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        payload = {
            "data": "Works on the API",
            "user_id": "dev",
            "created_at": "2026-02-01T00:00:00Z",
        }
        point = pickle.dumps(PointStruct(id="c", vector=[0.5] * 8, payload=payload))
        database.execute("INSERT INTO points VALUES ('c', ?)", [point])
        database.commit()
    return folder / "mem0"
