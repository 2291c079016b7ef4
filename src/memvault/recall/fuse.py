"""One score out of two: a convex sum, and the numbers that make it up.

The keyword side counts as its share of the query's best BM25F score, the vector
side as its cosine between the lowest and highest of the candidates. Reciprocal
rank fusion gained nothing over BM25 in our measurements (docs/adr), because it
throws away how sure each side is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["KEYWORD_WEIGHT", "Fused", "fuse"]

KEYWORD_WEIGHT = 0.6


class Fused(NamedTuple):
    """A candidate's score in 0..1 and its two parts, each already weighted."""

    uid: int
    score: float
    keyword: float
    vector: float


def fuse(
    keyword: Mapping[int, float], cosine: Mapping[int, float], weight: float = KEYWORD_WEIGHT
) -> list[Fused]:
    """Rank every candidate of either side, best first; ties by uid.

    ``weight`` is the keyword side's share of the score, in 0..1.
    """
    best = max(keyword.values(), default=0.0) or 1.0
    high = max(cosine.values(), default=0.0)
    low = min(cosine.values(), default=0.0)
    spread = high - low
    fused = []
    for uid in keyword.keys() | cosine.keys():
        word = weight * keyword.get(uid, 0.0) / best
        near = 0.0
        if uid in cosine:
            near = (cosine[uid] - low) / spread if spread > 1e-9 else 1.0
        near *= 1.0 - weight
        fused.append(Fused(uid, word + near, word, near))
    return sorted(fused, key=lambda entry: (-entry.score, entry.uid))
