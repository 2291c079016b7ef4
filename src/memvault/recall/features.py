"""Ranking features of candidates: keyword and vector scores, and sentence-level features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from memvault.index.protocol import MemoryRecord, SentenceFeatures, SentenceQuery, View
from memvault.model import Passage
from memvault.recall.answer import ScoredMemory
from memvault.recall.dates import date_proximity
from memvault.recall.query import Query
from memvault.recall.ranking import (
    FeatureRow,
    RankingWeights,
    answer_probability,
    evidence,
    fits,
    interpolate,
)
from memvault.recall.retrieve import CandidateSet

if TYPE_CHECKING:
    from memvault.recall.dates import DateConstraint

_AHEAD = 50
"""How many of the next results are compared in one batch with the requested one."""
_OF_THESE_DAYS = 0.4
"""The minimum match probability of a memory of exactly the days that a query asks for."""
_OTHER_NUMBER = 0.5
"""The maximum match probability of a memory that lacks a number in the query."""
_SATURATED = 2.2
"""The most that one term can add to a BM25F score, divided by its rarity: k1 + 1."""


class Compared:
    """The features of the memories that one recall found; sentence features are computed on demand.

    ``days`` are the days that the query asks for.
    """

    def __init__(
        self, view: View, query: Query, retrieved: CandidateSet, days: DateConstraint | None
    ) -> None:
        self.view = view
        self.query = query
        self.retrieved = retrieved
        rarity = [retrieved.rarity.get(word[0], 1.0) for word in query.search_groups]
        self._asked = SentenceQuery(query.text, query.words, rarity[: len(query.words)])
        self._most = _SATURATED * sum(rarity) or 1.0
        self._shares = retrieved.shares
        self._closeness: dict[int, SentenceFeatures] = {}
        self._to_come: Iterator[int] = iter(())
        self._scores: dict[int, float] = {}
        self._best = 0.0
        self._days = days
        self._newer: Mapping[int, int] = {}
        self._records: dict[int, MemoryRecord | None] = {}

    @cached_property
    def fit(self) -> RankingWeights:
        """The ranking weights for the available signals."""
        if not self.retrieved.has_vectors:
            return fits()["words"]
        return interpolate(fits()["quick"], fits()["deep"], self.retrieved.deep_share)

    def candidates(self, keys: Iterable[int]) -> list[FeatureRow]:
        """Compute the ranking features of the given memories, one row each; skip missing ones."""
        wanted = list(dict.fromkeys(keys))
        self._compare(wanted)
        found = (self._candidate(key) for key in wanted)
        return [entry for entry in found if entry is not None]

    def closeness(self, key: int) -> SentenceFeatures | None:
        """Return a memory's sentence features for the query, or None if it is missing."""
        self._compare([key])
        return self._closeness.get(key)

    def chance(self, key: int) -> float:
        """Return the probability that a memory answers the query; 0 if the memory is missing."""
        self._compare([key])
        entry = self._candidate(key)
        if entry is None:
            return 0.0
        own = evidence(entry, len(self.query.words))
        found = answer_probability(own, self.fit, self._best - self._scores.get(key, 0.0))
        numbers = entry.closeness.number_coverage
        if self._days is None and numbers is not None and numbers < 1.0:
            found = min(found, _OTHER_NUMBER)
        days = self._days
        is_of = (
            days is not None and days.dominates and date_proximity(entry.record, days.span) == 1.0
        )
        return max(found, _OF_THESE_DAYS) if is_of else found

    def newer(self, key: int) -> str:
        """Return the memId of a newer memory about the same subject, or an empty string."""
        record = self._records.get(self._newer.get(key, 0))
        return record.mem_id if record is not None else ""

    def passages(self, key: int) -> list[tuple[int, Passage]]:
        """Return the passages of a memory that may be shown, each with its number."""
        return self.view.passages(key, self.retrieved.places(key))

    def order(self, scored: Sequence[ScoredMemory], newer: Mapping[int, int]) -> None:
        """Set the order of the results, from which the next ones to compare are prefetched.

        ``newer`` maps the key of an older memory to that of a newer one about the same subject.
        """
        self._newer = newer
        self._scores = {entry.key: entry.score for entry in scored}
        self._best = max(self._scores.values(), default=0.0)
        self._to_come = iter(self._scores)

    def _compare(self, keys: Sequence[int]) -> None:
        new = [key for key in keys if key not in self._closeness]
        if new:
            more = (key for key in self._to_come if key not in self._closeness)
            places = {key: self.retrieved.places(key) for key in [*new, *islice(more, _AHEAD)]}
            self._closeness |= self.view.sentence_features(self._asked, places)

    def _candidate(self, key: int) -> FeatureRow | None:
        if key not in self._records:
            self._records[key] = self.view.record(key)
        record, closeness = self._records[key], self._closeness.get(key)
        if record is None or closeness is None:
            return None
        word, near = self.retrieved.keyword.get(key), self.retrieved.vector.get(key)
        return FeatureRow(
            key,
            record,
            self._shares.get(key, 0.0),
            word.score / self._most if word is not None else 0.0,
            near.static_cosine if near is not None else None,
            near.transformer_cosine if near is not None else None,
            closeness,
        )
