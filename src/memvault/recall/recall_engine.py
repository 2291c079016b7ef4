"""Run the stages of a recall: refresh, parse, retrieve, compare, rank, rerank, read results."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from memvault import clock
from memvault.errors import EmbedderError, MemvaultError, TimedOut
from memvault.files.lock import FileLock
from memvault.index.protocol import (
    MemoryRecord,
    SearchIndex,
    StaleView,
    View,
    WaitPolicy,
    latest_first,
    page_of,
    without_documents,
)
from memvault.model import MAX_RESULTS, Memory
from memvault.recall import validity
from memvault.recall.answer import (
    CURRENT,
    RecallAnswer,
    RecallRequest,
    RecallResult,
    Validity,
)
from memvault.store.memory_store import MemoryReader

if TYPE_CHECKING:
    from memvault.recall.filters import Filters
    from memvault.recall.name_lookup import NameLookup

Result = TypeVar("Result")

_MAX_ATTEMPTS = 10
"""The maximum number of views to try; each write by another process may make a view stale."""
_EXACT_ATTEMPTS = 2
"""Number of attempts to read a file that keeps changing; after that it is shown with its current
text, ranked by its older text. Otherwise a file that another program keeps appending to would never
be shown.
"""
_MAX_LINES = 8
"""The maximum number of lines that are searched separately."""
PARTIAL_NOW = WaitPolicy(0.0, 1.0, True)
"""For optional additions to an answer: use the existing index, without waiting for other processes.
"""


_NO_WORDS = "there is nothing to search for: the query contains only stop words or punctuation"
_NO_PHRASE = "no match contains the quoted words as a phrase; showing results for the words"


RerankScores = Callable[[str, Sequence[str]], list[float]]


def _rank(result: RecallResult) -> tuple[bool, float]:
    """Return the sort key of a result: specific first, then by probability."""
    return bool(result.is_specific), result.probability


def _merged(lists: Sequence[Sequence[RecallResult]]) -> Iterator[RecallResult]:
    """Yield the results of several queries; the order of each list is kept.

    The first results therefore do not depend on the lengths of the lists.
    """
    waiting = [deque(results) for results in lists if results]
    while waiting:
        best = max(waiting, key=lambda results: _rank(results[0]))
        yield best.popleft()
        waiting = [results for results in waiting if results]


def _no_reranker(query: str, texts: Sequence[str]) -> list[float]:  # noqa: ARG001
    raise EmbedderError("This search has no cross-encoder", "omit --rerank")


class RecallEngine:
    """Recalls memories from one vault during one call, usually with a single scan of its folder.

    The folder is scanned again after a file has changed, in ``fresh_under``, for tasks that require
    a complete view, and once if a memId is not found. ``patience`` is how long to wait for another
    process that is indexing. ``search`` also applies the filters in ``within``. ``rerank_scores``
    returns the relevance of passages to a query, in 0..1. ``with_unmerged`` adds the memories that
    exist only in other git worktrees to a view.
    """

    def __init__(
        self,
        store: MemoryReader,
        index: SearchIndex[Any],
        patience: WaitPolicy,
        within: Filters | None = None,
        rerank_scores: RerankScores = _no_reranker,
        with_unmerged: Callable[[View], View] = lambda view: view,
    ) -> None:
        self._with_unmerged = with_unmerged
        self._store = store
        self._index = index
        self.patience = patience
        self._within = within
        self._rerank_scores = rerank_scores
        self._view: View | None = None
        self._has_vectors = False
        self._validity_note = ""

    def search(self, request: RecallRequest) -> RecallAnswer:
        """Find memories.

        Raises:
            EmbedderError: if the mode is vector and there are no vectors, or the cross-encoder for
            requested reranking cannot be loaded.
        """
        if self._within is not None:
            request = request._replace(filters=self._within.both(request.filters))
        return self.retry_stale(lambda attempts_left: self._search(request, attempts_left))

    def search_lines(self, request: RecallRequest, seconds: float = math.inf) -> RecallAnswer:
        """Search for each line of the query separately, because a memory covers one subject.

        Each memory is listed once. Each line's results keep their order; merging takes the
        specific, then the most probable, of the lines' next results. A query of one line, or of
        more than eight, is searched as a whole. Lines that are not searched within ``seconds`` are
        counted in a note.

        Raises:
            EmbedderError: the query requires an embedder, and none is available.
        """
        lines = [*dict.fromkeys(filter(None, map(str.strip, request.query.split("\n"))))]
        if not 1 < len(lines) <= _MAX_LINES:
            return self.search(request)
        by_line: list[list[RecallResult]] = []
        notes: list[str] = []
        started = time.monotonic()
        for number, line in enumerate(lines):
            if number and time.monotonic() - started > seconds:
                notes.append(f"recall timed out; lines not searched: {len(lines) - number}")
                break
            answer = self.search(request._replace(query=line))
            notes += answer.notes
            by_line.append(answer.found)
        found: dict[tuple[str, str], RecallResult] = {}
        for result in _merged(by_line):
            found.setdefault((result.vault, result.memory.mem_id), result)
        first = list(found.values())[: request.limit]
        return RecallAnswer(first, list(dict.fromkeys(notes)))

    def list_records(self, filters: Filters, rescans: bool = False) -> list[MemoryRecord]:
        """Return the records of all memories that pass the filters, last modified first."""
        return self.visit_records(latest_first, filters, rescans)

    def visit_records(
        self,
        visit: Callable[[Iterable[MemoryRecord]], Result],
        filters: Filters | None = None,
        rescans: bool = False,
    ) -> Result:
        """Call a function with an iterator over the records of memories that pass the filters.

        Documents are included only if the filters require their type. If the index changes in the
        meantime, the function is called again with all records.
        """
        if filters is not None:
            filters.predicate()  # an invalid expression fails before the folder is scanned
        has_documents = filters is not None and filters.require_documents()

        def visit_passing(view: View) -> Result:
            passing = filters.on(view).passing if filters is not None else iter
            select = iter if has_documents else without_documents
            return view.visit_records(lambda records: visit(passing(select(records))))

        return self.on_view(visit_passing, rescans)

    def latest_records(
        self, limit: int, offset: int, filters: Filters | None = None
    ) -> tuple[list[MemoryRecord], int]:
        """Return a page of the records, most recently modified first, and the total count."""
        if filters is None or not any(filters):
            return self.on_view(lambda view: view.latest(limit, offset))
        return self.visit_records(lambda records: page_of(records, limit, offset), filters)

    def on_view(self, action: Callable[[View], Result], rescans: bool = False) -> Result:
        """Run an action on a view and return its result, retrying while the view is stale.

        With ``rescans``, the folder is scanned first.
        """
        if rescans:
            self._view = None
        return self.retry_stale(lambda _: action(self.current_view(False)))

    def retry_stale(self, action: Callable[[int], Result]) -> Result:
        """Run an action on a view, retrying with a fresh view if it is stale.

        ``action`` receives the number of remaining attempts.
        """
        for attempts_left in reversed(range(_MAX_ATTEMPTS)):
            try:
                return action(attempts_left)
            except StaleView as error:
                self._view = None
                if attempts_left == 0:
                    changed = MemvaultError("The memories keep changing", "try again")
                    raise (error.reason or changed) from error
        raise AssertionError("the last attempt returns or raises")

    def current_view(self, vectors: bool, patience: WaitPolicy | None = None) -> View:
        """Return the view that is searched now; a new one includes changes by other programs."""
        policy = patience or self.patience
        if self._view is None or (self._view.missing and not policy.allow_partial):
            self._view = self._index.refresh(vectors, policy)
            self._has_vectors = vectors
        elif vectors and not self._has_vectors:
            self._view = self._index.with_vectors(self._view, policy)
            self._has_vectors = True
        return self._view

    def validities(self, entries: Sequence[MemoryRecord | Memory]) -> list[Validity]:
        """Return the validity of each memory: superseded, expired, not yet valid or current.

        This never waits for another process: if the index cannot be read in time, all memories
        count as current, and ``notes`` explains why.
        """
        if not entries:
            return []
        now = clock.now()

        def check(_: int) -> list[Validity]:
            view = self.current_view(False, PARTIAL_NOW)
            return validity.check(view, entries, now)

        try:
            return self.retry_stale(check)
        except TimedOut as error:
            self._validity_note = f"superseded and expired memories are not marked: {error.message}"
            return [CURRENT for _ in entries]

    def languages(self) -> tuple[str, ...]:
        """Return the languages in which a query is analyzed, most frequent first."""
        return self.on_view(lambda view: view.languages())

    def absent_words(self, request: RecallRequest) -> list[str]:
        """Return up to three query words that no memory contains in any form.

        The words of a date are ignored if the search compares the date with those of memories.
        """
        from memvault.recall import dates, filters

        query = request.query
        if request.mode == "hybrid" and self._store.settings.ranking.date:
            query = dates.without_date(query, clock.now())
        return self.on_view(lambda view: filters.absent_words(view, query))

    @cached_property
    def names(self) -> NameLookup:
        """The lookup of memories by name."""
        from memvault.recall.name_lookup import NameLookup

        return NameLookup(self, self._store)

    @property
    def published_at(self) -> str:
        """Return when another machine published the last view's memories; empty if none did."""
        return self._view.published_at if self._view is not None else ""

    @contextlib.contextmanager
    def fresh_under(self, lock: FileLock) -> Iterator[None]:
        """Hold a lock during the block, which sees all changes made before that."""
        with lock:
            self._view = None
            yield

    def notes(self) -> list[str]:
        """Return notes about memories missing from the last view and about unknown validity."""
        missing = self._view.missing if self._view is not None else 0
        counted = f"{missing} {'memory is' if missing == 1 else 'memories are'}"
        note = f"{counted} not indexed yet; another process is indexing them"
        if missing and self._view is not None and self.patience.index_seconds is not None:
            with contextlib.suppress(StaleView):
                _, count = self._view.latest(1, 0)
                note = f"Indexing: answered from {count:,} of {count + missing:,} memories"
        return [note] * bool(missing) + [self._validity_note] * bool(self._validity_note)

    def _view_for(self, request: RecallRequest) -> View:
        """Return the view to search for a request: the current one, or one of a past time."""
        view = self.current_view(request.uses_vectors, request.patience)
        if request.as_of is not None:
            view = self._index.at(view, request.as_of)
        elif request.unmerged:
            view = self._with_unmerged(view)
        return view

    def _search(self, request: RecallRequest, attempts_left: int) -> RecallAnswer:
        from memvault.recall.search import Search

        accept_changed = attempts_left < _MAX_ATTEMPTS - _EXACT_ATTEMPTS
        ranking = self._store.settings.ranking
        view = self._view_for(request)
        search = Search(view, request, ranking, accept_changed)
        results = search.results(self._rerank_scores)
        phrase_notes = []
        if search.lacks_phrases and not request.exact and not search.stale:
            search = Search(view, request, ranking, accept_changed, ignore_phrases=True)
            results = search.results(self._rerank_scores)
            phrase_notes = [_NO_PHRASE] * bool(results)
        if search.stale and attempts_left:
            raise StaleView
        notes = [*view.notes, *self.notes(), *search.notes, *phrase_notes]
        if search.is_vague and not any(entry.is_relevant for entry in results):
            notes.append(_NO_WORDS)
        if request.limit > MAX_RESULTS <= len(results):
            notes.append(f"a search returns at most {MAX_RESULTS:,} results; more may match")
        if search.stale:
            counted = "1 memory" if len(search.stale) == 1 else f"{len(search.stale)} memories"
            notes.append(f"{counted} left out: deleted or moved during the search; try again")
        return RecallAnswer(results, notes)
