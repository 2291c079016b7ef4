"""Position the nodes of a map by links or by meaning.

Both use the same force layout: nodes attract their neighbors and repel a random sample of the
others, as in LargeVis and UMAP (Tang et al. 2016, McInnes et al. 2018), so the time of a round is
linear in the number of nodes and edges. The same input gives the same positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float32]
_ROUNDS = 220
_SAMPLES = 6
"""Number of other nodes that each node repels in a round."""
_NEIGHBOURS = 6
_BLOCK = 512
_MAX_STEP = 0.08


def by_links(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return a position in -1..1 for each of ``count`` nodes linked by edges."""
    points = np.random.default_rng(7).normal(0, 0.3, (count, 2)).astype(np.float32)
    return _rounded(_relaxed(points, np.array(edges, np.int64).reshape(-1, 2)))


def by_meaning(vectors: Any) -> list[tuple[float, float]]:
    """Return a position for each row of ``vectors`` (n, d), close to those of similar rows."""
    data = np.asarray(vectors, np.float32)
    if len(data) < 3:
        return [(float(number), 0.0) for number in range(len(data))]
    centred = data - data.mean(axis=0)
    _, _, axes = np.linalg.svd(centred[: 4 * _BLOCK], full_matrices=False)
    points = centred @ axes[:2].T
    points = points / (np.abs(points).max() or 1)
    return _rounded(_relaxed(points.astype(np.float32), _nearest(data)))


def _nearest(data: Points) -> NDArray[np.int64]:
    """Return pairs of nodes and their most similar nodes, with shape (m, 2)."""
    pairs = []
    most = min(_NEIGHBOURS, len(data) - 1)
    for start in range(0, len(data), _BLOCK):
        block = data[start : start + _BLOCK] @ data.T
        rows = np.arange(len(block))
        block[rows, rows + start] = -np.inf
        neighbors = np.argpartition(-block, most - 1, axis=1)[:, :most]
        row_numbers = np.repeat(rows + start, most)
        pairs.append(np.stack([row_numbers, neighbors.ravel()], axis=1))
    return np.concatenate(pairs)


def _relaxed(points: Points, edges: NDArray[np.int64]) -> Points:
    """Return positions after all rounds of the force layout."""
    count = len(points)
    if count < 2:
        return points
    chance = np.random.default_rng(11)
    scale = 1.0 / np.sqrt(count)
    degrees = np.bincount(edges.ravel(), minlength=count).clip(1) if len(edges) else 1
    sources, targets = np.ascontiguousarray(edges.T)
    # One array for each axis, since numpy is slow on rows of two numbers.
    axes = list(np.ascontiguousarray(points.T))
    for number in range(_ROUNDS):
        moves = [np.zeros_like(axis) for axis in axes]
        if len(edges):
            apart = [axis[targets] - axis[sources] for axis in axes]
            # Linked nodes are at rest at a distance of 0.6 * scale.
            pull = (1 - 0.6 * scale / _lengths(apart).clip(1e-6)).clip(-1, 1)
            for move, distance in zip(moves, apart, strict=True):
                distance *= pull
                np.add.at(move, sources, distance)
                np.add.at(move, targets, -distance)
                move /= degrees
        others = np.ascontiguousarray(chance.integers(0, count, (count, _SAMPLES)).T)
        away = [axis - axis[others] for axis in axes]
        square = away[0] ** 2 + away[1] ** 2 + (scale * 0.3) ** 2
        for move, axis, distance in zip(moves, axes, away, strict=True):
            move += (distance / square).sum(axis=0) * (scale**2) * 0.8
            move -= axis * 0.02  # Pull unlinked parts toward the center.
        cooling = _MAX_STEP * (1 - number / _ROUNDS) + 0.002
        steps = np.minimum(1, cooling / _lengths(moves).clip(1e-9))
        axes = [axis + move * steps for axis, move in zip(axes, moves, strict=True)]
    points = np.stack(axes, axis=1)
    points = points - points.mean(axis=0)
    bound = float(np.quantile(np.abs(points), 0.995)) or 1.0
    return (points / bound).clip(-1.2, 1.2)


def _lengths(axes: Sequence[Points]) -> Points:
    lengths: Points = np.sqrt(axes[0] ** 2 + axes[1] ** 2)
    return lengths


def _rounded(points: Points) -> list[tuple[float, float]]:
    return [(round(float(x), 4), round(float(y), 4)) for x, y in points]
