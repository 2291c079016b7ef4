"""Ranking features: one row for each memory that is compared with the query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memvault.index.protocol import MemoryRecord, SentenceFeatures, SentenceQuery, View
from memvault.recall.query import Query
from memvault.recall.retrieve import CandidateSet, scaled
from memvault.recall.weights import constants

_MAX_TERM_GAIN = 2.2
"""The most that one term can add to a BM25F score, divided by its rarity: k1 + 1."""


class FeatureRow(NamedTuple):
    """The ranking features of a memory.

    ``keyword`` is its share of the best keyword score, ``bm25`` its share of the highest score that
    the query's words could yield. The cosines are None if there are no such vectors.
    """

    key: int
    record: MemoryRecord
    keyword: float
    bm25: float
    static_cosine: float | None
    transformer_cosine: float | None
    sentences: SentenceFeatures


def compute(
    view: View, query: Query, candidates: CandidateSet, keys: Iterable[int]
) -> list[FeatureRow]:
    """Compute the features of the given memories, one row each; skip missing ones."""
    rarity = [candidates.idf.get(word[0], 1.0) for word in query.search_groups]
    sentence_query = SentenceQuery(query.text, query.words, rarity[: len(query.words)])
    max_bm25 = _MAX_TERM_GAIN * sum(rarity) or 1.0
    max_score = max((hit.score for hit in candidates.keyword.values()), default=0.0) or 1.0
    locations = {key: candidates.location(key) for key in keys}
    sentences = view.sentence_features(sentence_query, locations)
    rows = []
    for key in locations:
        record = view.record(key)
        if record is None or key not in sentences:
            continue
        keyword, vector = candidates.keyword.get(key), candidates.vector.get(key)
        rows.append(
            FeatureRow(
                key,
                record,
                keyword.score / max_score if keyword is not None else 0.0,
                keyword.score / max_bm25 if keyword is not None else 0.0,
                vector.static_cosine if vector is not None else None,
                vector.transformer_cosine if vector is not None else None,
                sentences[key],
            )
        )
    return rows


def columns(rows: Sequence[FeatureRow]) -> dict[str, list[float]]:
    """Return the values in 0..1 of each part of a score, one per row, without parts that have none.

    ``static``, ``transformer`` and ``soft_match`` are scaled between the minimum and maximum of the
    rows; parts whose names end in ``_absolute`` are not scaled.
    """
    relative: dict[str, list[float | None]] = {
        "static": [row.static_cosine for row in rows],
        "transformer": [row.transformer_cosine for row in rows],
        "soft_match": [row.sentences.soft_match for row in rows],
    }
    absolute: dict[str, list[float | None]] = {
        "keyword": [row.keyword for row in rows],
        "keyword_absolute": [row.bm25 for row in rows],
        "coverage": [row.sentences.coverage for row in rows],
        "proximity": [row.sentences.proximity for row in rows],
        "adjacency": [row.sentences.adjacency for row in rows],
        "title_coverage": [row.sentences.title_coverage for row in rows],
        "title_soft_match": [row.sentences.title_soft_match for row in rows],
        **{f"{name}_absolute": values for name, values in relative.items()},
    }
    given = constants()
    scaled_relative = {
        name: scaled(
            values, given.soft_match_spread if name == "soft_match" else given.cosine_spread
        )
        for name, values in relative.items()
        if _any_known(values)
    }
    return {
        **{name: [max(0.0, value) for value in values] for name, values in scaled_relative.items()},
        **{
            name: [min(max(value or 0.0, 0.0), 1.0) for value in values]
            for name, values in absolute.items()
            if _any_known(values)
        },
    }


def _any_known(values: Sequence[float | None]) -> bool:
    """Return whether any row has a value; a part without values must not lower scores."""
    return any(value is not None for value in values)


def evidence(row: FeatureRow, word_count: int) -> dict[str, float]:
    """Return the features that determine the match probability for a query of some words."""
    features = {name: values[0] for name, values in columns([row]).items()}
    brevity = 1.0 / max(word_count, 1)
    return {**features, "brevity": brevity, "brief_coverage": brevity * features["coverage"]}
