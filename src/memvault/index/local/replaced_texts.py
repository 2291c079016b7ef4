"""Snapshots in which some memories have other texts, read and scored like unindexed files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from memvault.index.local.refresh import add_memory
from memvault.index.local.snapshot import Overlay, Snapshot
from memvault.index.protocol import MemoryRecord
from memvault.model import Memory

Value = TypeVar("Value")


def with_texts(
    seen: Snapshot, records: Iterable[MemoryRecord], texts: Mapping[int, Memory]
) -> Snapshot:
    """Return a snapshot of the given memories, some of which have other texts.

    ``texts`` are given by the keys of the memories that they replace. In the new snapshot they have
    keys of their own, those of ``overlay.texts``, in the same order.
    """
    languages = {record.key: record.language for record in records}
    unchanged = languages.keys() - texts.keys()
    previous = seen.overlay
    first = min(previous.records, default=0) - 1
    replaced = {first - place: memory for place, memory in enumerate(texts.values())}
    overlay = Overlay(
        _select(previous.records, unchanged),
        [document for document in previous.documents if document.uid in unchanged],
        _select(previous.passages, unchanged),
        frozenset(key for key in unchanged if key > 0),
        previous.missing,
        _select(previous.cuts, unchanged),
        _select(previous.blocks, unchanged),
        _select(previous.links, unchanged),
        replaced,
    )
    most = seen.store.settings.index.characters
    for now, (key, memory) in zip(texts, replaced.items(), strict=True):
        add_memory(overlay, key, memory, len(memory.body), languages[now], most)
    return seen._replace(overlay=overlay)


def _select(entries: dict[int, Value], keys: set[int]) -> dict[int, Value]:
    return {key: value for key, value in entries.items() if key in keys}
