"""The static vectors of an index, computed on refresh with the built-in static embedding table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from memvault.index.embedding.arrays import Hashes, Integers
from memvault.index.embedding.embedder import BUILTIN, read_card
from memvault.index.embedding.static import StaticEmbedder, open_table
from memvault.index.embedding.wordpiece import DATA
from memvault.index.local.backend import Backend, Progress
from memvault.index.local.manifest import Manifest
from memvault.index.vectors import static_vector_file
from memvault.index.vectors.vector_file import VectorCard, hashes_of

if TYPE_CHECKING:
    from memvault.index.local.file_analysis import EmbeddedPassages
    from memvault.index.local.stores import VectorStore

Texts = Callable[[str], list[str]]
"""A function that returns the passage texts of the memory at a path, as they are indexed."""

_BATCH = 256
_MAX_BATCH_PASSAGES = 4_000
"""The number of passages after which a batch is complete."""
_MAX_IN_MEMORY = 500
_MAX_DEAD_SHARE = 0.5
_MIN_ROWS_TO_COMPACT = 1_000


class StaticVectors:
    """The static vectors of an index, in a folder below the index's ``folder``."""

    def __init__(self, texts: Texts, folder: Path, progress: Progress, backend: Backend) -> None:
        self._backend = backend
        self._texts = texts
        self._folder = folder / "vectors"
        self._progress = progress
        self._last: VectorStore | None = None

    @cached_property
    def table(self) -> StaticEmbedder:
        """Return the static embedding table; raises ``EmbedderError`` if it cannot be loaded."""
        return open_table()

    def opened(self, manifest: Manifest) -> VectorStore | None:
        """Open the vectors; None if they are incomplete or of another table version."""
        vectors = self._backend.open_vectors(self._folder, manifest.identity())
        if vectors is not None and vectors.file.card.version != read_card(DATA).version:
            vectors = None
        self._last = vectors  # keeps this version's memory map open for later calls
        return vectors

    def stored(self, manifest: Manifest) -> tuple[Integers, Hashes] | None:
        """Return the uid and hash of each passage that has a vector; None without vectors."""
        vectors = self.opened(manifest)
        return static_vector_file.passages(vectors.file) if vectors is not None else None

    def pending(self, manifest: Manifest) -> list[tuple[int, str]]:
        """Return (uid, path) of the memories that have no vectors yet, in ascending order."""
        vectors = self.opened(manifest)
        return manifest.uids_above(vectors.file.card.last_uid if vectors else 0)

    def is_finished(self, manifest: Manifest) -> bool:
        """Return whether all memories have vectors that can be searched without delay.

        Files that another program has touched are verified completely each time, until the card
        records their new states.
        """
        vectors = self.opened(manifest)
        if vectors is None:
            return not manifest.uids_above(0)
        return vectors.file.is_unchanged and not manifest.uids_above(vectors.file.card.last_uid)

    def passages(self, pending: Sequence[tuple[int, str]]) -> dict[int, list[str]]:
        """Return the most recently indexed passages, at most 500, for embedding in memory.

        The limit keeps searches fast.
        """
        return {uid: self._texts(path) for uid, path in pending[-_MAX_IN_MEMORY:]}

    def embed(
        self,
        manifest: Manifest,
        texts: Mapping[int, list[str]] = MappingProxyType({}),
        embedded: EmbeddedPassages | None = None,
    ) -> None:
        """Embed all pending memories, lowest uid first; ``texts`` are passages already split.

        Vectors in ``embedded`` are appended if no other memories are pending. If either is passed,
        the caller reports the progress.
        """
        vectors = self.opened(manifest)
        if vectors is not None and not vectors.file.is_unchanged:
            vectors.file.write_card()
        if self.is_finished(manifest):
            return
        if vectors is None:
            vectors = self._backend.create_vectors(self._folder, self._card(manifest.identity()))
        pending = manifest.uids_above(vectors.file.card.last_uid)
        done = 0
        if embedded is not None and embedded.uids == [uid for uid, _ in pending]:
            vectors.append(*embedded)
            done = len(pending)
        while done < len(pending):
            passages = self._next_batch(pending[done : done + _BATCH], texts)
            batch = pending[done : done + len(passages)]
            all_texts = [text for entry in passages for text in entry]
            counts = [len(entry) for entry in passages]
            uids = [uid for uid, _ in batch]
            vectors.append(uids, counts, hashes_of(all_texts), self.table.embed(all_texts))
            done += len(batch)
            if not texts and len(pending) > _BATCH:
                self._progress("embedding", done, len(pending))
        file = vectors.file
        if (
            file.card.rows > _MIN_ROWS_TO_COMPACT
            and static_vector_file.memories(file) * (1 - _MAX_DEAD_SHARE) > manifest.count()
        ):
            static_vector_file.compact(file, manifest.uids())

    def _card(self, manifest: int) -> VectorCard:
        return VectorCard(BUILTIN, self.table.version, self.table.dimension, manifest)

    def _next_batch(
        self, pending: Sequence[tuple[int, str]], texts: Mapping[int, list[str]]
    ) -> list[list[str]]:
        """Return the passages of the first memories that fit into one batch."""
        batch: list[list[str]] = []
        count = 0
        for uid, path in pending:
            batch.append(texts.get(uid) or self._texts(path))
            count += len(batch[-1])
            if count > _MAX_BATCH_PASSAGES:
                break
        return batch
