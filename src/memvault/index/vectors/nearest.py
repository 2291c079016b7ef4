"""Find the nearest memories by static vectors, and by transformer vectors where available.

A memory's cosine is the cosine of its nearest passage. If a passage has no transformer vector yet,
its transformer cosine is estimated from its static cosine with a least-squares line through the
memories that have both. On average, missing vectors therefore neither raise nor lower a memory's
rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

import numpy as np

from memvault.index.embedding.arrays import Flags, Hashes, Integers, Matrix, Numbers, Places
from memvault.named_tuple import NamedTuple


class ScoredPassages(NamedTuple):
    """Passages grouped by memory: the memory's uid, the text's hash, and the static cosine."""

    uids: Integers
    hashes: Hashes
    cosines: Matrix

    def of(self, alive: Set[int] | None) -> ScoredPassages:
        """Return the passages of the given memories; None means all."""
        if alive is None:
            return self
        return self.select(is_in(self.uids, alive))

    def select(self, selected: Flags) -> ScoredPassages:
        """Return some of the passages."""
        if selected.all():
            return self
        return ScoredPassages(self.uids[selected], self.hashes[selected], self.cosines[selected])

    def joined(self, counts: Mapping[int, int], hashes: Hashes, cosines: Matrix) -> ScoredPassages:
        """Return these passages followed by more; ``counts`` has the number added per uid."""
        uids = np.repeat(np.array([*counts], np.int64), [*counts.values()])
        return ScoredPassages(
            np.append(self.uids, uids),
            np.append(self.hashes, hashes),
            np.append(self.cosines, cosines),
        )

    @property
    def firsts(self) -> Places:
        """Return the index of each memory's first passage."""
        return np.flatnonzero(np.append(True, self.uids[1:] != self.uids[:-1]))[: len(self.uids)]


class NearestMemory(NamedTuple):
    """A memory, its nearest passage, and its static and transformer cosines to the query.

    ``deep``, the transformer cosine, is None if transformer vectors are not used, and an estimate
    if ``is_estimated``. ``next_passage`` is None if there is only one.
    """

    uid: int
    passage: int
    cosine: float
    deep: float | None
    next_passage: int | None = None
    is_estimated: bool = False


class NearestMemories(NamedTuple):
    """The nearest memories, nearest first, and statistics over all memories with vectors.

    ``memories`` is the number of these memories. ``static`` and ``deep`` are the mean and the
    standard deviation of their best cosines.
    """

    hits: list[NearestMemory]
    memories: int = 0
    static: tuple[float, float] = (0.0, 0.0)
    deep: tuple[float, float] = (0.0, 0.0)


def is_in(uids: Integers, members: Set[int]) -> Flags:
    """Return, for each uid, whether ``members`` contains it."""
    return np.isin(uids, np.fromiter(members, np.int64, len(members)))


def nearest(
    passages: ScoredPassages,
    deep: Matrix | None,
    among: Set[int] | None,
    limit: int,
    also: Set[int],
) -> NearestMemories:
    """Return the nearest memories by either kind of vector, and the memories in ``also``.

    ``passages`` covers all memories, and ``deep`` has their transformer cosines, nan for missing
    vectors. The nearest memories are chosen from ``among``, or from all if it is None.
    """
    if not len(passages.uids):
        return NearestMemories([])
    firsts = passages.firsts
    uids = passages.uids[firsts]
    static = np.maximum.reduceat(passages.cosines, firsts)
    columns, best = [static], passages.cosines
    if deep is not None:
        best = _impute_missing(passages, deep, firsts, static)
        columns.append(np.maximum.reduceat(best, firsts))
    allowed = np.arange(len(uids)) if among is None else np.flatnonzero(is_in(uids, among))
    is_chosen = is_in(uids, also)
    for column in columns:
        near = allowed
        if len(near) > limit:
            near = near[np.argpartition(-column[near], limit - 1)[:limit]]
        is_chosen[near] = True
    chosen = np.flatnonzero(is_chosen)
    ends = np.append(firsts[1:], len(passages.uids))
    is_missing = np.isnan(deep) if deep is not None else np.zeros(len(best), np.bool_)
    hits = []
    # Iterating over plain numbers is faster.
    for uid, first, end, cosine, transformer_cosine in zip(
        uids[chosen].tolist(),
        firsts[chosen].tolist(),
        ends[chosen].tolist(),
        static[chosen].tolist(),
        columns[1][chosen].tolist() if deep is not None else [None] * len(chosen),
        strict=True,
    ):
        similarities = best[first:end].tolist()
        passage, other = similarities.index(max(similarities)), None
        is_estimated = bool(is_missing[first + passage])
        if len(similarities) > 1:
            similarities[passage] = -math.inf
            other = similarities.index(max(similarities))
        hits.append(NearestMemory(uid, passage, cosine, transformer_cosine, other, is_estimated))
    hits.sort(key=lambda hit: (-hit.cosine if hit.deep is None else -hit.deep, hit.uid))
    spreads = [(float(column.mean()), float(column.std())) for column in columns]
    return NearestMemories(hits, len(uids), *spreads)


def _impute_missing(
    passages: ScoredPassages, deep: Matrix, firsts: Places, static: Matrix
) -> Matrix:
    """Return the transformer cosines, with estimates for missing ones."""
    is_missing = np.isnan(deep)
    if not is_missing.any():
        return deep
    is_complete = ~np.logical_or.reduceat(is_missing, firsts)
    transformer_known = np.maximum.reduceat(np.where(is_missing, -np.inf, deep), firsts)[
        is_complete
    ].astype(np.float64)
    static_known = static[is_complete].astype(np.float64)
    slope, intercept = _line(static_known, transformer_known)
    estimates = (intercept + slope * passages.cosines).astype(np.float32)
    return np.where(is_missing, estimates, deep)


def _line(inputs: Numbers, values: Numbers) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line; the slope is at least 0."""
    if not len(inputs):
        return 1.0, 0.0
    center, height = float(inputs.mean()), float(values.mean())
    spread = float(inputs.var())
    rise = float(((inputs - center) * (values - height)).mean())
    slope = max(0.0, rise / spread) if spread > 1e-9 else 0.0
    return slope, height - slope * center
