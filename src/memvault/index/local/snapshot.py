"""A consistent snapshot of an index: one commit, and an overlay of newer changes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from contextlib import suppress
from functools import wraps
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from memvault.errors import EmbedderError, MemvaultError, NotFound
from memvault.index.keyword.bm25f import KeywordDocument, field_lengths, memory_segment
from memvault.index.keyword.keyword_index import rank_documents
from memvault.index.local.index_files import IndexFiles
from memvault.index.local.manifest import IndexCommit, Manifest
from memvault.index.protocol import (
    IndexCorrupted,
    KeywordAnswer,
    KeywordQuery,
    LinkEntry,
    MatchLocation,
    MemoryName,
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    StaleView,
    VectorAnswer,
    VectorQuery,
    page_of,
    without_documents,
)
from memvault.index.text.analyzer import analyzer, query_languages
from memvault.index.text.sentence_blocks import (
    EncodedBlock,
    TextBlock,
    encode_blocks,
    leading_part,
    split_memory,
)
from memvault.model import Memory, Passage
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryReader
from memvault.vault.date_ranges import DateRange
from memvault.vault.header_links import SUPERSEDES, referenced_names
from memvault.vault.names import name_key

if TYPE_CHECKING:
    from memvault.index.local.stores import KeywordStore
    from memvault.index.local.vector_search import VectorSearch

_LEADING_BLOCKS = 2
"""The number of blocks (of 1,000 words) at the start of a memory that are compared with every
query.
"""


class Overlay(NamedTuple):
    """Changed memories that are read directly because the index could not be written.

    Their uids are negative. ``alive`` contains the indexed memories that were unchanged when the
    folder was compared (None means all); later commits by other processes are ignored, so that no
    memory is found twice. ``missing`` counts changed memories that were not read because there were
    too many. ``texts`` contains the memories as of the snapshot's time.
    """

    records: dict[int, MemoryRecord]
    documents: list[KeywordDocument]
    passages: dict[int, list[str]]
    alive: frozenset[int] | None
    missing: int
    text_blocks: dict[int, list[TextBlock]]
    blocks: dict[int, list[EncodedBlock]]
    links: dict[int, LinkEntry]
    texts: Mapping[int, Memory] = MappingProxyType({})

    @classmethod
    def empty(cls, alive: frozenset[int] | None = None, missing: int = 0) -> Self:
        """Return an empty overlay."""
        return cls({}, [], {}, alive, missing, {}, {}, {})


def blocks_to_read(location: MatchLocation, passage_block: int) -> list[int]:
    """Return the blocks of a memory to compare.

    ``passage_block`` is the block of the matching passage.
    """
    selected = {*range(_LEADING_BLOCKS), *location.blocks}
    if location.passage is not None:
        selected.add(passage_block)
    return sorted(selected)


View = TypeVar("View", bound="Snapshot")
Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


def stale_if_corrupted(
    method: Callable[Concatenate[View, Arguments], Value],
) -> Callable[Concatenate[View, Arguments], Value]:
    """Decorate a method to raise ``StaleView`` and invalidate the commit if it is corrupted."""

    @wraps(method)
    def read(self: View, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        try:
            return method(self, *args, **kwargs)
        except IndexCorrupted as error:
            raise StaleView(self.files.discard(error, self.commit)) from error

    return read


class Snapshot(NamedTuple):
    """A ``View`` of an index, valid until the next refresh.

    If another machine published the memories, ``published_at`` is the time of publication, and
    ``fetch`` fetches texts from its engine. In this case the manifest contains no blocks; they are
    computed from the texts. ``fetch`` raises ``StaleView`` if the engine is unavailable.
    """

    store: MemoryReader
    files: IndexFiles
    commit: IndexCommit | None
    manifest: Manifest | None
    words: KeywordStore
    vectors: VectorSearch | None
    overlay: Overlay
    notes: tuple[str, ...] = ()
    published_at: str = ""
    fetch: Callable[[Iterable[int]], None] | None = None

    @property
    def missing(self) -> int:
        """See ``View.missing``."""
        return self.overlay.missing

    @property
    def state(self) -> Hashable:
        """See ``View.state``."""
        is_committed = self.overlay.alive is None and not self.overlay.records
        return self.commit.number if self.commit is not None and is_committed else None

    @stale_if_corrupted
    def record(self, uid: int) -> MemoryRecord | None:
        """See ``View.record``."""
        if uid < 0:
            return self.overlay.records.get(uid)
        record = self.manifest.record(uid) if self.manifest is not None else None
        return next(self._visible([record] if record is not None else []), None)

    @stale_if_corrupted
    def records_of(self, uids: Collection[int]) -> dict[int, MemoryRecord]:
        """See ``View.records_of``."""
        records = self.overlay.records
        result = {uid: records[uid] for uid in uids if uid in records}
        indexed = [uid for uid in uids if uid >= 0]
        if self.manifest is not None and indexed:
            visible = self._visible(self.manifest.records_of(indexed))
            result |= {record.uid: record for record in visible}
        return result

    def _visible(self, indexed: Iterable[MemoryRecord]) -> Iterator[MemoryRecord]:
        """Yield the indexed records that the overlay does not replace."""
        alive, published_at = self.overlay.alive, self.published_at
        for record in indexed:
            if alive is None or record.uid in alive:
                yield record._replace(published_at=published_at) if published_at else record

    def _alive(self, among: Set[int] | None) -> Set[int] | None:
        """Return the memories that a search may return, or None for all indexed ones."""
        if self.overlay.alive is None:
            return among
        alive = self.overlay.alive | self.overlay.records.keys()
        return alive if among is None else alive & among

    @stale_if_corrupted
    def records(self) -> Iterator[MemoryRecord]:
        """See ``View.records``."""
        return iter(self.visit_records(list))

    @stale_if_corrupted
    def visit_records(self, visit: Callable[[Iterable[MemoryRecord]], Value]) -> Value:
        """See ``View.visit_records``."""
        overlay = self.overlay.records.values()
        if self.manifest is None:
            return visit(overlay)
        return self.manifest.visit_records(
            lambda indexed: visit(chain(overlay, self._visible(indexed)))
        )

    @stale_if_corrupted
    def visit_names(self, visit: Callable[[Iterable[MemoryName]], Value]) -> Value:
        """See ``View.visit_names``."""
        overlay = [record.name for record in self.overlay.records.values()]
        if self.manifest is None:
            return visit(overlay)
        alive = self.overlay.alive
        return self.manifest.visit_names(
            lambda names: visit(
                chain(overlay, names)
                if alive is None
                else chain(overlay, (name for name in names if name.uid in alive))
            )
        )

    @stale_if_corrupted
    def dated(self, days: DateRange) -> Iterator[MemoryRecord]:
        """See ``View.dated``."""
        records = list(self.overlay.records.values())
        if self.manifest is not None:
            records += self._visible(self.manifest.dated(days))
        return iter(records)

    @stale_if_corrupted
    def latest(self, limit: int, offset: int) -> tuple[list[MemoryRecord], int]:
        """See ``View.latest``."""
        if self.manifest is None or self.overlay.alive is not None:
            return self.visit_records(
                lambda records: page_of(without_documents(records), limit, offset)
            )
        total = self.manifest.count() - self.manifest.count_documents()
        return list(self._visible(self.manifest.latest(limit, offset))), total

    @stale_if_corrupted
    def links(self, names: Set[str] | None = None) -> dict[int, LinkEntry]:
        """See ``View.links``."""
        indexed = self.manifest.links(names) if self.manifest is not None else {}
        alive = self._alive(None)
        if alive is not None:
            indexed = {uid: entry for uid, entry in indexed.items() if uid in alive}
        return indexed | self.overlay.links

    @stale_if_corrupted
    def find_by_name(
        self,
        name: str,
        vault: str = "",  # noqa: ARG002  # there is only one vault
    ) -> list[MemoryRecord]:
        """See ``View.find_by_name``."""
        records = list(self.overlay.records.values())
        if self.manifest is not None:
            records += self._visible(self.manifest.find_by_name(name))
        return records

    @stale_if_corrupted
    def superseding(
        self,
        names: Sequence[str] | None,
        vault: str = "",  # noqa: ARG002  # there is only one vault
    ) -> list[MemoryRecord]:
        """See ``View.superseding``."""
        records = []
        for record in self.overlay.records.values():
            if record.branch:  # An unmerged memory supersedes nothing.
                continue
            superseded = map(name_key, referenced_names(record.metadata, SUPERSEDES))
            if any(names is None or name in names for name in superseded):
                records.append(record)
        if self.manifest is not None:
            records += self._visible(self.manifest.superseding(names))
        return records

    @stale_if_corrupted
    def text(self, uid: int, accept_changed: bool = False) -> Memory | None:
        """See ``View.text``."""
        if uid in self.overlay.texts:
            return self.overlay.texts[uid]
        record = self.record(uid)
        if record is None:
            raise StaleView
        self._fetch([uid])
        try:
            data, _ = self.store.read_bytes(record.path)
            memory = record.memory_in(data, self.store.settings.encoding)
            if memory is None and (accept_changed or record.problem):
                memory = self.store.read(record.path)
        except NotFound as error:
            raise StaleView from error
        except MemvaultError:
            return None
        if memory is None or (memory.etag != record.etag and not accept_changed):
            raise StaleView
        return memory

    @stale_if_corrupted
    def passages(self, uid: int, location: MatchLocation) -> list[tuple[int, Passage]]:
        """See ``View.passages``."""
        return [
            (number, passage)
            for block in self._blocks({uid: location})[uid]
            for number, passage in enumerate(block.passages, block.first)
        ]

    @stale_if_corrupted
    def sentence_features(
        self, asked: SentenceQuery, locations: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """See ``View.sentence_features``.

        Features that need embeddings are computed only if the snapshot has vectors.
        """
        from memvault.index.text.sentence_features import compute

        self._fetch(locations)
        blocks = {uid: encoded for uid, encoded in self._blocks(locations).items() if encoded}
        soft_matches = None
        if self.vectors is not None:
            from memvault.index.local import soft_match

            with suppress(EmbedderError):
                table = self.vectors.load_table()
                for uid, memory_blocks in blocks.items():
                    if any(block.subwords is None for block in memory_blocks):
                        blocks[uid] = soft_match.add_subwords(
                            table, memory_blocks, self._text_blocks(uid)
                        )
                soft_matches = soft_match.soft_matches(
                    asked.text, list(blocks.values()), table, self.manifest
                )
        measured = compute(asked, list(blocks.values()), soft_matches)
        return dict(zip(blocks, measured, strict=True))

    def _text_blocks(self, uid: int) -> Sequence[TextBlock]:
        """Return the text segments of a memory whose subwords have not been stored yet."""
        if uid in self.overlay.text_blocks:
            return self.overlay.text_blocks[uid]
        memory = self.text(uid)
        return self._split(memory) if memory is not None else ()

    def _split(self, memory: Memory) -> list[TextBlock]:
        return split_memory(leading_part(memory, self.store.settings.index.characters))

    def _blocks(self, locations: Mapping[int, MatchLocation]) -> dict[int, Sequence[EncodedBlock]]:
        """Return each memory's first blocks and the blocks around its best matches, in order."""
        result: dict[int, Sequence[EncodedBlock]] = {}
        stored: dict[int, MatchLocation] = {}
        for uid, location in locations.items():
            if uid < 0 or self.manifest is None:
                result[uid] = self.overlay.blocks.get(uid, ())
            elif self.fetch is not None:
                result[uid] = self._computed_blocks(uid, location)
            else:
                stored[uid] = location
        if stored and self.manifest is not None:
            blocks = self.manifest.blocks
            passages = ((uid, location.passage) for uid, location in stored.items())
            holding = blocks.of_passages({uid: at for uid, at in passages if at is not None})
            result |= blocks.of(
                {
                    uid: blocks_to_read(location, holding.get(uid, 0))
                    for uid, location in stored.items()
                }
            )
        return {uid: result[uid] for uid in locations}

    def _computed_blocks(self, uid: int, location: MatchLocation) -> Sequence[EncodedBlock]:
        """Return a memory's blocks, split from its text and cached in ``overlay``."""
        blocks = self.overlay.blocks.get(uid)
        if blocks is None:
            try:
                record, memory = self.record(uid), self.text(uid)
            except StaleView as error:
                if error.reason is not None:
                    raise
                return ()  # the memory has changed since; the next refresh reads it again
            text_blocks = self._split(memory) if memory is not None else []
            language = record.language if record is not None else ""
            blocks = encode_blocks(text_blocks, analyzer(language)) if text_blocks else []
            self.overlay.text_blocks[uid], self.overlay.blocks[uid] = text_blocks, blocks
        firsts = [block.first for block in blocks]
        numbers = blocks_to_read(location, max(bisect_right(firsts, location.passage or 0) - 1, 0))
        return [blocks[number] for number in numbers if 0 <= number < len(blocks)]

    def _fetch(self, uids: Iterable[int]) -> None:
        """Fetch the texts of memories in one request if they are stored in an engine."""
        if self.fetch is not None:
            self.fetch(uids)

    @stale_if_corrupted
    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """See ``View.keyword``."""
        documents = self.overlay.documents
        lengths = self.manifest.lengths() if self.manifest else {}
        for name, count in field_lengths(documents).items():
            lengths[name] = lengths.get(name, 0.0) + count
        alive = query._replace(allowed_uids=self._alive(query.allowed_uids))
        segments = [*self.words.candidates(alive), memory_segment(documents)]
        answer = rank_documents(segments, alive, lengths)
        if self.fetch is None or self.manifest is None:
            return answer
        # Another machine may have published a newer index since the refresh.
        manifest_uids = self.manifest.uids()
        return answer._replace(hits=[hit for hit in answer.hits if hit.uid in manifest_uids])

    @stale_if_corrupted
    def languages(self) -> tuple[str, ...]:
        """See ``View.languages``."""
        counts = Counter(record.language for record in self.overlay.records.values())
        if self.manifest is not None:
            counts.update(self.manifest.languages())
        return query_languages(self.store.settings.language, counts)

    @stale_if_corrupted
    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """See ``View.nearest``."""
        if self.vectors is None:
            return VectorAnswer()
        return self.vectors.nearest(query, self._alive(None), self.overlay.passages, self.manifest)

    @stale_if_corrupted
    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """See ``View.similarity_matrix``."""
        if self.vectors is None:
            return []
        return self.vectors.similarity_matrix(passages, self.overlay.passages)

    @stale_if_corrupted
    def token_matches(self, text: str, passages: Mapping[int, Sequence[int]]) -> dict[int, float]:
        """See ``View.token_matches``."""
        if self.vectors is None:
            return {}
        return self.vectors.token_matches(text, passages, self.overlay.passages)
