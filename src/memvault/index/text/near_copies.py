"""Find pairs of texts that share most of their phrases.

A text's phrases are its runs of three words (shingles). Two texts are compared by sketches: only
the smallest hashes of a text's phrases are stored (the bottom-k sketch in Broder, 1997, "On the
resemblance and containment of documents"). Phrases that occur in many texts, such as those of a
template, are ignored. Only texts that share several of their rarest phrases are compared (prefix
filtering, as in Bayardo et al., 2007, "Scaling Up All Pairs Similarity Search").
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any
from zlib import crc32

import numpy as np

from memvault.index.embedding.arrays import Codes, Integers

_WORDS = 3
_SKETCH_SIZE = 64
_MIN_PHRASES = 12
"""Minimum number of counted phrases for a text to be compared."""
_MIN_COMMON = 4
"""Minimum number of phrases that two prefixes share to be compared; near copies share 9."""
_PARTS = 16
"""Number of parts in which the frequencies of phrases are counted."""
_MAX_TEXTS = 20
"""Maximum number of texts that share a phrase; a more frequent phrase is ignored."""
MIN_SHARE = 0.7
"""Minimum share of common phrases in two near copies."""
_HASH_BITS, _FREQUENCY_BITS = 32, 5
_TEXT_BITS = 26


def sketch(text: str) -> bytes:
    """Return the smallest hashes of a text's phrases, at most 64, in order, four bytes each."""
    words = " ".join(text.casefold().split()).encode("utf-8", "replace").split(b" ")
    phrases = zip(*(words[start:] for start in range(_WORDS)), strict=False)
    return array("I", sorted({*map(crc32, map(b" ".join, phrases))})[:_SKETCH_SIZE]).tobytes()


def near_copies(sketches: Sequence[bytes]) -> Iterator[tuple[int, int, float]]:
    """Yield each text's index, the index of the most similar earlier text, and their similarity.

    Texts that share less than ``MIN_SHARE`` with every earlier text are left out.
    """
    hashes = np.frombuffer(b"".join(sketches), np.uint32)
    frequency = _frequencies(hashes)
    is_counted = frequency <= _MAX_TEXTS
    keys = np.repeat(np.arange(len(sketches)), [len(entry) // 4 for entry in sketches])
    lengths = np.bincount(keys[is_counted], minlength=len(sketches))
    ends = np.cumsum(lengths)
    # Sort each text's phrases, the rarest first, so that few prefixes share a phrase.
    for bits, values in ((_FREQUENCY_BITS, frequency), (_HASH_BITS, hashes)):
        keys <<= bits
        keys |= values
    keys = keys[is_counted]
    keys.sort()
    phrases = keys.astype(np.uint32)
    # Near copies share ``_MIN_COMMON`` phrases in this prefix, because the rest is too short.
    prefixes = lengths - np.ceil(MIN_SHARE * lengths).astype(np.int64) + _MIN_COMMON
    prefixes[lengths < _MIN_PHRASES] = 0
    runs = np.column_stack((prefixes, lengths - prefixes)).ravel()
    is_first = np.repeat(np.tile((True, False), len(sketches)), runs)
    first = phrases[is_first].astype(np.int64)
    first <<= _TEXT_BITS
    first |= np.repeat(np.arange(len(sketches)), prefixes)
    first.sort()
    del hashes, frequency, is_counted, keys, is_first

    def phrases_of(text: int) -> set[int]:
        return set(phrases[ends[text] - lengths[text] : ends[text]].tolist())

    for text, pairs in groupby(_pairs(first), itemgetter(0)):
        own = phrases_of(text)
        shares = ((_share(phrases_of(other), own), -other) for _, other in pairs)
        share, other = max(shares)
        if share >= MIN_SHARE:
            yield text, -other, share


def _frequencies(hashes: np.ndarray[Any, Any]) -> Codes:
    """Return the number of texts that contain each phrase, capped at 255."""
    frequencies = np.empty(len(hashes), np.uint8)
    for part in range(_PARTS):  # sorting all hashes at once takes ten times their memory
        positions = np.flatnonzero(hashes % _PARTS == part)
        _, kinds, counts = np.unique(hashes[positions], return_inverse=True, return_counts=True)
        frequencies[positions] = np.minimum(counts, 255)[kinds]
    return frequencies


def _pairs(phrases: Integers) -> Iterator[tuple[int, int]]:
    """Yield each pair of texts with ``_MIN_COMMON`` common phrases, sorted, the later text first.

    ``phrases`` contains sorted phrases, each followed by its text in the lowest bits.
    """
    kinds, texts = phrases >> _TEXT_BITS, phrases & (1 << _TEXT_BITS) - 1
    pairs = [phrases[:0]]
    for distance in range(1, _MAX_TEXTS):
        is_common = kinds[distance:] == kinds[:-distance]
        pairs.append(texts[distance:][is_common] << _TEXT_BITS | texts[:-distance][is_common])
    values, counts = np.unique(np.concatenate(pairs), return_counts=True)
    for pair in values[counts >= _MIN_COMMON].tolist():
        yield divmod(pair, 1 << _TEXT_BITS)


def _share(first: set[int], second: set[int]) -> float:
    """Return the estimated share of common phrases of two texts (Jaccard index); 0 if too low."""
    common = first & second
    # The Jaccard index cannot exceed the shared part of the longer text.
    if len(common) < MIN_SHARE * max(len(first), len(second)):
        return 0.0
    sample = sorted(first | second)[:_SKETCH_SIZE]
    return sum(phrase in common for phrase in sample) / len(sample)
