"""The last word on the order: every candidate's parts, weighed and added up.

A score is a sum of named parts, so that it can be explained. The first five
were fitted on the sets of docs/quality.md and matter little one by one: with
any one of them left out the mean changes by less than 0.01.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from datetime import datetime
from typing import NamedTuple

from memvault import clock
from memvault.config import Ranking
from memvault.model import Memory
from memvault.recall.dates import Days
from memvault.recall.features import SentenceFeatures
from memvault.recall.fusion import scaled
from memvault.recall.memory_days import nearest_days
from memvault.recall.values import Scored

_WEIGHTS = {"keyword": 0.33, "vector": 0.18, "together": 0.21, "order": 0.12, "words": 0.16}
_RELATIVE = {"vector": 0.2, "words": 0.1}
"""Parts that are scaled over the candidates, and by how much these must differ to count fully."""
_HALF_LIFE = 90.0
"""Days after which a memory's recency is worth half."""
_SAME = 0.9
"""The share of their terms that two memories have in common where one says nothing new."""
_NEGATIONS = frozenset(
    "no not none never without cannot dont doesnt didnt isnt wasnt cant wont".split()
)
_HAS_DIGIT = re.compile(r"\d").search
_EQUAL = 0.9
"""The share of the best score from which the newest of those that say the same stands for all."""
_REPEATED = 0.5
"""What a score is worth that repeats a better one."""


class Candidate(NamedTuple):
    """A memory that may be an answer, and what is known of it.

    ``keyword`` is its share of the best keyword score; ``cosine`` is None where
    no passage of it was near.
    """

    key: int
    memory: Memory
    keyword: float
    cosine: float | None
    features: SentenceFeatures


class Ranked(NamedTuple):
    """A candidate with its score in 0..1 and the parts that add up to it."""

    candidate: Candidate
    score: float
    parts: dict[str, float]

    @property
    def whole(self) -> float:
        """What the score would be if nothing better said the same."""
        return self.score - self.parts.get("repeats", 0.0)


def rank(
    candidates: Sequence[Candidate], ranking: Ranking, now: datetime, days: Days | None
) -> list[Ranked]:
    """Order candidates, best first; ties by key.

    Cosines and words count between the least and the most that any candidate has.
    """
    measured: dict[str, list[float | None]] = {
        "keyword": [entry.keyword for entry in candidates],
        "vector": [entry.cosine for entry in candidates],
        "together": [entry.features.together for entry in candidates],
        "order": [entry.features.order for entry in candidates],
        "words": [entry.features.words for entry in candidates],
    }
    columns = {
        name: scaled(values, _RELATIVE[name])
        if name in _RELATIVE
        else [value or 0.0 for value in values]
        for name, values in measured.items()
        if any(value is not None for value in values)  # what nobody has is no reason to lose
    }
    total = sum(_WEIGHTS[name] for name in columns)
    weights = {name: _WEIGHTS[name] / total for name in columns}
    for name, weight, values in (
        ("recency", ranking.recency, [_recency(entry.memory, now) for entry in candidates]),
        ("importance", ranking.importance, [_importance(entry.memory) for entry in candidates]),
        (
            "date",
            ranking.date * days.stress if days else 0.0,
            [nearest_days(entry.memory, days.span) if days else 0.0 for entry in candidates],
        ),
    ):
        if weight:
            weights[name], columns[name] = weight, values
    total = sum(weights.values())
    ranked = []
    for place, entry in enumerate(candidates):
        parts = {name: weights[name] * columns[name][place] / total for name in weights}
        ranked.append(Ranked(entry, sum(parts.values()), parts))
    ranked.sort(key=_order)
    return _diverse(ranked) if ranking.diversity else ranked


def with_rest(
    ranked: Sequence[Ranked], fused: Sequence[tuple[int, float]], regular: Container[int]
) -> list[Scored]:
    """Score the memories that were not read by their fused score, best first.

    None of them comes above one of the ``regular`` candidates, which were read
    because their fused score was better.
    """
    whole = [entry.whole for entry in ranked if entry.candidate.key in regular]
    most = min(whole, default=1.0)
    known = {entry.candidate.key for entry in ranked}
    scored = [Scored(entry.candidate.key, entry.score, entry.parts) for entry in ranked]
    for key, score in fused:
        if key not in known:
            scored.append(Scored(key, min(score, most), {"fused": min(score, most)}))
    return sorted(scored, key=lambda entry: -entry.score)


def _order(entry: Ranked) -> tuple[float, int]:
    return -entry.score, entry.candidate.key


def _recency(memory: Memory, now: datetime) -> float:
    modified = clock.parse(memory.modified)
    if modified is None:
        return 0.0
    return float(0.5 ** (max(0.0, (now - modified).total_seconds()) / 86_400 / _HALF_LIFE))


def _importance(memory: Memory) -> float:
    """Return how important a memory says that it is; one that says nothing is in the middle."""
    value = memory.metadata.get("importance")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return 0.5
    return float(value)


def _diverse(ranked: list[Ranked]) -> list[Ranked]:
    """Put what repeats a better candidate further down; of near equals the newest stays."""
    groups: list[list[Ranked]] = []
    for entry in ranked:
        stems = entry.candidate.features.stems
        own = next(
            (group for group in groups if _alike(stems, group[0].candidate.features.stems)), []
        )
        if not own:
            groups.append(own)
        own.append(entry)
    found = []
    for group in groups:
        equals = [entry for entry in group if entry.score >= _EQUAL * group[0].score]
        first = max(equals, key=_newest)
        found += [entry if entry is first else _repeating(entry) for entry in group]
    return sorted(found, key=_order)


def _repeating(entry: Ranked) -> Ranked:
    loss = entry.score * (1.0 - _REPEATED)
    return entry._replace(score=entry.score - loss, parts={**entry.parts, "repeats": -loss})


def _newest(entry: Ranked) -> tuple[str, float, int]:
    return entry.candidate.memory.modified, entry.score, -entry.candidate.key


def _alike(first: frozenset[str], second: frozenset[str]) -> bool:
    """Say whether two memories share nearly all terms; a number or a "not" makes a difference."""
    small, large = sorted((len(first), len(second)))
    if small < _SAME * large or not small:
        return False
    common = len(first & second)
    if common < _SAME * (len(first) + len(second) - common):
        return False
    return not any(stem in _NEGATIONS or _HAS_DIGIT(stem) for stem in first ^ second)
