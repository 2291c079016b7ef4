"""Find pairs of texts that share most of their phrases.

A text's phrases are its runs of three words. Two texts are compared by sketches: only the smallest
hashes of a text's phrases are stored (the bottom-k sketch in Broder, 1997, "On the resemblance and
containment of documents"). Phrases that occur in many texts, such as those of a template, are
ignored.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from zlib import crc32

_WORDS = 3
_SKETCH_SIZE = 64
_MIN_PHRASES = 12
"""Minimum number of counted phrases in a text to compare."""
_MAX_TEXTS = 20
"""Maximum number of texts that share a phrase; a more frequent phrase is ignored."""
MIN_SHARE = 0.7
"""Minimum share of common phrases in two near copies."""


def sketch(text: str) -> tuple[int, ...]:
    """Return the smallest hashes of a text's phrases, at most 64, in order."""
    words = text.casefold().split()
    phrases = zip(*(words[start:] for start in range(_WORDS)), strict=False)
    return tuple(
        heapq.nsmallest(
            _SKETCH_SIZE, {crc32(" ".join(phrase).encode("utf-8", "replace")) for phrase in phrases}
        )
    )


def near_copies(sketches: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, int, float]]:
    """Yield each text's index, the index of the most similar earlier text, and their similarity.

    Texts that share less than ``MIN_SHARE`` with every earlier text are left out.
    """
    all_sketches = list(sketches)
    frequency = Counter(phrase for hashes in all_sketches for phrase in hashes)
    phrase_sets = [
        [phrase for phrase in hashes if frequency[phrase] <= _MAX_TEXTS] for hashes in all_sketches
    ]
    earlier: dict[int, list[int]] = {}
    for position, phrases in enumerate(phrase_sets):
        if len(phrases) < _MIN_PHRASES:
            continue
        shared = Counter(other for phrase in phrases for other in earlier.get(phrase, ()))
        likely = (  # The Jaccard index cannot exceed the shared part of the longer text.
            other
            for other, common in shared.items()
            if common >= MIN_SHARE * max(len(phrases), len(phrase_sets[other]))
        )
        shares = ((_share(phrase_sets[other], phrases), -other) for other in likely)
        share, other = max(shares, default=(0.0, 0))
        if share >= MIN_SHARE:
            yield position, -other, share
        for phrase in phrases:
            earlier.setdefault(phrase, []).append(position)


def _share(first: list[int], second: list[int]) -> float:
    """Return the estimated share of common phrases of two texts (Jaccard index)."""
    both = heapq.nsmallest(_SKETCH_SIZE, {*first, *second})
    common = {*first} & {*second}
    return sum(phrase in common for phrase in both) / len(both)
