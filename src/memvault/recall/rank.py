"""The last word on the order: every candidate's parts, weighed and added up.

A score is a sum of named parts, so that it can be explained. The first five
were fitted on the sets of docs/quality.md and matter little one by one: with
any one of them left out the mean changes by less than 0.01.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from memvault import clock
from memvault.config import Ranking
from memvault.model import Memory
from memvault.recall.closer import Close
from memvault.recall.dates import Span, nearness
from memvault.recall.sides import Near, Words

__all__ = ["Candidate", "Days", "Ranked", "Scored", "alone", "rank"]

_WEIGHTS = {"keyword": 0.33, "vector": 0.18, "coverage": 0.21, "order": 0.12, "words": 0.16}
_HALF_LIFE = 90.0
"""Days after which a memory's recency is worth half."""
_SAME = 0.9
"""The share of their terms that two memories have in common where one says nothing new."""
_NOISE = 1e-5
"""What two measures of the same text may differ by: cosines are sums of 32-bit numbers."""
_REPEATED = 0.5
"""What a score is worth that repeats a better one."""


class Candidate(NamedTuple):
    """A memory that may be an answer, and what is known of it.

    ``keyword`` is its share of the best keyword score; ``cosine`` is None where
    no passage of it was near.
    """

    uid: int
    memory: Memory
    keyword: float
    cosine: float | None
    close: Close


class Days(NamedTuple):
    """The days that a query asks for, and which share of its words only name them."""

    span: Span
    share: float


class Ranked(NamedTuple):
    """A candidate with its score in 0..1 and the parts that add up to it."""

    candidate: Candidate
    score: float
    parts: dict[str, float]


class Scored(NamedTuple):
    """A hit's score and the parts that add up to it."""

    uid: int
    score: float
    parts: dict[str, float]


def rank(
    candidates: Sequence[Candidate], ranking: Ranking, now: datetime, days: Days | None
) -> list[Ranked]:
    """Order candidates, best first; ties by uid.

    ``days`` weigh the more the less else the query says. Cosines and words count between
    the least and the most that any candidate has.
    """
    columns = {
        "keyword": [entry.keyword for entry in candidates],
        "vector": _scaled([entry.cosine for entry in candidates]),
        "coverage": [entry.close.coverage for entry in candidates],
        "order": [entry.close.order for entry in candidates],
        "words": _scaled([entry.close.words for entry in candidates]),
    }
    weights = dict(_WEIGHTS)
    if all(entry.close.words is None for entry in candidates):
        weights.pop("words")
    if all(entry.cosine is None for entry in candidates):
        weights.pop("vector")
    total = sum(weights.values())
    weights = {name: weight / total for name, weight in weights.items()}
    for name, weight, values in (
        ("recency", ranking.recency, [_recency(entry.memory, now) for entry in candidates]),
        ("importance", ranking.importance, [_importance(entry.memory) for entry in candidates]),
        (
            "date",
            max(ranking.date, days.share) if ranking.date and days else 0.0,
            [_dated(entry.memory, days.span) if days else 0.0 for entry in candidates],
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


def alone(
    read: Callable[[int], Memory | None],
    words: Words,
    near: Near,
    tagged: list[tuple[int, float]],
) -> Iterator[tuple[Memory, Scored]]:
    """Rank by one measure alone, which is the score; a cosine counts calibrated."""
    by_name = {
        "keyword": sorted(words.shares().items(), key=lambda item: (-item[1], item[0])),
        "vector": [
            (uid, near.similarity(hit.cosine))
            for uid, hit in sorted(near.hits.items(), key=lambda item: (-item[1].cosine, item[0]))
        ],
        "tag": tagged,
    }
    for name, scores in by_name.items():
        for uid, score in scores:
            memory = read(uid)
            if memory is not None:
                yield memory, Scored(uid, score, {name: score})


def _order(entry: Ranked) -> tuple[float, int]:
    return -entry.score, entry.candidate.uid


def _scaled(values: Iterable[float | None]) -> list[float]:
    """Scale values between their least and most to 0..1; nothing is 0."""
    every = list(values)
    known = [value for value in every if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    spread = high - low
    return [
        0.0 if value is None else (value - low) / spread if spread > _NOISE else 1.0
        for value in every
    ]


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


def _dated(memory: Memory, span: Span) -> float:
    """Say how near a memory's dates are to the days that were asked for."""
    moments = [clock.parse(text) for text in (memory.created, memory.modified)]
    return max((nearness(span, moment.date()) for moment in moments if moment), default=0.0)


def _diverse(ranked: list[Ranked]) -> list[Ranked]:
    """Put what says the same as a better candidate further down."""
    kept: list[Ranked] = []
    found: list[Ranked] = []
    for entry in ranked:
        stems = entry.candidate.close.stems
        if any(_alike(stems, other.candidate.close.stems) for other in kept):
            loss = entry.score * (1.0 - _REPEATED)
            found.append(
                entry._replace(score=entry.score - loss, parts={**entry.parts, "repeats": -loss})
            )
        else:
            kept.append(entry)
            found.append(entry)
    return sorted(found, key=_order)


def _alike(first: frozenset[str], second: frozenset[str]) -> bool:
    small, large = sorted((len(first), len(second)))
    if small < _SAME * large or not small:
        return False
    common = len(first & second)
    return common >= _SAME * (len(first) + len(second) - common)
