"""Which memories are nearest: by the quick vectors of all, and by what deep ones there are.

A memory's cosine is that of its nearest passage. Where some passages have no
deep vector yet, their deep cosine is guessed from the quick one, by the line
of least squares through the memories that have both: on the average nobody
gains or loses by waiting.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class ScoredPassages(NamedTuple):
    """Passages, a memory's side by side: whose each is, its text's hash, its quick cosine."""

    uids: npt.NDArray[np.int64]
    hashes: npt.NDArray[np.uint64]
    cosines: Matrix

    def of(self, alive: Set[int]) -> ScoredPassages:
        """Return the passages of some memories."""
        kept = is_in(self.uids, alive)
        if kept.all():
            return self
        return ScoredPassages(self.uids[kept], self.hashes[kept], self.cosines[kept])

    def joined(self, uid: int, hashes: npt.NDArray[np.uint64], cosines: Matrix) -> ScoredPassages:
        """Return the same passages and those of one memory more."""
        import numpy as np

        return ScoredPassages(
            np.append(self.uids, np.full(len(hashes), uid, np.int64)),
            np.append(self.hashes, hashes),
            np.append(self.cosines, cosines),
        )

    @property
    def firsts(self) -> npt.NDArray[np.intp]:
        """Where each memory's passages begin."""
        import numpy as np

        return np.flatnonzero(np.append(True, self.uids[1:] != self.uids[:-1]))[: len(self.uids)]


class NearestMemory(NamedTuple):
    """A memory: its nearest passage, and its cosines to the query, ``deep`` where that counts."""

    uid: int
    passage: int
    cosine: float
    deep: float | None


def is_in(uids: npt.NDArray[np.int64], wanted: Set[int]) -> npt.NDArray[np.bool_]:
    """Say of each uid whether it is among those wanted."""
    import numpy as np

    return np.isin(uids, np.fromiter(wanted, np.int64, len(wanted)))


def nearest(
    passages: ScoredPassages, deep: Matrix | None, among: Set[int], limit: int, also: Set[int]
) -> list[NearestMemory]:
    """Return the memories nearest by either side, and those of ``also``, nearest first.

    ``passages`` are those of all memories, ``deep`` their deep cosines, nan
    where there is none yet; the nearest are looked for ``among`` some memories.
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
    """Return the deep cosines with guesses for those that are not there yet."""
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
    """Return slope and height of the line of least squares; it never falls."""
    if not len(given):
        return 1.0, 0.0
    centre, height = float(given.mean()), float(wanted.mean())
    spread = float(given.var())
    rise = float(((given - centre) * (wanted - height)).mean())
    slope = max(0.0, rise / spread) if spread > 1e-9 else 0.0
    return slope, height - slope * centre
