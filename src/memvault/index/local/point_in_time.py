"""Snapshots as of an earlier time, as far as the vault's history records it.

Memories created later are left out. If a revision shows that a memory's text was different at that
time, the old text replaces it: it is read, scored and shown like a file that is not in the index
yet.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from memvault import clock
from memvault.index.local.file_analysis import header_problem
from memvault.index.local.replaced_texts import with_texts
from memvault.index.local.snapshot import Snapshot
from memvault.index.protocol import MemoryRecord
from memvault.model import FileState, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.date_ranges import dates_in_path

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
    past = with_texts(seen, existing, earlier)
    for place, key in enumerate(past.overlay.texts):
        past.overlay.records[key] = past.overlay.records[key]._replace(is_past=True)
        if place >= _MAX_EMBEDDED:
            del past.overlay.passages[key]
    return past


def _created_at(record: MemoryRecord) -> str:
    """Return when a memory first existed: its creation time, or an earlier date in its path."""
    days = dates_in_path(record.path)
    created = clock.first_moment(record.created)
    return min(created, clock.iso(days.edge(False))) if days else created


def _parse_version(store: MemoryStore, record: MemoryRecord, data: bytes, since: str) -> Memory:
    """Parse an old text at its memory's current path and memId.

    Missing times are filled in from the record and from the revision.
    """
    state = FileState.of(record.path, data)
    memory = store.parse(data, state)
    if header_problem(memory, state):
        memory = store.parse(b"", state)._replace(body=memory.body, etag=memory.etag)
    unknown = clock.iso_from_ns(0)
    created = record.created if memory.created == unknown else memory.created
    modified = max(since, created) if memory.modified <= created else memory.modified
    return memory._replace(mem_id=record.mem_id, created=created, modified=modified)
