"""One consistent view of the index: what is on disk, and what is not in it yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from memvault.errors import EmbedderError, MemvaultError, NotFound
from memvault.index.analysis import in_use
from memvault.index.bm25f import KeywordDocument, field_lengths
from memvault.index.embedding import calibrate
from memvault.index.embedding.embedder import BUILTIN, Embedder
from memvault.index.embedding.static import StaticEmbedder
from memvault.index.file_states import Commit
from memvault.index.keyword import KeywordIndex
from memvault.index.manifest import Manifest
from memvault.index.protocol import (
    Asked,
    Closeness,
    KeywordAnswer,
    Places,
    Record,
    Stale,
    VectorAnswer,
    VectorHit,
)
from memvault.index.sentences import Block, Cut
from memvault.index.vectors import PassageHit, Vectors
from memvault.model import Memory, Passage
from memvault.vault.replaced import SUPERSEDES, looked_for, names_under
from memvault.vault.store import Store


class Overlay(NamedTuple):
    """Changed memories read directly because the index could not be written.

    Their uids are negative. ``alive`` are the indexed memories that they leave
    as they were when the folder was compared: whatever another process commits
    meanwhile is not seen, or it would be seen twice. None: all are alive.
    ``missing`` counts changed memories that were too many to be read. ``texts``
    are memories as they were at the moment that a view is of.
    """

    records: dict[int, Record]
    documents: list[KeywordDocument]
    passages: dict[int, list[str]]
    alive: frozenset[int] | None
    missing: int
    cuts: dict[int, list[Cut]]
    blocks: dict[int, list[Block]]
    texts: Mapping[int, Memory] = MappingProxyType({})


_FIRST = 4
"""Blocks of 1,000 words at a memory's beginning that are compared with every query."""

EMPTY = Overlay({}, [], {}, None, 0, {}, {})


class Snapshot(NamedTuple):
    """What a search sees, a ``View``; valid until the next look. ``unembedded`` lack a vector."""

    store: Store
    commit: Commit | None
    manifest: Manifest | None
    words: KeywordIndex
    vectors: Vectors | None
    open_embedder: Callable[[str], Embedder]
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

    def superseding(self, names: Sequence[str]) -> list[Record]:
        """Return every memory whose header supersedes one of some names."""
        wanted = set(names)
        found = [
            record
            for record in self.overlay.records.values()
            if wanted.intersection(map(looked_for, names_under(record.metadata, SUPERSEDES)))
        ]
        if self.manifest is not None:
            said = self.manifest.superseding(names)
            found += (entry for entry in said if self._is_alive(entry.key))
        return found

    def text(self, key: int) -> Memory | None:
        """Read a memory; None where it cannot be read, and ``Stale`` where it is another by now."""
        if key in self.overlay.texts:
            return self.overlay.texts[key]
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

    def is_earlier(self, key: int) -> bool:
        """Say whether a memory's text is that of the view's moment, and another by now."""
        return key in self.overlay.texts

    def passages(self, key: int, places: Places) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places, each with its number."""
        return [
            (number, passage)
            for block in self._blocks(key, places)
            for number, passage in enumerate(block.passages, block.first)
        ]

    def closeness(self, asked: Asked, places: Mapping[int, Places]) -> dict[int, Closeness]:
        """Compare memories with a query by their sentences, those around their best places."""
        from memvault.index import closeness, token_store

        blocks = {key: self._blocks(key, own) for key, own in places.items()}
        blocks = {key: own for key, own in blocks.items() if own}
        try:
            opened = self.open_embedder(BUILTIN)
        except EmbedderError:
            opened = None
        table = opened if isinstance(opened, StaticEmbedder) else None
        frequency = None
        if table is not None:
            for key in blocks.keys() & self.overlay.cuts.keys():
                blocks[key] = token_store.told(table, blocks[key], self.overlay.cuts[key])
            if self.manifest is not None:
                frequency = token_store.frequency_in(self.manifest, table.vocabulary)
        measured = closeness.measure(asked, list(blocks.values()), table, frequency)
        return dict(zip(blocks, measured, strict=True))

    def _blocks(self, key: int, places: Places) -> Sequence[Block]:
        """Return a memory's first blocks, and those around its best places, in their order."""
        if key < 0:
            return self.overlay.blocks.get(key, ())
        if self.manifest is None:
            return ()
        wanted = {*range(_FIRST), *places.blocks}
        if places.passage is not None:
            wanted.add(self.manifest.blocks.holding(key, places.passage))
        return self.manifest.blocks.of(key, sorted(wanted))

    def keyword(
        self,
        words: Sequence[tuple[str, ...]],
        wholes: Sequence[str],
        among: Set[int] | None,
        limit: int,
        explain: bool,
    ) -> KeywordAnswer:
        """Return the best memories for words, best first, and how rare each is."""
        documents = self.overlay.documents
        lengths = self.manifest.lengths() if self.manifest else {}
        for name, count in field_lengths(documents).items():
            lengths[name] = lengths.get(name, 0.0) + count
        return self.words.search(
            words, wholes, lengths, self._alive(among), limit, documents, explain
        )

    def languages(self) -> tuple[str, ...]:
        """Return the languages that a query is read in, that of most memories first."""
        found = Counter(record.language for record in self.overlay.records.values())
        if self.manifest is not None:
            found.update(self.manifest.languages())
        return in_use(self.store.settings.language, found)

    def nearest(
        self, text: str, among: Set[int] | None, limit: int, also: frozenset[int]
    ) -> VectorAnswer:
        """Return the memories nearest to a text, and those of ``also``; errors as for a view."""
        if self.vectors is None:
            return VectorAnswer(waiting=self.unembedded)
        card = self.vectors.card
        embedder = self.open_embedder(card.embedder)
        if embedder.version != card.version:
            raise EmbedderError(
                f"The vectors were made by another version of {embedder.name}",
                "memvault reindex makes them anew",
            )
        # Only an index of an earlier version that cannot be written leaves it to be found now.
        calibration = embedder.calibration or card.calibration or calibrate.fitted(embedder)
        vector = embedder.embed_query(text)
        alive = self._alive(among)
        if self.overlay.alive is None:  # rows of memories that are gone stay for a while
            indexed = self.manifest.uids() if self.manifest else set()
            alive = indexed if among is None else indexed & among
        assert alive is not None
        found = self.vectors.search(vector, alive, limit, also)
        near = {hit.uid: hit for hit in found}
        for uid, texts in self.overlay.passages.items():
            if uid in alive:
                cosines = embedder.embed(texts) @ vector
                place = int(cosines.argmax())
                near[uid] = PassageHit(uid, place, float(cosines[place]))
        hits = [VectorHit(*hit, calibration.similarity(hit.cosine)) for hit in near.values()]
        ordered = sorted(hits, key=lambda hit: (-hit.cosine, hit.key))
        return VectorAnswer(ordered, self.unembedded, True)
