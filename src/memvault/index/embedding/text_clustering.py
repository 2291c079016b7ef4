"""Group texts by meaning, using static vectors and transformer vectors.

Similarities are calibrated (``embedding.calibrate``), so a threshold means the same with any
embedder. The thresholds are quantiles of the anchors under the built-in transformer: nine in ten
paraphrases reach ``SAME``, half of the pairs within one topic reach ``RELATED``, and no unrelated
pair reaches ``STEP``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memvault.errors import EmbedderError
from memvault.index.embedding import model_settings
from memvault.index.embedding.arrays import Integers, Matrix, Places, normalize
from memvault.index.embedding.embedder import Calibration, Embedder
from memvault.named_tuple import NamedTuple

if TYPE_CHECKING:
    from memvault.settings.vault_settings import Settings

SAME = 0.45
RELATED = 0.28
STEP = 0.2
MAX_EMBEDDED = 2_000
"""The maximum number of texts to embed with a transformer, which embeds a few hundred per second.
"""
_MAX_TEXTS = 20_000
_MAX_NEIGHBOURS = 20
_MAX_GROUP = 50
_BLOCK = 512


class Similar(NamedTuple):
    """Two texts, by position, and the similarity of their meanings in 0..1."""

    first: int
    second: int
    similarity: float


class EmbeddedTexts(NamedTuple):
    """The unit vectors of texts, shape (n, dimension), and the calibration of their cosines."""

    vectors: Matrix
    calibration: Calibration

    def cosine(self, similarity: float) -> float:
        """Return the cosine that corresponds to a calibrated similarity."""
        odds = math.log(similarity / (1 - similarity))
        return self.calibration.midpoint + odds / self.calibration.slope

    def mean(self, some: Sequence[int], others: Sequence[int]) -> float:
        """Return the similarity that corresponds to the mean cosine between two groups of texts."""
        cosines = self.vectors[list(some)] @ self.vectors[list(others)].T
        return self.calibration.similarity(float(cosines.mean()))


class Meaning:
    """The embedders used to compare texts: static, and a transformer unless turned off."""

    def __init__(self, static: Embedder, transformer: Embedder | None = None) -> None:
        self._static = static
        self._transformer = transformer

    def space(self, texts: Sequence[str]) -> EmbeddedTexts:
        """Embed texts with the transformer, or with the static embedder if there are too many."""
        deep = self._transformer if len(texts) <= MAX_EMBEDDED else None
        return _embedded(deep or self._static, texts)

    def select(self, texts: Sequence[str]) -> list[int]:
        """Return the positions of the texts to compare, in order.

        If there are more texts than the transformer may embed, the ones most similar to another
        text by static vectors are selected. Only the last 20,000 texts are considered.
        """
        positions = list(range(len(texts)))[-_MAX_TEXTS:]
        if self._transformer is None or len(positions) <= MAX_EMBEDDED:
            return positions
        static = _embedded(self._static, [texts[position] for position in positions])
        best: dict[int, float] = {}
        for first, second, similarity in similar_pairs(static, STEP):
            for position in (first, second):
                best[position] = max(best.get(position, 0.0), similarity)
        nearest = sorted(best, key=lambda position: (-best[position], texts[positions[position]]))
        return sorted(positions[position] for position in nearest[:MAX_EMBEDDED])


def open_meaning(settings: Settings, root: Path) -> tuple[Meaning, str]:
    """Return a vault's embedders, and the reason if its transformer is unavailable."""
    from memvault.index.embedding.static import open_table

    if model_settings.is_switched_off(settings):
        return Meaning(open_table()), ""
    from memvault.index.embedding.transformer import load_embedder

    choice = model_settings.choose_embedder(settings, root)
    try:
        transformer = load_embedder(choice.name, choice.root)
        transformer.embed_query("")  # loaded on first use
    except EmbedderError as error:
        return Meaning(open_table()), f"Compared without a transformer: {error.message}"
    return Meaning(open_table(), transformer), choice.note


def _embedded(embedder: Embedder, texts: Sequence[str]) -> EmbeddedTexts:
    calibration = embedder.calibration
    if calibration is None:
        from memvault.index.embedding.calibrate import calibrate

        calibration = calibrate(embedder)
    return EmbeddedTexts(embedder.embed(texts), calibration)


def similar_pairs(space: EmbeddedTexts, least: float) -> list[Similar]:
    """Return the pairs with at least a given similarity, most similar first.

    Only the twenty nearest neighbors of each text are considered.
    """
    similarities: dict[tuple[int, int], float] = {}
    limit = space.cosine(least)
    for rows, others, cosines in _nearest(space.vectors, _MAX_NEIGHBOURS):
        found = cosines >= limit
        pairs = zip(*(values[found].tolist() for values in (rows, others, cosines)), strict=True)
        for row, other, cosine in pairs:
            similarities[min(row, other), max(row, other)] = cosine
    ordered = sorted(similarities, key=lambda pair: (-round(similarities[pair], 4), pair))
    return [Similar(*pair, space.calibration.similarity(similarities[pair])) for pair in ordered]


def nearest_pairs(space: EmbeddedTexts, count: int) -> list[tuple[int, int]]:
    """Return the pairs of each text and its ``count`` most similar others, by position, sorted."""
    found = [(rows, others) for rows, others, _ in _nearest(space.vectors, count)]
    pairs = np.sort(np.concatenate([np.stack(pair) for pair in found], axis=1), axis=0)
    numbers = np.unique(pairs[:, pairs[0] < pairs[1]].T, axis=0)
    return [(first, second) for first, second in numbers.tolist()]


def _nearest(vectors: Matrix, most: int) -> Iterator[tuple[Integers, Integers, Matrix]]:
    """Yield rows, one of the nearest other rows of each, and their cosines.

    Each row has at most ``most`` others. Rows are compared in blocks to limit memory.
    """
    width = min(most, len(vectors))
    for start in range(0, len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK] @ vectors.T
        block[np.arange(len(block)), np.arange(start, start + len(block))] = -1.0
        nearest = _largest(block, width)
        rows = np.repeat(np.arange(start, start + len(block)), width)
        yield rows, nearest.ravel(), np.take_along_axis(block, nearest, axis=1).ravel()


def _largest(block: Matrix, width: int) -> Places:
    """Return the columns of the ``width`` largest values of each row.

    They are in the groups of columns with the largest maxima, so the others need not be sorted.
    """
    count = block.shape[1]
    height = count // _BLOCK
    if height < 2:
        return np.argpartition(block, -width, axis=1)[:, -width:]
    maxima = block[:, : height * _BLOCK].reshape(-1, height, _BLOCK).max(axis=1)
    rest = block[:, height * _BLOCK :]
    maxima[:, : rest.shape[1]] = np.maximum(maxima[:, : rest.shape[1]], rest)
    groups = np.argpartition(maxima, -width, axis=1)[:, -width:]
    columns = (groups[:, :, None] + _BLOCK * np.arange(height + 1)).reshape(len(block), -1)
    values = np.take_along_axis(block, np.minimum(columns, count - 1), axis=1)
    values[columns >= count] = -2.0
    largest = np.argpartition(values, -width, axis=1)[:, -width:]
    return np.take_along_axis(columns, largest, axis=1)


def grouped(
    pairs: Iterable[Similar],
    joined: Callable[[Sequence[int], Sequence[int]], bool],
) -> list[list[int]]:
    """Group positions by agglomerative clustering, nearest pair first.

    Two groups are merged if ``joined`` accepts them and the result has at most fifty members.
    Single positions are omitted.
    """
    group_of: dict[int, list[int]] = {}
    refused: set[frozenset[Hashable]] = set()
    for first, second, _ in pairs:
        first_group = group_of.setdefault(first, [first])
        other = group_of.setdefault(second, [second])
        if first_group is other or len(first_group) + len(other) > _MAX_GROUP:
            continue
        key = frozenset({tuple(first_group), tuple(other)})
        if key in refused:
            continue
        if not joined(first_group, other):
            refused.add(key)
            continue
        whole = sorted(first_group + other)
        for position in whole:
            group_of[position] = whole
    distinct = {id(group): group for group in group_of.values() if len(group) > 1}
    return sorted(distinct.values())


def similar_counts(groups: Sequence[Matrix], limit: float) -> list[tuple[int, int, int]]:
    """Count the similar texts in each pair of groups: (count, group, group).

    A text counts if its cosine to some text of the other group is at least ``limit``; of the counts
    for the two groups, the lower one is returned. The result is sorted by count, highest first, and
    omits pairs of groups without similar texts.
    """
    starts = np.cumsum([0, *map(len, groups[:-1])])
    everything = np.concatenate(list(groups))
    counts = np.zeros((len(starts), len(starts)), np.int32)
    for number, vectors in enumerate(groups):
        best = np.maximum.reduceat(vectors @ everything.T, starts, axis=1)
        counts[number] = (best >= limit).sum(axis=0)
    both = np.triu(np.minimum(counts, counts.T), 1)
    group_pairs = np.argwhere(both).tolist()
    return sorted(
        ((int(both[first, other]), first, other) for first, other in group_pairs),
        key=lambda counted_pair: (-counted_pair[0], counted_pair[1:]),
    )


def best_matches(
    rows: Sequence[Matrix], columns: Sequence[Matrix], limit: float
) -> list[tuple[float, int, int]]:
    """Match vectors one to one, most similar first: (cosine, row, column)."""
    cosines = np.stack(list(rows)) @ np.stack(list(columns)).T
    found_rows, found_columns = np.nonzero(cosines >= limit)
    pairs = sorted(
        (-round(float(cosines[row, column]), 4), row, column)
        for row, column in zip(found_rows.tolist(), found_columns.tolist(), strict=True)
    )
    used_rows, used_columns, matches = set(), set(), []
    for cosine, row, column in pairs:
        if row not in used_rows and column not in used_columns:
            used_rows.add(row)
            used_columns.add(column)
            matches.append((-cosine, row, column))
    return matches


def mean_vector(vectors: Sequence[Matrix]) -> Matrix:
    """Return the unit vector of the mean of vectors."""
    mean: Matrix = normalize(np.stack(list(vectors)).mean(axis=0))
    return mean
