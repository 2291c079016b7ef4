"""Which candidates are worth a closer look: a convex sum of what the two sides say.

The keyword side counts as its share of the query's best BM25F score, the vector
side as its cosine between the lowest and highest of the candidates. Reciprocal
rank fusion gained nothing over BM25 in our measurements (docs/adr), because it
throws away how sure each side is.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KEYWORD_WEIGHT", "fuse"]

KEYWORD_WEIGHT = 0.6


def fuse(
    shares: Mapping[int, float], cosines: Mapping[int, float], weight: float = KEYWORD_WEIGHT
) -> list[tuple[int, float]]:
    """Order every candidate of either side by its score in 0..1, best first; ties by uid.

    ``shares`` are keyword scores in 0..1; ``weight`` is their share of the sum.
    """
    high = max(cosines.values(), default=0.0)
    low = min(cosines.values(), default=0.0)
    spread = high - low
    fused = []
    for uid in shares.keys() | cosines.keys():
        near = 0.0
        if uid in cosines:
            near = (cosines[uid] - low) / spread if spread > 1e-5 else 1.0  # less is rounding
        fused.append((uid, weight * shares.get(uid, 0.0) + (1.0 - weight) * near))
    return sorted(fused, key=lambda entry: (-entry[1], entry[0]))
