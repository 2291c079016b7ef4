"""Compute sentence-level features of memories for a query.

Candidates are compared by means of the blocks stored in the index (``text.sentence_blocks``),
without reading files or analyzing text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise

from memvault.index.protocol import DISTINCTIVE_BIT, SKIP_BIT, SentenceFeatures, SentenceQuery
from memvault.index.text.sentence_blocks import EncodedBlock, term_id
from memvault.named_tuple import NamedTuple

SoftMatch = tuple[float | None, float | None]
"""The soft match of a memory's best stretch and of its head, in 0..1, or None if unknown."""


class _Terms(NamedTuple):
    """The query's words, keyed by their possible term ids in memories, and their rarities.

    ``pairs`` contains the sum of the weights of each pair of adjacent words. ``numbers`` contains
    the positions of words with a digit that are not part of an identifier.
    """

    words: Mapping[int, int]
    weights: Sequence[float]
    pairs: Sequence[float]
    numbers: frozenset[int]
    identifiers: Sequence[tuple[int, ...]]


def compute(
    asked: SentenceQuery,
    memories: Sequence[Sequence[EncodedBlock]],
    soft_matches: Sequence[SoftMatch] | None = None,
) -> list[SentenceFeatures]:
    """Compute the features of memories, each represented by some of its blocks, in the same order.

    ``soft_matches`` contains the results of ``local.soft_match``, or None if they are unknown.
    """
    word_numbers: dict[int, int] = {}
    for number, stems in enumerate(asked.words):
        for stem in stems:
            for flags in range((DISTINCTIVE_BIT | SKIP_BIT) + 1):
                word_numbers.setdefault(term_id(stem) | flags, number)
    weights = asked.rarity
    pairs = [first + second for first, second in pairwise(weights)]
    numbers = frozenset(
        number
        for number, stems in enumerate(asked.words)
        if any(letter.isdigit() for letter in stems[0])
    )
    numbers -= frozenset(chain.from_iterable(asked.identifiers))
    terms = _Terms(word_numbers, weights, pairs, numbers, asked.identifiers)
    soft = soft_matches or [(None, None)] * len(memories)
    return [_features_of(terms, *entry) for entry in zip(memories, soft, strict=True)]


def _features_of(
    terms: _Terms, blocks: Sequence[EncodedBlock], soft: SoftMatch
) -> SentenceFeatures:
    """Compute the features of one memory's blocks for the query's terms."""
    word_numbers, weights = terms.words, terms.weights
    head: set[int] = set()
    matched: set[int] = set()
    neighbors: set[int] = set()
    stretches: list[set[int]] = []
    identifiers: set[tuple[int, ...]] = set()
    for block in blocks:
        for number, codes in enumerate(_stretches(block)):
            matched_here = {word_numbers[value] for value in word_numbers.keys() & codes}
            if not matched_here:
                continue
            matched |= matched_here
            if number == 0:
                head |= matched_here
            else:
                stretches.append(matched_here)
            if len(matched_here) > 1:
                neighbors |= _neighbors(word_numbers, codes)
            identifiers.update(
                parts
                for parts in terms.identifiers
                if matched_here.issuperset(parts) and _contains_run(word_numbers, codes, parts)
            )
    term_ids = frozenset(chain.from_iterable(block.term_ids for block in blocks))
    matched_words = {word_numbers[value] for value in term_ids.intersection(word_numbers)}
    total = sum(weights) or 1.0
    numbers = len(terms.numbers) + len(terms.identifiers)
    best = max(
        (_weight(head | matched_here, weights) for matched_here in stretches),
        default=_weight(head, weights),
    )
    adjacency = _weight(neighbors, terms.pairs) / (sum(terms.pairs) or 1.0) if terms.pairs else None
    matched_numbers = len(matched_words & terms.numbers) + len(identifiers)
    soft_match, title_soft_match = soft
    return SentenceFeatures(
        coverage=_weight(matched, weights) / total,
        proximity=best / total,
        adjacency=adjacency,
        title_coverage=_weight(head, weights) / total,
        soft_match=soft_match,
        title_soft_match=title_soft_match,
        term_ids=term_ids,
        number_coverage=matched_numbers / numbers if numbers else None,
        codes=[block.term_ids for block in blocks],
    )


def _weight(numbers: set[int], weights: Sequence[float]) -> float:
    return sum(weights[number] for number in numbers)


def _stretches(block: EncodedBlock) -> Iterator[Sequence[int]]:
    """Yield the term ids of a block's head and of each of its stretches."""
    start = 0
    for count in block.stretch_lengths:
        yield block.term_ids[start : start + count]
        start += count


def _contains_run(
    word_numbers: Mapping[int, int], codes: Sequence[int], parts: tuple[int, ...]
) -> bool:
    """Return whether a span contains an identifier's parts consecutively."""
    numbers = [word_numbers.get(value, -1) for value in codes]
    starts = range(len(numbers) - len(parts) + 1)
    return any(tuple(numbers[start : start + len(parts)]) == parts for start in starts)


def _neighbors(word_numbers: Mapping[int, int], codes: Sequence[int]) -> set[int]:
    """Return the query words that are followed by the query's next word in a span."""
    followed = set()
    last = -2
    for value in codes:
        number = word_numbers.get(value, -2)
        if number == last + 1:
            followed.add(last)
        if number >= 0 or not value & SKIP_BIT:
            last = number
    return followed
