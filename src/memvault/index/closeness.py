"""How close memories are to a query, sentence by sentence.

All candidates are measured at once, on what the index keeps of them
(``sentences``): no file is read, and nothing is analysed again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memvault.index.protocol import Asked, Closeness
from memvault.index.sentences import NUMBER, PASSED, Block, number_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from memvault.index.embedding.static import StaticEmbedder

    Numbers = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int64]

    Truths = npt.NDArray[np.bool_]


class Frequency(NamedTuple):
    """In how many memories each token occurs, and of how many they were counted."""

    holding: npt.NDArray[np.uint32]
    memories: int


def measure(
    asked: Asked,
    memories: Sequence[Sequence[Block]],
    table: StaticEmbedder | None,
    frequency: Frequency | None,
) -> list[Closeness]:
    """Measure memories, each given by some of its blocks; one answer each.

    Without a ``table``, or tokens, nobody knows how near words are.
    """
    held = _Held([[(own.counts, own.codes) for own in blocks] for blocks in memories], np.uint32)
    terms = _terms(asked, held)
    told = [[own.tokens for own in blocks if own.tokens is not None] for blocks in memories]
    near = _words(asked.text, _Held(told, np.uint16), table, frequency) if table else None
    found = []
    for place, (start, stop) in enumerate(pairwise(held.ends)):
        words, title_words = near[place] if near else (None, None)
        found.append(
            Closeness(
                float(terms.covered[place]),
                float(terms.together[place]),
                None if terms.order is None else float(terms.order[place]),
                float(terms.title[place]),
                words,
                title_words,
                frozenset(held.values[start:stop].tolist()),
            )
        )
    return found


class _Held:
    """The stretches of some memories, one after the other.

    ``values`` are codes or tokens. ``starts`` says where each stretch begins in
    them, ``owners`` to which memory, by its place, it belongs, and ``heads``
    whether it is the head of a block. A memory's values lie between two ``ends``.
    """

    def __init__(
        self, memories: Sequence[Iterable[tuple[array[int], array[int]]]], kind: type[Any]
    ) -> None:
        sizes: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
        values: list[npt.NDArray[Any]] = [np.zeros(0, kind)]
        owners: list[int] = []
        heads: list[bool] = []
        self.ends = [0]
        for place, blocks in enumerate(memories):
            end = self.ends[-1]
            for counts, held in blocks:
                sizes.append(np.frombuffer(counts, np.uint16))
                values.append(np.frombuffer(held, kind))
                owners += [place] * len(counts)
                heads += [True, *[False] * (len(counts) - 1)]
                end += len(held)
            self.ends.append(end)
        self.count = len(memories)
        self.values: npt.NDArray[Any] = np.concatenate(values)
        lengths = np.concatenate(sizes).astype(np.int64)
        self.starts: Integers = np.cumsum(lengths) - lengths
        self.owners: Integers = np.array(owners, dtype=np.int64)
        self.heads: Truths = np.array(heads, dtype=np.bool_)

    def stretch(self, at: Integers) -> Integers:
        """Return which stretch each of some values belongs to."""
        found: Integers = np.searchsorted(self.starts, at, side="right") - 1
        return found

    def best(self, each: Numbers) -> Numbers:
        """Return each memory's greatest of what its stretches have, along the last axis."""
        found = np.zeros((*each.shape[:-1], self.count), dtype=np.float32)
        np.maximum.at(found.T, self.owners, each.T)
        return found


class _Terms(NamedTuple):
    """What memories hold of the query's terms: anywhere, in one stretch, in order, in the head."""

    covered: Numbers
    together: Numbers
    order: Numbers | None
    title: Numbers


def _terms(asked: Asked, held: _Held) -> _Terms:
    known: dict[int, int] = {}
    for number, alternatives in enumerate(asked.words):
        for stem in alternatives:
            known.setdefault(number_of(stem), number)
    weights = np.array(asked.rarity, dtype=np.float32)
    whole = float(weights.sum()) or 1.0
    wanted = np.array(sorted(known), dtype=np.uint32)
    numbers = np.array([known[value] for value in wanted.tolist()], dtype=np.int64)
    values = held.values & NUMBER
    place: Integers = np.searchsorted(wanted, values)
    is_hit: Truths = np.append(wanted, 1)[place] == values
    at = np.flatnonzero(is_hit)
    word, stretch = numbers[place[at]], held.stretch(at)
    owner, in_head = held.owners[stretch], held.heads[stretch]
    title = _summed(owner[in_head], word[in_head], weights, held.count)
    # Each stretch holds what its memory's head does.
    heads = np.unique(np.stack([owner[in_head], word[in_head]]), axis=1)
    first = np.searchsorted(heads[0], held.owners)
    many = np.searchsorted(heads[0], held.owners, side="right") - first
    whose = np.repeat(np.arange(len(held.owners)), many)
    inherited = np.arange(len(whose)) - np.repeat(np.cumsum(many) - many - first, many)
    each = _summed(
        np.append(stretch, whose),
        np.append(word, heads[1][inherited]),
        weights,
        len(held.owners),
    )
    order = None
    if len(weights) > 1:
        told = np.flatnonzero(is_hit | (held.values & PASSED == 0))
        which = np.where(is_hit[told], np.append(numbers, 0)[place[told]], -2)
        order = _order(held, told, which, weights)
    return _Terms(
        _summed(owner, word, weights, held.count) / whole,
        held.best(each) / whole,
        order,
        title / whole,
    )


def _order(held: _Held, told: Integers, number: Integers, weights: Numbers) -> Numbers:
    """Return the share of the query's neighbouring terms that are neighbours somewhere.

    ``told`` are the places of terms that are no stop words, ``number`` which of
    the query's each is, or negative.
    """
    stretch = held.stretch(told)
    follows = (number[1:] == number[:-1] + 1) & (number[:-1] >= 0) & (stretch[1:] == stretch[:-1])
    at = np.flatnonzero(follows)
    pairs = weights[:-1] + weights[1:]
    return _summed(held.owners[stretch[at]], number[at], pairs, held.count) / float(pairs.sum())


def _summed(groups: Integers, words: Integers, weights: Numbers, count: int) -> Numbers:
    """Return for each of ``count`` groups the weights of its distinct words."""
    size = max(len(weights), 1)
    pairs = np.unique(groups * size + words)
    found = np.bincount(pairs // size, weights[pairs % size], minlength=count)
    return found.astype(np.float32)


def _words(
    text: str, held: _Held, table: StaticEmbedder, frequency: Frequency | None
) -> list[tuple[float | None, float | None]]:
    """Return how near the words of the best stretch, and of the head, are to the query's, in 0..1.

    It is the mean over the query's tokens of the cosine to the nearest token of
    a stretch, weighted by the lengths of their rows and by their rarity among
    the memories: late interaction (Khattab and Zaharia 2020) with static tokens.
    """
    ids, sizes = table.wanted(text)
    if frequency is not None and len(ids):
        rest = frequency.memories - np.minimum(frequency.holding[ids], frequency.memories)
        sizes = sizes * np.log1p((rest + 0.5) / (frequency.memories - rest + 0.5))
    whole = float(sizes.sum())
    has_any = np.diff(held.ends) > 0
    if not whole or not len(held.values):
        return [(0.0 if some else None,) * 2 for some in has_any.tolist()]
    best = np.maximum.reduceat(table.nearest(ids, held.values), held.starts, axis=1)
    heads = held.best(best * held.heads)
    words = held.best((sizes @ np.maximum(best, heads[:, held.owners])) / whole)
    titles = sizes @ heads / whole
    return [
        (word, title) if some else (None, None)
        for word, title, some in zip(words.tolist(), titles.tolist(), has_any.tolist(), strict=True)
    ]
