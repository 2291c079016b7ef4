"""One consistent view of the index: what is on disk, and what is not in it yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from memvault.errors import EmbedderError
from memvault.index.embedding import calibrate
from memvault.index.embedding.embedder import Calibration, Embedder
from memvault.index.keyword import (
    KeywordAnswer,
    KeywordDocument,
    KeywordIndex,
    field_lengths,
)
from memvault.index.manifest import Manifest, Record
from memvault.index.vectors import VectorHit, Vectors
from memvault.vault.normal_form import folded

__all__ = ["Overlay", "Snapshot"]


class Overlay(NamedTuple):
    """Changed memories read directly because the index could not be written.

    Their uids are negative. ``alive`` are the indexed memories that they leave
    as they were when the folder was compared: whatever another process commits
    meanwhile is not seen, or it would be seen twice. None: all are alive.
    """

    records: dict[int, Record]
    documents: list[KeywordDocument]
    passages: dict[int, list[str]]
    alive: frozenset[int] | None


EMPTY = Overlay({}, [], {}, None)


class Snapshot:
    """What a search sees. Valid until the next refresh; any method may raise ``DamagedIndex``."""

    def __init__(
        self,
        manifest: Manifest | None,
        keyword: KeywordIndex,
        vectors: Vectors | None,
        open_embedder: Callable[[str], Embedder],
        overlay: Overlay = EMPTY,
        unembedded: int = 0,
        has_vectors: bool = False,
    ) -> None:
        self._manifest = manifest
        self._keyword = keyword
        self._vectors = vectors
        self._open_embedder = open_embedder
        self.overlay = overlay
        self.has_vectors = has_vectors
        self.unembedded = unembedded

    def record(self, uid: int) -> Record | None:
        """Return a memory's record."""
        if uid < 0:
            return self.overlay.records.get(uid)
        if self._manifest is None or not self._is_alive(uid):
            return None
        return self._manifest.record(uid)

    def _is_alive(self, uid: int) -> bool:
        alive = self.overlay.alive
        return uid < 0 or alive is None or uid in alive

    def records(self) -> Iterator[Record]:
        """Yield every memory's record."""
        yield from self.overlay.records.values()
        if self._manifest is not None:
            for record in self._manifest.records():
                if self._is_alive(record.uid):
                    yield record

    def find(self, name: str) -> list[Record]:
        """Return the memories that a path, a memId or its beginning, or an exact title names."""
        if self.overlay.alive is None:
            return self._manifest.find(name) if self._manifest is not None else []
        everything = list(self.records())
        kinds: tuple[Callable[[Record], bool], ...] = (
            lambda record: record.path == name,
            lambda record: record.mem_id == name,
            lambda record: record.title == name,
            lambda record: record.mem_id.startswith(name),
            lambda record: folded(record.title) == folded(name),
        )
        found = ([record for record in everything if fits(record)] for fits in kinds)
        return next((fitting for fitting in found if fitting), [])

    def keyword(
        self,
        stems: list[str],
        wholes: list[str],
        allowed: Callable[[int], bool] | None,
        limit: int,
        explain: bool = False,
    ) -> KeywordAnswer:
        """Return the best memories for terms, best first, and how rare each term is."""

        def passes(uid: int) -> bool:
            return self._is_alive(uid) and (allowed is None or allowed(uid))

        documents = self.overlay.documents
        lengths = self._manifest.lengths() if self._manifest else {}
        for name, count in field_lengths(documents).items():
            lengths[name] = lengths.get(name, 0.0) + count
        return self._keyword.search(stems, wholes, lengths, passes, limit, documents, explain)

    def embedder(self) -> Embedder | None:
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

    def calibration(self, embedder: Embedder) -> Calibration:
        """Return what the cosines mean: as measured, as found with these vectors, or found now.

        Only an index of an earlier version that cannot be written leaves it to be found now.

        Raises:
            EmbedderError: the anchors cannot be embedded.
        """
        kept = self._vectors.card.calibration if self._vectors is not None else None
        return embedder.calibration or kept or calibrate.fitted(embedder)

    def nearest(
        self,
        embedder: Embedder,
        query: str,
        allowed: Callable[[int], bool] | None,
        limit: int,
        also: frozenset[int] = frozenset(),
    ) -> dict[int, VectorHit]:
        """Return the memories nearest to a query, and those of ``also`` however far they are."""
        if self._vectors is None:
            return {}
        vector = embedder.embed_query(query)
        alive = self.overlay.alive
        if alive is None:
            alive = frozenset(self._manifest.uids() if self._manifest else ())

        def passes(uid: int) -> bool:
            return uid in alive and (allowed is None or allowed(uid))

        hits = {hit.uid: hit for hit in self._vectors.search(vector, passes, limit)}
        missing = frozenset(uid for uid in also if uid not in hits and uid >= 0)
        if missing:
            hits.update(self._vectors.best(vector, missing))
        for uid, texts in self.overlay.passages.items():
            if self._is_alive(uid) and (allowed is None or allowed(uid)):
                cosines = embedder.embed(texts) @ vector
                place = int(cosines.argmax())
                hits[uid] = VectorHit(uid, place, float(cosines[place]))
        return hits
