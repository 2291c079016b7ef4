"""Compute ranking features: one row for each memory compared with the query."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from memvault.index.protocol import (
    MemoryRecord,
    SentenceFeatures,
    SentenceQuery,
    View,
)
from memvault.named_tuple import NamedTuple
from memvault.recall.query import Query
from memvault.recall.retrieve import CandidateSet, scaled
from memvault.recall.weights import constants

_MAX_TERM_GAIN = 2.2
"""The maximum contribution of a term to a BM25F score, divided by its rarity: k1 + 1."""
_FULL_SCALE = 8.0
"""The difference in standard deviations that is scaled to 1."""
_MIN_COSINE_DEVIATION = 0.05
"""The minimum standard deviation of cosines; small differences mean little in a small vault.
"""
_MIN_TOKEN_DEVIATION = 0.02
_MIN_VARIANCE = 1e-9
_ENGLISH = "english"
_TOKEN_SLOPE, _TOKEN_OFFSET = 2.96, -2.02
"""The line that maps token matches of the multilingual model to the scale of the English model.
``fit_ranking.py`` prints how token matches depend on the calibrated cosine. For everyday-home,
-ops, -research and -languages, they are 0.086 + 0.396 * cosine with the English model, and 0.713 +
0.134 * cosine with the multilingual model.
"""


class FeatureRow(NamedTuple):
    """The ranking features of a memory.

    ``keyword`` is its keyword score relative to the best one, and ``bm25`` is its keyword score
    relative to the maximum possible for the query. Each cosine is None if there are no vectors of
    that kind; ``static_z`` and ``transformer_z`` are the cosines in standard deviations above the
    mean of all memories. ``tokens`` is None if token vectors are not stored. ``is_english`` is
    whether the English models, which compute static cosines and soft matches, apply to memory and
    query.
    """

    uid: int
    record: MemoryRecord
    keyword: float
    bm25: float
    static_cosine: float | None
    transformer_cosine: float | None
    sentences: SentenceFeatures
    static_z: float | None = None
    transformer_z: float | None = None
    tokens: float | None = None
    is_english: bool = True


def compute(
    view: View, query: Query, candidates: CandidateSet, uids: Iterable[int]
) -> list[FeatureRow]:
    """Compute the features of the given memories, one row each; skip missing memories."""
    rarity = [candidates.idf.get(word[0], 1.0) for word in query.search_groups]
    sentence_query = SentenceQuery(
        query.text, query.words, rarity[: len(query.words)], query.identifiers
    )
    max_bm25 = _MAX_TERM_GAIN * sum(rarity) or 1.0
    max_score = max((hit.score for hit in candidates.keyword.values()), default=0.0) or 1.0
    locations = {uid: candidates.location(uid) for uid in uids}
    sentences = view.sentence_features(sentence_query, locations)
    tokens: Mapping[int, float] = {}
    if candidates.transformer_weight:
        tokens = view.token_matches(query.text, candidates.nearest_passages(sentences))
        tokens = _on_one_scale(tokens, candidates)
    records = view.records_of(locations)
    rows = []
    for uid in locations:
        record = records.get(uid)
        if record is None or uid not in sentences:
            continue
        keyword, vector = candidates.keyword.get(uid), candidates.vector.get(uid)
        static = vector.static_cosine if vector is not None else None
        transformer = vector.transformer_cosine if vector is not None else None
        rows.append(
            FeatureRow(
                uid,
                record,
                keyword.score / max_score if keyword is not None else 0.0,
                keyword.score / max_bm25 if keyword is not None else 0.0,
                static,
                transformer,
                sentences[uid],
                _deviations(static, candidates.static_cosines),
                _deviations(transformer, candidates.transformer_cosines),
                tokens.get(uid),
                not candidates.is_multilingual or query.language == record.language == _ENGLISH,
            )
        )
    return rows


def _on_one_scale(tokens: Mapping[int, float], candidates: CandidateSet) -> Mapping[int, float]:
    """Convert token matches to the English model's scale if they come from two models."""
    hits = candidates.vector
    if len({hit.is_multilingual for hit in hits.values()}) < 2:
        return tokens
    return {
        uid: _TOKEN_SLOPE * match + _TOKEN_OFFSET if hits[uid].is_multilingual else match
        for uid, match in tokens.items()
    }


def _deviations(value: float | None, cosines: tuple[float, float]) -> float | None:
    """Return how far a cosine is above the mean of all memories, in standard deviations."""
    mean, deviation = cosines
    return None if value is None else (value - mean) / max(deviation, _MIN_COSINE_DEVIATION)


def columns(rows: Sequence[FeatureRow]) -> dict[str, list[float]]:
    """Return each part of a score as values in 0..1, one per row, omitting parts without values.

    ``_SCORE_PARTS`` defines how each part is computed.
    """
    by_name = {}
    for name, part in _SCORE_PARTS.items():
        values: Sequence[float | None] = [part.value(row) for row in rows]
        if part.estimate is not None:
            values = part.estimate(rows, values)
        if any(
            value is not None for value in values
        ):  # a part without values must not lower scores
            scores = values if part.scale is None else part.scale(values)
            by_name[name] = list(map(_in_unit, scores))
    return by_name


def _of_english(
    rows: Sequence[FeatureRow], values: Sequence[float | None]
) -> Sequence[float | None]:
    """Return the values of an English model, estimated where it does not apply."""
    if all(row.is_english for row in rows):
        return values
    english_values = [
        value if row.is_english else None for row, value in zip(rows, values, strict=True)
    ]
    return _estimated(rows, english_values) or english_values


def _estimated(rows: Sequence[FeatureRow], values: Sequence[float | None]) -> list[float]:
    """Return a value per row, estimating missing ones from the cosines; empty if all are missing.

    The estimates are on a least-squares line through the rows that have a value, so on average a
    missing value neither raises nor lowers a memory's rank.
    """
    pairs = list(zip((row.transformer_z for row in rows), values, strict=True))
    measured = [(cosine or 0.0, value) for cosine, value in pairs if value is not None]
    if not measured:
        return []
    slope, intercept = _line([cosine for cosine, _ in measured], [value for _, value in measured])
    # A memory without a cosine is assumed to have the mean cosine of all memories.
    return [
        slope * (cosine or 0.0) + intercept if value is None else value for cosine, value in pairs
    ]


def _line(inputs: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return slope, at least 0, and intercept of the least-squares line through points."""
    center, height = _mean(inputs), _mean(values)
    spread = sum((value - center) ** 2 for value in inputs)
    pairs = zip(inputs, values, strict=True)
    rise = sum((first - center) * (second - height) for first, second in pairs)
    slope = max(rise / spread, 0.0) if spread > _MIN_VARIANCE else 0.0
    return slope, height - slope * center


def _standardized(values: Sequence[float | None]) -> list[float]:
    """Return values in standard deviations above their mean, on the scale of ``_behind_best``."""
    present = [value for value in values if value is not None]
    mean = _mean(present)
    deviation = math.sqrt(_mean([(value - mean) ** 2 for value in present]))
    deviation = max(deviation, _MIN_TOKEN_DEVIATION)
    return _behind_best([value / deviation for value in present])


def _mean(values: Sequence[float]) -> float:
    """Return the mean; ``statistics`` takes 10 ms to load, and its exact mean is slow."""
    return sum(values) / len(values)


def _behind_best(deviations: Sequence[float | None]) -> list[float]:
    """Return 1 for the best value, an eighth less per standard deviation below it, 0 for None."""
    return scaled(deviations, _FULL_SCALE)


def _scaled_soft_match(values: Sequence[float | None]) -> list[float]:
    return scaled(values, constants().soft_match_spread)


def _scaled_title(values: Sequence[float | None]) -> list[float]:
    return scaled(values, 1.0)


class _ScorePart(NamedTuple):
    """How to compute a part of a score: each row's value, the scaling, and missing values."""

    value: Callable[[FeatureRow], float | None]
    scale: Callable[[Sequence[float | None]], Sequence[float | None]] | None = None
    estimate: (
        Callable[[Sequence[FeatureRow], Sequence[float | None]], Sequence[float | None]] | None
    ) = None


_SCORE_PARTS = {
    "keyword": _ScorePart(lambda row: row.keyword),
    "coverage": _ScorePart(lambda row: row.sentences.coverage),
    "proximity": _ScorePart(lambda row: row.sentences.proximity),
    "adjacency": _ScorePart(lambda row: row.sentences.adjacency),
    "title_coverage": _ScorePart(lambda row: row.sentences.title_coverage),
    "title_soft_match": _ScorePart(
        lambda row: row.sentences.title_soft_match, _scaled_title, _of_english
    ),
    "soft_match": _ScorePart(lambda row: row.sentences.soft_match, _scaled_soft_match, _of_english),
    "static": _ScorePart(lambda row: row.static_z, _behind_best, _of_english),
    "transformer": _ScorePart(lambda row: row.transformer_z, _behind_best),
    "tokens": _ScorePart(lambda row: row.tokens, _standardized, _estimated),
}
"""The parts of a score. The unit of cosines is their standard deviation over all memories; the unit
of token matches is their standard deviation over the rows.
"""


def evidence(row: FeatureRow, word_count: int) -> dict[str, float]:
    """Return the features in 0..1 that determine the match probability.

    They do not depend on other memories. Unknown features are 0.
    """
    sentences = row.sentences
    brevity = 1.0 / max(word_count, 1)
    values = {
        "keyword_absolute": row.bm25,
        "coverage": sentences.coverage,
        "proximity": sentences.proximity,
        "adjacency": sentences.adjacency,
        "title_coverage": sentences.title_coverage,
        "soft_match_absolute": sentences.soft_match if row.is_english else None,
        "title_soft_match_absolute": sentences.title_soft_match if row.is_english else None,
        "static_absolute": row.static_cosine,
        "transformer_absolute": row.transformer_cosine,
        "tokens_absolute": row.tokens,
        "brevity": brevity,
        "brief_coverage": brevity * sentences.coverage,
    }
    return {name: _in_unit(value) for name, value in values.items()}


def _in_unit(value: float | None) -> float:
    return min(max(value or 0.0, 0.0), 1.0)
