"""Ranking features of candidates: keyword and vector scores, and sentence-level features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from memvault.index.protocol import MemoryRecord, SentenceFeatures, SentenceQuery, View
from memvault.model import Passage
from memvault.recall.answer import ScoredMemory
from memvault.recall.dates import DateConstraint, date_proximity
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

_PREFETCHED = 50
"""How many of the next results are compared in one batch with the requested one."""
_MIN_ON_DATE = 0.4
"""The minimum match probability of a memory of exactly the days that a query asks for."""
_MAX_OTHER_NUMBER = 0.5
"""The maximum match probability of a memory that lacks a number in the query."""
_MAX_TERM_GAIN = 2.2
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
        self._sentence_query = SentenceQuery(query.text, query.words, rarity[: len(query.words)])
        self._max_bm25 = _MAX_TERM_GAIN * sum(rarity) or 1.0
        self._shares = retrieved.shares
        self._features: dict[int, SentenceFeatures] = {}
        self._upcoming: Iterator[int] = iter(())
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
        distinct = list(dict.fromkeys(keys))
        self._compare(distinct)
        rows = (self._feature_row(key) for key in distinct)
        return [entry for entry in rows if entry is not None]

    def closeness(self, key: int) -> SentenceFeatures | None:
        """Return a memory's sentence features for the query, or None if it is missing."""
        self._compare([key])
        return self._features.get(key)

    def chance(self, key: int) -> float:
        """Return the probability that a memory answers the query; 0 if the memory is missing."""
        self._compare([key])
        entry = self._feature_row(key)
        if entry is None:
            return 0.0
        values = evidence(entry, len(self.query.words))
        probability = answer_probability(values, self.fit, self._best - self._scores.get(key, 0.0))
        numbers = entry.closeness.number_coverage
        if self._days is None and numbers is not None and numbers < 1.0:
            probability = min(probability, _MAX_OTHER_NUMBER)
        days = self._days
        is_of = (
            days is not None and days.dominates and date_proximity(entry.record, days.span) == 1.0
        )
        return max(probability, _MIN_ON_DATE) if is_of else probability

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
        self._upcoming = iter(self._scores)

    def _compare(self, keys: Sequence[int]) -> None:
        missing = [key for key in keys if key not in self._features]
        if missing:
            upcoming = (key for key in self._upcoming if key not in self._features)
            places = {
                key: self.retrieved.places(key)
                for key in [*missing, *islice(upcoming, _PREFETCHED)]
            }
            self._features |= self.view.sentence_features(self._sentence_query, places)

    def _feature_row(self, key: int) -> FeatureRow | None:
        if key not in self._records:
            self._records[key] = self.view.record(key)
        record, features = self._records[key], self._features.get(key)
        if record is None or features is None:
            return None
        keyword, vector = self.retrieved.keyword.get(key), self.retrieved.vector.get(key)
        return FeatureRow(
            key,
            record,
            self._shares.get(key, 0.0),
            keyword.score / self._max_bm25 if keyword is not None else 0.0,
            vector.static_cosine if vector is not None else None,
            vector.transformer_cosine if vector is not None else None,
            features,
        )
