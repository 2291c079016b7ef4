"""One consistent view of the index: what is on disk, and what is not in it yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from memvault.errors import EmbedderError, MemvaultError, NotFound
from memvault.files.file_stamps import IndexCommit
from memvault.index.local.backend import KeywordStore, VectorStore
from memvault.index.local.manifest import Manifest
from memvault.index.local.nearest import ScoredPassages, nearest
from memvault.index.local.static_vectors import StaticVectors
from memvault.index.local.transformer_vectors import TransformerVectors
from memvault.index.local.vectors import hashes_of
from memvault.index.protocol import (
    KeywordAnswer,
    KeywordQuery,
    MatchLocation,
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    StaleView,
    VectorAnswer,
    VectorHit,
    VectorQuery,
)
from memvault.index.text.analysis import query_languages
from memvault.index.text.bm25f import KeywordDocument, field_lengths
from memvault.index.text.indexed_text import EncodedBlock, TextBlock, split_memory
from memvault.model import Memory, Passage
from memvault.store.memory_store import MemoryStore
from memvault.vault.file_names import SUPERSEDES, name_key, referenced_names

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

_FIRST = 2
"""Blocks of 1,000 words at a memory's beginning that are compared with every query."""


class Overlay(NamedTuple):
    """Changed memories read directly because the index could not be written.

    Their uids are negative. ``alive`` are the indexed memories that they leave
    as they were when the folder was compared: whatever another process commits
    meanwhile is not seen, or it would be seen twice. None: all are alive.
    ``missing`` counts changed memories that were too many to be read. ``texts``
    are memories as they were at the moment that a view is of.
    """

    records: dict[int, MemoryRecord]
    documents: list[KeywordDocument]
    passages: dict[int, list[str]]
    alive: frozenset[int] | None
    missing: int
    cuts: dict[int, list[TextBlock]]
    blocks: dict[int, list[EncodedBlock]]
    texts: Mapping[int, Memory] = MappingProxyType({})


EMPTY = Overlay({}, [], {}, None, 0, {}, {})


def blocks_to_read(places: MatchLocation, holding: Callable[[int], int]) -> list[int]:
    """Return which of a memory's blocks are compared; ``holding`` says which one has a passage."""
    wanted = {*range(_FIRST), *places.blocks}
    if places.passage is not None:
        wanted.add(holding(places.passage))
    return sorted(wanted)


class Snapshot(NamedTuple):
    """What a search sees, a ``View``; valid until the next look. ``unembedded`` lack a vector."""

    store: MemoryStore
    commit: IndexCommit | None
    manifest: Manifest | None
    words: KeywordStore
    vectors: VectorStore | None
    quick: StaticVectors
    deep: TransformerVectors
    overlay: Overlay
    unembedded: int
    complete: Callable[[], Snapshot] | None

    @property
    def name(self) -> str:
        """Nothing: it is the only vault that is asked."""
        return ""

    @property
    def sent(self) -> str:
        """Nothing: the files are at hand."""
        return ""

    def part(self, key: int) -> Snapshot:  # noqa: ARG002 - all memories lie here
        """Return this view."""
        return self

    @property
    def missing(self) -> int:
        """How many memories it leaves out because another process is still indexing them."""
        return self.overlay.missing

    def with_vectors(self) -> Snapshot:
        """Return the same view, in which vectors can be searched too."""
        return self.complete() if self.complete else self

    def record(self, uid: int) -> MemoryRecord | None:
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

    def records(self) -> Iterator[MemoryRecord]:
        """Yield every memory's record."""
        yield from self.overlay.records.values()
        if self.manifest is not None:
            for record in self.manifest.records():
                if self._is_alive(record.key):
                    yield record

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return every memory whose path, memId or its beginning, title or alias a name may be."""
        found = list(self.overlay.records.values())
        if self.manifest is not None:
            found += (
                entry for entry in self.manifest.find_by_name(name) if self._is_alive(entry.key)
            )
        return found

    def superseding(self, names: Sequence[str] | None) -> list[MemoryRecord]:
        """Return every memory whose header supersedes one of some names, or anything."""
        found = []
        for record in self.overlay.records.values():
            said = map(name_key, referenced_names(record.metadata, SUPERSEDES))
            if any(names is None or name in names for name in said):
                found.append(record)
        if self.manifest is not None:
            told = self.manifest.superseding(names)
            found += (entry for entry in told if self._is_alive(entry.key))
        return found

    def text(self, key: int) -> Memory | None:
        """Read a memory; None where it cannot be read, and ``Stale`` where it is another by now."""
        if key in self.overlay.texts:
            return self.overlay.texts[key]
        record = self.record(key)
        if record is None:
            raise StaleView
        try:
            memory = self.store.read(record.path)
        except NotFound as error:
            raise StaleView from error
        except MemvaultError:
            return None
        if memory.etag != record.etag:
            raise StaleView
        return memory

    def is_earlier(self, key: int) -> bool:
        """Say whether a memory's text is that of the view's moment, and another by now."""
        return key in self.overlay.texts

    def passages(self, key: int, places: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places, each with its number."""
        return [
            (number, passage)
            for block in self._blocks(key, places)
            for number, passage in enumerate(block.passages, block.first)
        ]

    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compare memories with a query by their sentences, those around their best places.

        How near their words are is told only where vectors are searched too.
        """
        from memvault.index.sentence_features import compute

        blocks = {key: self._blocks(key, own) for key, own in places.items()}
        blocks = {key: own for key, own in blocks.items() if own}
        table, frequency = None, None
        if self.vectors is not None:
            from memvault.index.local import subwords

            with suppress(EmbedderError):
                table = self.quick.table
                for key, own in blocks.items():
                    if any(block.subwords is None for block in own):
                        blocks[key] = subwords.told(table, own, self._cuts(key))
                if self.manifest is not None:
                    frequency = subwords.frequency_in(self.manifest, table.vocabulary)
        measured = compute(asked, list(blocks.values()), table, frequency)
        return dict(zip(blocks, measured, strict=True))

    def _cuts(self, key: int) -> Sequence[TextBlock]:
        """Return the stretches of a memory of which no tokens are kept yet, as they are made."""
        if key in self.overlay.cuts:
            return self.overlay.cuts[key]
        memory = self.text(key)
        return split_memory(memory) if memory is not None else ()

    def _blocks(self, key: int, places: MatchLocation) -> Sequence[EncodedBlock]:
        """Return a memory's first blocks, and those around its best places, in their order."""
        if key < 0:
            return self.overlay.blocks.get(key, ())
        if self.manifest is None:
            return ()
        wanted = blocks_to_read(places, partial(self.manifest.blocks.block_of_passage, key))
        return self.manifest.blocks.of(key, wanted)

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for words, best first, and how rare each is."""
        documents = self.overlay.documents
        lengths = self.manifest.lengths() if self.manifest else {}
        for name, count in field_lengths(documents).items():
            lengths[name] = lengths.get(name, 0.0) + count
        alive = query._replace(allowed_keys=self._alive(query.allowed_keys))
        return self.words.search(alive, lengths, documents)

    def languages(self) -> tuple[str, ...]:
        """Return the languages that a query is read in, that of most memories first."""
        found = Counter(record.language for record in self.overlay.records.values())
        if self.manifest is not None:
            found.update(self.manifest.languages())
        return query_languages(self.store.settings.language, found)

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a text, and those of ``also``; errors as for a view."""
        if self.vectors is None:
            return VectorAnswer(waiting=self.unembedded)
        vector = self.quick.table.embed_query(query.text)
        everything = self._alive(None)
        if everything is None:  # rows of memories that are gone stay for a while
            everything = self.manifest.uids() if self.manifest else set()
        passages = self._passages(vector, everything, query)
        deep = self.deep.score(query.text, query.language, passages)
        calibration = deep.calibration or self.quick.table.calibration
        wanted = everything if query.allowed_keys is None else everything & query.allowed_keys
        found = nearest(passages, deep.cosines, wanted, query.limit, query.include_keys)
        hits = []
        for uid, passage, cosine, depth in found:
            similarity = calibration.similarity(cosine if depth is None else depth)
            quick = self.quick.table.calibration.similarity(cosine)
            hits.append(VectorHit(uid, passage, cosine, similarity, depth, quick))
        return VectorAnswer(hits, self.unembedded, True, deep.share)

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return how alike memories are by one passage each, in 0..1, each to each."""
        import numpy as np

        if self.vectors is None:
            return []
        table = self.quick.table
        found = self.vectors.rows_of(passages)
        for key in passages.keys() & self.overlay.records.keys():
            text = self.overlay.passages.get(key, [])[passages[key] :][:1]
            if text:
                found[key] = table.embed(text)[0], hashes_of(text)[0]
        if len(found) < len(passages) or not found:
            return []
        rows, hashes = (np.array([found[key][part] for key in passages]) for part in (0, 1))
        return self.deep.similarity_matrix(hashes) or table.calibration.similarity_matrix(rows)

    def _passages(self, vector: Matrix, alive: Set[int], query: VectorQuery) -> ScoredPassages:
        """Return the passages of the nearest memories that are seen, with their cosines."""
        assert self.vectors is not None
        found = self.vectors.search(vector, query.limit, query.include_keys, query.allowed_keys).of(
            alive
        )
        for uid, texts in self.overlay.passages.items():
            if uid in alive:
                found = found.joined(uid, hashes_of(texts), self.quick.table.embed(texts) @ vector)
        return found
