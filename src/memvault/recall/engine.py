"""Searching: refresh, ask both sides, fuse, read the few files that are shown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from memvault.errors import Ambiguous, EmbedderError, MemvaultError, NotFound
from memvault.index import analysis, chunks
from memvault.index.damage import DamagedIndex
from memvault.index.keyword import KeywordHit
from memvault.index.manifest import Record
from memvault.index.snapshot import Snapshot
from memvault.index.sync import Index
from memvault.index.vectors import VectorHit
from memvault.model import Memory
from memvault.recall import fuse, snippets
from memvault.recall.filters import Filters
from memvault.recall.query import Query, parse
from memvault.vault.store import Store

Result = TypeVar("Result")

__all__ = ["Answer", "Engine", "Found", "Request"]

_CANDIDATES = 200
_LEAST_SIMILARITY = 0.1
_RETRIES = 3
_WEIGHTS = {"keyword": 1.0, "vector": 0.0}


class Request(NamedTuple):
    """What to look for. ``mode`` is hybrid, keyword, vector or tag."""

    query: str
    mode: str = "hybrid"
    limit: int = 10
    filters: Filters = Filters()
    threshold: float = 0.0
    explain: bool = False


class Found(NamedTuple):
    """A memory that was found, read from its file after it was found.

    ``score`` ranks within one answer. ``similarity`` (calibrated) and
    ``coverage`` (the share of the query's words that the memory holds) mean the
    same in every answer. ``why`` holds the weighted parts that add up to
    ``score``.
    """

    memory: Memory
    score: float
    similarity: float
    coverage: float
    title_coverage: float
    snippet: str
    heading: str
    why: dict[str, object]

    @property
    def in_title(self) -> bool:
        """Say whether a word of the query stands in the title."""
        return self.title_coverage > 0

    @property
    def strength(self) -> float:
        """How well the memory fits the query by either measure, in 0..1."""
        return max(self.similarity, self.coverage)


class Answer(NamedTuple):
    """What was found, best first, and what the caller should be told besides."""

    found: list[Found]
    notes: list[str]


class _Near(NamedTuple):
    """The vector side: hits, what their cosines mean, what to tell, whether it was there to ask."""

    hits: dict[int, VectorHit]
    similarity: Callable[[float], float] = abs
    notes: tuple[str, ...] = ()
    asked: bool = False


class _Stale(Exception):
    """A file changed between the look at the folder and the reading of the file."""


class Engine:
    """Recall over one vault."""

    def __init__(self, store: Store, index: Index) -> None:
        self._store = store
        self._index = index
        self._analyser = analysis.analyser(store.settings.language)

    def search(self, request: Request) -> Answer:
        """Find memories.

        Raises:
            EmbedderError: vectors alone were asked for, and there are none to ask.
        """
        for attempt in range(_RETRIES):
            search = partial(self._search, request, attempt < _RETRIES - 1)
            try:
                return self._undamaged(search)
            except _Stale:
                continue
        raise AssertionError("the last attempt is not strict")

    def _undamaged(self, action: Callable[[], Result]) -> Result:
        """Do something with the index; where that fails, have it made anew and try again."""
        for _ in range(_RETRIES - 1):
            try:
                return action()
            except DamagedIndex:
                self._index.discard()
        try:
            return action()
        except DamagedIndex as error:
            raise MemvaultError(
                f"The index was damaged again while it was being read: {error}",
                "memvault reindex makes it anew",
            ) from error

    def listed(self, filters: Filters) -> list[Record]:
        """Return the records of all memories that pass, newest change first."""
        test = filters.test()
        records = self._undamaged(lambda: list(self._index.refresh(embed=False).records()))
        chosen = [record for record in records if test is None or test(record)]
        return sorted(chosen, key=lambda record: (record.modified, record.path), reverse=True)

    def resolve(self, name: str) -> Memory:
        """Return the one memory that a memId, path or title names.

        Raises:
            NotFound: there is none.
            Ambiguous: there are several; ``candidates`` are in its details.
        """
        for _ in range(_RETRIES):
            record = self._named(name)
            try:
                return self._store.read(record.path)
            except NotFound:
                continue
        raise NotFound(f"There is no memory {name!r}", "memvault list shows all of them")

    def try_resolve(self, name: str) -> Memory | None:
        """Return the memory that a name names, or None where it is rather words to look for.

        The beginning of a memId counts only where it holds the whole slug, so
        that a short word does not pass for a name.
        """
        wanted = name.strip().removeprefix("./")
        try:
            memory = self.resolve(name)
        except Ambiguous as error:
            if any(_is_named(wanted, *entry.values()) for entry in error.candidates()):
                raise
            return None
        except NotFound:
            return None
        return memory if _is_named(wanted, memory.mem_id, memory.title, memory.path) else None

    def _named(self, name: str) -> Record:
        wanted = name.strip().removeprefix("./")
        found = []
        if wanted:
            found = self._undamaged(lambda: self._index.refresh(embed=False).find(wanted))
        if not found:
            raise NotFound(f"There is no memory {name!r}", "memvault list shows all of them")
        if len(found) > 1:
            raise Ambiguous(
                f"{name!r} names {len(found)} memories",
                "use one of their memIds or paths",
                {"candidates": [_candidate(record) for record in found[:20]]},
            )
        return found[0]

    def _search(self, request: Request, strict: bool) -> Answer:
        query = parse(request.query, self._analyser)
        snapshot = self._index.refresh(embed=request.mode in ("hybrid", "vector"))
        allowed = _allowed(snapshot, request.filters)
        words: dict[int, KeywordHit] = {}
        near = _Near({})
        if request.mode == "tag":
            ranked = _by_tag(snapshot, request.query, allowed)
        else:
            words = _keyword_side(snapshot, query, request, allowed)
            near = _vector_side(snapshot, query, request, allowed, frozenset(words))
            ranked = fuse.fuse(
                {uid: hit.score for uid, hit in words.items()},
                {uid: hit.cosine for uid, hit in near.hits.items()},
                _WEIGHTS.get(request.mode, fuse.KEYWORD_WEIGHT if near.asked else 1.0),
            )
        found: list[Found] = []
        if request.mode == "vector":  # nothing to fuse: the calibrated similarity says more
            ranked = [_by_similarity(entry, near) for entry in ranked]
        for entry in ranked:
            if len(found) >= request.limit or entry.score < request.threshold:
                break
            memory = self._read(snapshot, entry.uid, strict)
            if memory is not None and query.has_phrases(f"{memory.title}\n{memory.body}"):
                word, vector = words.get(entry.uid), near.hits.get(entry.uid)
                found.append(self._found(memory, entry, query, word, vector, near.similarity))
        return Answer(found, list(near.notes))

    def _read(self, snapshot: Snapshot, uid: int, strict: bool) -> Memory | None:
        """Read a hit's file; None where it is no longer what was indexed."""
        record = snapshot.record(uid)
        memory = None
        if record is not None:
            try:
                memory = self._store.read(record.path)
            except NotFound:
                pass
            except MemvaultError:
                return None
        if record is None or memory is None or memory.etag != record.etag:
            if strict:
                raise _Stale
            return None
        return memory

    def _found(
        self,
        memory: Memory,
        entry: fuse.Fused,
        query: Query,
        word: KeywordHit | None,
        vector: VectorHit | None,
        calibrated: Callable[[float], float],
    ) -> Found:
        similarity = calibrated(vector.cosine) if vector else 0.0
        text = "\n".join([memory.title, *memory.tags, memory.body])
        covered = snippets.coverage(text, query, self._analyser)
        passages = chunks.passages(memory.body) if vector else []
        passage = passages[vector.passage] if vector and vector.passage < len(passages) else None
        shown = snippets.show(memory.body, query, self._analyser, passage)
        return Found(
            memory,
            entry.score,
            similarity,
            covered,
            snippets.coverage(memory.title, query, self._analyser),
            shown.text,
            shown.heading,
            _why(entry, word, vector, similarity, covered),
        )


def _keyword_side(
    snapshot: Snapshot, query: Query, request: Request, allowed: Callable[[int], bool] | None
) -> dict[int, KeywordHit]:
    if request.mode == "vector" or query.is_empty:
        return {}
    limit = max(_CANDIDATES, request.limit)
    if query.phrases:  # any of the hits may be the one that holds the phrase
        limit = sys.maxsize
    hits = snapshot.keyword(query.stems, query.wholes, allowed, limit, request.explain)
    return {hit.uid: hit for hit in hits}


def _vector_side(
    snapshot: Snapshot,
    query: Query,
    request: Request,
    allowed: Callable[[int], bool] | None,
    words: frozenset[int],
) -> _Near:
    """Ask the vectors; in hybrid mode a missing model costs a note, not the answer."""
    if request.mode == "keyword" or not query.text:
        return _Near({})
    try:
        embedder = snapshot.embedder()
        if embedder is None and request.mode == "vector" and snapshot.unembedded:
            raise EmbedderError(
                f"None of {snapshot.unembedded} memories has a vector yet",
                "memvault reindex embeds them; --mode keyword works without",
            )
    except EmbedderError as error:
        if request.mode == "vector":
            raise
        note = f"{error.message}: answered from keywords alone; {error.hint}"
        return _Near({}, notes=(note,))
    notes: tuple[str, ...] = ()
    if snapshot.unembedded:
        notes = (
            f"{snapshot.unembedded} memories wait for their vectors; memvault reindex makes them",
        )
    if embedder is None:
        return _Near({}, notes=notes)
    limit = max(_CANDIDATES, request.limit)
    near = snapshot.nearest(embedder, query.text, allowed, limit, words)
    similarity = embedder.calibration.similarity
    least = _LEAST_SIMILARITY if request.mode == "hybrid" else 0.0
    kept = {
        uid: hit for uid, hit in near.items() if uid in words or similarity(hit.cosine) >= least
    }
    return _Near(kept, similarity, notes, asked=True)


def _allowed(snapshot: Snapshot, filters: Filters) -> Callable[[int], bool] | None:
    test = filters.test()
    if test is None:
        return None
    uids = {record.uid for record in snapshot.records() if test(record)}
    return uids.__contains__


def _by_similarity(entry: fuse.Fused, near: _Near) -> fuse.Fused:
    similarity = near.similarity(near.hits[entry.uid].cosine)
    return entry._replace(score=similarity, vector=similarity)


def _by_tag(
    snapshot: Snapshot, query: str, allowed: Callable[[int], bool] | None
) -> list[fuse.Fused]:
    """Rank memories by how many of the tags asked for they carry, newest first."""
    wanted = {tag.strip().lstrip("#").casefold() for tag in query.replace(",", " ").split()}
    wanted.discard("")
    scored = []
    for record in snapshot.records():
        shared = wanted & {tag.casefold() for tag in record.tags}
        if shared and (allowed is None or allowed(record.uid)):
            scored.append((len(shared) / len(wanted), record.modified, record.uid))
    scored.sort(reverse=True)
    return [fuse.Fused(uid, share, share, 0.0) for share, _, uid in scored]


def _why(
    entry: fuse.Fused,
    word: KeywordHit | None,
    vector: VectorHit | None,
    similarity: float,
    held: float,
) -> dict[str, object]:
    """Explain a score: ``keyword`` and ``vector`` add up to it."""
    why: dict[str, object] = {"keyword": round(entry.keyword, 4), "vector": round(entry.vector, 4)}
    if word is not None:
        why["bm25"] = round(word.score, 4)
        ranked = sorted(word.terms.items(), key=lambda item: -item[1])
        why["terms"] = {term: round(gain, 4) for term, gain in ranked}
    if vector is not None:
        why["cosine"] = round(vector.cosine, 4)
        why["similarity"] = round(similarity, 4)
        why["passage"] = vector.passage
    why["coverage"] = round(held, 4)
    return why


def _is_named(wanted: str, mem_id: str, title: str, path: str) -> bool:
    """Say whether a text is meant as a memory's name: whole, or the memId's whole slug."""
    slug = mem_id.rpartition("-")[0]
    whole = wanted in (mem_id, path) or wanted.casefold() == title.casefold()
    return whole or bool(slug and mem_id.startswith(wanted) and wanted.startswith(slug))


def _candidate(record: Record) -> dict[str, str]:
    return {"memId": record.mem_id, "title": record.title, "filePath": record.path}
