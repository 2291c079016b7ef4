"""Score documents by BM25F with numpy: the operations of ``bm25f``, in the same order.

Each search term is scored in one array over all documents, so a frequent word takes only a few
numpy operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from memvault.index.keyword.bm25f import K1, B, FoundTerm, PostingList, Scored, Segment, Statistics

Floats = np.ndarray[Any, np.dtype[np.float64]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


class _Documents:
    """All documents of several segments: the start of each segment, and the divisors by field."""

    def __init__(self, segments: Sequence[Segment], statistics: Statistics) -> None:
        self.bases = [*accumulate((segment.size for segment in segments), initial=0)]
        self.size = self.bases.pop()
        self._segments = segments
        self._statistics = statistics
        self._norms: dict[str, Floats] = {}
        deleted = [
            base + np.fromiter(segment.deleted, np.int64, len(segment.deleted))
            for base, segment in zip(self.bases, segments, strict=True)
            if segment.deleted
        ]
        self.deleted = np.concatenate(deleted) if deleted else np.empty(0, np.int64)

    def norm(self, name: str) -> Floats:
        """Return the divisor for a term's frequency in a field, for each document."""
        if name not in self._norms:
            columns = [np.asarray(segment.lengths[name]) for segment in self._segments]
            lengths = np.concatenate(columns).astype(np.float64)
            slope, mean = B[name], self._statistics.means[name]
            self._norms[name] = 1.0 - slope + slope * lengths / mean
        return self._norms[name]

    def joined(self, lists: Sequence[PostingList | None]) -> tuple[Integers, Floats]:
        """Return the postings of all segments: document numbers and counts."""
        pairs = [
            (np.asarray(postings.numbers, np.int64) + base, np.asarray(postings.counts, np.float64))
            for base, postings in zip(self.bases, lists, strict=True)
            if postings is not None
        ]
        if not pairs:
            return np.empty(0, np.int64), np.empty(0)
        if len(pairs) == 1:
            return pairs[0]
        numbers, counts = zip(*pairs, strict=True)
        return np.concatenate(numbers), np.concatenate(counts)


def scored(
    segments: Sequence[Segment],
    found_terms: Sequence[FoundTerm],
    lengths: Mapping[str, float],
    explain: bool,
) -> Scored:
    """Score the documents."""
    statistics = Statistics.of(segments, lengths)
    documents = _Documents(segments, statistics)
    scores = np.zeros(documents.size)
    rows = np.full(documents.size, -1, np.int64)  # the row of each document's first match
    lists = np.zeros(documents.size, np.int64)  # the posting list of each document's first match
    rarities: dict[str, float] = {}
    explained: list[tuple[str, Integers, Floats]] = []
    for row, entry in enumerate(found_terms if statistics.total else ()):
        weights, first = _weights(documents, entry)
        numbers = np.flatnonzero(weights)
        rarity = statistics.rarity(segments, row, len(numbers))
        rarities.setdefault(entry.term.group[0], rarity)
        selected = weights[numbers]
        gains = rarity * selected * (K1 + 1.0) / (selected + K1)
        scores[numbers] += gains
        new = numbers[rows[numbers] < 0]
        rows[new] = row
        lists[new] = first[new]
        if explain:
            explained.append((entry.term.group[0], numbers, gains))

    places = np.flatnonzero(rows >= 0)

    def best(count: int) -> Iterator[tuple[int, float]]:
        def ordered(numbers: Integers) -> Integers:
            segment = np.searchsorted(documents.bases, numbers, "right")
            keys = (numbers, lists[numbers], segment, rows[numbers], -scores[numbers])
            return numbers[np.lexsort(keys)]

        done = 0
        if count < len(places) // 2:
            values = scores[places]
            least = np.partition(values, len(places) - count)[len(places) - count]
            first = ordered(places[values >= least])
            done = len(first)
            yield from zip(first.tolist(), scores[first].tolist(), strict=True)
        rest = ordered(places)[done:]
        yield from zip(rest.tolist(), scores[rest].tolist(), strict=True)

    def terms(numbers: Sequence[int]) -> list[dict[str, float]]:
        asked = np.array(numbers, np.int64)
        rows: list[dict[str, float]] = [{} for _ in numbers]
        for term, holding, gains in explained:
            at = np.searchsorted(holding, asked)
            at[at == len(holding)] = 0
            hits = np.flatnonzero(holding[at] == asked) if len(holding) else ()
            for hit in hits:
                rows[hit][term] = rows[hit].get(term, 0.0) + float(gains[at[hit]])
        return rows

    return Scored(best, rarities, terms)


def _weights(documents: _Documents, term: FoundTerm) -> tuple[Floats, Any]:
    """Return the weighted frequency of a search term in each document, 0.0 if absent.

    For each document that contains the term, the second array has the number of the first posting
    list that lists the document. Posting lists are numbered by field, then by stem.
    """
    weights = np.zeros(documents.size)
    first = np.zeros(documents.size, np.int64)
    numbered: list[Integers] = []
    for name, boost in term.term.fields.items():
        stems = [
            documents.joined([lists[stem].get(name) for lists in term.postings])
            for stem in range(len(term.term.group))
        ]
        numbered += [numbers for numbers, _ in stems]
        numbers, counts = stems[0]
        if len(stems) > 1:
            most = np.zeros(documents.size)
            for documents_of_stem, frequency in stems:
                most[documents_of_stem] = np.maximum(most[documents_of_stem], frequency)
            numbers = np.flatnonzero(most)
            counts = most[numbers]
        if len(numbers):
            weights[numbers] += boost * counts / documents.norm(name)[numbers]
    for number in reversed(range(len(numbered))):
        first[numbered[number]] = number
    weights[documents.deleted] = 0.0
    return weights, first
