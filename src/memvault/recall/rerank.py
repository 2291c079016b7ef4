"""The last step of a recall that asks for it: a cross-encoder has read the best memories again.

What was known before keeps a share, so that importance, dates and repeats still
count among memories that fit equally well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memvault.recall.values import ScoredMemory

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
