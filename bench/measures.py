"""Compute quality measures of answers per query, and test whether two runs differ significantly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ir_measures
import numpy as np
from ir_measures import RR, R, Success, nDCG

from judged import DEPTH, Hit, JudgedSet, kind_of

Answers = Mapping[str, Sequence[Hit]]
Values = dict[str, dict[str, float]]
"""Values by measure name, then query id."""
Saved = Mapping[str, Mapping[str, Values]]
"""Values by set name, then search mode."""

TOLERANCE = 0.02
"""Maximum amount by which hybrid search may trail keyword or vector search alone on a set."""
_RESAMPLED = 10_000
_EXPONENTIAL = {1: 1, 2: 3}
"""Gains of 2^grade - 1, by grade."""


def values(judged: JudgedSet, answers: Answers) -> Values:
    """Compute all measures for each answer.

    For the usual measures, only documents with the set's highest grade are relevant; nDCG weighs
    all grades. There are four more measures: ``empty`` is whether nothing was found, ``update`` is
    whether the newer memory ranks above the older one, ``none`` is whether any result is strong
    although nothing answers the query, and ``right`` is whether a correct result is strong or fair.
    """
    least = judged.answering
    usual = {
        "hit@1": Success(rel=least) @ 1,
        "R@5": R(rel=least) @ 5,
        "R@10": R(rel=least) @ DEPTH,
        "nDCG@10": nDCG(gains=_EXPONENTIAL) @ DEPTH,
        "MRR@10": RR(rel=least) @ DEPTH,
    }
    asked = [query["_id"] for query in judged.queries]
    # use positions in the answer as scores
    ranked = {
        query: {hit.document: float(-place) for place, hit in enumerate(answers[query])}
        for query in asked
    }
    grades = {query: dict(judged.relevant[query]) for query in asked}
    found: Values = {
        name: {
            str(entry.query_id): float(entry.value)
            for entry in ir_measures.iter_calc([measure], grades, ranked)
        }
        for name, measure in usual.items()
    }
    found["empty"] = {query: float(not answers[query]) for query in asked}
    found["update"] = {
        query["_id"]: float(newer_first(judged.relevant[query["_id"]], answers[query["_id"]]))
        for query in judged.queries
        if kind_of(query) == "update"
    }
    if any(hit.strength for hits in answers.values() for hit in hits):
        found["none"] = {
            query["_id"]: float(any(hit.strength == "strong" for hit in answers[query["_id"]]))
            for query in judged.unanswerable
        }
        found["right"] = {
            query: float(
                any(
                    hit.strength in ("strong", "fair")
                    for hit in answers[query]
                    if judged.relevant[query].get(hit.document) == least
                )
            )
            for query in asked
        }
    return found


def newer_first(grades: Mapping[str, int], hits: Sequence[Hit]) -> bool:
    """Return whether a memory that answers the query ranks above every outdated one."""
    best = max(grades.values())
    known = [grades[hit.document] for hit in hits if hit.document in grades]
    return bool(known) and known[0] == best


def mean(entries: Mapping[str, float], among: frozenset[str] | None = None) -> float | None:
    """Return the mean over all queries or those in ``among``, or None if there are no values."""
    chosen = [value for query, value in entries.items() if among is None or query in among]
    return sum(chosen) / len(chosen) if chosen else None


def shortfalls(found: Saved) -> Iterator[str]:
    """Yield the sets on which hybrid search is below the better of its two parts.

    Each set is compared in hit@1 and R@5; a shortfall of at most ``TOLERANCE`` is not reported.
    """
    for name, ways in found.items():
        for measure in ("hit@1", "R@5"):
            means = {way: mean(values[measure]) or 0.0 for way, values in ways.items()}
            way = max(("keyword", "vector"), key=means.__getitem__)
            hybrid, best = means["hybrid"], means[way]
            if hybrid < best - TOLERANCE:
                yield f"{name}: {measure} of hybrid is {hybrid:.3f}, of {way} {best:.3f}"


class Difference(NamedTuple):
    """A measure before and after, and the 95 % interval of the difference."""

    name: str
    way: str
    measure: str
    before: float
    now: float
    low: float
    high: float


def differences(before: Saved, now: Saved) -> Iterator[Difference]:
    """Compare the queries that both runs contain, per set, and the mean over the sets.

    Queries are resampled within each set (a paired bootstrap).
    """
    pairs: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for name, ways in now.items():
        for way, measures in ways.items():
            for measure, entries in measures.items():
                old = before.get(name, {}).get(way, {}).get(measure, {})
                shared = sorted(old.keys() & entries.keys())
                if shared:
                    was = np.array([old[query] for query in shared])
                    is_now = np.array([entries[query] for query in shared])
                    yield _difference(name, way, measure, [(was, is_now)])
                    pairs.setdefault((way, measure), []).append((was, is_now))
    for (way, measure), both in pairs.items():
        if len(both) > 1:
            yield _difference("mean", way, measure, both)


def _difference(name: str, way: str, measure: str, both: list[tuple[Any, Any]]) -> Difference:
    chance = np.random.default_rng(0)
    drawn = np.zeros(_RESAMPLED)
    for was, is_now in both:
        gained = is_now - was
        places = chance.integers(0, len(gained), (_RESAMPLED, len(gained)))
        drawn += gained[places].mean(axis=1) / len(both)
    low, high = np.quantile(drawn, (0.025, 0.975))
    old, new = (float(np.mean([pair[side].mean() for pair in both])) for side in (0, 1))
    return Difference(name, way, measure, old, new, float(low), float(high))
