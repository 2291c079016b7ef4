"""Searching: refresh, ask both sides, fuse, read the best files and rank them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from memvault import clock
from memvault.config import Ranking
from memvault.errors import Ambiguous, MemvaultError, NotFound
from memvault.index import analysis
from memvault.index.errors import DamagedIndex
from memvault.index.local import Index
from memvault.index.manifest import Record
from memvault.index.snapshot import Snapshot
from memvault.model import Memory
from memvault.recall import hybrid, sides, snippets
from memvault.recall.filters import Filters
from memvault.recall.query import Query, parse
from memvault.recall.rerank import reranked
from memvault.recall.scored import Scored, alone
from memvault.vault.normal_form import folded
from memvault.vault.store import Store

Result = TypeVar("Result")

__all__ = ["Answer", "Engine", "Found", "Request"]

_DATED = 20
"""Memories of the days asked for that are read besides."""
_RETRIES = 3


class Request(NamedTuple):
    """What to look for. ``mode`` is hybrid, keyword, vector or tag.

    With ``rerank`` a cross-encoder orders the best again; without ``diverse``
    what repeats a better answer keeps its score.
    """

    query: str
    mode: str = "hybrid"
    limit: int = 10
    filters: Filters = Filters()
    threshold: float = 0.0
    explain: bool = False
    rerank: bool = False
    diverse: bool = True


class Found(NamedTuple):
    """A memory that was found, read from its file after it was found.

    ``score`` ranks within one answer. ``similarity`` (calibrated) and
    ``coverage`` (the share of the query's words that the memory holds) mean the
    same in every answer. ``why`` holds the weighted ``parts`` that add up to
    ``score``, and what they were made of.
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


class _Stale(Exception):
    """A file changed between the look at the folder and the reading of the file."""


class Engine:
    """Recall over one vault, for one call: it looks at the folder once.

    It looks again only where a file turns out to have changed since, and where
    ``look_again`` asks for it.
    """

    def __init__(self, store: Store, index: Index) -> None:
        self._store = store
        self._index = index
        self._analyser = analysis.analyser(store.settings.language)
        self._seen: Snapshot | None = None

    def look_again(self) -> None:
        """Forget what the folder held: whoever has taken a lock must see what others wrote."""
        self._seen = None

    def _look(self, vectors: bool) -> Snapshot:
        if self._seen is None:
            self._seen = self._index.refresh(vectors)
        elif vectors:
            self._seen = self._index.with_vectors(self._seen)
        return self._seen

    def search(self, request: Request) -> Answer:
        """Find memories.

        Raises:
            EmbedderError: vectors alone were asked for, and there are none to ask;
                or a cross-encoder was, and it cannot be loaded.
        """
        for attempt in range(_RETRIES):
            search = partial(self._search, request, attempt < _RETRIES - 1)
            try:
                return self._undamaged(search)
            except _Stale:
                self.look_again()
        raise AssertionError("the last attempt is not strict")

    def _undamaged(self, action: Callable[[], Result]) -> Result:
        """Do something with the index; where that fails, have it made anew and try again."""
        for _ in range(_RETRIES - 1):
            try:
                return action()
            except DamagedIndex as error:
                self._index.discard(error)
                self.look_again()
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
        records = self._undamaged(lambda: list(self._look(False).records()))
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
                self.look_again()
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
            found = self._undamaged(lambda: self._look(False).find(wanted))
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
        judge = self._index.cross_encoder().scores if request.rerank else None
        snapshot = self._look(request.mode in ("hybrid", "vector"))
        passes = sides.allowed(snapshot, request.filters)
        read = partial(self._fitting, snapshot, query, strict)
        words, near = sides.Words(), sides.Near()
        limit = max(hybrid.CANDIDATES, request.limit)
        ranked: Iterator[tuple[Memory, Scored]]
        if request.mode == "keyword":
            words = sides.by_words(snapshot, query, passes, limit, request.explain)
            ranked = alone("keyword", words.shares().items(), read)
        elif request.mode == "vector":
            near = sides.by_vector(snapshot, query, passes, limit, None)
            ranked = alone("vector", [(uid, near.similarity(uid)) for uid in near.hits], read)
        elif request.mode == "tag":
            ranked = alone("tag", sides.by_tag(snapshot, request.query, passes), read)
        else:
            ranking, now = self._ranking(request), clock.now()
            asked = hybrid.asked_days(query, self._analyser, ranking, now)
            if asked and asked.mostly:  # the days' own words would find other days' memories
                query = parse(asked.rest, self._analyser)
            words = sides.by_words(snapshot, query, passes, hybrid.CANDIDATES, request.explain)
            near = sides.by_vector(snapshot, query, passes, hybrid.CANDIDATES, words)
            first = words, near, hybrid.fused_sides(words, near)
            behind = first[2]
            if request.limit > hybrid.CANDIDATES:  # the first are the same whatever the limit
                words = sides.by_words(snapshot, query, passes, limit, request.explain)
                near = sides.by_vector(snapshot, query, passes, limit, words)
                behind = hybrid.fused_sides(words, near)
            dated = []
            if asked and asked.mostly:
                dated = sides.by_date(snapshot, asked.days.span, passes, _DATED)
            look = hybrid.Look(
                read, self._analyser, self._index.word_table(near.embedder), ranking, now
            )
            ranked = hybrid.order(query, *first, behind, dated, asked, look)
        if judge is not None:
            passages = {uid: hit.passage for uid, hit in near.hits.items()}
            ranked = reranked(ranked, judge, query, self._analyser, passages, request.limit)
        found: list[Found] = []
        for memory, entry in ranked:
            if len(found) >= request.limit or entry.score < request.threshold:
                break
            found.append(self._found(memory, entry, query, words, near))
        return Answer(found, [*self._index.notes(), *near.notes])

    def _ranking(self, request: Request) -> Ranking:
        ranking = self._store.settings.ranking
        return ranking if request.diverse else ranking._replace(diversity=False)

    def _fitting(self, snapshot: Snapshot, query: Query, strict: bool, uid: int) -> Memory | None:
        """Read a hit's file; None where it does not hold the query's phrases."""
        memory = self._read(snapshot, uid, strict)
        if memory is None or not query.has_phrases(f"{memory.title}\n{memory.body}"):
            return None
        return memory

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
        self, memory: Memory, entry: Scored, query: Query, words: sides.Words, near: sides.Near
    ) -> Found:
        text = "\n".join([memory.title, *memory.tags, memory.body])
        covered = snippets.coverage(text, query, self._analyser)
        vector = near.hits.get(entry.uid)
        passage = vector.passage if vector else None
        shown = snippets.show(memory.body, query, self._analyser, passage)
        return Found(
            memory,
            entry.score,
            near.similarity(entry.uid),
            covered,
            snippets.coverage(memory.title, query, self._analyser),
            shown.text,
            shown.heading,
            {
                "parts": {name: round(part, 4) for name, part in entry.parts.items()},
                **sides.said(words, near, entry.uid),
                "coverage": round(covered, 4),
            },
        )


def _is_named(wanted: str, mem_id: str, title: str, path: str) -> bool:
    """Say whether a text is meant as a memory's name: whole, or the memId's whole slug."""
    slug = mem_id.rpartition("-")[0]
    whole = wanted in (mem_id, path) or folded(wanted) == folded(title)
    return whole or bool(slug and mem_id.startswith(wanted) and wanted.startswith(slug))


def _candidate(record: Record) -> dict[str, str]:
    return {"memId": record.mem_id, "title": record.title, "filePath": record.path}
