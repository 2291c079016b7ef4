"""Nearest memories by static vectors, and by transformer vectors as far as there are any.

A memory's cosine is that of its nearest passage. If a passage has no transformer vector yet, its
transformer cosine is estimated from its static cosine with a least-squares line through the
memories that have both. On average, missing vectors therefore neither raise nor lower a memory.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class ScoredPassages(NamedTuple):
    """Passages, grouped by memory: the memory's uid, the text's hash, and the static cosine."""

    uids: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    cosines: Matrix

    def of(self, alive: Set[int]) -> ScoredPassages:
        """Return the passages of the given memories."""
        kept = is_in(self.uids, alive)
        if kept.all():
            return self
        return ScoredPassages(self.uids[kept], self.hashes[kept], self.cosines[kept])

    def joined(self, uid: int, hashes: npt.NDArray[np.uint64], cosines: Matrix) -> ScoredPassages:
        """Return the same passages and those of one more memory."""
        import numpy as np

        return ScoredPassages(
            np.append(self.uids, np.full(len(hashes), uid, np.int64)),
            np.append(self.hashes, hashes),
            np.append(self.cosines, cosines),
        )

    @property
    def firsts(self) -> npt.NDArray[np.intp]:
        """The index of each memory's first passage."""
        import numpy as np

        return np.flatnonzero(np.append(True, self.uids[1:] != self.uids[:-1]))[: len(self.uids)]


class NearestMemory(NamedTuple):
    """A memory, its nearest passage, and its static and transformer cosines to the query.

    ``deep`` is None if transformer vectors are not used.
    """

    uid: int
    passage: int
    cosine: float
    deep: float | None


def is_in(uids: npt.NDArray[np.int64], wanted: Set[int]) -> npt.NDArray[np.bool_]:
    """Return for each uid whether it is in a set."""
    import numpy as np

    return np.isin(uids, np.fromiter(wanted, np.int64, len(wanted)))


def nearest(
    passages: ScoredPassages, deep: Matrix | None, among: Set[int], limit: int, also: Set[int]
) -> list[NearestMemory]:
    """Return the memories nearest by either kind of vector, and those of ``also``, nearest first.

    ``passages`` are those of all memories, and ``deep`` their transformer cosines, nan where there
    is no vector yet. The nearest memories are chosen from ``among``.
    """
    import numpy as np

    if not len(passages.uids):
        return []
    firsts = passages.firsts
    uids = passages.uids[firsts]
    quick = np.maximum.reduceat(passages.cosines, firsts)
    sides, best = [quick], passages.cosines
    if deep is not None:
        best = _impute_missing(passages, deep, firsts, quick)
        sides.append(np.maximum.reduceat(best, firsts))
    allowed = np.flatnonzero(is_in(uids, among))
    chosen = np.flatnonzero(is_in(uids, also))
    for side in sides:
        near = allowed
        if len(near) > limit:
            near = near[np.argpartition(-side[near], limit - 1)[:limit]]
        chosen = np.union1d(chosen, near)
    ends = np.append(firsts[1:], len(passages.uids))
    hits = []
    for number in chosen:
        passage = int(best[firsts[number] : ends[number]].argmax())
        depth = float(sides[1][number]) if deep is not None else None
        hits.append(NearestMemory(int(uids[number]), passage, float(quick[number]), depth))
    return sorted(hits, key=lambda hit: (-hit.cosine if hit.deep is None else -hit.deep, hit.uid))


def _impute_missing(
    passages: ScoredPassages, deep: Matrix, firsts: npt.NDArray[np.intp], quick: Matrix
) -> Matrix:
    """Return the transformer cosines, with estimates for those that are missing."""
    import numpy as np

    lacking = np.isnan(deep)
    if not lacking.any():
        return deep
    whole = ~np.logical_or.reduceat(lacking, firsts)
    known = np.maximum.reduceat(np.where(lacking, -np.inf, deep), firsts)[whole].astype(np.float64)
    seen = quick[whole].astype(np.float64)
    slope, level = _line(seen, known)
    guessed = (level + slope * passages.cosines).astype(np.float32)
    return np.where(lacking, guessed, deep)


def _line(given: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line; the slope is at least 0."""
    if not len(given):
        return 1.0, 0.0
    centre, height = float(given.mean()), float(wanted.mean())
    spread = float(given.var())
    rise = float(((given - centre) * (wanted - height)).mean())
    slope = max(0.0, rise / spread) if spread > 1e-9 else 0.0
    return slope, height - slope * centre
