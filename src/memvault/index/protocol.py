"""What recall may ask of an index, whichever it is and wherever it lies.

An index is looked at once a call; the look gives a ``View``. Memories have keys,
which mean something only within one view. What an index is made of, and how it
is kept in step with the folder, is its own affair.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from memvault.errors import MemvaultError
from memvault.model import Memory, Passage, aliases_of


class IndexCorrupted(Exception):
    """The index on disk cannot be used; it is made anew, never repaired."""


class VectorsCorrupted(IndexCorrupted):
    """Only an embedder's vectors cannot be used; they are looked at again, and made anew alone."""


def given_up(error: Exception) -> MemvaultError:
    """Return what a user is told where making it anew did not help."""
    return MemvaultError(
        f"The index was damaged again while it was being read: {error}",
        "memvault reindex makes it anew",
    )


class LostIndex(IndexCorrupted):
    """What a view reads from went away meanwhile; ``reason`` is what the next look says of it."""

    def __init__(self, reason: MemvaultError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class StaleView(Exception):
    """What a view says is no longer so: look again."""


class WaitPolicy(NamedTuple):
    """How long to wait for another process that is indexing, and what is good enough then.

    ``behind`` is how long while it has much to do, ``unreadable`` while it has
    committed nothing that can be read, as for a moment within each commit.
    ``partly`` says whether a view of what is readable will do after that time.
    """

    indexing: float
    unreadable: float
    allow_partial: bool


COMPLETE = WaitPolicy(60.0, 60.0, False)
"""For what would be wrong unless every memory is seen."""
BEST_EFFORT = WaitPolicy(2.0, 60.0, True)
"""For answers, which say what they did not see."""
NO_WAIT = WaitPolicy(0.0, 1.0, False)
"""For what is rather left out than waited for."""


class MemoryRecord(NamedTuple):
    """All that is known of a memory but its text.

    ``size`` is its file's, in bytes; ``language`` the one as which it is indexed.
    """

    key: int
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

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return aliases_of(self.metadata)

    @classmethod
    def from_memory(cls, key: int, size: int, memory: Memory, language: str) -> MemoryRecord:
        """Make the record of a memory just read."""
        own = ("key", "size", "language")
        shared = {name: getattr(memory, name) for name in cls._fields if name not in own}
        return cls(key=key, size=size, language=language, **shared)


class KeywordQuery(NamedTuple):
    """The words of a query, and what is wanted of their answer.

    A word is a group of stems of which a memory may hold any; a whole is a word as it is
    spelled. ``among`` are the keys of the memories that may be found, None for all;
    ``limit`` is how many are wanted at most. With ``explain`` a hit says what each term gave.
    """

    term_groups: Sequence[tuple[str, ...]]
    exact_terms: Sequence[str] = ()
    allowed_keys: Set[int] | None = None
    limit: int = sys.maxsize
    explain: bool = False


class KeywordHit(NamedTuple):
    """A memory found by its words: its BM25F score and what each query term gave to it.

    ``blocks`` are the numbers of its best parts.
    """

    key: int
    score: float
    terms: dict[str, float]
    blocks: tuple[int, ...] = (0,)


class KeywordAnswer(NamedTuple):
    """The hits, best first, and how rare each word is among all memories (its idf).

    A word goes by its first stem. ``total`` counts the documents that ``rarity`` is of.
    """

    hits: Sequence[KeywordHit] = ()
    idf: Mapping[str, float] = MappingProxyType({})
    document_count: int = 0


DISTINCTIVE_BIT = 1
"""The bit of a term's number (``Closeness.terms``) that is set for a number or a negation."""


class SentenceQuery(NamedTuple):
    """What sentences are compared with: a query's text, its words, and how rare each is.

    A word is a group of stems of which a memory may hold any.
    """

    text: str
    words: Sequence[Sequence[str]]
    rarity: Sequence[float]


class SentenceFeatures(NamedTuple):
    """What a memory's sentences hold of a query, in 0..1.

    ``covered`` is the share of the query's words, weighted by their rarity, that
    the memory holds; ``together`` the share in one stretch of a sentence or two;
    ``order`` the share of the query's neighbouring words that are neighbours
    somewhere, None where it has no two; ``title`` the share in title and tags.
    ``words`` says how near one stretch's words are to the query's, ``title_words``
    how near title and tags are, None where nothing could tell. ``terms`` are
    numbers of all terms. ``numbers`` is the share of the query's words with a digit
    in them that the memory holds, None where it has none.
    """

    coverage: float
    proximity: float
    adjacency: float | None
    title_coverage: float
    soft_match: float | None
    title_soft_match: float | None
    term_ids: frozenset[int]
    number_coverage: float | None = None


class VectorQuery(NamedTuple):
    """The text of a query and its language, and what is wanted of the answer.

    Wanted are the ``limit`` memories that are nearest by the quick embedder, and by the
    deep one where that counts, and those of ``also`` however far they are. ``among`` are
    the keys of the memories that may be found, None for all.
    """

    text: str
    language: str
    allowed_keys: Set[int] | None
    limit: int
    include_keys: frozenset[int] = frozenset()


class VectorHit(NamedTuple):
    """A memory's nearest passage: which one, its cosine to the query, and what that means.

    ``cosine`` is the quick embedder's, ``deep`` the deep one's where that
    counts, guessed from ``cosine`` for a memory that waits for its deep vectors.
    ``similarity`` is in 0..1 and means the same for every embedder; ``quick`` is what it
    would be without deep vectors.
    """

    key: int
    passage: int
    static_cosine: float
    similarity: float
    transformer_cosine: float | None = None
    static_similarity: float = 0.0


class MatchLocation(NamedTuple):
    """Where in a memory to look: blocks with the best words, and the nearest passage."""

    blocks: tuple[int, ...] = ()
    passage: int | None = None


class VectorAnswer(NamedTuple):
    """The hits, nearest first; how many memories wait for a vector; whether any has one.

    ``deep_share`` says how much more the deep embedder knows than the table, 1 for
    as much as the built-in model; 0 where its vectors do not count.
    """

    hits: Sequence[VectorHit] = ()
    waiting: int = 0
    has_vectors: bool = False
    transformer_weight: float = 0.0


class View(Protocol):
    """The memories as one look at the folder found them.

    Any method may raise ``DamagedIndex``, which ``Index.discard`` is to be told.
    """

    @property
    def name(self) -> str:
        """The vault's name, where several are asked."""

    @property
    def sent(self) -> str:
        """When another machine sent what the view shows; empty where the files are at hand."""

    def part(self, key: int) -> View:
        """Return the view of the vault that a memory lies in: names mean something within one."""

    @property
    def missing(self) -> int:
        """How many memories it leaves out because another process is still indexing them."""

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for a query's words, best first."""

    def languages(self) -> tuple[str, ...]:
        """Return the languages that a query is read in, that of most memories first."""

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a query's text, and those of ``also``.

        Raises:
            EmbedderError: the built-in table cannot be loaded.
        """

    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compare memories with a query, each by its best places; what is gone is left out."""

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return how alike memories are by one passage each, in 0..1, each to each.

        It is asked after ``nearest``. Empty where not all of them have vectors.
        """

    def passages(self, key: int, places: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places, each with its number."""

    def with_vectors(self) -> View:
        """Return the same view, in which vectors can be searched too."""

    def record(self, key: int) -> MemoryRecord | None:
        """Return what is known of a memory but its text."""

    def records(self) -> Iterator[MemoryRecord]:
        """Yield the record of every memory."""

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return every memory whose path, memId or its beginning, title or alias a name may be."""

    def is_earlier(self, key: int) -> bool:
        """Say whether a memory's text is that of the view's moment, and another by now."""

    def superseding(self, names: Sequence[str] | None) -> list[MemoryRecord]:
        """Return every memory whose header supersedes one of some names, or anything.

        Names are as ``vault.replaced.names_of`` gives them.
        """

    def text(self, key: int) -> Memory | None:
        """Read a memory; None where it cannot be read.

        Raises:
            Stale: the file has gone or changed since the look.
        """


class Index(Protocol):
    """A vault's index."""

    def refresh(self, vectors: bool, patience: WaitPolicy) -> View:
        """Look at the folder, bring the index up to date, and return a view of it.

        Raises:
            TimedOut: another process is indexing, for longer than ``patience`` lasts.
            VaultUnreadable: the vault's folder cannot be listed.
        """

    def at(self, view: View, moment: datetime) -> View:
        """Return a view as it would have been at a moment, as far as that is known."""

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well a cross-encoder finds that each text fits a query, in 0..1.

        Raises:
            EmbedderError: there is no cross-encoder on this machine.
        """

    def discard(self, error: IndexCorrupted, view: View | None) -> None:
        """Have what a view could not read made anew at the next look.

        Of what it lost (``LostIndex``) the next look says so, or has another index answer.
        """

    def notes(self) -> list[str]:
        """Say what a person should know of the index."""
