"""Fitted ranking weights, and the measured constants with which they were fitted.

Both are read from ``data/ranking.json``, which ``training/fit_ranking.py`` writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from memvault.named_tuple import NamedTuple

FITTED = Path(__file__).resolve().parents[1] / "data" / "ranking.json"
_VECTOR_PARTS = ("static", "transformer")


class RankingConstants(NamedTuple):
    """Measured constants; unlike the weights, they are not fitted.

    The weights are valid only with them.

    Retrieval:

    - ``keyword_weight``: weight of keyword scores when hits of both kinds are combined.
    - ``cosine_spread``, ``soft_match_spread``: minimum ranges for scaling values to 0..1. Smaller
      differences mean little, so a range of 0.01 must not be scaled up to 0..1.
    - ``min_similarity``: minimum similarity of a memory found only by vectors, unless it is likely
      to answer the query.
    - ``min_date_proximity``: minimum proximity of a memory to the requested days.

    Scores:

    - ``half_life_days``: days after which the recency of a memory is halved.
    - ``missing_number_loss``: share of its score that a memory loses if it lacks a number in the
      query that another memory contains. Vectors confuse "kiwi88" with "kiwi8".
    - ``length_weight``: score that a memory loses for each factor of e by which its file is larger
      than ``short_size``, up to ``long_size``, both in bytes.
    - ``rerank_weight``: weight of the cross-encoder's score.
    - ``outdated_factor``: factor applied to the score of a memory that is not current.

    Duplicates:

    - ``duplicate_overlap``: minimum share of their terms that duplicates have in common.
    - ``duplicate_factor``: factor applied to the score of a memory that repeats a better one.
    - ``equal_score``: minimum share of the best score for the newest duplicate to represent all of
      them.

    Newer memories about the same subject:

    - ``newer_similarity``: minimum similarity of the two memories. With a lower value, newer
      memories moved up that had only one field in common with the older ones.
    - ``shared_words``: minimum share of the shorter memory's words that the other memory also
      contains.
    - ``newer_score``: minimum score of the newer memory, as a share of the older memory's score.
    - ``newer_size``: maximum size of each file, in bytes. Longer memories, such as sessions and
      dialogues, often share a subject without replacing each other.
    - ``equal_similarity``: minimum share of the highest similarity that counts as equal to it, so
      several versions of a value are recognized.
    - ``identifying_coverage``: minimum coverage at which the query's words identify the older
      memory. The newer memory then replaces it only if its coverage is at least ``newer_coverage``
      times as high: the budget for 2026 does not answer "the budget for 2025".

    Probabilities:

    - ``deficit_weight``: how much a score of 0 subtracts from the logit if the best score is 1.
    - ``min_on_date``: minimum probability of a memory from exactly the requested days.
    - ``max_other_number``: maximum probability of a memory that lacks a number in the query.
    """

    keyword_weight: float
    cosine_spread: float
    soft_match_spread: float
    min_similarity: float
    min_date_proximity: float
    half_life_days: float
    missing_number_loss: float
    length_weight: float
    short_size: int
    long_size: int
    rerank_weight: float
    outdated_factor: float
    duplicate_overlap: float
    duplicate_factor: float
    equal_score: float
    newer_similarity: float
    shared_words: float
    newer_score: float
    newer_size: int
    equal_similarity: float
    identifying_coverage: float
    newer_coverage: float
    deficit_weight: float
    min_on_date: float
    max_other_number: float


class RankingWeights(NamedTuple):
    """Weights of score parts and of the features of the match probability.

    ``bias`` is the constant term of the probability's logit.
    """

    parts: Mapping[str, float]
    evidence: Mapping[str, float]
    bias: float


@cache
def _data() -> Any:
    return json.loads(FITTED.read_text("utf-8"))


@cache
def constants() -> RankingConstants:
    """Return the measured constants."""
    return RankingConstants(**_data()["constants"])


@cache
def weights_by_signal() -> Mapping[str, RankingWeights]:
    """Return the fitted weights by kind of vectors.

    Kinds are none, static, transformer, tokens, and multilingual for the bundled multilingual
    model.
    """
    return {name: RankingWeights(**fit) for name, fit in _data()["fits"].items()}


def select_weights(
    has_vectors: bool,
    transformer_weight: float = 0.0,
    has_tokens: bool = False,
    is_multilingual: bool = False,
    vector_factor: float = 1.0,
) -> RankingWeights:
    """Return the weights for the available signals.

    Args:
        has_vectors: whether any memory has a vector.
        transformer_weight: how much the transformer vectors count, in 0..1; the weights are
            interpolated between those for static and those for transformer vectors.
        has_tokens: whether any memory has token vectors.
        is_multilingual: whether the transformer vectors come from the bundled multilingual model.
        vector_factor: the factor on the weights of both kinds of vectors in a score, from the
            vault's settings.
    """
    weights = _default_weights(has_vectors, transformer_weight, has_tokens, is_multilingual)
    if vector_factor == 1.0:
        return weights
    scaled = {name: vector_factor * weights.parts.get(name, 0.0) for name in _VECTOR_PARTS}
    return weights._replace(parts={**weights.parts, **scaled})


def _default_weights(
    has_vectors: bool, transformer_weight: float, has_tokens: bool, is_multilingual: bool
) -> RankingWeights:
    if not has_vectors:
        return weights_by_signal()["none"]
    if is_multilingual:
        return weights_by_signal()["multilingual"]
    static, transformer = (
        weights_by_signal()["static"],
        weights_by_signal()["tokens" if has_tokens else "transformer"],
    )
    if transformer_weight in (0.0, 1.0):
        return transformer if transformer_weight else static

    def between(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
        return {
            name: (1 - transformer_weight) * first.get(name, 0.0)
            + transformer_weight * second.get(name, 0.0)
            for name in first.keys() | second.keys()
        }

    return RankingWeights(
        between(static.parts, transformer.parts),
        between(static.evidence, transformer.evidence),
        (1 - transformer_weight) * static.bias + transformer_weight * transformer.bias,
    )
