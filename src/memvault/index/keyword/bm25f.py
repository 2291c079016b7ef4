"""Score documents by BM25F over postings, one term at a time (Robertson and Zaragoza 2009).

This module is plain Python. ``bm25f_numpy`` performs the same operations in the same order with
numpy, so scores are identical to the last bit and ties are ordered the same way.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from heapq import nlargest

from memvault.index.protocol import KeywordQuery
from memvault.named_tuple import NamedTuple

FIELDS: Mapping[str, float] = {
    "title": 3.0,
    "headings": 1.5,
    "body": 1.0,
    "tags": 2.0,
}
"""Fields of stemmed terms with their weights in BM25F."""
EXACT_FIELD = "identifier"
WHOLE_WEIGHT = 1.0
K1 = 1.2
B = {"title": 0.5, "headings": 0.5, "body": 0.75, "tags": 0.3, EXACT_FIELD: 0.5}


class KeywordDocument(NamedTuple):
    """One block of a memory: the number of occurrences of each term in each field."""

    uid: int
    fields: Mapping[str, Counter[str]]
    block: int = 0


def field_lengths(documents: Iterable[KeywordDocument]) -> dict[str, int]:
    """Return the total number of terms in each field of the documents."""
    lengths = dict.fromkeys(B, 0)
    for document in documents:
        for name, terms in document.fields.items():
            lengths[name] += sum(terms.values())
    return lengths


class PostingList(NamedTuple):
    """The numbers of the documents that contain a term in a field, and the term frequencies."""

    numbers: Sequence[int]
    counts: Sequence[int]


class Segment(NamedTuple):
    """A set of documents: part of the index on disk, candidates from an engine, or held in memory.

    ``find`` returns a term's postings by field. ``lengths`` has each document's number of terms by
    field. ``owner`` maps a document number to the uid of its memory and the number of its block.
    ``documents`` counts documents without ``deleted`` ones, whose postings are ignored. If ``find``
    returns only some of the postings, ``holding`` contains, for each search term in order, the
    number of documents that contain it.
    """

    find: Callable[[str], Mapping[str, PostingList]]
    lengths: Mapping[str, Sequence[int]]
    owner: Callable[[int], tuple[int, int]]
    documents: int
    holding: Sequence[int] = ()
    deleted: Set[int] = frozenset()

    @property
    def size(self) -> int:
        """Return the number of document numbers in use, including those of deleted documents."""
        return len(self.lengths[EXACT_FIELD])


def memory_segment(documents: list[KeywordDocument]) -> Segment:
    """Return a segment of documents in memory."""
    inverted: dict[str, dict[str, PostingList]] = defaultdict(dict)
    lengths = {name: [0] * len(documents) for name in B}
    for number, document in enumerate(documents):
        for name, terms in document.fields.items():
            lengths[name][number] = terms.total()
            for term, count in terms.items():
                numbers, counts = inverted[term].setdefault(name, PostingList([], []))
                numbers.append(number)  # type: ignore[attr-defined]
                counts.append(count)  # type: ignore[attr-defined]

    def owner(number: int) -> tuple[int, int]:
        return documents[number].uid, documents[number].block

    return Segment(lambda term: inverted.get(term, {}), lengths, owner, len(documents))


class QueryTerm(NamedTuple):
    """A query word: its alternative stems, and the fields to search, with their weights."""

    group: tuple[str, ...]
    fields: Mapping[str, float]


def query_terms(query: KeywordQuery) -> list[QueryTerm]:
    """Return the search terms for a query's words and whole terms."""
    terms = [QueryTerm(group, FIELDS) for group in query.term_groups]
    return terms + [QueryTerm((whole,), {EXACT_FIELD: WHOLE_WEIGHT}) for whole in query.exact_terms]


class FoundTerm(NamedTuple):
    """A search term with its postings, by segment, stem and field."""

    term: QueryTerm
    postings: Sequence[Sequence[Mapping[str, PostingList]]]


class Scored(NamedTuple):
    """The scored documents; documents are numbered across all segments.

    ``best`` yields document numbers and scores, best first; ties keep the order of the documents.
    Its argument is the number of results that the caller will probably read. ``rarity`` is the idf
    of each word, identified by its first stem. ``terms`` returns each term's score in the given
    documents.
    """

    best: Callable[[int], Iterator[tuple[int, float]]]
    rarity: dict[str, float]
    terms: Callable[[Sequence[int]], list[dict[str, float]]]


class Statistics(NamedTuple):
    """Collection statistics for scoring a term: the number of documents, and mean field lengths."""

    total: int
    means: Mapping[str, float]

    @classmethod
    def of(cls, segments: Sequence[Segment], lengths: Mapping[str, float]) -> Statistics:
        """Return the statistics of segments; ``lengths`` has the total lengths of the fields."""
        total = sum(segment.documents for segment in segments)
        return cls(total, {name: lengths.get(name, 0.0) / total or 1.0 for name in B if total})

    def rarity(self, segments: Sequence[Segment], row: int, matching: int) -> float:
        """Return a search term's idf, given its position and the number of matching documents."""
        holding = max(matching, sum(entry.holding[row] for entry in segments if entry.holding))
        return math.log(1.0 + (max(self.total - holding, 0) + 0.5) / (holding + 0.5))


class _Norms(dict[int, float]):
    """The divisor for a term's frequency in a field; it depends on the field's length."""

    def __init__(self, name: str, mean: float) -> None:
        self._slope, self._mean = B[name], mean

    def __missing__(self, length: int) -> float:
        self[length] = norm = 1.0 - self._slope + self._slope * length / self._mean
        return norm


def score(
    segments: Sequence[Segment],
    terms: Sequence[FoundTerm],
    lengths: Mapping[str, float],
    explain: bool,
) -> tuple[dict[int, float], dict[str, float], list[tuple[str, dict[int, float]]]]:
    """Return each document's score, each group's idf, and each group's scores.

    A group has the alternative stems of a query word; it counts once and is identified by its first
    stem. The third value is empty unless ``explain`` is set. Fields are weighted before saturation.
    """
    statistics = Statistics.of(segments, lengths)
    norms = {name: _Norms(name, mean) for name, mean in statistics.means.items()}
    scores: dict[int, float] = {}
    rarities: dict[str, float] = {}
    explained: list[tuple[str, dict[int, float]]] = []
    for row, entry in enumerate(terms if statistics.total else ()):
        weights = _weights(segments, entry, norms)
        rarity = statistics.rarity(segments, row, len(weights))
        # The first term of a group sets its idf.
        rarities.setdefault(entry.term.group[0], rarity)
        gains = {
            number: rarity * weight * (K1 + 1.0) / (weight + K1)
            for number, weight in weights.items()
        }
        if scores:
            for number, gain in gains.items():
                scores[number] = scores.get(number, 0.0) + gain
        else:
            scores = gains.copy()
        if explain:
            explained.append((entry.term.group[0], gains))
    return scores, rarities, explained


def _weights(
    segments: Sequence[Segment], term: FoundTerm, norms: Mapping[str, _Norms]
) -> dict[int, float]:
    """Return the weighted frequency of a search term in each document that contains it."""
    weights: dict[int, float] = {}
    base = 0
    for segment, stems in zip(segments, term.postings, strict=True):
        for name, boost in term.term.fields.items():
            numbers, counts = _most_frequent([lists[name] for lists in stems if name in lists])
            norm, column = norms[name], segment.lengths[name]
            gained = [
                boost * count / norm[column[number]]
                for number, count in zip(numbers, counts, strict=True)
            ]
            rows = [base + number for number in numbers] if base else numbers
            if weights:
                for row, weight in zip(rows, gained, strict=True):
                    weights[row] = weights.get(row, 0.0) + weight
            else:
                weights = dict(zip(rows, gained, strict=True))
        for number in segment.deleted:
            weights.pop(base + number, None)
        base += segment.size
    return weights


def _most_frequent(lists: Sequence[PostingList]) -> PostingList:
    """Return, for each document, the count of a group's most frequent stem."""
    if not lists:
        return PostingList((), ())
    if len(lists) == 1:
        return lists[0]
    most: dict[int, int] = {}
    for numbers, counts in lists:
        for number, count in zip(numbers, counts, strict=True):
            most[number] = max(count, most.get(number, 0))
    return PostingList([*most], [*most.values()])


def scored(
    segments: Sequence[Segment],
    found_terms: Sequence[FoundTerm],
    lengths: Mapping[str, float],
    explain: bool,
) -> Scored:
    """Score the documents in plain Python."""
    scores, rarities, explained = score(segments, found_terms, lengths, explain)

    def best(count: int) -> Iterator[tuple[int, float]]:
        first: list[int] = []
        if count < len(scores) // 2:
            first = nlargest(count, scores, key=scores.__getitem__)
            yield from ((number, scores[number]) for number in first)
        ordered = sorted(scores, key=scores.__getitem__, reverse=True)
        yield from ((number, scores[number]) for number in ordered[len(first) :])

    def terms(numbers: Sequence[int]) -> list[dict[str, float]]:
        rows: list[dict[str, float]] = [{} for _ in numbers]
        for term, gains in explained:
            for number, row in zip(numbers, rows, strict=True):
                if number in gains:
                    row[term] = row.get(term, 0.0) + gains[number]
        return rows

    return Scored(best, rarities, terms)
