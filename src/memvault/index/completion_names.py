"""Look up names in an index as of its last refresh, for shell completion.

Completion runs while the user types, so it neither scans the folder nor writes anything. If the
index is missing or locked, the results are empty.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memvault.index.folder import find_folder
from memvault.index.protocol import IndexCorrupted

_WAIT = 0.02
"""Seconds to wait for a process that is writing the index."""
_MANIFESTS = "index-*/manifest.db"
"""The pattern of manifest paths, one per index format; the most recently written manifest is
read.
"""
_PARTS = (".new", ".old")
"""Suffixes of an index being built and of the index it replaces."""


def memories(root: Path, beginning: str, limit: int) -> list[tuple[str, str]]:
    """Return up to ``limit`` memIds that start with ``beginning``, and their titles, sorted."""
    query = (
        "SELECT mem_id, title FROM memories WHERE substr(mem_id, 1, ?) = ? ORDER BY mem_id LIMIT ?"
    )
    rows = _rows(root, query, (len(beginning), beginning, limit))
    return [(str(mem_id), str(title)) for mem_id, title in rows]


def types(root: Path) -> list[str]:
    """Return the types of all memories."""
    return [str(name) for (name,) in _rows(root, "SELECT DISTINCT memory_type FROM memories")]


def tags(root: Path) -> dict[str, int]:
    """Return all tags with the number of memories that have each tag."""
    counts: dict[str, int] = {}
    for (text,) in _rows(root, "SELECT tags FROM memories WHERE tags != '[]'"):
        for tag in json.loads(str(text)):
            counts[tag] = counts.get(tag, 0) + 1
    return counts


def _rows(root: Path, query: str, values: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    folder = find_folder(root)
    if folder is None:
        return
    with contextlib.suppress(OSError, sqlite3.Error, IndexCorrupted, ValueError, TypeError):
        complete = (path for path in folder.glob(_MANIFESTS) if path.parent.suffix not in _PARTS)
        latest = max(complete, key=lambda path: path.stat().st_mtime_ns)
        address = f"{latest.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, timeout=_WAIT, uri=True)) as database:
            yield from database.execute(query, values).fetchall()
