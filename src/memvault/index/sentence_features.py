"""Compute sentence-level features of memories for a query.

All candidates are compared using the blocks stored in the index (``text.indexed_text``): no file is
read, and no text is analysed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.index.protocol import DISTINCTIVE_BIT, IndexCorrupted, SentenceFeatures, SentenceQuery
from memvault.index.text.indexed_text import SKIP_BIT, EncodedBlock, number_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from memvault.index.embedding.static import StaticEmbedder

    Matrix = npt.NDArray[np.float32]


_MAX_SUBWORDS = 64
"""The maximum number of a query's subwords to compare, heaviest first: a page has hundreds."""


class SubwordFrequencies(NamedTuple):
    """The number of memories that contain each subword, and the number of memories counted."""

    holding: npt.NDArray[np.uint32]
    memories: int


def soft_matches(
    text: str,
    memories: Sequence[Sequence[EncodedBlock]],
    table: StaticEmbedder,
    frequency: SubwordFrequencies | None,
) -> list[tuple[float | None, float | None]]:
    """Return the soft match of the best stretch, and of the head, for each memory, in 0..1.

    It is the mean, over the query's subwords, of the cosine to the nearest subword of a stretch,
    weighted by the length of their rows in the embedding table and by their rarity among the
    memories: late interaction (Khattab and Zaharia 2020) with static vectors. A memory without
    stored subwords gets None.
    """
    import numpy as np

    sizes: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
    tokens: list[npt.NDArray[Any]] = [np.zeros(0, np.uint16)]
    owners: list[int] = []
    heads: list[bool] = []
    for place, blocks in enumerate(memories):
        for block in blocks:
            if block.subwords is not None:
                counts, ids = block.subwords
                sizes.append(np.frombuffer(counts, np.uint16))
                tokens.append(np.frombuffer(ids, np.uint16))
                owners += [place] * len(counts)
                heads += [True, *[False] * (len(counts) - 1)]
    subwords = np.concatenate(tokens)
    if subwords.max(initial=0) >= table.vocabulary:
        raise IndexCorrupted("a token that the table does not have")
    query_ids, weights = table.query_subwords(text)
    if frequency is not None and len(query_ids):
        lacking = frequency.memories - np.minimum(frequency.holding[query_ids], frequency.memories)
        weights = weights * np.log1p((lacking + 0.5) / (frequency.memories - lacking + 0.5))
    heaviest = np.sort(np.argsort(-weights)[:_MAX_SUBWORDS])
    query_ids, weights = query_ids[heaviest], weights[heaviest]
    total = float(weights.sum())
    with_subwords = set(owners)
    if not total or not with_subwords:
        return [
            (0.0, 0.0) if place in with_subwords else (None, None) for place in range(len(memories))
        ]
    lengths = np.concatenate(sizes).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    best = np.maximum.reduceat(table.subword_similarities(query_ids, subwords), starts, axis=1)
    owner_ids = np.array(owners)
    in_head = _max_per_memory(best * np.array(heads), owner_ids, len(memories))
    scores = weights @ np.maximum(best, in_head[:, owner_ids]) / total
    best_scores = _max_per_memory(scores, owner_ids, len(memories)).tolist()
    title_scores = (weights @ in_head / total).tolist()
    return [
        (best_scores[place], title_scores[place]) if place in with_subwords else (None, None)
        for place in range(len(memories))
    ]


def _max_per_memory(values: Matrix, owners: npt.NDArray[np.int64], count: int) -> Matrix:
    """Return the maximum of each memory's stretches, along the last axis."""
    import numpy as np

    maxima = np.zeros((*values.shape[:-1], count), dtype=np.float32)
    np.maximum.at(maxima.T, owners, values.T)
    return maxima


class _Terms(NamedTuple):
    """The query's words by the term ids that they may have in memories, and their rarities.

    ``pairs`` are the summed weights of adjacent words, ``numbers`` the words that contain a digit.
    """

    words: Mapping[int, int]
    weights: Sequence[float]
    pairs: Sequence[float]
    numbers: frozenset[int]


def compute(
    asked: SentenceQuery,
    memories: Sequence[Sequence[EncodedBlock]],
    table: StaticEmbedder | None,
    frequency: SubwordFrequencies | None,
) -> list[SentenceFeatures]:
    """Compute the features of memories, each given by some of its blocks, in the same order.

    Without a ``table``, or stored subwords, soft matches are None.
    """
    words: dict[int, int] = {}
    for number, stems in enumerate(asked.words):
        for stem in stems:
            for flags in range((DISTINCTIVE_BIT | SKIP_BIT) + 1):
                words.setdefault(number_of(stem) | flags, number)
    weights = asked.rarity
    pairs = [first + second for first, second in pairwise(weights)]
    numbers = frozenset(
        number
        for number, stems in enumerate(asked.words)
        if any(letter.isdigit() for letter in stems[0])
    )
    terms = _Terms(words, weights, pairs, numbers)
    soft: Sequence[tuple[float | None, float | None]] = [(None, None)] * len(memories)
    if table is not None:
        soft = soft_matches(asked.text, memories, table, frequency)
    return [_features_of(terms, *entry) for entry in zip(memories, soft, strict=True)]


def _features_of(
    terms: _Terms, blocks: Sequence[EncodedBlock], soft: tuple[float | None, float | None]
) -> SentenceFeatures:
    """Compute the features of one memory's blocks for the query's terms."""
    words, weights = terms.words, terms.weights
    head: set[int] = set()
    matched: set[int] = set()
    neighbours: set[int] = set()
    stretches: list[set[int]] = []
    for block in blocks:
        for place, codes in enumerate(_stretches(block)):
            matched_here = {words[value] for value in codes if value in words}
            if not matched_here:
                continue
            matched |= matched_here
            if place == 0:
                head |= matched_here
            else:
                stretches.append(matched_here)
            if len(matched_here) > 1:
                neighbours |= _neighbours(words, codes)
    total = sum(weights) or 1.0
    best = max(
        (_weight(head | matched_here, weights) for matched_here in stretches),
        default=_weight(head, weights),
    )
    adjacency = (
        _weight(neighbours, terms.pairs) / (sum(terms.pairs) or 1.0) if terms.pairs else None
    )
    return SentenceFeatures(
        _weight(matched, weights) / total,
        best / total,
        adjacency,
        _weight(head, weights) / total,
        *soft,
        frozenset(value for block in blocks for value in block.codes),
        len(matched & terms.numbers) / len(terms.numbers) if terms.numbers else None,
    )


def _weight(numbers: set[int], weights: Sequence[float]) -> float:
    return sum(weights[number] for number in numbers)


def _stretches(block: EncodedBlock) -> Iterator[Sequence[int]]:
    """Yield the term ids of the head, and of each stretch."""
    start = 0
    for count in block.counts:
        yield block.codes[start : start + count]
        start += count


def _neighbours(words: Mapping[int, int], codes: Sequence[int]) -> set[int]:
    """Return the words of the query that are followed by the query's next word."""
    followed = set()
    last = -2
    for value in codes:
        number = words.get(value, -2)
        if number == last + 1:
            followed.add(last)
        if number >= 0 or not value & SKIP_BIT:
            last = number
    return followed
