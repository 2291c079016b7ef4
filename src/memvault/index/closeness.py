"""How close memories are to a query, sentence by sentence.

All candidates are measured on what the index keeps of them (``sentences``): no
file is read, and nothing is analysed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from memvault.index.protocol import DISTINCTIVE_BIT, SentenceFeatures, SentenceQuery
from memvault.index.sentences import SKIP_BIT, EncodedBlock, number_of

if TYPE_CHECKING:
    from memvault.index.embedding.static import StaticEmbedder
    from memvault.index.near_words import SubwordFrequencies


class _Terms(NamedTuple):
    """The query's words by the codes that they may have in memories, and how rare each is.

    ``pairs`` are what its neighbouring words weigh together, ``numbers`` which of
    them have a digit.
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
    """Measure memories, each given by some of its blocks; one answer each.

    Without a ``table``, or tokens, nobody knows how near words are.
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
    near: Sequence[tuple[float | None, float | None]] = [(None, None)] * len(memories)
    if table is not None:
        from memvault.index.near_words import soft_matches

        near = soft_matches(asked.text, memories, table, frequency)
    return [_measured(terms, *entry) for entry in zip(memories, near, strict=True)]


def _measured(
    terms: _Terms, blocks: Sequence[EncodedBlock], near: tuple[float | None, float | None]
) -> SentenceFeatures:
    """Compare one memory's blocks with the query's terms."""
    words, weights = terms.words, terms.weights
    head: set[int] = set()
    every: set[int] = set()
    neighbours: set[int] = set()
    stretches: list[set[int]] = []
    for block in blocks:
        for place, codes in enumerate(_stretches(block)):
            held = {words[value] for value in codes if value in words}
            if not held:
                continue
            every |= held
            if place == 0:
                head |= held
            else:
                stretches.append(held)
            if len(held) > 1:
                neighbours |= _neighbours(words, codes)
    whole = sum(weights) or 1.0
    best = max(
        (_weight(head | held, weights) for held in stretches), default=_weight(head, weights)
    )
    order = _weight(neighbours, terms.pairs) / (sum(terms.pairs) or 1.0) if terms.pairs else None
    return SentenceFeatures(
        _weight(every, weights) / whole,
        best / whole,
        order,
        _weight(head, weights) / whole,
        *near,
        frozenset(value for block in blocks for value in block.codes),
        len(every & terms.numbers) / len(terms.numbers) if terms.numbers else None,
    )


def _weight(held: set[int], weights: Sequence[float]) -> float:
    return sum(weights[number] for number in held)


def _stretches(block: EncodedBlock) -> Iterator[Sequence[int]]:
    """Yield the codes of the head, and of each stretch."""
    start = 0
    for count in block.counts:
        yield block.codes[start : start + count]
        start += count


def _neighbours(words: Mapping[int, int], codes: Sequence[int]) -> set[int]:
    """Return which of the query's words are followed by the next one of the query."""
    found = set()
    last = -2
    for value in codes:
        number = words.get(value, -2)
        if number == last + 1:
            found.add(last)
        if number >= 0 or not value & SKIP_BIT:
            last = number
    return found
