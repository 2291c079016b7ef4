"""Combine the indexes of several vaults, so that one recall ranks their memories together.

A memory's key encodes its vault: it is the key within the vault, multiplied by the number of
vaults, plus the position of the vault. The rarity of words is computed over all vaults, so that
scores are comparable between them.
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
    KeywordAnswer,
    KeywordHit,
    KeywordQuery,
    MatchLocation,
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    StaleView,
    VectorAnswer,
    VectorHit,
    VectorQuery,
    View,
    WaitPolicy,
)
from memvault.model import Memory, Passage

Value = TypeVar("Value")


class VaultView:
    """A view of one vault that uses the federated keys of memories."""

    def __init__(self, name: str, index: Index, view: View, place: int, parts: int) -> None:
        self.name = name
        self.index = index
        self.seen = view
        self._place = place
        self._parts = parts

    def _local_key(self, key: int) -> int:
        return key // self._parts

    def _federated_key(self, key: int) -> int:
        return key * self._parts + self._place

    def _owns(self, key: int) -> bool:
        return key % self._parts == self._place

    def _with_federated_key(self, record: MemoryRecord) -> MemoryRecord:
        return record._replace(key=self._federated_key(record.key))

    def among(self, keys: Set[int] | None) -> Set[int] | None:
        """Return the local keys of those keys that belong to this vault; None stands for all."""
        if keys is None:
            return None
        return {self._local_key(key) for key in keys if self._owns(key)}

    def placed(self, keys: Mapping[int, Value]) -> dict[int, Value]:
        """Return the entries for this vault's memories, by local key."""
        return {self._local_key(key): value for key, value in keys.items() if self._owns(key)}

    @property
    def sent(self) -> str:
        """When another machine sent the content."""
        return self.seen.sent

    @property
    def missing(self) -> int:
        """The number of memories left out."""
        return self.seen.missing

    def part(self, key: int) -> View:  # noqa: ARG002 - this view has one part
        """Return the view of the vault that contains a memory: this one."""
        return self

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for a query's words, best first."""
        local = query._replace(allowed_keys=self.among(query.allowed_keys))
        answer = self.seen.keyword(local)
        hits = [hit._replace(key=self._federated_key(hit.key)) for hit in answer.hits]
        return answer._replace(hits=hits)

    def languages(self) -> tuple[str, ...]:
        """Return the languages in which a query is analysed."""
        return self.seen.languages()

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a query's text, and those of ``include_keys``."""
        include_keys = frozenset(self.among(query.include_keys) or ())
        local = query._replace(
            allowed_keys=self.among(query.allowed_keys), include_keys=include_keys
        )
        answer = self.seen.nearest(local)
        return answer._replace(
            hits=[hit._replace(key=self._federated_key(hit.key)) for hit in answer.hits]
        )

    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compute features of memories for a query."""
        local = self.placed(places)
        features = self.seen.sentence_features(asked, local)
        return {self._federated_key(key): value for key, value in features.items()}

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return the matrix of similarities of memories, by one passage each."""
        return self.seen.similarity_matrix(self.placed(passages))

    def passages(self, key: int, places: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places."""
        return self.seen.passages(self._local_key(key), places)

    def with_vectors(self) -> VaultView:
        """Return the same view with vector search enabled."""
        try:
            return self._with(self.seen.with_vectors())
        except MemvaultError as error:  # the next refresh leaves this vault out
            raise StaleView(error) from error

    def at(self, moment: datetime) -> VaultView:
        """Return the view of the vault as of a moment."""
        return self._with(self.index.at(self.seen, moment))

    def numbered(self, place: int, parts: int) -> VaultView:
        """Return the same view for another position and number of vaults."""
        return VaultView(self.name, self.index, self.seen, place, parts)

    def _with(self, seen: View) -> VaultView:
        return VaultView(self.name, self.index, seen, self._place, self._parts)

    def record(self, key: int) -> MemoryRecord | None:
        """Return what the index knows about a memory, except its text."""
        record = self.seen.record(self._local_key(key))
        return None if record is None else self._with_federated_key(record)

    def records(self) -> Iterator[MemoryRecord]:
        """Yield the record of every memory."""
        return map(self._with_federated_key, self.seen.records())

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return the memories that a name may refer to."""
        return list(map(self._with_federated_key, self.seen.find_by_name(name)))

    def is_earlier(self, key: int) -> bool:
        """Return whether the view shows an earlier text of a memory, which has changed since."""
        return self.seen.is_earlier(self._local_key(key))

    def superseding(self, names: Sequence[str] | None) -> list[MemoryRecord]:
        """Return the memories that supersede one of the names, or anything if None."""
        return list(map(self._with_federated_key, self.seen.superseding(names)))

    def text(self, key: int) -> Memory | None:
        """Read a memory; errors as for ``View.text``."""
        return self.seen.text(self._local_key(key))


class VaultMember(NamedTuple):
    """A vault to search: its name, and a function that opens its index."""

    name: str
    opened: Callable[[], Index]


class FederatedView:
    """A view of several vaults. Names are unique only within each of them, see ``part``."""

    name = ""
    sent = ""

    def __init__(self, parts: Sequence[VaultView]) -> None:
        self.parts = parts

    def part(self, key: int) -> View:
        """Return the view of the vault that contains a memory."""
        return self.parts[key % len(self.parts)]

    @property
    def missing(self) -> int:
        """The number of memories left out."""
        return sum(part.missing for part in self.parts)

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """Return the best memories for a query's words, scored as if they were in one vault."""
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
        """Return the languages in which a query is analysed: those of all vaults."""
        return tuple(dict.fromkeys(chain(*(part.languages() for part in self.parts))))

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """Return the memories nearest to a query's text.

        Transformer vectors are used only if every vault uses them.
        """
        answers = [part.nearest(query) for part in self.parts]
        share = min(
            (answer.transformer_weight for answer in answers if answer.has_vectors), default=0.0
        )
        hits: list[VectorHit] = [hit for answer in answers for hit in answer.hits]
        if not share:  # at least one vault does not use transformer vectors
            hits = [
                hit._replace(transformer_cosine=None, similarity=hit.static_similarity)
                for hit in hits
            ]
        hits.sort(key=lambda hit: (-hit.similarity, -hit.static_cosine))
        selected = [
            hit
            for place, hit in enumerate(hits)
            if place < query.limit or hit.key in query.include_keys
        ]
        waiting = sum(answer.waiting for answer in answers)
        return VectorAnswer(selected, waiting, any(answer.has_vectors for answer in answers), share)

    def sentence_features(
        self, asked: SentenceQuery, places: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """Compute features of memories for a query."""
        features: dict[int, SentenceFeatures] = {}
        for part in self.parts:
            features |= part.sentence_features(asked, places)
        return features

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return the matrix of similarities; memories of different vaults count as unrelated."""
        keys = list(passages)
        table = [[0.0] * len(keys) for _ in keys]
        for place, part in enumerate(self.parts):
            rows = [row for row, key in enumerate(keys) if key % len(self.parts) == place]
            values = part.similarity_matrix(passages) if rows else []
            if len(values) < len(rows):
                return []
            for row, row_values in zip(rows, values, strict=True):
                for column, value in zip(rows, row_values, strict=True):
                    table[row][column] = value
        return table

    def passages(self, key: int, places: MatchLocation) -> list[tuple[int, Passage]]:
        """Return the passages around a memory's best places."""
        return self.part(key).passages(key, places)

    def with_vectors(self) -> FederatedView:
        """Return the same view with vector search enabled."""
        return FederatedView([part.with_vectors() for part in self.parts])

    def record(self, key: int) -> MemoryRecord | None:
        """Return what the index knows about a memory, except its text."""
        return self.part(key).record(key)

    def records(self) -> Iterator[MemoryRecord]:
        """Yield the record of every memory."""
        return chain(*(part.records() for part in self.parts))

    def find_by_name(self, name: str) -> list[MemoryRecord]:
        """Return the memories that a name may refer to in any of the vaults."""
        return list(chain(*(part.find_by_name(name) for part in self.parts)))

    def is_earlier(self, key: int) -> bool:
        """Return whether the view shows an earlier text of a memory, which has changed since."""
        return self.part(key).is_earlier(key)

    def superseding(self, names: Sequence[str] | None) -> list[MemoryRecord]:
        """Return the memories that supersede one of the names, or anything, in their own vault."""
        return list(chain(*(part.superseding(names) for part in self.parts)))

    def text(self, key: int) -> Memory | None:
        """Read a memory; errors as for ``View.text``."""
        return self.part(key).text(key)


class FederatedIndex:
    """The combined index of several vaults; an unavailable vault is reported as a note."""

    def __init__(self, members: Iterable[VaultMember]) -> None:
        self._members = list(members)
        self._failed: dict[str, MemvaultError] = {}
        self._open: list[VaultView] = []

    @cached_property
    def _indexes(self) -> list[tuple[str, Index]]:
        indexes = []
        for member in self._members:
            try:
                indexes.append((member.name, member.opened()))
            except MemvaultError as error:
                self._failed[member.name] = error
        return indexes

    def refresh(self, vectors: bool, patience: WaitPolicy) -> FederatedView:
        """Refresh the index of each vault.

        Raises:
            MemvaultError: no vault can be read; the error is that of the first.
        """
        views: list[tuple[str, Index, View]] = []
        for name, index in self._indexes:
            try:
                views.append((name, index, index.refresh(vectors, patience)))
            except MemvaultError as error:
                self._failed[name] = error
            else:
                self._failed.pop(name, None)
        if not views and self._failed:
            raise next(iter(self._failed.values()))
        self._open = [VaultView(*one, place, len(views)) for place, one in enumerate(views)]
        return FederatedView(self._open)

    def at(self, view: View, moment: datetime) -> FederatedView:
        """Return a view of the vaults as of a moment; errors as for ``refresh``."""
        assert isinstance(view, FederatedView)
        views: list[VaultView] = []
        for part in view.parts:
            try:
                views.append(part.at(moment))
            except MemvaultError as error:
                self._failed[part.name] = error
        if not views and self._failed:
            raise next(iter(self._failed.values()))
        self._open = [part.numbered(place, len(views)) for place, part in enumerate(views)]
        return FederatedView(self._open)

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return how well texts fit a query by a cross-encoder; errors as for an index."""
        return self._open[0].index.rerank_scores(query, texts)

    def notes(self) -> list[str]:
        """Return notes about vaults that were not searched, and those of the indexes."""
        failed = [
            f"the vault {name} was not asked: {error.message}"
            for name, error in self._failed.items()
        ]
        return failed + [
            f"{part.name}: {note}" for part in self._open for note in part.index.notes()
        ]


def _rarity_of_all(answers: Sequence[KeywordAnswer]) -> dict[str, float]:
    """Return each word's idf over all memories, computed from its idf in each vault."""
    total = sum(answer.document_count for answer in answers)
    words = dict.fromkeys(chain(*(answer.idf for answer in answers)))
    return {
        word: math.log(
            (total + 1.0) / (sum(_document_frequency(answer, word) for answer in answers) + 0.5)
        )
        for word in words
    }


def _document_frequency(answer: KeywordAnswer, word: str) -> float:
    """Return how many documents contain a word, by inverting idf = ln((total + 1) / (n + .5))."""
    if word not in answer.idf:
        return 0.0
    return max(0.0, (answer.document_count + 1.0) / math.exp(answer.idf[word]) - 0.5)


def _rescale(
    hit: KeywordHit, before: Mapping[str, float], now: Mapping[str, float], explain: bool
) -> KeywordHit:
    """Return a hit whose term scores are rescaled from one vault's idf to that of all memories."""
    terms = {
        word: gain * now[word] / before[word] if before.get(word) else gain
        for word, gain in hit.terms.items()
    }
    return hit._replace(score=sum(terms.values()), terms=terms if explain else {})
