"""Asking the index: candidates by words, by vectors and by tags, before they are weighed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import Calibration, Embedder
from memvault.index.keyword import KeywordHit
from memvault.index.snapshot import Snapshot
from memvault.index.vectors import VectorHit
from memvault.recall.dates import Span, nearness
from memvault.recall.filters import Filters
from memvault.recall.query import Query

__all__ = ["Near", "Words", "allowed", "by_date", "by_tag", "by_vector", "by_words", "said"]

_LEAST_SIMILARITY = 0.1
_NEAR = 0.25

Test = Callable[[int], bool]


class Words(NamedTuple):
    """The keyword side: hits by uid, and how rare each term is."""

    hits: Mapping[int, KeywordHit] = {}
    rarity: Mapping[str, float] = {}

    def shares(self) -> dict[int, float]:
        """Return each hit's score as a share of the best."""
        best = max((hit.score for hit in self.hits.values()), default=0.0) or 1.0
        return {uid: hit.score / best for uid, hit in self.hits.items()}


class Near(NamedTuple):
    """The vector side: hits by uid, nearest first, what their cosines mean, what to tell.

    ``embedder`` and ``calibration`` are None where there were no vectors to ask.
    """

    hits: Mapping[int, VectorHit] = {}
    calibration: Calibration | None = None
    notes: tuple[str, ...] = ()
    embedder: Embedder | None = None

    def similarity(self, uid: int) -> float:
        """Return a memory's similarity to the query, 0 where no passage of it is near."""
        hit = self.hits.get(uid)
        return self.calibration.similarity(hit.cosine) if hit and self.calibration else 0.0


def allowed(snapshot: Snapshot, filters: Filters) -> Test | None:
    """Return what the filters let pass, as a test of uids; None where that is everything."""
    test = filters.test()
    if test is None:
        return None
    uids = {record.uid for record in snapshot.records() if test(record)}
    return uids.__contains__


def by_words(
    snapshot: Snapshot, query: Query, passes: Test | None, limit: int, explain: bool
) -> Words:
    """Ask the keyword index."""
    if query.is_empty:
        return Words()
    if query.phrases:  # any of the hits may be the one that holds the phrase
        limit = sys.maxsize
    answer = snapshot.keyword(query.stems, query.wholes, passes, limit, explain)
    return Words({hit.uid: hit for hit in answer.hits}, answer.rarity)


def by_vector(
    snapshot: Snapshot, query: Query, passes: Test | None, limit: int, words: Words | None
) -> Near:
    """Ask the vectors; alone where ``words`` is None.

    Beside the words a missing model costs a note, not the answer, and a memory
    that only the vectors find must be a little like the query.

    Raises:
        EmbedderError: vectors alone were asked for, and there are none to ask.
    """
    if not query.text:
        return Near()
    try:
        embedder = snapshot.embedder()
        if embedder is None and words is None and snapshot.unembedded:
            raise EmbedderError(
                f"None of {snapshot.unembedded} memories has a vector yet",
                "memvault reindex embeds them; --mode keyword works without",
            )
        calibration = snapshot.calibration(embedder) if embedder else None
    except EmbedderError as error:
        if words is None:
            raise
        note = f"{error.message}: answered from keywords alone; {error.hint}"
        return Near(notes=(note,))
    notes: tuple[str, ...] = ()
    if snapshot.unembedded:
        notes = (
            f"{snapshot.unembedded} memories wait for their vectors; memvault reindex makes them",
        )
    if embedder is None or calibration is None:
        return Near(notes=notes)
    also = frozenset(words.hits) if words is not None else frozenset()
    hits = snapshot.nearest(embedder, query.text, passes, limit, also)
    least = _LEAST_SIMILARITY if words is not None else 0.0
    kept = {
        uid: hit
        for uid, hit in hits.items()
        if uid in also or calibration.similarity(hit.cosine) >= least
    }
    return Near(kept, calibration, notes, embedder)


def by_date(snapshot: Snapshot, span: Span, passes: Test | None, limit: int) -> list[int]:
    """Return memories written or changed within a span of days or shortly beside it.

    The nearest come first, of those the newest.
    """
    found = []
    for record in snapshot.records():
        if passes is None or passes(record.uid):
            near = max(nearness(span, day) for day in (record.created, record.modified))
            if near >= _NEAR:
                found.append((near, record.modified, record.uid))
    return [uid for *_, uid in sorted(found, reverse=True)[:limit]]


def by_tag(snapshot: Snapshot, query: str, passes: Test | None) -> list[tuple[int, float]]:
    """Rank memories by the share of the tags asked for that they carry, newest first."""
    wanted = {tag.strip().lstrip("#").casefold() for tag in query.replace(",", " ").split()}
    wanted.discard("")
    scored = []
    for record in snapshot.records():
        shared = wanted & {tag.casefold() for tag in record.tags}
        if shared and (passes is None or passes(record.uid)):
            scored.append((len(shared) / len(wanted), record.modified, record.uid))
    scored.sort(reverse=True)
    return [(uid, share) for share, _, uid in scored]


def said(words: Words, near: Near, uid: int) -> dict[str, object]:
    """Return what the two sides said of a memory before it was weighed."""
    word, vector = words.hits.get(uid), near.hits.get(uid)
    raw: dict[str, object] = {}
    if word is not None:
        raw["bm25"] = round(word.score, 4)
        ranked = sorted(word.terms.items(), key=lambda item: -item[1])
        raw["terms"] = {term: round(gain, 4) for term, gain in ranked}
    if vector is not None:
        raw["cosine"] = round(vector.cosine, 4)
        raw["similarity"] = round(near.similarity(uid), 4)
        raw["passage"] = vector.passage
    return raw
