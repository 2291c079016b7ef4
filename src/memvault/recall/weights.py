"""What each part of a score counts, as fitted by ``scripts/training/fit_ranking.py``.

A part's weight depends on the query: on how much of its words the best
candidate holds, and on how long the candidates are. It is a mean of the
weights fitted for the four corners of these two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

FITTED = Path(__file__).resolve().parents[1] / "data" / "ranking.json"
_LEAST_COVERED, _MOST_COVERED = 0.2, 0.9
_NOTHING = (0.0,) * 4
_SHORT, _LONG = 150, 3_000
"""Bytes of memories that are short, and long."""


class RankingWeights(NamedTuple):
    """Weights of the parts at each corner, and of what makes a chance; ``bias`` is its constant."""

    parts: Mapping[str, tuple[float, ...]]
    chance: Mapping[str, float]
    bias: float


@cache
def fits() -> Mapping[str, RankingWeights]:
    """Return the fits: ``quick`` without vectors of a transformer, ``deep`` with those."""
    fitted = json.loads(FITTED.read_text("utf-8"))["fits"]
    return {
        name: RankingWeights(
            {part: tuple(values) for part, values in fit["parts"].items()},
            fit["chance"],
            fit["bias"],
        )
        for name, fit in fitted.items()
    }


def interpolate(quick: RankingWeights, deep: RankingWeights, share: float) -> RankingWeights:
    """Return the fit for an embedder that lies between two, ``share`` of the way in 0..1."""
    if share in (0.0, 1.0):
        return deep if share else quick
    return RankingWeights(
        {
            part: tuple(
                (1 - share) * own + share * other
                for own, other in zip(
                    quick.parts.get(part, _NOTHING), deep.parts.get(part, _NOTHING), strict=True
                )
            )
            for part in quick.parts.keys() | deep.parts.keys()
        },
        {
            name: (1 - share) * quick.chance.get(name, 0.0) + share * deep.chance.get(name, 0.0)
            for name in quick.chance.keys() | deep.chance.keys()
        },
        (1 - share) * quick.bias + share * deep.bias,
    )


def regime_shares(covered: float, sizes: Sequence[int]) -> tuple[float, ...]:
    """Say how near a query is to each of the four corners; the sum is 1.

    ``covered`` is the share of its words that the best candidate holds,
    ``sizes`` are the candidates' files' in bytes.
    """
    known = _within((covered - _LEAST_COVERED) / (_MOST_COVERED - _LEAST_COVERED))
    mean = sum(math.log(max(size, 1)) for size in sizes) / max(len(sizes), 1)
    long = _within((mean - math.log(_SHORT)) / math.log(_LONG / _SHORT))
    return (
        (1 - known) * (1 - long),
        (1 - known) * long,
        known * (1 - long),
        known * long,
    )


def weights_for(fit: RankingWeights, place: Sequence[float]) -> dict[str, float]:
    """Return each part's weight for a query that is at some place between the corners."""
    return {
        part: sum(share * weight for share, weight in zip(place, values, strict=True))
        for part, values in fit.parts.items()
    }


def _within(value: float) -> float:
    return min(max(value, 0.0), 1.0)
