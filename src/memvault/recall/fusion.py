"""Fusion: which memories are worth reading, by a convex sum of what words and vectors say.

A keyword score counts as its share of the query's best BM25F score, a vector by
its cosine between the lowest and highest of the candidates. Reciprocal
rank fusion gained nothing over BM25 in our measurements (docs/adr), because it
throws away how sure each signal is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

KEYWORD_WEIGHT = 0.6
_LEAST_SPREAD = 0.2
"""Cosines that differ by less say little: 0.01 must not count as all that there is."""


def fuse(
    shares: Mapping[int, float], cosines: Mapping[int, float], weight: float = KEYWORD_WEIGHT
) -> list[tuple[int, float]]:
    """Order what words or vectors found by a score in 0..1, best first; ties by key.

    ``shares`` are keyword scores in 0..1; ``weight`` is their share of the sum.
    """
    near = dict(zip(cosines, scaled(cosines.values()), strict=True))
    fused = [
        (key, weight * shares.get(key, 0.0) + (1.0 - weight) * near.get(key, 0.0))
        for key in shares.keys() | cosines.keys()
    ]
    return sorted(fused, key=lambda entry: (-entry[1], entry[0]))


def scaled(values: Iterable[float | None], least_spread: float = _LEAST_SPREAD) -> list[float]:
    """Scale values between their least and most to 0..1; None is 0.

    The best is always 1; where all lie close together, none falls far behind.
    """
    every = list(values)
    known = [value for value in every if value is not None]
    high = max(known, default=0.0)
    spread = max(high - min(known, default=0.0), least_spread)
    return [0.0 if value is None else 1.0 - (high - value) / spread for value in every]
