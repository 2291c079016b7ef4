"""A view as it would have been at a moment, as far as the vault still knows.

What was made later is left out. Where a revision shows that a memory's text was
another then, the old text stands in its place: it is read, scored and shown
like a file that is not in the index yet.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from memvault import clock
from memvault.index import analysis
from memvault.index.documents import keyword_documents, passage_texts
from memvault.index.overlay import header_problem
from memvault.index.protocol import Record
from memvault.index.snapshot import Overlay, Snapshot
from memvault.model import FileState, Memory
from memvault.vault.daily import named_days
from memvault.vault.store import Store

_MOST = 500
"""Old texts that get a vector; all are found by their words."""


def as_of(seen: Snapshot, moment: datetime) -> Snapshot:
    """Return a view of what there was at a moment."""
    then = clock.iso(moment)
    records = list(seen.records())
    there = [record for record in records if _began(record) <= then]
    shared = Counter(record.mem_id for record in records)
    alone = {record.mem_id: record for record in there if shared[record.mem_id] == 1}
    old = {
        alone[mem_id].key: _parsed(seen.store, alone[mem_id], data, since)
        for mem_id, data, since in seen.store.history.replaced_since(alone, moment)
    }
    before = seen.overlay
    kept = {record.key for record in there} - old.keys()
    told = {key: record for key, record in before.records.items() if key in kept}
    documents = [document for document in before.documents if document.uid in kept]
    passages = {key: texts for key, texts in before.passages.items() if key in kept}
    analyser = analysis.analyser(seen.store.settings.language)
    first = min(before.records, default=0) - 1
    texts: dict[int, Memory] = {}
    for place, memory in enumerate(old.values()):
        key = first - place
        texts[key] = memory
        told[key] = Record.of(key, len(memory.body), memory)
        documents += keyword_documents(key, memory, analyser)
        if place < _MOST:
            passages[key] = passage_texts(memory)
    alive = frozenset(key for key in kept if key > 0)
    overlay = Overlay(told, documents, passages, alive, before.missing, texts)
    return seen._replace(overlay=overlay, complete=None)


def _began(record: Record) -> str:
    """Return when there was a memory first: made then, or called by a day before."""
    days = named_days(record.path)
    return min(record.created, days.first.isoformat()) if days else record.created


def _parsed(store: Store, record: Record, data: bytes, since: str) -> Memory:
    """Read an old text, which is where its memory is now; times it does not say are its own."""
    state = FileState(record.path, len(data), 0, 0, 0)
    memory = store.parse(data, state)
    if header_problem(memory, state):
        memory = store.parse(b"", state)._replace(body=memory.body, etag=memory.etag)
    unknown = clock.iso_from_ns(0)
    created = record.created if memory.created == unknown else memory.created
    modified = max(since, created) if memory.modified <= created else memory.modified
    return memory._replace(mem_id=record.mem_id, created=created, modified=modified)
