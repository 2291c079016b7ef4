"""One consistent view of the index: what is on disk, and what is not in it yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING, NamedTuple

from memvault.errors import MemvaultError, NotFound
from memvault.index.bm25f import KeywordDocument, field_lengths
from memvault.index.deep_side import DeepSide
from memvault.index.file_states import Commit
from memvault.index.flat_vectors import hashes_of
from memvault.index.keyword import KeywordIndex
from memvault.index.manifest import Manifest
from memvault.index.nearest import Passages, nearest
from memvault.index.protocol import KeywordAnswer, Record, Stale, VectorAnswer, VectorHit
from memvault.index.quick_side import QuickSide
from memvault.index.vectors import Vectors
from memvault.model import Memory
from memvault.vault.store import Store

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class Overlay(NamedTuple):
    """Changed memories read directly because the index could not be written.

    Their uids are negative. ``alive`` are the indexed memories that they leave
    as they were when the folder was compared: whatever another process commits
    meanwhile is not seen, or it would be seen twice. None: all are alive.
    ``missing`` counts changed memories that were too many to be read.
    """

    records: dict[int, Record]
    documents: list[KeywordDocument]
    passages: dict[int, list[str]]
    alive: frozenset[int] | None
    missing: int = 0


EMPTY = Overlay({}, [], {}, None)


class Snapshot(NamedTuple):
    """What a search sees, a ``View``; valid until the next look. ``unembedded`` lack a vector."""

    store: Store
    commit: Commit | None
    manifest: Manifest | None
    words: KeywordIndex
    vectors: Vectors | None
    quick: QuickSide
    deep: DeepSide
    overlay: Overlay
    unembedded: int
    complete: Callable[[], Snapshot] | None

    @property
    def missing(self) -> int:
        """How many memories it leaves out because another process is still indexing them."""
        return self.overlay.missing

    def with_vectors(self) -> Snapshot:
        """Return the same view, in which vectors can be searched too."""
        return self.complete() if self.complete else self

    def record(self, uid: int) -> Record | None:
        """Return a memory's record."""
        if uid < 0:
            return self.overlay.records.get(uid)
        if self.manifest is None or not self._is_alive(uid):
            return None
        return self.manifest.record(uid)

    def _is_alive(self, uid: int) -> bool:
        alive = self.overlay.alive
        return uid < 0 or alive is None or uid in alive

    def _alive(self, among: Set[int] | None) -> Set[int] | None:
        """Return which memories a search may find; None for all that are indexed."""
        if self.overlay.alive is None:
            return among
        alive = self.overlay.alive | self.overlay.records.keys()
        return alive if among is None else alive & among

    def records(self) -> Iterator[Record]:
        """Yield every memory's record."""
        yield from self.overlay.records.values()
        if self.manifest is not None:
            for record in self.manifest.records():
                if self._is_alive(record.key):
                    yield record

    def named(self, name: str) -> list[Record]:
        """Return every memory whose path, memId, beginning of a memId or title a name may be."""
        found = list(self.overlay.records.values())
        if self.manifest is not None:
            found += (entry for entry in self.manifest.named(name) if self._is_alive(entry.key))
        return found

    def text(self, key: int) -> Memory | None:
        """Read a memory; None where it cannot be read, and ``Stale`` where it is another by now."""
        record = self.record(key)
        if record is None:
            raise Stale
        try:
            memory = self.store.read(record.path)
        except NotFound as error:
            raise Stale from error
        except MemvaultError:
            return None
        if memory.etag != record.etag:
            raise Stale
        return memory

    def keyword(
        self, stems: list[str], wholes: list[str], among: Set[int] | None, limit: int, explain: bool
    ) -> KeywordAnswer:
        """Return the best memories for terms, best first, and how rare each term is."""
        documents = self.overlay.documents
        lengths = self.manifest.lengths() if self.manifest else {}
        for name, count in field_lengths(documents).items():
            lengths[name] = lengths.get(name, 0.0) + count
        return self.words.search(
            stems, wholes, lengths, self._alive(among), limit, documents, explain
        )

    def nearest(
        self, text: str, among: Set[int] | None, limit: int, also: frozenset[int]
    ) -> VectorAnswer:
        """Return the memories nearest to a text, and those of ``also``; errors as for a view."""
        if self.vectors is None:
            return VectorAnswer(waiting=self.unembedded)
        vector = self.quick.table.embed_query(text)
        everything = self._alive(None)
        if everything is None:  # rows of memories that are gone stay for a while
            everything = self.manifest.uids() if self.manifest else set()
        passages = self._passages(vector, everything)
        deep = self.deep.measured(text, passages)
        calibration = deep.calibration or self.quick.table.calibration
        found = nearest(
            passages, deep.cosines, everything if among is None else everything & among, limit, also
        )
        hits = []
        for uid, passage, cosine, depth in found:
            similarity = calibration.similarity(cosine if depth is None else depth)
            hits.append(VectorHit(uid, passage, cosine, similarity, depth))
        return VectorAnswer(hits, self.unembedded, True, deep.name, deep.waiting)

    def _passages(self, query: Matrix, alive: Set[int]) -> Passages:
        """Return the passages of all memories that are seen, with their cosines to a query."""
        assert self.vectors is not None
        found = self.vectors.measured(query).of(alive)
        for uid, texts in self.overlay.passages.items():
            if uid in alive:
                found = found.joined(uid, hashes_of(texts), self.quick.table.embed(texts) @ query)
        return found
