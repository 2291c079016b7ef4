"""The interface of an index, independent of its implementation and location.

An index is refreshed once per call; the refresh returns a ``View``. Memories have uids that are
valid only within one view.
"""

from __future__ import annotations

import sys
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
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from memvault.errors import MemvaultError
from memvault.model import DateSource, Memory, Passage, aliases_of, is_document
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from array import array

    from memvault.vault.date_ranges import DateRange
    from memvault.vault.folder_watch import FolderWatch


Value = TypeVar("Value")


_MIN_SORTED = 100
"""The minimum number of records to sort, so that ``page_of`` does not sort too often."""


class IndexCorrupted(Exception):
    """The index on disk cannot be used; it is rebuilt, never repaired.

    Views never raise this error.
    """


class VectorsCorrupted(IndexCorrupted):
    """The vectors of one embedder cannot be used; only those vectors are rebuilt."""


class StaleView(Exception):
    """A view can no longer be read, so the index must be refreshed.

    ``reason`` is the error to show to the user if a refresh does not help, or None if a memory has
    changed.
    """

    def __init__(self, reason: MemvaultError | None = None) -> None:
        super().__init__(reason.message if reason is not None else "")
        self.reason = reason


class WaitPolicy(NamedTuple):
    """How long to wait while another process writes the index; whether to accept a partial view.

    ``indexing`` is the number of seconds to wait while the other process has many files to index,
    and ``unreadable`` is the number of seconds to wait while no readable commit exists, which
    happens briefly during each commit. ``allow_partial`` is whether a partial view is acceptable
    after that time. ``index_seconds`` is the number of seconds after which this process stops
    indexing and returns a partial view, or None to index everything first. ``git_seconds`` limits
    how long git may take to read new commits, whose times are otherwise indexed later.
    """

    indexing: float
    unreadable: float
    allow_partial: bool
    index_seconds: float | None = None
    git_seconds: float = 2.0


COMPLETE = WaitPolicy(60.0, 60.0, False, git_seconds=10.0)
"""For tasks whose result would be wrong if any memory were missing."""
BEST_EFFORT = WaitPolicy(2.0, 60.0, True)
"""For answers, which report the number of missing memories."""
EARLY = BEST_EFFORT._replace(index_seconds=2.0)
"""For answers at a terminal, where the user can start reading while indexing continues."""
FINISHING = BEST_EFFORT._replace(git_seconds=60.0)
"""For work after an answer, when nobody is waiting."""
NO_WAIT = WaitPolicy(0.0, 1.0, False)
"""For tasks that should be skipped rather than delayed."""


class MemoryRecord(NamedTuple):
    """Everything the index stores about a memory, except its text.

    ``size`` is the size of its file in bytes; ``language`` is the language in which it is indexed.
    The view sets the other fields: ``vault`` is the name of its vault if several are searched,
    ``published_at`` is when another machine published it, empty if its file is on this machine, and
    ``is_past`` is true if the view shows an earlier version of its text. ``branch`` is its git
    branch if this worktree does not contain the memory.
    """

    uid: int
    path: str
    size: int
    etag: str
    mem_id: str
    title: str
    memory_type: str
    tags: tuple[str, ...]
    created: str
    modified: str
    metadata: dict[str, Any]
    problem: str
    language: str
    created_from: DateSource
    modified_from: DateSource
    vault: str = ""
    published_at: str = ""
    is_past: bool = False
    branch: str = ""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the other names in its header."""
        return aliases_of(self.metadata)

    @classmethod
    def from_memory(cls, uid: int, size: int, memory: Memory, language: str) -> MemoryRecord:
        """Create the record of a memory that was just read from its file."""
        separate = ("uid", "size", "language", *cls._field_defaults)
        shared = {name: getattr(memory, name) for name in cls._fields if name not in separate}
        return cls(uid=uid, size=size, language=language, **shared)

    @property
    def name(self) -> MemoryName:
        """Return the memory's names."""
        return MemoryName(self.uid, self.path, self.mem_id, self.title, self.aliases)

    def memory(self, body: str, newline: str, body_line: int = 1) -> Memory:
        """Return the memory with this record and the given text."""
        shared = {name: getattr(self, name) for name in Memory._fields if name in self._fields}
        return Memory(**shared, body=body, newline=newline, body_line=body_line)

    def memory_in(self, data: bytes, encoding: str) -> Memory | None:
        """Return the memory in its file's bytes, without parsing the header and the tags again.

        Returns None if the bytes have changed, or if the record may be incomplete.
        """
        from memvault.vault.decoding import decode
        from memvault.vault.document import etag
        from memvault.vault.front_matter import split_front_matter

        if self.problem or etag(data) != self.etag:
            return None
        parts = split_front_matter(decode(data, encoding).text)
        return self.memory(parts.body, parts.newline, parts.body_line)


class MemoryName(NamedTuple):
    """The uid, path, memId, title and aliases of a memory."""

    uid: int
    path: str
    mem_id: str
    title: str
    aliases: tuple[str, ...]


def by_time(record: MemoryRecord) -> tuple[str, str]:
    """Return a sort key by the time of the last change."""
    return record.modified, record.path


def latest_first(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    """Return records sorted by the time of the last change, latest first."""
    return sorted(records, key=by_time, reverse=True)


def without_documents(records: Iterable[MemoryRecord]) -> Iterator[MemoryRecord]:
    """Yield the records of memories that are not documents."""
    return (record for record in records if not is_document(record.path))


def state_of(view: View) -> Hashable:
    """Return a value that changes whenever a memory of a view is added, changed or deleted."""
    if view.state is not None:
        return view.state
    return frozenset((record.path, record.etag) for record in view.records())


def page_of(
    records: Iterable[MemoryRecord],
    limit: int,
    offset: int,
    order: Callable[[Iterable[MemoryRecord]], list[MemoryRecord]] = latest_first,
) -> tuple[list[MemoryRecord], int]:
    """Return a page of the records, by default the last modified first, and the total number.

    Records beyond the page are dropped periodically to limit memory use.
    """
    end, total = offset + limit, 0
    first: list[MemoryRecord] = []
    for record in records:
        total += 1
        first.append(record)
        if len(first) > 2 * end + _MIN_SORTED:
            first = order(first)[:end]
    return order(first)[offset:end], total


class StoredLink(NamedTuple):
    """A link in a memory's text, or the name of another memory in its header.

    ``target`` has the form of ``vault.markdown.Link.target``; ``line`` is the line number in the
    text, from 0. ``beside`` is the result of ``vault.markdown.Link.path_beside``. For a name in the
    header, ``key`` is its key and ``line`` is -1.
    """

    target: str
    beside: str = ""
    line: int = -1
    key: str = ""


class LinkEntry(NamedTuple):
    """A memory as used for resolving links: its names, and its links, those in the text first.

    ``names`` is the result of ``vault.names.link_keys``.
    """

    path: str
    names: Sequence[str]
    links: Sequence[StoredLink]

    @classmethod
    def from_memory(cls, memory: Memory) -> LinkEntry:
        """Return the names and links of a memory that was just read from its file."""
        from memvault.vault.header_links import header_links
        from memvault.vault.markdown import links
        from memvault.vault.names import link_keys

        names = link_keys(memory.path, memory.mem_id, memory.title, memory.aliases)
        stored: list[StoredLink] = []
        if is_document(memory.path):  # a document's links are not followed
            return cls(memory.path, names, stored)
        line = position = 0
        for link in links(memory.body):
            line += memory.body.count("\n", position, link.span[0])
            position = link.span[0]
            stored.append(StoredLink(link.target, link.path_beside(memory.path), line))
        stored += [StoredLink(name, key=key) for key, name in header_links(memory.metadata)]
        return cls(memory.path, names, stored)


class KeywordQuery(NamedTuple):
    """A keyword search: the words in a query, and how to limit the results.

    ``term_groups`` has one group of alternative stems per word; ``exact_terms`` contains unstemmed
    words. ``allowed_uids`` restricts the results unless it is None; ``limit`` is the maximum number
    of hits. With ``explain`` a hit includes the score of each term.
    """

    term_groups: Sequence[tuple[str, ...]]
    exact_terms: Sequence[str] = ()
    allowed_uids: Set[int] | None = None
    limit: int = sys.maxsize
    explain: bool = False


class KeywordHit(NamedTuple):
    """A keyword hit: a memory's BM25F score and the contribution of each query term.

    ``blocks`` contains the numbers of its best blocks.
    """

    uid: int
    score: float
    terms: dict[str, float]
    blocks: tuple[int, ...] = (0,)


class KeywordAnswer(NamedTuple):
    """The hits of a keyword search, best first, and the idf of each word among all memories.

    In ``idf`` a word is identified by its first stem. ``document_count`` is the number of documents
    in the collection statistics.
    """

    hits: Sequence[KeywordHit] = ()
    idf: Mapping[str, float] = MappingProxyType({})
    document_count: int = 0


DISTINCTIVE_BIT = 1
"""The bit of a term id (``SentenceFeatures.term_ids``) that marks numbers and negations."""
SKIP_BIT = 2
"""The bit of a term id that marks terms that may occur between two words that count as adjacent.
These are stop words, which are removed from queries, single characters between pairs in scripts
without spaces, and further stems of one word.
"""


class SentenceQuery(NamedTuple):
    """A query to compare with sentences: its text, its words, and the rarity of each word.

    A word is a group of alternative stems. ``identifiers`` has, for each version, address or other
    identifier with digits, the positions of its parts among the words.
    """

    text: str
    words: Sequence[Sequence[str]]
    rarity: Sequence[float]
    identifiers: Sequence[tuple[int, ...]] = ()


class SentenceFeatures(NamedTuple):
    """Sentence-level features of a memory for a query, in 0..1.

    ``coverage`` is the share of the query's words, weighted by rarity, that the memory contains.
    ``proximity`` is the largest such share within one stretch of one or two sentences.
    ``adjacency`` is the share of the query's adjacent word pairs that are adjacent in the memory,
    or None if the query has fewer than two words. ``title_coverage`` is the share that the title
    and tags contain. ``soft_match`` is the similarity of the best stretch to the query's words, and
    ``title_soft_match`` is the similarity of the title and tags; both are None if they could not be
    computed. ``term_ids`` contains the ids of all terms. ``number_coverage`` is the share of the
    query's numbers and identifiers that the memory contains, where an identifier requires all parts
    in order; it is None if the query has no numbers or identifiers. ``codes`` contains the term ids
    in text order.
    """

    coverage: float
    proximity: float
    adjacency: float | None
    title_coverage: float
    soft_match: float | None
    title_soft_match: float | None
    term_ids: frozenset[int]
    number_coverage: float | None = None
    codes: Sequence[array[int]] = ()


class VectorQuery(NamedTuple):
    """A vector search: the text of a query, its language, and how to limit the results.

    The answer contains the ``limit`` memories nearest by static vectors, the same number by
    transformer vectors if they are used, and the memories in ``include_uids`` at any distance.
    ``allowed_uids`` restricts the results unless it is None. With ``only_static``, transformer
    vectors are not used; with ``only_stored``, missing ones are not computed.
    """

    text: str
    language: str
    allowed_uids: Set[int] | None
    limit: int
    include_uids: frozenset[int] = frozenset()
    only_static: bool = False
    only_stored: bool = False


class VectorHit(NamedTuple):
    """A memory's nearest passage: its number, its cosine to the query, and its similarity.

    ``static_cosine`` and ``transformer_cosine`` are the cosines of the two kinds of vectors;
    ``transformer_cosine`` is None if transformer vectors are not used. If ``is_estimated``, the
    transformer vector has not been computed yet, and its cosine is estimated from
    ``static_cosine``. ``similarity`` is in 0..1 and comparable between embedders;
    ``static_similarity`` is its value without transformer vectors. ``next_passage`` is the number
    of the second nearest passage, or None if there is only one. ``is_multilingual`` is whether the
    cosine comes from the bundled multilingual model.
    """

    uid: int
    passage: int
    static_cosine: float
    similarity: float
    transformer_cosine: float | None = None
    static_similarity: float = 0.0
    next_passage: int | None = None
    is_estimated: bool = False
    is_multilingual: bool = False


class MatchLocation(NamedTuple):
    """Where to look for matches in a memory: its best keyword blocks and its nearest passage."""

    blocks: tuple[int, ...] = ()
    passage: int | None = None


class VectorAnswer(NamedTuple):
    """The hits of a vector search, nearest first, and the number of memories without vectors.

    ``has_vectors`` is true if any memory has vectors. ``transformer_weight`` rates how well the
    transformer model separates related texts from other texts: 1 is the built-in transformer, and 0
    means that transformer vectors are not used. ``is_multilingual`` is whether any of the vectors
    come from the bundled multilingual model.

    ``static_mean`` and ``static_spread`` are the mean and standard deviation of the best static
    cosine of each of the ``memories`` memories with vectors, not only the hits.
    ``transformer_mean`` and ``transformer_spread`` are the same for transformer cosines, 0 if not
    used.

    ``notes`` tell the user why vectors could not be computed.
    """

    hits: Sequence[VectorHit] = ()
    waiting: int = 0
    has_vectors: bool = False
    transformer_weight: float = 0.0
    memories: int = 0
    static_mean: float = 0.0
    static_spread: float = 0.0
    transformer_mean: float = 0.0
    transformer_spread: float = 0.0
    is_multilingual: bool = False
    notes: tuple[str, ...] = ()


class View(Protocol):
    """The memories of one or several vaults as of a refresh.

    Names are unique only within a vault. Any method may raise ``StaleView``.
    """

    @property
    def missing(self) -> int:
        """Return the number of memories omitted because they are not indexed yet."""

    @property
    def notes(self) -> Sequence[str]:
        """Return notes for the user about the state of the index."""

    @property
    def published_at(self) -> str:
        """Return when another machine published the memories; empty if the files are local."""

    @property
    def state(self) -> Hashable:
        """Return a value that changes whenever a memory changes; None if there is none."""

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for a query's words, best first."""

    def languages(self) -> tuple[str, ...]:
        """Return the languages in which a query is analyzed, most frequent first."""

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a query's text, and the memories in ``include_uids``.

        Raises:
            EmbedderError: if the static embedding table cannot be loaded.
        """

    def sentence_features(
        self, asked: SentenceQuery, locations: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compute features of memories at their best locations; missing memories are omitted."""

    def token_matches(
        self, text: str, passages: Mapping[int, Sequence[int]]
    ) -> Mapping[int, float]:
        """Return how well a query's tokens match the given passages of memories.

        A match is the mean, over the query's tokens, of the highest cosine to any token of the
        passage: late interaction (Khattab and Zaharia 2020). Memories without stored token vectors
        are omitted; if the embedder does not compute token vectors, the result is empty.
        """

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return the matrix of similarities between memories, in 0..1.

        One passage of each memory is compared. The matrix is empty unless all of the memories have
        vectors.
        """

    def passages(self, uid: int, location: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the numbered passages around a memory's best locations."""

    def record(self, uid: int) -> MemoryRecord | None:
        """Return the record of a memory, or None if there is no such memory."""

    def records_of(self, uids: Collection[int]) -> Mapping[int, MemoryRecord]:
        """Return the records of memories, by uid; missing ones are omitted."""

    def records(self) -> Iterator[MemoryRecord]:
        """Yield the record of every memory."""

    def visit_records(self, visit: Callable[[Iterable[MemoryRecord]], Value]) -> Value:
        """Pass the record of every memory to a function one at a time, and return its result.

        If the index changes in the meantime, the function is called again with all records.
        """

    def visit_names(self, visit: Callable[[Iterable[MemoryName]], Value]) -> Value:
        """Pass the names of all memories to a function, as ``visit_records`` does."""

    def dated(self, days: DateRange) -> Iterator[MemoryRecord]:
        """Yield the records of memories with a date in a range, and possibly a few others."""

    def latest(self, limit: int, offset: int) -> tuple[list[MemoryRecord], int]:
        """Return a page of the records, last modified first, and the total number."""

    def find_by_name(self, name: str, vault: str = "") -> list[MemoryRecord]:
        """Return the memories whose path, title, alias, or memId prefix may match a name.

        If several vaults are searched, ``vault`` limits the answer to one of them.
        """

    def superseding(self, names: Sequence[str] | None, vault: str = "") -> list[MemoryRecord]:
        """Return the memories whose headers supersede one of ``names``; None stands for any name.

        Names have the form of ``vault.names.name_keys``. If several vaults are searched, ``vault``
        limits the answer to one of them.
        """

    def links(self, names: Set[str] | None = None) -> Mapping[int, LinkEntry]:
        """Return the names and links of each memory, by uid; published vaults are omitted.

        With ``names``, memories that have neither links nor one of the names may be omitted.
        """

    def text(self, uid: int, accept_changed: bool = False) -> Memory | None:
        """Read a memory; return None if it cannot be read.

        With ``accept_changed`` a file that changed since the refresh is returned in its current
        state; its etag then differs from the record's.

        Raises:
            StaleView: if the file was deleted or changed since the refresh.
        """


AnyView = TypeVar("AnyView", bound=View)


class SearchIndex(Protocol[AnyView]):
    """The index of one or several vaults, as used by recall."""

    def refresh(self, vectors: bool, wait_policy: WaitPolicy) -> AnyView:
        """Scan the folder, update the index, and return a view of it.

        Without ``vectors``, no vectors are computed, and ``View.nearest`` finds nothing.

        Raises:
            TimedOut: if another process is indexing for longer than ``wait_policy`` allows.
            VaultUnreadable: if the vault's folder cannot be listed.
        """

    def with_vectors(self, view: AnyView, wait_policy: WaitPolicy) -> AnyView:
        """Return a view with vectors for a view that was refreshed without them.

        If vectors have to be computed, the folder is scanned again, which may raise ``TimedOut`` or
        ``VaultUnreadable``.
        """

    def at(self, view: AnyView, moment: datetime) -> AnyView:
        """Return a view of the vault at a past time, based on its history."""


class EmbedderStatus(NamedTuple):
    """The state of one of the two embedders of an index.

    ``mode`` tells when the transformer computes vectors: auto, off or now. ``vectors`` is the
    number of vectors; ``version`` and ``dimension`` describe the model that computed them.
    ``waiting`` is the number of memories without vectors. ``is_running`` is whether a process is
    computing them; ``process`` is its pid if it runs in the background, and ``since`` is its start
    time. ``passages`` is the number of all passages, and ``waiting_passages`` is the number without
    vectors. ``seconds_left`` is the estimated remaining time, 0 if unknown. ``problem`` is the
    reason why no vectors can be computed, and ``note`` is the reason why the configured model is
    not used.
    """

    name: str
    mode: str = ""
    version: str = ""
    dimension: int = 0
    vectors: int = 0
    waiting: int = 0
    is_running: bool = False
    problem: str = ""
    note: str = ""
    process: int = 0
    since: str = ""
    passages: int = 0
    waiting_passages: int = 0
    seconds_left: float = 0.0


class IndexStatus(NamedTuple):
    """The state of a vault's index.

    ``freshness`` is the state in which the last refresh found it: ``current``, ``behind`` or
    ``missing``. ``away`` is the reason why its engine cannot be reached, if a local index answers
    instead. ``unused_models`` is the number of unused models whose vectors are still stored.
    ``unlisted`` contains the folders that the last refresh could not list. ``unwritable`` is the
    reason why the index is not writable, such as a full disk. ``notes`` contains the notes of the
    last view.
    """

    freshness: str
    static: EmbedderStatus
    transformer: EmbedderStatus
    unused_models: int
    away: str = ""
    unlisted: tuple[str, ...] = ()
    unwritable: str = ""
    notes: tuple[str, ...] = ()


class Index(SearchIndex[Any], Protocol):
    """The index of one vault whose files are on this machine."""

    @property
    def folder(self) -> Path | None:
        """Return the index's folder, or None if it is in memory."""

    def with_memories(self, view: Any, memories: Iterable[tuple[Memory, str]]) -> Any:
        """Return a view with additional memories for one call, each with its git branch.

        ``view`` is the last view of this index.
        """

    def rebuild(self) -> None:
        """Rebuild the index; other processes read the old one until it is complete."""

    def embed_all(self) -> int:
        """Compute all missing vectors; return how many memories lacked transformer vectors.

        Raises:
            EmbedderError: if the transformer model cannot be used or must be downloaded first.
        """

    @property
    def is_unfinished(self) -> bool:
        """Return whether the last refresh stopped indexing early to answer its caller."""

    @property
    def watch(self) -> FolderWatch | None:
        """Return the watch on the vault's folder in a long-running process, if supported."""

    def watch_folder(self) -> None:
        """Watch the folder from the next refresh on, if the system reports changes completely."""

    def index_small_changes(self) -> None:
        """Index changes if there are only a few, to speed up the next refresh.

        Raises:
            TimedOut: if another process is indexing.
            VaultUnreadable: if the vault's folder cannot be listed.
        """

    def delete_unused_models(self) -> None:
        """Delete the vectors of models that are no longer used."""

    def status(self) -> IndexStatus:
        """Return the state of the index and of its embedders, loading them if necessary."""

    def free_memory(self) -> None:
        """Close the index's files, and release models that no other vault in the process uses.

        The next use opens them again; the folder is still watched.
        """

    def close(self) -> None:
        """Stop watching the folder, and do the same as ``free_memory``."""
