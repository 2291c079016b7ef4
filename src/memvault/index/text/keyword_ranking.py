"""Rank memories by keywords: score their documents by the faster of two ways that agree."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from memvault.index.protocol import KeywordAnswer, KeywordHit, KeywordQuery
from memvault.index.text import bm25f
from memvault.index.text.bm25f import FoundTerm, QueryTerm, Scored, Segment, wanted

_MAX_BLOCKS = 3
"""The maximum number of blocks of a memory in a hit: the best ones found."""
_MAX_POSTINGS = 200_000
"""The number of postings above which importing numpy costs less than it saves."""


def find_terms(segments: Sequence[Segment], terms: Sequence[QueryTerm]) -> list[FoundTerm]:
    """Return search terms with their postings in segments."""
    return [
        FoundTerm(term, [[segment.find(stem) for stem in term.group] for segment in segments])
        for term in terms
    ]


def _scorer(found: Sequence[FoundTerm]) -> Callable[..., Scored]:
    """Return the faster of the two functions that score postings."""
    if "numpy" not in sys.modules:
        postings = sum(
            len(lists[name].numbers)
            for term, segments in found
            for stems in segments
            for lists in stems
            for name in term.fields
            if name in lists
        )
        if postings <= _MAX_POSTINGS:
            return bm25f.scored
    from memvault.index.text import bm25f_arrays

    return bm25f_arrays.scored


def rank_documents(
    segments: Sequence[Segment], query: KeywordQuery, lengths: Mapping[str, float]
) -> KeywordAnswer:
    """Return the best memories for a query's words, each by its best block.

    ``lengths`` maps each field to its number of terms in all documents.
    """
    found = find_terms(segments, wanted(query))
    answer = _scorer(found)(segments, found, lengths, query.explain)
    owner = _owners(segments)
    hits: dict[int, KeywordHit] = {}
    documents: list[int] = []
    for number, value in answer.best(2 * query.limit):
        uid, block = owner(number)
        if query.allowed_keys is not None and uid not in query.allowed_keys:
            continue
        if uid in hits:
            best = hits[uid].blocks
            if len(best) < _MAX_BLOCKS:
                hits[uid] = hits[uid]._replace(blocks=(*best, block))
            continue
        documents.append(number)
        hits[uid] = KeywordHit(uid, value, {}, (block,))
        if len(hits) >= query.limit:
            break
    if query.explain:
        terms = answer.terms(documents)
        for hit, row in zip([*hits.values()], terms, strict=True):
            hits[hit.key] = hit._replace(terms=row)
    total = sum(segment.documents for segment in segments)
    return KeywordAnswer([*hits.values()], answer.rarity, total)


def _owners(segments: Sequence[Segment]) -> Callable[[int], tuple[int, int]]:
    """Return a function from a document's number in all segments to its uid and block."""
    bases = [*accumulate((segment.size for segment in segments), initial=0)]

    def owner(number: int) -> tuple[int, int]:
        place = bisect_right(bases, number) - 1
        return segments[place].owner(number - bases[place])

    return owner
