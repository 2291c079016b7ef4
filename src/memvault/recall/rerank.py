"""The last step of a recall that asks for it: a cross-encoder reads the best memories again.

Each is judged by its title and the passage that is shown of it. What was known
before keeps a share, so that importance, dates and repeats still count among
memories that fit equally well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from memvault.index.analysis import Analyser
from memvault.model import Memory
from memvault.recall import snippets
from memvault.recall.query import Query
from memvault.recall.scored import Scored

__all__ = ["reranked"]

Judge = Callable[[str, list[str]], list[float]]

_WEIGHT = 0.8
"""What the cross-encoder counts; the score before it counts the rest."""
_LEAST, _MOST = 20, 50
"""How many memories are judged: as many as are asked for, within these bounds."""


def reranked(
    ranked: Iterator[tuple[Memory, Scored]],
    judge: Judge,
    query: Query,
    analyser: Analyser,
    nearest: Mapping[int, int],
    limit: int,
) -> Iterator[tuple[Memory, Scored]]:
    """Order the best memories anew; the others follow as they were, never above them.

    ``judge`` says of texts how well they fit a query, in 0..1. ``nearest`` is
    each memory's passage that is nearest by vector, where there is one.
    """
    best = list(islice(ranked, min(max(limit, _LEAST), _MOST)))
    texts = []
    for memory, entry in best:
        passage = snippets.fitting(memory.body, query, analyser, nearest.get(entry.uid))
        texts.append(f"{memory.title}\n{passage.text}")
    scores = judge(query.text, texts) if texts else []
    judged = [
        (memory, _judged(entry, score)) for (memory, entry), score in zip(best, scores, strict=True)
    ]
    judged.sort(key=lambda item: -item[1].score)
    yield from judged
    last = judged[-1][1].score if judged else 1.0
    for memory, entry in ranked:
        yield memory, _below(entry, last)


def _judged(entry: Scored, score: float) -> Scored:
    parts = {name: (1 - _WEIGHT) * part for name, part in entry.parts.items()}
    return entry._replace(
        score=(1 - _WEIGHT) * entry.score + _WEIGHT * score,
        parts={**parts, "rerank": _WEIGHT * score},
    )


def _below(entry: Scored, last: float) -> Scored:
    """Score what was not judged as if it did not fit, and no better than the last that was."""
    score = min((1 - _WEIGHT) * entry.score, last)
    share = score / entry.score if entry.score else 0.0
    return entry._replace(
        score=score, parts={name: share * part for name, part in entry.parts.items()}
    )
