"""One consistent view of the index: what is on disk, and what is not in it yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from memvault.errors import EmbedderError, MemvaultError, NotFound
from memvault.index.embedding import calibrate
from memvault.index.embedding.embedder import Calibration, Embedder
from memvault.index.keyword import (
    KeywordDocument,
    KeywordIndex,
    field_lengths,
)
from memvault.index.manifest import Manifest
from memvault.index.protocol import KeywordAnswer, Record, Stale, VectorAnswer, VectorHit
from memvault.index.vectors import PassageHit, Vectors
from memvault.model import Memory
from memvault.vault.store import Store

__all__ = ["Overlay", "Snapshot"]


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


class Snapshot:
    """What a search sees. Valid until the next refresh; any method may raise ``DamagedIndex``."""

    def __init__(
        self,
        store: Store,
        manifest: Manifest | None,
        keyword: KeywordIndex,
        vectors: Vectors | None,
        open_embedder: Callable[[str], Embedder],
        overlay: Overlay = EMPTY,
        unembedded: int = 0,
        complete: Callable[[Overlay], Snapshot] | None = None,
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._keyword = keyword
        self._vectors = vectors
        self._open_embedder = open_embedder
        self._overlay = overlay
        self._complete = complete
        self.unembedded = unembedded

    @property
    def missing(self) -> int:
        """How many memories it leaves out because another process is still indexing them."""
        return self._overlay.missing

    def with_vectors(self) -> Snapshot:
        """Return the same view, in which vectors can be searched too."""
        return self._complete(self._overlay) if self._complete else self

    def record(self, uid: int) -> Record | None:
        """Return a memory's record."""
        if uid < 0:
            return self._overlay.records.get(uid)
        if self._manifest is None or not self._is_alive(uid):
            return None
        return self._manifest.record(uid)

    def _is_alive(self, uid: int) -> bool:
        alive = self._overlay.alive
        return uid < 0 or alive is None or uid in alive

    def _alive(self, among: Set[int] | None) -> Set[int] | None:
        """Return which memories a search may find; None for all that are indexed."""
        if self._overlay.alive is None:
            return among
        alive = self._overlay.alive | self._overlay.records.keys()
        return alive if among is None else alive & among

    def records(self) -> Iterator[Record]:
        """Yield every memory's record."""
        yield from self._overlay.records.values()
        if self._manifest is not None:
            for record in self._manifest.records():
                if self._is_alive(record.key):
                    yield record

    def named(self, name: str) -> list[Record]:
        """Return every memory whose path, memId, beginning of a memId or title a name may be."""
        found = list(self._overlay.records.values())
        if self._manifest is not None:
            found += (entry for entry in self._manifest.named(name) if self._is_alive(entry.key))
        return found

    def text(self, key: int) -> Memory | None:
        """Read a memory; None where it cannot be read.

        Raises:
            Stale: the file has gone or changed since the look.
        """
        record = self.record(key)
        if record is None:
            raise Stale
        try:
            memory = self._store.read(record.path)
        except NotFound as error:
            raise Stale from error
        except MemvaultError:
            return None
        if memory.etag != record.etag:
            raise Stale
        return memory

    def keyword(
        self,
        stems: list[str],
        wholes: list[str],
        among: Set[int] | None,
        limit: int,
        explain: bool,
    ) -> KeywordAnswer:
        """Return the best memories for terms, best first, and how rare each term is."""
        documents = self._overlay.documents
        lengths = self._manifest.lengths() if self._manifest else {}
        for name, count in field_lengths(documents).items():
            lengths[name] = lengths.get(name, 0.0) + count
        return self._keyword.search(
            stems, wholes, lengths, self._alive(among), limit, documents, explain
        )

    def _embedder(self) -> Embedder | None:
        """Return the embedder that made the vectors; None where there are none.

        Raises:
            EmbedderError: it cannot be loaded here.
        """
        if self._vectors is None:
            return None
        embedder = self._open_embedder(self._vectors.card.embedder)
        if embedder.version != self._vectors.card.version:
            raise EmbedderError(
                f"The vectors were made by another version of {embedder.name}",
                "memvault reindex makes them anew",
            )
        return embedder

    def _calibration(self, embedder: Embedder) -> Calibration:
        """Return what the cosines mean: as measured, as found with these vectors, or found now.

        Only an index of an earlier version that cannot be written leaves it to be found now.

        Raises:
            EmbedderError: the anchors cannot be embedded.
        """
        kept = self._vectors.card.calibration if self._vectors is not None else None
        return embedder.calibration or kept or calibrate.fitted(embedder)

    def nearest(
        self,
        text: str,
        among: Set[int] | None,
        limit: int,
        also: frozenset[int],
    ) -> VectorAnswer:
        """Return the memories nearest to a text, and those of ``also`` however far they are.

        Raises:
            EmbedderError: the model that made the vectors cannot be loaded.
        """
        embedder = self._embedder()
        if embedder is None or self._vectors is None:
            return VectorAnswer(waiting=self.unembedded)
        calibration = self._calibration(embedder)
        vector = embedder.embed_query(text)
        alive = self._alive(among)
        if self._overlay.alive is None:  # rows of memories that are gone stay for a while
            indexed = self._manifest.uids() if self._manifest else set()
            alive = indexed if among is None else indexed & among
        assert alive is not None
        found = self._vectors.search(vector, alive, limit, also)
        near = {hit.uid: hit for hit in found}
        for uid, texts in self._overlay.passages.items():
            if uid in alive:
                cosines = embedder.embed(texts) @ vector
                place = int(cosines.argmax())
                near[uid] = PassageHit(uid, place, float(cosines[place]))
        hits = [VectorHit(*hit, calibration.similarity(hit.cosine)) for hit in near.values()]
        ordered = sorted(hits, key=lambda hit: (-hit.cosine, hit.key))
        return VectorAnswer(ordered, self.unembedded, True)
