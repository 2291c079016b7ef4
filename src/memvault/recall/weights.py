"""Fitted weights of the ranking, and the measured constants with which they were fitted.

Both are read from ``data/ranking.json``, which ``scripts/training/fit_ranking.py`` writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FITTED = Path(__file__).resolve().parents[1] / "data" / "ranking.json"
_NO_WEIGHTS = (0.0,) * 4


class RankingConstants(NamedTuple):
    """Constants that were measured, not fitted; the weights hold only together with them.

    Retrieval:

    - ``keyword_weight``: weight of keyword scores when hits of both kinds are combined.
    - ``cosine_spread``, ``soft_match_spread``: minimum ranges for scaling values to 0..1.
      Smaller differences mean little: 0.01 must not become the full scale.
    - ``min_similarity``: minimum similarity of a memory that only vectors find.
    - ``min_date_proximity``: minimum proximity of a memory to the requested days.

    Regimes (see ``regime_shares``):

    - ``min_coverage``, ``max_coverage``: coverage at which the words of a query count as not
      contained, and as contained.
    - ``short_bytes``, ``long_bytes``: file sizes at which memories count as short, and as long.

    Scores:

    - ``half_life_days``: days after which the recency of a memory is halved.
    - ``missing_number_loss``: share of a score lost without a number of the query that another
      memory contains. Vectors confuse "kiwi88" with "kiwi8".
    - ``rerank_weight``: weight of the cross-encoder's score.
    - ``outdated_factor``: factor on the score of a memory that is not current.

    Duplicates:

    - ``duplicate_overlap``: share of common terms from which two memories are duplicates.
    - ``duplicate_factor``: factor on the score of a memory that repeats a better one.
    - ``equal_score``: minimum score, as a share of the best, from which the newest duplicate
      represents all of them.

    Newer memories about the same subject:

    - ``newer_similarity``: minimum similarity. With less, the newer one came first even where two
      memories only share a field.
    - ``newer_score``: minimum score of the newer one, as a share of the older one's.
    - ``identifying_coverage``: coverage from which the query's words identify a memory, and
      ``newer_coverage`` the share of it that a newer one needs to replace it: "the budget for
      2025" is not answered by the budget for 2026.

    Probabilities:

    - ``deficit_weight``: how much a score of 0, where the best has 1, subtracts from the logit.
    - ``min_on_date``: minimum for a memory of exactly the days that a query asks for.
    - ``max_other_number``: maximum for a memory that lacks a number of the query.
    """

    keyword_weight: float
    cosine_spread: float
    soft_match_spread: float
    min_similarity: float
    min_date_proximity: float
    min_coverage: float
    max_coverage: float
    short_bytes: int
    long_bytes: int
    half_life_days: float
    missing_number_loss: float
    rerank_weight: float
    outdated_factor: float
    duplicate_overlap: float
    duplicate_factor: float
    equal_score: float
    newer_similarity: float
    newer_score: float
    identifying_coverage: float
    newer_coverage: float
    deficit_weight: float
    min_on_date: float
    max_other_number: float


class RankingWeights(NamedTuple):
    """Weights of the parts of a score and of the features of a match probability.

    ``parts`` has a weight for each of the four regimes; ``bias`` is the constant term of the
    probability's logit.
    """

    parts: Mapping[str, tuple[float, ...]]
    evidence: Mapping[str, float]
    bias: float


@cache
def _data() -> Any:
    return json.loads(FITTED.read_text("utf-8"))


@cache
def constants() -> RankingConstants:
    """Return the measured constants."""
    return RankingConstants(**_data()["given"])


@cache
def fits() -> Mapping[str, RankingWeights]:
    """Return the fitted weights by the kind of vectors: none, static or transformer."""
    return {
        name: RankingWeights(
            {part: tuple(values) for part, values in fit["parts"].items()},
            fit["evidence"],
            fit["bias"],
        )
        for name, fit in _data()["fits"].items()
    }


def weights_with(has_vectors: bool, transformer_weight: float) -> RankingWeights:
    """Return the weights for the available signals.

    Args:
        has_vectors: whether any memory has a vector.
        transformer_weight: how much the transformer vectors count, 0..1; the weights lie as far
            between those for static and those for transformer vectors.
    """
    if not has_vectors:
        return fits()["none"]
    static, transformer = fits()["static"], fits()["transformer"]
    if transformer_weight in (0.0, 1.0):
        return transformer if transformer_weight else static

    def between(first: float, second: float) -> float:
        return (1 - transformer_weight) * first + transformer_weight * second

    return RankingWeights(
        {
            part: tuple(
                map(
                    between,
                    static.parts.get(part, _NO_WEIGHTS),
                    transformer.parts.get(part, _NO_WEIGHTS),
                )
            )
            for part in static.parts.keys() | transformer.parts.keys()
        },
        {
            name: between(static.evidence.get(name, 0.0), transformer.evidence.get(name, 0.0))
            for name in static.evidence.keys() | transformer.evidence.keys()
        },
        between(static.bias, transformer.bias),
    )


def regime_shares(coverage: float, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return how near a query is to each of the four regimes; the shares add up to 1.

    The regimes are combinations of words that memories contain or not, and short or long memories.
    ``coverage`` is the share of the query's words that the best memory contains, ``sizes`` are the
    file sizes of the memories in bytes.
    """
    given = constants()
    contained = _clamp((coverage - given.min_coverage) / (given.max_coverage - given.min_coverage))
    mean = sum(math.log(max(size, 1)) for size in sizes) / max(len(sizes), 1)
    full_length = math.log(given.long_bytes / given.short_bytes)
    length = _clamp((mean - math.log(given.short_bytes)) / full_length)
    return (
        (1 - contained) * (1 - length),
        (1 - contained) * length,
        contained * (1 - length),
        contained * length,
    )


def weights_for(fit: RankingWeights, shares: Sequence[float]) -> dict[str, float]:
    """Return each part's weight for a query with the given shares of the regimes."""
    return {
        part: sum(share * weight for share, weight in zip(shares, values, strict=True))
        for part, values in fit.parts.items()
    }


def _clamp(value: float) -> float:
    return min(max(value, 0.0), 1.0)
