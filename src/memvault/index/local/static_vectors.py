"""The static vectors of an index, computed on refresh with the built-in static embedding table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memvault.index.embedding.arrays import Hashes, Matrix, distinct
from memvault.index.embedding.embedder import BUILTIN, read_card
from memvault.index.embedding.static import StaticEmbedder, open_table
from memvault.index.embedding.wordpiece import DATA
from memvault.index.local.backend import Progress
from memvault.index.local.manifest import Manifest
from memvault.index.local.passage_table import Passages
from memvault.index.vectors.nearest import ScoredPassages
from memvault.index.vectors.vector_file import VectorCard, hashes_of
from memvault.index.vectors.vector_store import VectorStore, are_missing
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.index.local.file_analysis import Analysis

Texts = Callable[[str], list[str]]
"""A function that returns the passage texts of the memory at a path, as they are indexed."""

_BATCH = 256
"""The number of memories between progress reports."""
_MAX_BATCH_PASSAGES = 4_000
"""The number of passages after which a batch is complete."""
_MAX_IN_MEMORY = 500


class StoredPassages(NamedTuple):
    """The passages of memories, and the store of their static vectors."""

    passages: Passages
    store: VectorStore

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and hash of one passage of each memory, except removed memories."""
        uids, hashes = self.passages
        asked_uids = np.array(list(passages), np.int64)
        positions = np.searchsorted(uids, asked_uids) + np.array(list(passages.values()), np.int64)
        is_passage = positions < np.searchsorted(uids, asked_uids + 1)
        asked_uids, hashes = asked_uids[is_passage], hashes[positions[is_passage]]
        rows = self.store.row_numbers(hashes)
        is_stored = rows >= 0
        vectors = zip(self.store.rows(rows[is_stored]), hashes[is_stored], strict=True)
        return dict(zip(asked_uids[is_stored].tolist(), vectors, strict=True))

    def search(
        self,
        query: Matrix,
        limit: int,  # noqa: ARG002  # all rows are scored
        also: Set[int],  # noqa: ARG002  # all rows are scored
        among: Set[int] | None,  # noqa: ARG002  # all rows are scored
    ) -> ScoredPassages:
        """Return all passages with their cosines to a query, because computing all of them is fast.

        Memories without a vector are omitted.
        """
        uids, hashes = self.passages
        cosines = self.store.score(query, self.store.row_numbers(hashes))
        incomplete = distinct(uids[np.isnan(cosines)])
        return ScoredPassages(uids, hashes, cosines).select(~np.isin(uids, incomplete))


def open_store(folder: Path) -> VectorStore | None:
    """Open the vectors in a folder, or return None if this version of the table has none."""
    store = VectorStore.open(folder)
    is_current = store is not None and store.card.version == read_card(DATA).version
    return store if is_current else None


class StaticVectors:
    """The static vectors of an index, in a separate folder."""

    def __init__(self, texts: Texts, folder: Path, progress: Progress) -> None:
        self._texts = texts
        self._folder = folder
        self._progress = progress
        self._store: VectorStore | None = None

    @cached_property
    def table(self) -> StaticEmbedder:
        """Return the static embedding table; raises ``EmbedderError`` if it cannot be loaded."""
        return open_table()

    def opened(self) -> VectorStore | None:
        """Open the vectors, or return None if this version of the table has none."""
        store = open_store(self._folder)
        if store is None or self._store is None or self._store.card != store.card:
            self._store = store  # an unchanged store keeps its cached row numbers
        return self._store

    def stored(self, manifest: Manifest) -> StoredPassages | None:
        """Return the passages of all memories, or None if there are no vectors."""
        store = self.opened()
        return StoredPassages(manifest.passages.all(), store) if store is not None else None

    def pending(self, manifest: Manifest) -> list[tuple[int, str]]:
        """Return (uid, path) of the memories that lack a vector, in ascending order."""
        uids, hashes = manifest.passages.all()
        missing = distinct(uids[are_missing(self.opened(), hashes)]).tolist()
        return manifest.paths(missing) if missing else []

    def is_finished(self, manifest: Manifest) -> bool:
        """Return whether all memories have vectors that can be searched without delay.

        Files that another program has touched are verified completely each time until the card
        contains their new states.
        """
        store, (_, hashes) = self.opened(), manifest.passages.all()
        return (store is None or store.is_unchanged) and not are_missing(store, hashes).any()

    def passages(self, pending: Sequence[tuple[int, str]]) -> dict[int, list[str]]:
        """Return the most recently indexed passages, at most 500, for embedding in memory.

        The limit keeps searches fast.
        """
        return {uid: self._texts(path) for uid, path in pending[-_MAX_IN_MEMORY:]}

    def add(self, analysis: Analysis) -> None:
        """Add the vectors of analyzed passages, embedding them first if necessary."""
        if analysis.vectors is None:
            self._embed(chain.from_iterable(analysis.passages.values()))
        elif len(analysis.vectors):
            self._add(np.concatenate([*analysis.hashes.values()]), analysis.vectors)

    def embed(self, manifest: Manifest) -> None:
        """Embed the memories that lack vectors, with progress reports if there are many."""
        store = self.opened()
        if store is not None and not store.is_unchanged:
            store.record_states()
        pending = self.pending(manifest)
        for first in range(0, len(pending), _BATCH):
            batch = pending[first : first + _BATCH]
            self._embed(text for _, path in batch for text in self._texts(path))
            if len(pending) > _BATCH:
                self._progress("embedding", first + len(batch), len(pending))

    def compact(self, manifest: Manifest) -> None:
        """Drop unused vectors if they are more than half of all vectors."""
        store, (_, hashes) = self.opened(), manifest.passages.all()
        if store is not None and store.card.rows > 2 * len(hashes):
            store.compact(hashes, 0)

    def _embed(self, texts: Iterable[str]) -> None:
        remaining = iter(texts)
        while batch := list(islice(remaining, _MAX_BATCH_PASSAGES)):
            self._add(hashes_of(batch), self.table.embed(batch))

    def _add(self, hashes: Hashes, vectors: Matrix) -> None:
        card = VectorCard(BUILTIN, self.table.version, self.table.dimension)
        store = self.opened() or VectorStore.create(self._folder, card)
        store.add(hashes, vectors)
