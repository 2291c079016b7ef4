"""Retrieve candidates from the index by keywords, vectors, tags and dates, before ranking."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice

from memvault.errors import EmbedderError
from memvault.index.protocol import (
    NO_WAIT,
    KeywordAnswer,
    KeywordHit,
    KeywordQuery,
    MatchLocation,
    MemoryRecord,
    VectorAnswer,
    VectorHit,
    VectorQuery,
    View,
)
from memvault.model import is_example
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import RecallRequest, ScoredMemory
from memvault.recall.dates import date_proximity, days_near, is_note_of
from memvault.recall.filters import Filters, tags_with_parents
from memvault.recall.query import Query
from memvault.recall.weights import constants
from memvault.vault.date_ranges import DateRange
from memvault.vault.names import tag_key


def fuse(
    shares: Mapping[int, float], cosines: Mapping[int, float], weight: float
) -> list[tuple[int, float]]:
    """Order keyword and vector hits by a combined score in 0..1, best first; ties by uid.

    ``shares`` contains keyword scores in 0..1; ``weight`` is their weight in the sum.
    """
    spread = constants().cosine_spread
    scaled_cosines = dict(zip(cosines, scaled(cosines.values(), spread), strict=True))
    fused = [
        (uid, weight * shares.get(uid, 0.0) + (1.0 - weight) * scaled_cosines.get(uid, 0.0))
        for uid in shares.keys() | cosines.keys()
    ]
    return sorted(fused, key=lambda entry: (-entry[1], entry[0]))


def scaled(values: Iterable[float | None], min_spread: float) -> list[float]:
    """Scale values to 0..1, relative to their maximum; None becomes 0.

    The best score is always 1. A range smaller than ``min_spread`` is widened to it, so that small
    differences stay small.
    """
    all_values = list(values)
    present = [value for value in all_values if value is not None]
    high = max(present, default=0.0)
    spread = max(high - min(present, default=0.0), min_spread)
    return [0.0 if value is None else 1.0 - (high - value) / spread for value in all_values]


CANDIDATES = 200
"""The minimum number of keyword hits and of vector hits to retrieve."""
_POOL_FUSED, _POOL_EACH = 40, 20
"""The numbers of hits to compare sentence by sentence: the best by combined score, and the best by
each signal.
"""
_COMPETITORS = 20
"""The number of top hits per signal to check for transformer vectors before using them."""
_MAX_ESTIMATED = 0.1
"""The maximum share of these hits that may lack transformer vectors. With a lower maximum, a few
new memories would turn the transformer vectors off and change the top results.
"""
_MAX_DATED = 20
"""The maximum number of candidates from the requested days."""


class CandidateSet(NamedTuple):
    """Search hits for each requested signal, keyed by uid, best first.

    ``fused`` has keyword and vector hits with a combined score in 0..1. ``order`` is the ranking in
    modes that use a single signal. ``idf`` is the rarity of each term. ``transformer_weight`` is
    the weight of the transformer vectors, and ``is_multilingual`` is whether they come from the
    bundled multilingual model. ``static_cosines`` and ``transformer_cosines`` are the mean and
    standard deviation over all memories. ``dated`` contains memories from the requested days.
    ``dissimilar`` has memories found only by vectors with a low similarity to the query: they are
    results only if they rank among the first or are likely to answer it.
    """

    keyword: Mapping[int, KeywordHit] = {}
    vector: Mapping[int, VectorHit] = {}
    fused: Sequence[tuple[int, float]] = ()
    order: Sequence[ScoredMemory] = ()
    dated: Sequence[int] = ()
    dissimilar: frozenset[int] = frozenset()
    idf: Mapping[str, float] = {}
    has_vectors: bool = False
    transformer_weight: float = 0.0
    is_multilingual: bool = False
    static_cosines: tuple[float, float] = (0.0, 1.0)
    transformer_cosines: tuple[float, float] = (0.0, 1.0)
    notes: tuple[str, ...] = ()

    def with_keywords(self, keyword: Mapping[int, KeywordHit]) -> CandidateSet:
        """Return these vector hits combined with keyword hits."""
        shares = _shares(keyword)
        weight = constants().keyword_weight if self.has_vectors else 1.0
        fused = fuse(shares, {uid: _cosine(hit) for uid, hit in self.vector.items()}, weight)
        return self._replace(keyword=keyword, fused=fused)

    def first(self, count: int, max_keyword: int | None) -> CandidateSet:
        """Return the hits that a search for the ``count`` nearest vectors would have found.

        ``max_keyword`` is the number of keyword hits to keep, or None for all.
        """
        keyword = dict(islice(self.keyword.items(), max_keyword))
        nearest = set(islice(self.vector, count))
        vector = {uid: hit for uid, hit in self.vector.items() if uid in nearest or uid in keyword}
        return self._replace(vector=vector).with_keywords(keyword)

    def pool(self) -> list[int]:
        """Return the uids of the hits to compare with the query sentence by sentence."""
        hits = self.vector
        by_static = sorted(hits, key=lambda uid: -hits[uid].static_cosine)[:_POOL_EACH]
        by_vector = sorted(hits, key=lambda uid: -_cosine(hits[uid]))[:_POOL_EACH]
        by_fused = (uid for uid, _ in self.fused[:_POOL_FUSED])
        by_keyword = islice(self.keyword, _POOL_EACH)
        return list(dict.fromkeys([*by_fused, *by_vector, *by_static, *by_keyword]))

    def location(self, uid: int) -> MatchLocation:
        """Return the best keyword blocks of a memory, and its nearest passage."""
        keyword = self.keyword.get(uid)
        return MatchLocation(keyword.blocks if keyword else (), self.passage(uid))

    def passage(self, uid: int) -> int | None:
        """Return the number of a memory's nearest passage, or None if it is not a vector hit."""
        hit = self.vector.get(uid)
        return hit.passage if hit else None

    def nearest_passages(self, uids: Iterable[int]) -> dict[int, list[int]]:
        """Return the numbers of the two nearest passages of each memory that is a vector hit."""
        hits = {uid: self.vector[uid] for uid in uids if uid in self.vector}
        return {
            uid: [passage for passage in (hit.passage, hit.next_passage) if passage is not None]
            for uid, hit in hits.items()
        }

    def similarity(self, uid: int) -> float:
        """Return a memory's similarity to the query, or 0 if it is not a vector hit."""
        hit = self.vector.get(uid)
        return hit.similarity if hit else 0.0

    def raw_scores(self, uid: int) -> dict[str, object]:
        """Return the keyword and vector scores of a memory, before weighting."""
        keyword, vector = self.keyword.get(uid), self.vector.get(uid)
        raw: dict[str, object] = {}
        if keyword is not None:
            raw["bm25"] = round(keyword.score, 4)
            ranked = sorted(keyword.terms.items(), key=lambda item: -item[1])
            raw["terms"] = {term: round(gain, 4) for term, gain in ranked}
        if vector is not None:
            raw["cosine"] = round(vector.static_cosine, 4)
            if vector.transformer_cosine is not None:
                raw["deep"] = round(vector.transformer_cosine, 4)
            raw["similarity"] = round(vector.similarity, 4)
            raw["passage"] = vector.passage
        return raw


def _shares(keyword: Mapping[int, KeywordHit]) -> dict[int, float]:
    """Return keyword scores as shares of the best, by uid."""
    best = max((hit.score for hit in keyword.values()), default=0.0) or 1.0
    return {uid: hit.score / best for uid, hit in keyword.items()}


def _cosine(hit: VectorHit) -> float:
    """Return a hit's cosine similarity, from transformer vectors if available."""
    return hit.static_cosine if hit.transformer_cosine is None else hit.transformer_cosine


def retrieve(
    view: View, query: Query, request: RecallRequest, days: DateRange | None
) -> CandidateSet:
    """Query the index once for each signal that a request's mode needs.

    Raises:
        EmbedderError: if the mode is vector and there are no vectors.
    """
    allowed = _allowed_uids(view, request.filters)
    limit = max(CANDIDATES, request.limit)
    if request.mode == "tag":
        return CandidateSet(order=_by_tag(view, request.query, allowed))
    if request.mode == "vector":
        return _rank_by_vectors(view, query, request, allowed, limit)
    answer = KeywordAnswer()
    if not query.is_empty:
        # Any hit may contain the phrase, so none is cut off.
        max_hits = sys.maxsize if query.phrases else limit
        answer = view.keyword(
            KeywordQuery(query.search_groups, query.wholes, allowed, max_hits, request.explain)
        )
    keyword = {hit.uid: hit for hit in answer.hits}
    if request.mode == "keyword":
        order = [
            ScoredMemory(uid, share, {"keyword": share}) for uid, share in _shares(keyword).items()
        ]
        return CandidateSet(keyword, order=order, idf=answer.idf)
    dated = _by_date(view, days, allowed) if days else ()
    candidates = _hybrid_candidates(view, query, allowed, limit, tuple(keyword))
    return candidates._replace(
        idf=answer.idf, dated=dated, dissimilar=candidates.dissimilar.difference(dated)
    ).with_keywords(keyword)


def _allowed_uids(view: View, filters: Filters) -> Set[int] | None:
    """Return the uids of the memories that pass the filters, or None if all do."""
    if filters == Filters():
        return None
    return view.visit_records(lambda records: {entry.uid for entry in filters.passing(records)})


def _rank_by_vectors(
    view: View, query: Query, request: RecallRequest, allowed: Set[int] | None, limit: int
) -> CandidateSet:
    """Search by vectors only, ordered by similarity.

    Raises:
        EmbedderError: if the model cannot be used, or no memory has a vector yet.
    """
    if not query.text:
        return CandidateSet()
    only_stored = request.patience == NO_WAIT
    answer = _nearest(view, query, allowed, limit, (), only_stored)
    if answer.waiting and not answer.has_vectors:
        raise EmbedderError(
            f"None of {answer.waiting} memories has a vector yet",
            "`memvault reindex` embeds them; `--mode keyword` needs none",
        )
    order = [
        ScoredMemory(hit.uid, hit.similarity, {"vector": hit.similarity}) for hit in answer.hits
    ]
    order.sort(key=lambda entry: -entry.score)
    return _candidates(answer, answer.hits)._replace(order=order)


def _hybrid_candidates(
    view: View, query: Query, allowed: Set[int] | None, limit: int, keyword: Sequence[int]
) -> CandidateSet:
    """Return the vector hits of a hybrid search, combined with the given keyword hits.

    A missing model adds a note. A memory found only by vectors must have a minimum similarity to
    the query, or be among the nearest twenty, and is then marked ``dissimilar``.
    """
    if not query.text:
        return CandidateSet()
    try:
        answer = _nearest(view, query, allowed, limit, keyword)
    except EmbedderError as error:
        return CandidateSet(notes=(f"{error.message}: used keyword search only; {error.hint}",))
    records = view.records_of([hit.uid for hit in answer.hits[: 2 * _POOL_EACH]])
    examples = {uid for uid, record in records.items() if is_example(record.metadata)}
    nearest = [hit.uid for hit in answer.hits if hit.uid not in examples][:_POOL_EACH]
    unlike = {hit.uid for hit in answer.hits if hit.similarity < constants().min_similarity}
    unlike.difference_update(keyword)
    hits = [hit for hit in answer.hits if hit.uid not in unlike or hit.uid in nearest]
    return _candidates(answer, hits)._replace(dissimilar=frozenset(unlike.intersection(nearest)))


def _nearest(
    view: View,
    query: Query,
    allowed: Set[int] | None,
    limit: int,
    keyword: Sequence[int],
    only_stored: bool = False,
) -> VectorAnswer:
    """Return the nearest vectors, only static ones if too many candidates lack the others."""
    vector_query = VectorQuery(
        query.text,
        query.language,
        allowed,
        limit,
        frozenset(keyword),
        only_stored=only_stored,
    )
    answer = view.nearest(vector_query)
    if _lacks_competitors(answer.hits, keyword):
        notes = answer.notes
        answer = view.nearest(vector_query._replace(only_static=True))._replace(notes=notes)
    return answer


def _candidates(answer: VectorAnswer, hits: Sequence[VectorHit]) -> CandidateSet:
    waiting = "1 memory is" if answer.waiting == 1 else f"{answer.waiting} memories are"
    note = f"{waiting} waiting for vectors; `memvault reindex` computes them"
    return CandidateSet(
        vector={hit.uid: hit for hit in hits},
        has_vectors=answer.has_vectors,
        transformer_weight=answer.transformer_weight,
        is_multilingual=answer.is_multilingual,
        static_cosines=(answer.static_mean, answer.static_spread),
        transformer_cosines=(answer.transformer_mean, answer.transformer_spread),
        notes=(*answer.notes, *[note] * bool(answer.waiting)),
    )


def _lacks_competitors(hits: Sequence[VectorHit], keyword: Sequence[int]) -> bool:
    """Return whether too many of the best hits by any signal lack transformer vectors.

    Mixing estimated and measured cosines could rank memories first that would not rank first
    without transformer vectors or with all of them.
    """
    if not any(hit.is_estimated for hit in hits):
        return False
    by_static = sorted(hits, key=lambda hit: -hit.static_cosine)[:_COMPETITORS]
    best = {hit.uid: hit for hit in [*hits[:_COMPETITORS], *by_static]}
    competitors = set(keyword[:_COMPETITORS])
    best |= {hit.uid: hit for hit in hits if hit.uid in competitors}
    return sum(hit.is_estimated for hit in best.values()) > _MAX_ESTIMATED * len(best)


def _by_date(view: View, span: DateRange, allowed: Set[int] | None) -> list[int]:
    """Return the uids of memories from a span of days or close to it.

    The note for exactly these days comes first, then the nearest; ties are ordered newest first.
    """
    min_proximity = constants().min_date_proximity
    dated = []
    for record in view.dated(days_near(span, min_proximity)):
        if allowed is None or record.uid in allowed:
            proximity = date_proximity(record, span)
            if proximity >= min_proximity:
                dated.append((is_note_of(record, span), proximity, record.modified, record.uid))
    return [uid for *_, uid in sorted(dated, reverse=True)[:_MAX_DATED]]


def _by_tag(view: View, query: str, allowed: Set[int] | None) -> list[ScoredMemory]:
    """Rank memories by the share of the requested tags that they have; ties newest first."""
    tags = {tag_key(tag.strip().strip("#/")) for tag in query.replace(",", " ").split()}
    tags.discard("")

    def matching(records: Iterable[MemoryRecord]) -> list[tuple[float, str, int]]:
        matches = []
        for record in records:
            shared = tags & tags_with_parents(record.tags)
            if shared and (allowed is None or record.uid in allowed):
                matches.append((len(shared) / len(tags), record.modified, record.uid))
        return sorted(matches, reverse=True)

    matches = view.visit_records(matching)
    return [ScoredMemory(uid, share, {"tag": share}) for share, _, uid in matches]
