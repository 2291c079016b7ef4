"""The last word on the order: every candidate's parts, weighed and added up.

A score is a sum of named parts, so that it can be explained. What they count
depends on the query (``weights``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memvault import clock
from memvault.index.protocol import DISTINCTIVE_BIT, MemoryRecord, SentenceFeatures
from memvault.recall.answer import ScoredMemory
from memvault.recall.dates import date_proximity, effective_date
from memvault.recall.retrieve import scaled
from memvault.settings.vault_settings import RankingSettings

if TYPE_CHECKING:
    from memvault.recall.dates import DateConstraint


FITTED = Path(__file__).resolve().parents[1] / "data" / "ranking.json"
_LEAST_COVERED, _MOST_COVERED = 0.2, 0.9
_NOTHING = (0.0,) * 4
_SHORT, _LONG = 150, 3_000
"""Bytes of memories that are short, and long."""


class RankingWeights(NamedTuple):
    """Weights of the parts at each corner, and of what makes a chance; ``bias`` is its constant."""

    parts: Mapping[str, tuple[float, ...]]
    chance: Mapping[str, float]
    bias: float


@cache
def fits() -> Mapping[str, RankingWeights]:
    """Return the fits: ``quick`` without vectors of a transformer, ``deep`` with those."""
    fitted = json.loads(FITTED.read_text("utf-8"))["fits"]
    return {
        name: RankingWeights(
            {part: tuple(values) for part, values in fit["parts"].items()},
            fit["chance"],
            fit["bias"],
        )
        for name, fit in fitted.items()
    }


def interpolate(quick: RankingWeights, deep: RankingWeights, share: float) -> RankingWeights:
    """Return the fit for an embedder that lies between two, ``share`` of the way in 0..1."""
    if share in (0.0, 1.0):
        return deep if share else quick
    return RankingWeights(
        {
            part: tuple(
                (1 - share) * own + share * other
                for own, other in zip(
                    quick.parts.get(part, _NOTHING), deep.parts.get(part, _NOTHING), strict=True
                )
            )
            for part in quick.parts.keys() | deep.parts.keys()
        },
        {
            name: (1 - share) * quick.chance.get(name, 0.0) + share * deep.chance.get(name, 0.0)
            for name in quick.chance.keys() | deep.chance.keys()
        },
        (1 - share) * quick.bias + share * deep.bias,
    )


def regime_shares(covered: float, sizes: Sequence[int]) -> tuple[float, ...]:
    """Say how near a query is to each of the four corners; the sum is 1.

    ``covered`` is the share of its words that the best candidate holds,
    ``sizes`` are the candidates' files' in bytes.
    """
    known = _within((covered - _LEAST_COVERED) / (_MOST_COVERED - _LEAST_COVERED))
    mean = sum(math.log(max(size, 1)) for size in sizes) / max(len(sizes), 1)
    long = _within((mean - math.log(_SHORT)) / math.log(_LONG / _SHORT))
    return (
        (1 - known) * (1 - long),
        (1 - known) * long,
        known * (1 - long),
        known * long,
    )


def weights_for(fit: RankingWeights, place: Sequence[float]) -> dict[str, float]:
    """Return each part's weight for a query that is at some place between the corners."""
    return {
        part: sum(share * weight for share, weight in zip(place, values, strict=True))
        for part, values in fit.parts.items()
    }


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)


_BEHIND = 4.0
"""What a score of 0 beside one of 1 takes from the logit."""


def evidence(candidate: FeatureRow, words: int) -> dict[str, float]:
    """Return what says of a memory that it answers a query of so many words."""
    found = {name: values[0] for name, values in columns([candidate]).items()}
    few = 1.0 / max(words, 1)
    return {**found, "few": few, "covered_few": few * found["covered"]}


def answer_probability(found: dict[str, float], fit: RankingWeights, behind: float) -> float:
    """Return the chance that a memory answers, in 0..1; its score is ``behind`` the best."""
    logit = fit.bias + sum(weight * found.get(name, 0.0) for name, weight in fit.chance.items())
    return 0.5 + 0.5 * math.tanh((logit - _BEHIND * behind) / 2)


_WEIGHT = 0.8
"""What the cross-encoder counts; the score before it counts the rest."""
_LEAST, _MOST = 20, 50


def judged_count(limit: int) -> int:
    """Return how many memories are judged: as many as are asked for, within bounds."""
    return min(max(limit, _LEAST), _MOST)


def rerank(scored: Sequence[ScoredMemory], judged: Mapping[int, float]) -> list[ScoredMemory]:
    """Order the judged memories anew; the others follow as they were, never above them.

    ``judged`` says by key how well a memory fits the query, in 0..1.
    """
    best = [_judged(entry, judged[entry.key]) for entry in scored if entry.key in judged]
    best.sort(key=lambda entry: -entry.score)
    last = best[-1].score if best else 1.0
    return best + [_below(entry, last) for entry in scored if entry.key not in judged]


def _judged(entry: ScoredMemory, score: float) -> ScoredMemory:
    parts = {name: (1 - _WEIGHT) * part for name, part in entry.parts.items()}
    return entry._replace(
        score=(1 - _WEIGHT) * entry.score + _WEIGHT * score,
        parts={**parts, "rerank": _WEIGHT * score},
    )


def _below(entry: ScoredMemory, last: float) -> ScoredMemory:
    """Score what was not judged as if it did not fit, and no better than the last that was."""
    score = min((1 - _WEIGHT) * entry.score, last)
    share = score / entry.score if entry.score else 0.0
    parts = {name: share * part for name, part in entry.parts.items()}
    return entry._replace(score=score, parts=parts)


_RELATIVE = {"vector": 0.2, "deep": 0.2, "words": 0.1}
"""Parts that are scaled over the candidates, and by how much these must differ to count fully."""
_HALF_LIFE = 90.0
"""Days after which a memory's recency is worth half."""
_SAME = 0.9
"""The share of their terms that two memories have in common where one says nothing new."""
_MANY, _SOME = 256, 16
"""From how many terms on two memories are told apart by some of them, and by how many."""
_EQUAL = 0.9
"""The share of the best score from which the newest of those that say the same stands for all."""
_ALIKE, _COMPARABLE = 0.27, 0.55
"""How alike two memories about one thing are, and what share of the older's score is enough.

With less of either, the newer of two things that only share a subject came first.
"""
_HELD, _AS_MUCH = 0.55, 0.9
"""The share of a query's words that names a memory, and what part of it another must hold.

"The budget for 2025" is not answered by that for 2026, however much newer it is.
"""
_ABOVE = 1e-6
_LACKS_NUMBER = 0.4
"""What a score loses without the numbers that a query names and another memory holds.

Vectors take "kiwi88" for "kiwi8", and one ticket for the next.
"""
_REPEATED = 0.5
"""What a score is worth that repeats a better one."""


class FeatureRow(NamedTuple):
    """A memory that may be an answer, and what is known of it.

    ``keyword`` is its share of the best keyword score, ``bm25`` its share of the
    greatest that the query's words could give. ``cosine`` and ``deep`` are None
    where there are no vectors.
    """

    key: int
    record: MemoryRecord
    keyword: float
    bm25: float
    cosine: float | None
    deep: float | None
    closeness: SentenceFeatures


class Ranked(NamedTuple):
    """A candidate with its score in 0..1 and the parts that add up to it."""

    candidate: FeatureRow
    score: float
    parts: dict[str, float]

    @property
    def whole(self) -> float:
        """What the score would be if nothing better said the same."""
        return self.score - self.parts.get("repeats", 0.0)


def columns(candidates: Sequence[FeatureRow]) -> dict[str, list[float]]:
    """Return every part in 0..1, a value a candidate; those that nobody has are left out.

    ``vector``, ``deep`` and ``words`` count between the least and the most that
    any candidate has; with ``_own`` after its name a part counts as it is.
    """
    near: dict[str, list[float | None]] = {
        "vector": [entry.cosine for entry in candidates],
        "deep": [entry.deep for entry in candidates],
        "words": [entry.closeness.soft_match for entry in candidates],
    }
    own: dict[str, list[float | None]] = {
        "keyword": [entry.keyword for entry in candidates],
        "keyword_own": [entry.bm25 for entry in candidates],
        "covered": [entry.closeness.coverage for entry in candidates],
        "together": [entry.closeness.proximity for entry in candidates],
        "order": [entry.closeness.adjacency for entry in candidates],
        "title": [entry.closeness.title_coverage for entry in candidates],
        "title_words": [entry.closeness.title_soft_match for entry in candidates],
        **{f"{name}_own": values for name, values in near.items()},
    }
    scaled_near = {
        name: scaled(values, _RELATIVE[name]) for name, values in near.items() if _known(values)
    }
    return {
        **{name: [max(0.0, value) for value in values] for name, values in scaled_near.items()},
        **{
            name: [min(max(value or 0.0, 0.0), 1.0) for value in values]
            for name, values in own.items()
            if _known(values)
        },
    }


def _known(values: Sequence[float | None]) -> bool:
    """Say whether anybody has a value: what nobody has is no reason to lose."""
    return any(value is not None for value in values)


def rank(
    candidates: Sequence[FeatureRow],
    fit: RankingWeights,
    ranking: RankingSettings,
    now: datetime,
    days: DateConstraint | None,
) -> list[Ranked]:
    """Order candidates, best first; ties by key."""
    if not candidates:
        return []
    values = columns(candidates)
    covered = max(entry.closeness.coverage for entry in candidates)
    place = regime_shares(covered, [entry.record.size for entry in candidates])
    weights = {name: weight for name, weight in weights_for(fit, place).items() if name in values}
    total = sum(weights.values()) or 1.0
    weights = {name: weight / total for name, weight in weights.items()}
    for name, weight, more in (
        ("recency", ranking.recency, [_recency(entry.record, now) for entry in candidates]),
        ("importance", ranking.importance, [_importance(entry.record) for entry in candidates]),
        (
            "date",
            ranking.date * days.weight if days else 0.0,
            [date_proximity(entry.record, days.span) if days else 0.0 for entry in candidates],
        ),
    ):
        if weight:
            weights[name], values[name] = weight, more
    named = max((entry.closeness.number_coverage or 0.0 for entry in candidates), default=0.0)
    total = sum(weights.values())
    ranked = []
    for number, entry in enumerate(candidates):
        parts = {name: weights[name] * values[name][number] / total for name in weights}
        if days is None and (lacks := named - (entry.closeness.number_coverage or 0.0)) > 0:
            parts["number"] = -_LACKS_NUMBER * lacks * sum(parts.values())
        ranked.append(Ranked(entry, sum(parts.values()), parts))
    ranked.sort(key=_order)
    return demote_duplicates(ranked) if ranking.diversity else ranked


def prefer_newer(
    ranked: Sequence[Ranked], likeness: Sequence[Sequence[float]]
) -> tuple[list[Ranked], dict[int, int]]:
    """Put a newer memory above an older one that is about the same thing.

    ``likeness`` says how alike the first are, each to each. Returns the order, and
    by the key of each older one that of the newest.
    """
    days = [effective_date(entry.candidate.record) for entry in ranked[: len(likeness)]]
    scores = [entry.score for entry in ranked]
    found: dict[int, int] = {}
    for old in sorted(range(len(likeness)), key=days.__getitem__):
        newer = [
            new
            for new, like in enumerate(likeness[old])
            if days[new] > days[old]
            and like >= _ALIKE
            and ranked[new].score >= _COMPARABLE * ranked[old].score
            and not _is_meant(ranked[old], ranked[new])
            and _nearest(likeness, old, new)
        ]
        for new in newer:
            scores[new] = max(scores[new], scores[old] + _ABOVE)
        if newer:
            newest = max(newer, key=lambda place: days[place])
            found[ranked[old].candidate.key] = ranked[newest].candidate.key
    raised = [
        entry._replace(score=score, parts={**entry.parts, "newer": score - entry.score})
        if score > entry.score
        else entry
        for entry, score in zip(ranked, scores, strict=True)
    ]
    return sorted(raised, key=_order), found


def _is_meant(old: Ranked, new: Ranked) -> bool:
    """Say whether the query's words name the older of two, and not the newer."""
    held = old.candidate.closeness.coverage
    return held >= _HELD and new.candidate.closeness.coverage < _AS_MUCH * held


def _nearest(likeness: Sequence[Sequence[float]], one: int, other: int) -> bool:
    """Say whether each of two is the most alike to the other."""
    like = likeness[one][other]
    return all(
        like >= max(value for place, value in enumerate(likeness[own]) if place != own)
        for own in (one, other)
    )


def append_unscored(
    ranked: Sequence[Ranked], fused: Sequence[tuple[int, float]], regular: Container[int]
) -> list[ScoredMemory]:
    """Score the memories that were not compared by their fused score, best first.

    None of them comes above one of the ``regular`` candidates, which were compared
    because their fused score was better.
    """
    whole = [entry.whole for entry in ranked if entry.candidate.key in regular]
    most = min(whole, default=1.0)
    known = {entry.candidate.key for entry in ranked}
    scored = [ScoredMemory(entry.candidate.key, entry.score, entry.parts) for entry in ranked]
    for key, score in fused:
        if key not in known:
            scored.append(ScoredMemory(key, min(score, most), {"fused": min(score, most)}))
    return sorted(scored, key=lambda entry: -entry.score)


def _order(entry: Ranked) -> tuple[float, int]:
    return -entry.score, entry.candidate.key


def _recency(memory: MemoryRecord, now: datetime) -> float:
    modified = clock.parse(memory.modified)
    if modified is None:
        return 0.0
    return float(0.5 ** (max(0.0, (now - modified).total_seconds()) / 86_400 / _HALF_LIFE))


def _importance(memory: MemoryRecord) -> float:
    """Return how important a memory says that it is; one that says nothing is in the middle."""
    value = memory.metadata.get("importance")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return 0.5
    return float(value)


def demote_duplicates(ranked: list[Ranked]) -> list[Ranked]:
    """Put what repeats a better candidate further down.

    Of near equals that hold as much of the query the newest stays.
    """
    groups: list[list[Ranked]] = []
    for entry in ranked:
        own = next((group for group in groups if _alike(entry, group[0])), [])
        if not own:
            groups.append(own)
        own.append(entry)
    found = []
    for group in groups:
        best = group[0]
        equals = [
            entry
            for entry in group
            if entry.score >= _EQUAL * best.score and _held(entry) >= _held(best)
        ]
        first = max(equals, key=_newest)
        found += [entry if entry is first else _repeating(entry) for entry in group]
    return sorted(found, key=_order)


def _repeating(entry: Ranked) -> Ranked:
    loss = entry.score * (1.0 - _REPEATED)
    return entry._replace(score=entry.score - loss, parts={**entry.parts, "repeats": -loss})


def _newest(entry: Ranked) -> tuple[str, float, int]:
    return entry.candidate.record.modified, entry.score, -entry.candidate.key


def _held(entry: Ranked) -> float:
    """Return how much of the query's words, and of their order, a memory holds."""
    closeness = entry.candidate.closeness
    return closeness.proximity + (closeness.adjacency or 0.0)


def _alike(one: Ranked, other: Ranked) -> bool:
    """Say whether two memories share nearly all terms; a number or a "not" makes a difference."""
    first, second = one.candidate.closeness.term_ids, other.candidate.closeness.term_ids
    small, large = sorted((len(first), len(second)))
    if small < _SAME * large or not small:
        return False
    if small > _MANY:  # most are told apart by a part of their terms
        some = [term for term in islice(first, _SOME) if term in second]
        if 2 * len(some) < _SOME:
            return False
    common = len(first & second)
    if common < _SAME * (len(first) + len(second) - common):
        return False
    return not any(term & DISTINCTIVE_BIT for term in first ^ second)
