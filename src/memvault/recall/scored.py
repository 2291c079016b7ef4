"""A hit's score and what it is made of; and orders by one measure alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from memvault.model import Memory

__all__ = ["Scored", "alone"]


class Scored(NamedTuple):
    """A hit's score and the parts that add up to it."""

    uid: int
    score: float
    parts: dict[str, float]


def alone(
    name: str, scores: Iterable[tuple[int, float]], read: Callable[[int], Memory | None]
) -> Iterator[tuple[Memory, Scored]]:
    """Order hits by one measure alone, which is the score; ties as they come."""
    for uid, score in sorted(scores, key=lambda item: -item[1]):
        memory = read(uid)
        if memory is not None:
            yield memory, Scored(uid, score, {name: score})
