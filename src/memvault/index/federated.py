"""Several vaults' indexes as one, so that one recall ranks all that they hold together.

A memory's key here tells its vault: the key that it has there, times the number of
vaults, and the vault's place. How rare a word is, is counted over all of them, so that a
score means the same wherever a memory lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeVar

from memvault.errors import MemvaultError
from memvault.index.protocol import (
    Index,
    IndexCorrupted,
    KeywordAnswer,
    KeywordHit,
    KeywordQuery,
    LostIndex,
    MatchLocation,
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    VectorAnswer,
    VectorHit,
    VectorQuery,
    View,
    WaitPolicy,
    given_up,
)
from memvault.model import Memory, Passage

Value = TypeVar("Value")


class VaultView:
    """A view of one vault, in which memories have the keys that they have among all."""

    def __init__(
        self,
        name: str,
        index: Index,
        view: View,
        place: int,
        parts: int,
        damage: list[IndexCorrupted] | None = None,
    ) -> None:
        self.name = name
        self.index = index
        self.seen = view
        self.damage: list[IndexCorrupted] = [] if damage is None else damage
        self._place = place
        self._parts = parts

    def _own(self, key: int) -> int:
        return key // self._parts

    def _shared(self, key: int) -> int:
        return key * self._parts + self._place

    def _owns(self, key: int) -> bool:
        return key % self._parts == self._place

    def _told(self, record: MemoryRecord) -> MemoryRecord:
        return record._replace(key=self._shared(record.key))

    def _asked(self, ask: Callable[[], Value]) -> Value:
        """Return what the view says; what it cannot read is remembered, to be made anew."""
        try:
            return ask()
        except IndexCorrupted as error:
            self.damage.append(error)
            raise

    def among(self, keys: Set[int] | None) -> Set[int] | None:
        """Return this vault's keys among some, as it knows them; None for all."""
        if keys is None:
            return None
        return {self._own(key) for key in keys if self._owns(key)}

    def placed(self, keys: Mapping[int, Value]) -> dict[int, Value]:
        """Return what is said of this vault's keys, as it knows them."""
        return {self._own(key): value for key, value in keys.items() if self._owns(key)}

    @property
    def sent(self) -> str:
        """When another machine sent what it shows."""
        return self.seen.sent

    @property
    def missing(self) -> int:
        """How many memories are left out."""
        return self.seen.missing

    def part(self, key: int) -> View:  # noqa: ARG002 - it has no other
        """Return the view of the vault that a memory lies in: this one."""
        return self

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for words, best first."""
        own = query._replace(allowed_keys=self.among(query.allowed_keys))
        found = self._asked(lambda: self.seen.keyword(own))
        hits = [hit._replace(key=self._shared(hit.key)) for hit in found.hits]
        return found._replace(hits=hits)

    def languages(self) -> tuple[str, ...]:
        """Return the languages that a query is read in."""
        return self._asked(self.seen.languages)

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a text, and those of ``also``."""
        also = frozenset(self.among(query.include_keys) or ())
        own = query._replace(allowed_keys=self.among(query.allowed_keys), include_keys=also)
        found = self._asked(lambda: self.seen.nearest(own))
        return found._replace(hits=[hit._replace(key=self._shared(hit.key)) for hit in found.hits])

    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compare memories with a query."""
        own = self.placed(places)
        found = self._asked(lambda: self.seen.sentence_features(asked, own))
        return {self._shared(key): value for key, value in found.items()}

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return how alike memories are by one passage each, each to each."""
        return self._asked(lambda: self.seen.similarity_matrix(self.placed(passages)))

    def passages(self, key: int, places: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places."""
        return self._asked(lambda: self.seen.passages(self._own(key), places))

    def with_vectors(self) -> VaultView:
        """Return the same view, in which vectors can be searched too."""

        def complete() -> View:
            try:
                return self.seen.with_vectors()
            except MemvaultError as error:  # it cannot be asked any more; the others can
                raise LostIndex(error) from error

        return self._with(self._asked(complete))

    def at(self, moment: datetime) -> VaultView:
        """Return the view as it would have been at a moment."""
        return self._with(self._asked(lambda: self.index.at(self.seen, moment)))

    def discard(self) -> None:
        """Have what the view could not read made anew."""
        for error in self.damage:
            self.index.discard(error, self.seen)

    def numbered(self, place: int, parts: int) -> VaultView:
        """Return the same as one of another number of parts."""
        return VaultView(self.name, self.index, self.seen, place, parts, self.damage)

    def _with(self, seen: View) -> VaultView:
        return VaultView(self.name, self.index, seen, self._place, self._parts, self.damage)

    def record(self, key: int) -> MemoryRecord | None:
        """Return what is known of a memory but its text."""
        found = self._asked(lambda: self.seen.record(self._own(key)))
        return None if found is None else self._told(found)

    def records(self) -> Iterator[MemoryRecord]:
        """Yield the record of every memory."""
        return iter(self._asked(lambda: [self._told(record) for record in self.seen.records()]))

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return every memory that a name may mean."""
        return [self._told(entry) for entry in self._asked(lambda: self.seen.find_by_name(name))]

    def is_earlier(self, key: int) -> bool:
        """Say whether a memory's text is that of the view's moment."""
        return self.seen.is_earlier(self._own(key))

    def superseding(self, names: Sequence[str] | None) -> list[MemoryRecord]:
        """Return every memory that supersedes one of some names, or anything."""
        return [self._told(entry) for entry in self._asked(lambda: self.seen.superseding(names))]

    def text(self, key: int) -> Memory | None:
        """Read a memory; errors as for a view."""
        return self._asked(lambda: self.seen.text(self._own(key)))


class VaultMember(NamedTuple):
    """A vault among others: its name, and what opens its index."""

    name: str
    opened: Callable[[], Index]


class FederatedView:
    """A view of several vaults. A name means something in each of them apart: see ``part``."""

    name = ""
    sent = ""

    def __init__(self, parts: Sequence[VaultView]) -> None:
        self.parts = parts

    def part(self, key: int) -> View:
        """Return the view of the vault that a memory lies in."""
        return self.parts[key % len(self.parts)]

    @property
    def missing(self) -> int:
        """How many memories are left out."""
        return sum(part.missing for part in self.parts)

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for words, each scored as if all lay in one vault."""
        answers = [part.keyword(query._replace(explain=True)) for part in self.parts]
        rarity = _rarity_of_all(answers)
        hits = [
            _rescale(hit, answer.idf, rarity, query.explain)
            for answer in answers
            for hit in answer.hits
        ]
        hits.sort(key=lambda hit: -hit.score)
        return KeywordAnswer(
            hits[: query.limit], rarity, sum(answer.document_count for answer in answers)
        )

    def languages(self) -> tuple[str, ...]:
        """Return the languages that a query is read in: those of any vault."""
        return tuple(dict.fromkeys(chain(*(part.languages() for part in self.parts))))

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a text; deep vectors count where each vault's do."""
        answers = [part.nearest(query) for part in self.parts]
        share = min(
            (answer.transformer_weight for answer in answers if answer.has_vectors), default=0.0
        )
        hits: list[VectorHit] = [hit for answer in answers for hit in answer.hits]
        if not share:  # in one of them deep vectors do not count
            hits = [
                hit._replace(transformer_cosine=None, similarity=hit.static_similarity)
                for hit in hits
            ]
        hits.sort(key=lambda hit: (-hit.similarity, -hit.static_cosine))
        kept = [
            hit
            for place, hit in enumerate(hits)
            if place < query.limit or hit.key in query.include_keys
        ]
        waiting = sum(answer.waiting for answer in answers)
        return VectorAnswer(kept, waiting, any(answer.has_vectors for answer in answers), share)

    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compare memories with a query."""
        found: dict[int, SentenceFeatures] = {}
        for part in self.parts:
            found |= part.sentence_features(asked, places)
        return found

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return how alike memories are; those of two vaults are taken for different things."""
        keys = list(passages)
        table = [[0.0] * len(keys) for _ in keys]
        for place, part in enumerate(self.parts):
            rows = [row for row, key in enumerate(keys) if key % len(self.parts) == place]
            values = part.similarity_matrix(passages) if rows else []
            if len(values) < len(rows):
                return []
            for row, own in zip(rows, values, strict=True):
                for column, value in zip(rows, own, strict=True):
                    table[row][column] = value
        return table

    def passages(self, key: int, places: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places."""
        return self.part(key).passages(key, places)

    def with_vectors(self) -> FederatedView:
        """Return the same view, in which vectors can be searched too."""
        return FederatedView([part.with_vectors() for part in self.parts])

    def record(self, key: int) -> MemoryRecord | None:
        """Return what is known of a memory but its text."""
        return self.part(key).record(key)

    def records(self) -> Iterator[MemoryRecord]:
        """Yield the record of every memory."""
        return chain(*(part.records() for part in self.parts))

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return every memory that a name may mean in any of the vaults."""
        return list(chain(*(part.find_by_name(name) for part in self.parts)))

    def is_earlier(self, key: int) -> bool:
        """Say whether a memory's text is that of the view's moment."""
        return self.part(key).is_earlier(key)

    def superseding(self, names: Sequence[str] | None) -> list[MemoryRecord]:
        """Return every memory that supersedes one of some names, or anything, in its own vault."""
        return list(chain(*(part.superseding(names) for part in self.parts)))

    def text(self, key: int) -> Memory | None:
        """Read a memory; errors as for a view."""
        return self.part(key).text(key)


class FederatedIndex:
    """The indexes of several vaults as one; one that cannot be asked costs a note."""

    def __init__(self, members: Iterable[VaultMember]) -> None:
        self._members = list(members)
        self._failed: dict[str, MemvaultError] = {}
        self._open: list[VaultView] = []

    @cached_property
    def _indexes(self) -> list[tuple[str, Index]]:
        found = []
        for member in self._members:
            try:
                found.append((member.name, member.opened()))
            except MemvaultError as error:
                self._failed[member.name] = error
        return found

    def refresh(self, vectors: bool, patience: WaitPolicy) -> FederatedView:
        """Look at each vault's folder.

        Raises:
            MemvaultError: none of them can be looked at; what the first says.
        """
        seen: list[tuple[str, Index, View]] = []
        for name, index in self._indexes:
            try:
                seen.append((name, index, _looked(index, vectors, patience)))
            except MemvaultError as error:
                self._failed[name] = error
            else:
                self._failed.pop(name, None)
        if not seen and self._failed:
            raise next(iter(self._failed.values()))
        self._open = [VaultView(*one, place, len(seen)) for place, one in enumerate(seen)]
        return FederatedView(self._open)

    def at(self, view: View, moment: datetime) -> FederatedView:
        """Return a view as it would have been at a moment; errors as for a look."""
        assert isinstance(view, FederatedView)
        seen: list[VaultView] = []
        for part in view.parts:
            try:
                seen.append(part.at(moment))
            except MemvaultError as error:
                self._failed[part.name] = error
        if not seen and self._failed:
            raise next(iter(self._failed.values()))
        self._open = [part.numbered(place, len(seen)) for place, part in enumerate(seen)]
        return FederatedView(self._open)

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well a cross-encoder finds that texts fit; errors as for an index."""
        return self._open[0].index.rerank_scores(query, texts)

    def discard(self, error: IndexCorrupted, view: View | None) -> None:  # noqa: ARG002
        """Have what a view could not read made anew, in the vault that it is of."""
        if view is not None:  # a look discards by itself
            assert isinstance(view, FederatedView)
            for part in view.parts:
                part.discard()

    def notes(self) -> list[str]:
        """Say which vault was not asked, and what a person should know of the indexes."""
        failed = [
            f"the vault {name} was not asked: {error.message}"
            for name, error in self._failed.items()
        ]
        return failed + [
            f"{part.name}: {note}" for part in self._open for note in part.index.notes()
        ]


def _looked(index: Index, vectors: bool, patience: WaitPolicy) -> View:
    """Look at a vault's folder, and again where its index turns out to be damaged or replaced.

    Raises:
        MemvaultError: it cannot be looked at.
    """
    try:
        return index.refresh(vectors, patience)
    except IndexCorrupted as error:
        index.discard(error, None)
    try:
        return index.refresh(vectors, patience)
    except IndexCorrupted as error:
        index.discard(error, None)
        raise given_up(error) from error


def _rarity_of_all(answers: Sequence[KeywordAnswer]) -> dict[str, float]:
    """Return each word's idf over all memories, of its idf in each vault."""
    total = sum(answer.document_count for answer in answers)
    words = dict.fromkeys(chain(*(answer.idf for answer in answers)))
    return {
        word: math.log(
            (total + 1.0) / (sum(_document_frequency(answer, word) for answer in answers) + 0.5)
        )
        for word in words
    }


def _document_frequency(answer: KeywordAnswer, word: str) -> float:
    """Return how many documents of a vault hold a word: idf = ln((total + 1) / (holding + .5))."""
    if word not in answer.idf:
        return 0.0
    return max(0.0, (answer.document_count + 1.0) / math.exp(answer.idf[word]) - 0.5)


def _rescale(
    hit: KeywordHit, before: Mapping[str, float], now: Mapping[str, float], explain: bool
) -> KeywordHit:
    """Return a hit with what each word gives it by its rarity among all memories."""
    terms = {
        word: gain * now[word] / before[word] if before.get(word) else gain
        for word, gain in hit.terms.items()
    }
    return hit._replace(score=sum(terms.values()), terms=terms if explain else {})
