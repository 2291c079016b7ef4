"""The view of one vault among several, in which memories have the keys that they have there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import TypeVar

from memvault.errors import MemvaultError
from memvault.index.errors import IndexCorrupted, LostIndex
from memvault.index.protocol import (
    Index,
    KeywordAnswer,
    KeywordQuery,
    MatchLocation,
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    VectorAnswer,
    VectorQuery,
    View,
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
