"""Snapshots as of an earlier time, as far as the vault's history records it.

Memories created later are left out. If a revision shows that a memory's text was different at that
time, the old text replaces it: it is read, scored and shown like a file that is not in the index
yet.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TypeVar

from memvault import clock
from memvault.index.local.refresh import add_memory, header_problem
from memvault.index.local.snapshot import Overlay, Snapshot
from memvault.index.protocol import MemoryRecord
from memvault.model import FileState, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.file_names import dates_in_path

Value = TypeVar("Value")

_MAX_EMBEDDED = 500
"""The maximum number of old texts that are embedded; all are in the keyword search."""


def as_of(seen: Snapshot, store: MemoryStore, moment: datetime) -> Snapshot:
    """Return a snapshot of the memories that existed at a given time."""
    time = clock.iso(moment)
    records = list(seen.records())
    existing = [record for record in records if _created_at(record) <= time]
    id_counts = Counter(record.mem_id for record in records)
    unambiguous = {record.mem_id: record for record in existing if id_counts[record.mem_id] == 1}
    earlier = {
        unambiguous[mem_id].key: _parse_version(store, unambiguous[mem_id], data, since)
        for mem_id, data, since in store.history.versions_at(unambiguous, moment)
    }
    previous = seen.overlay
    unchanged = {record.key for record in existing} - earlier.keys()
    overlay = Overlay(
        _select(previous.records, unchanged),
        [document for document in previous.documents if document.uid in unchanged],
        _select(previous.passages, unchanged),
        frozenset(key for key in unchanged if key > 0),
        previous.missing,
        _select(previous.cuts, unchanged),
        _select(previous.blocks, unchanged),
        _select(previous.links, unchanged),
    )
    first = min(previous.records, default=0) - 1
    languages = {record.key: record.language for record in existing}
    texts: dict[int, Memory] = {}
    for place, (now, memory) in enumerate(earlier.items()):
        key = first - place
        texts[key] = memory
        add_memory(overlay, key, memory, len(memory.body), languages[now])
        overlay.records[key] = overlay.records[key]._replace(is_past=True)
        if place >= _MAX_EMBEDDED:
            del overlay.passages[key]
    overlay = overlay._replace(texts=texts)
    return seen._replace(overlay=overlay)


def _select(entries: dict[int, Value], keys: set[int]) -> dict[int, Value]:
    return {key: value for key, value in entries.items() if key in keys}


def _created_at(record: MemoryRecord) -> str:
    """Return when a memory first existed: its creation time, or an earlier date in its path."""
    days = dates_in_path(record.path)
    created = clock.first_moment(record.created)
    return min(created, clock.iso(days.edge(False))) if days else created


def _parse_version(store: MemoryStore, record: MemoryRecord, data: bytes, since: str) -> Memory:
    """Parse an old text at its memory's current path and memId.

    Missing times are filled in from the record and from the revision.
    """
    state = FileState(record.path, len(data), 0, 0, 0)
    memory = store.parse(data, state)
    if header_problem(memory, state):
        memory = store.parse(b"", state)._replace(body=memory.body, etag=memory.etag)
    unknown = clock.iso_from_ns(0)
    created = record.created if memory.created == unknown else memory.created
    modified = max(since, created) if memory.modified <= created else memory.modified
    return memory._replace(mem_id=record.mem_id, created=created, modified=modified)
