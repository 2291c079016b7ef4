"""Build overlays: memories that are read directly and searched together with an index.

An overlay contains files that differ from the index (``read_overlay``), or earlier texts of
memories from the vault's history (``as_of``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from memvault import clock
from memvault.index.local.file_analysis import header_problem, read_file
from memvault.index.local.folder_diff import FolderDiff
from memvault.index.local.manifest import IndexedFile
from memvault.index.local.snapshot import Overlay, Snapshot
from memvault.index.protocol import LinkEntry, MemoryRecord
from memvault.index.text.analyzer import analyzer, detect_languages
from memvault.index.text.sentence_blocks import (
    encode_blocks,
    keyword_documents,
    leading_part,
    passage_texts,
    split_memory,
)
from memvault.model import FileState, Memory
from memvault.store.memory_store import MemoryStore
from memvault.vault.date_ranges import dates_in_path

Value = TypeVar("Value")

_MAX_EMBEDDED = 500
"""The maximum number of old texts to embed; keyword search still covers all of them."""


def read_overlay(
    store: MemoryStore,
    known_files: Mapping[str, IndexedFile],
    languages: Mapping[str, int],
    diff: FolderDiff,
    unread: FolderDiff | None = None,
) -> Overlay:
    """Read the files that differ from the index; memories in ``unread`` are omitted entirely.

    ``languages`` maps each language to its number of indexed memories.
    """
    alive = {indexed.uid for indexed in known_files.values()} - set(diff.removed)
    missing = 0
    if unread is not None:
        alive -= {indexed.uid for indexed, _ in unread.changed}
        missing = len(unread.added) + len(unread.changed)
    memories: list[tuple[int, Memory, FileState]] = []
    differing = [*((None, state) for state in diff.added), *diff.changed, *diff.doubtful]
    for number, (indexed, state) in enumerate(differing, start=1):
        read = read_file(store, state)
        if indexed is not None:
            if read is not None and read[0].etag == indexed.etag and read[1] == indexed.state:
                continue
            alive.discard(indexed.uid)
        if read is not None:
            memories.append((-number, *read[:2]))
    detected = detect_languages(
        store.settings.language, [memory for _, memory, _ in memories], languages
    )
    overlay = Overlay.empty(frozenset(alive), missing)
    for (uid, memory, fresh), language in zip(memories, detected, strict=True):
        _add_memory(overlay, uid, memory, fresh.size, language, store.settings.index.characters)
    return overlay


def _add_memory(
    overlay: Overlay, uid: int, memory: Memory, size: int, language: str, max_chars: int
) -> None:
    """Add an unindexed memory to an overlay.

    ``size`` is its file's size in bytes; ``max_chars`` is passed to ``leading_part``.
    """
    part = leading_part(memory, max_chars)
    overlay.records[uid] = MemoryRecord.from_memory(uid, size, memory, language)
    overlay.documents.extend(keyword_documents(uid, part, analyzer(language)))
    overlay.passages[uid] = passage_texts(part)
    overlay.text_blocks[uid] = split_memory(part)
    overlay.blocks[uid] = encode_blocks(overlay.text_blocks[uid], analyzer(language))
    overlay.links[uid] = LinkEntry.from_memory(memory)


def with_memories(snapshot: Snapshot, memories: Iterable[tuple[Memory, str]]) -> Snapshot:
    """Return a snapshot with additional memories, each with its git branch.

    They are read-only: their texts are the given ones, not those of the vault's files.
    """
    added = list(memories)
    languages = snapshot.manifest.languages() if snapshot.manifest is not None else {}
    detected = detect_languages(
        snapshot.store.settings.language, [memory for memory, _ in added], languages
    )
    previous = snapshot.overlay
    first = min(previous.records, default=0) - 1
    texts = {first - number: memory for number, (memory, _) in enumerate(added)}
    overlay = previous._replace(
        records=dict(previous.records),
        documents=list(previous.documents),
        passages=dict(previous.passages),
        text_blocks=dict(previous.text_blocks),
        blocks=dict(previous.blocks),
        links=dict(previous.links),
        texts={**previous.texts, **texts},
    )
    most = snapshot.store.settings.index.characters
    for (uid, memory), (_, branch), language in zip(texts.items(), added, detected, strict=True):
        _add_memory(overlay, uid, memory, len(memory.body), language, most)
        overlay.records[uid] = overlay.records[uid]._replace(branch=branch)
    return snapshot._replace(overlay=overlay)


def as_of(snapshot: Snapshot, store: MemoryStore, moment: datetime) -> Snapshot:
    """Return a snapshot of the memories that existed at a given time."""
    time = clock.iso(moment)
    records = list(snapshot.records())
    existing = [record for record in records if _created_at(record) <= time]
    id_counts = Counter(record.mem_id for record in records)
    unambiguous = {record.mem_id: record for record in existing if id_counts[record.mem_id] == 1}
    earlier = {
        unambiguous[mem_id].uid: _parse_version(store, unambiguous[mem_id], data, since)
        for mem_id, data, since in store.history.versions_at(unambiguous, moment)
    }
    past = _with_texts(snapshot, existing, earlier)
    for number, uid in enumerate(past.overlay.texts):
        past.overlay.records[uid] = past.overlay.records[uid]._replace(is_past=True)
        if number >= _MAX_EMBEDDED:
            del past.overlay.passages[uid]
    return past


def _created_at(record: MemoryRecord) -> str:
    """Return when a memory was created: the time in its header, or an earlier date in its path."""
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


def _with_texts(
    snapshot: Snapshot, records: Iterable[MemoryRecord], texts: Mapping[int, Memory]
) -> Snapshot:
    """Return a snapshot of the given memories, some of which have changed passages.

    ``texts`` are keyed by the uids of the memories that they replace. The new snapshot gives them
    new uids, the keys of ``overlay.texts``, in the same order.
    """
    languages = {record.uid: record.language for record in records}
    unchanged = languages.keys() - texts.keys()
    previous = snapshot.overlay
    first = min(previous.records, default=0) - 1
    replaced = {first - number: memory for number, memory in enumerate(texts.values())}
    overlay = Overlay(
        _select(previous.records, unchanged),
        [document for document in previous.documents if document.uid in unchanged],
        _select(previous.passages, unchanged),
        frozenset(uid for uid in unchanged if uid > 0),
        previous.missing,
        _select(previous.text_blocks, unchanged),
        _select(previous.blocks, unchanged),
        _select(previous.links, unchanged),
        replaced,
    )
    most = snapshot.store.settings.index.characters
    for now, (uid, memory) in zip(texts, replaced.items(), strict=True):
        _add_memory(overlay, uid, memory, len(memory.body), languages[now], most)
    return snapshot._replace(overlay=overlay)


def _select(entries: dict[int, Value], uids: set[int]) -> dict[int, Value]:
    return {uid: value for uid, value in entries.items() if uid in uids}
