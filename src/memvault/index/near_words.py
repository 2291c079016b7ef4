"""How near the words of memories are to a query's, by the built-in table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memvault.index.errors import IndexCorrupted

if TYPE_CHECKING:
    import numpy.typing as npt

    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.sentences import EncodedBlock

    Matrix = npt.NDArray[np.float32]


_MOST_WANTED = 64
"""Tokens of a query that count: those that weigh most. A page of text has hundreds."""


class SubwordFrequencies(NamedTuple):
    """In how many memories each token occurs, and of how many they were counted."""

    holding: npt.NDArray[np.uint32]
    memories: int


def soft_matches(
    text: str,
    memories: Sequence[Sequence[EncodedBlock]],
    table: StaticEmbedder,
    frequency: SubwordFrequencies | None,
) -> list[tuple[float | None, float | None]]:
    """Return how near the words of the best stretch, and of the head, are to the query's, in 0..1.

    It is the mean over the query's tokens of the cosine to the nearest token of
    a stretch, weighted by the lengths of their rows and by their rarity among
    the memories: late interaction (Khattab and Zaharia 2020) with static tokens.
    What has no tokens yet gets None.
    """
    sizes: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
    tokens: list[npt.NDArray[Any]] = [np.zeros(0, np.uint16)]
    owners: list[int] = []
    heads: list[bool] = []
    for place, blocks in enumerate(memories):
        for block in blocks:
            if block.subwords is not None:
                counts, held = block.subwords
                sizes.append(np.frombuffer(counts, np.uint16))
                tokens.append(np.frombuffer(held, np.uint16))
                owners += [place] * len(counts)
                heads += [True, *[False] * (len(counts) - 1)]
    every = np.concatenate(tokens)
    if every.max(initial=0) >= table.vocabulary:
        raise IndexCorrupted("a token that the table does not have")
    wanted, weights = table.query_subwords(text)
    if frequency is not None and len(wanted):
        rest = frequency.memories - np.minimum(frequency.holding[wanted], frequency.memories)
        weights = weights * np.log1p((rest + 0.5) / (frequency.memories - rest + 0.5))
    most = np.sort(np.argsort(-weights)[:_MOST_WANTED])
    wanted, weights = wanted[most], weights[most]
    whole = float(weights.sum())
    known = set(owners)
    if not whole or not known:
        return [(0.0, 0.0) if place in known else (None, None) for place in range(len(memories))]
    lengths = np.concatenate(sizes).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    best = np.maximum.reduceat(table.subword_similarities(wanted, every), starts, axis=1)
    own = np.array(owners)
    in_head = _greatest(best * np.array(heads), own, len(memories))
    each = weights @ np.maximum(best, in_head[:, own]) / whole
    words = _greatest(each, own, len(memories)).tolist()
    titles = (weights @ in_head / whole).tolist()
    return [
        (words[place], titles[place]) if place in known else (None, None)
        for place in range(len(memories))
    ]


def _greatest(each: Matrix, owners: npt.NDArray[np.int64], count: int) -> Matrix:
    """Return each memory's greatest of what its stretches have, along the last axis."""
    found = np.zeros((*each.shape[:-1], count), dtype=np.float32)
    np.maximum.at(found.T, owners, each.T)
    return found
