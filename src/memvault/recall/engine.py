"""Run the stages of a recall: refresh, parse, retrieve, compare, rank, rerank, read results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from memvault import clock
from memvault.errors import Ambiguous, NotFound, TimedOut
from memvault.index.protocol import (
    BEST_EFFORT,
    COMPLETE,
    Index,
    IndexCorrupted,
    LostIndex,
    MemoryRecord,
    StaleView,
    View,
    WaitPolicy,
    given_up,
)
from memvault.index.text.analysis import DEFAULT_LANGUAGE, Analyser, analyser, query_analyser
from memvault.model import Memory, is_example
from memvault.recall import ranking, resolve, snippets
from memvault.recall.answer import (
    CURRENT,
    FAIR,
    RecallAnswer,
    RecallRequest,
    RecallResult,
    ScoredMemory,
    Validity,
    memory_reference,
)
from memvault.recall.dates import date_constraint, note_first
from memvault.recall.features import Compared
from memvault.recall.filters import Filters
from memvault.recall.query import Query, parse, plain
from memvault.recall.ranking import judged_count, rerank
from memvault.recall.retrieve import CANDIDATES, retrieve
from memvault.recall.validity import ValidityChecker
from memvault.store.memory_store import MemoryStore


class Reader:
    """A cache of the files of results; a memory without the query's quoted phrases is rejected."""

    def __init__(self, view: View, query: Query, last: bool) -> None:
        self.view = view
        self._query = query
        self._last = last
        self._read: dict[int, Memory | None] = {}

    def read(self, key: int) -> Memory | None:
        """Return a result's memory, or None if it cannot be read or does not match.

        Raises:
            StaleView: the file has changed since the refresh, and another attempt is left.
        """
        if key not in self._read:
            self._read[key] = self._read_matching(key)
        return self._read[key]

    def analyser(self, key: int) -> Analyser:
        """Return the analyser of the language in which a memory is indexed."""
        record = self.view.record(key)
        return analyser(record.language if record is not None else DEFAULT_LANGUAGE)

    def first(self, keys: Iterable[int], count: int) -> dict[int, Memory]:
        """Return the first ``count`` memories that can be read and match, in the given order."""
        read = ((key, self.read(key)) for key in keys)
        return dict(islice(((key, memory) for key, memory in read if memory is not None), count))

    def _read_matching(self, key: int) -> Memory | None:
        try:
            memory = self.view.text(key)
        except StaleView:
            if self._last:
                return None
            raise
        if memory is None or is_example(memory.metadata):
            return None
        return memory if self._query.has_phrases(f"{memory.title}\n{memory.body}") else None


Result = TypeVar("Result")

_MAX_ATTEMPTS = 3
PARTIAL_NOW = WaitPolicy(0.0, 1.0, True)
"""For additions to an answer: use what is indexed, without waiting for other processes."""
_CHECKED_FOR_NEWER = 10
"""How many of the best results are checked for a newer memory about the same subject."""


class RecallEngine:
    """Recall over one vault during one call: the folder is scanned once.

    It is scanned again only if a file has changed since, after ``invalidate``, if a partial view is
    not acceptable for the task, and once if a memId is not found. ``patience`` is how long to wait
    for another process that is indexing.
    """

    def __init__(self, store: MemoryStore, index: Index, patience: WaitPolicy) -> None:
        self._store = store
        self._index = index
        self._patience = patience
        self._view: View | None = None
        self._has_rescanned = False
        self._validity_note = ""

    def search(self, request: RecallRequest) -> RecallAnswer:
        """Find memories.

        Raises:
            EmbedderError: the mode is vector and there are no vectors, or reranking was requested
                and the cross-encoder cannot be loaded.
        """
        answer_mode = self._hybrid if request.mode == "hybrid" else self._single
        return self._retry_stale(lambda last: answer_mode(request, last))

    def list_records(self, filters: Filters) -> list[MemoryRecord]:
        """Return the records of all memories that pass the filters, last modified first."""
        test = filters.predicate()
        records = self._retry_stale(lambda _: list(self._current_view(False).records()))
        chosen = [record for record in records if test is None or test(record)]
        return sorted(chosen, key=lambda record: (record.modified, record.path), reverse=True)

    def validities(self, entries: Sequence[MemoryRecord | Memory]) -> list[Validity]:
        """Return the validity of each memory: superseded, expired, not yet valid or current.

        This never waits for another process: if the index cannot be read in time, all memories
        count as current, and ``notes`` explains why.
        """
        if not entries:
            return []
        now = clock.now()

        def check(_: bool) -> list[Validity]:
            view = self._current_view(False, PARTIAL_NOW)
            checker = ValidityChecker(view, now)
            if isinstance(entries[0], MemoryRecord) and view.part(entries[0].key).name:
                return [
                    checker.at(entry.key) for entry in entries if isinstance(entry, MemoryRecord)
                ]
            return checker.standings(entries)

        try:
            return self._retry_stale(check)
        except TimedOut as error:
            self._validity_note = f"what was replaced or has ended is not marked: {error.message}"
            return [CURRENT for _ in entries]

    def origin(self, record: MemoryRecord) -> tuple[str, str]:
        """Return a listed memory's vault, and when another machine sent that vault.

        The vault's name is empty unless several vaults are searched.
        """
        part = self._retry_stale(lambda _: self._current_view(False).part(record.key))
        return part.name, part.sent

    @property
    def sent(self) -> str:
        """When another machine sent the vault's content; empty if the files are on this machine."""
        return self._current_view(False).sent

    def languages(self) -> tuple[str, ...]:
        """Return the languages in which a query is analysed, most frequent first."""
        return self._retry_stale(lambda _: self._current_view(False).languages())

    def resolve(self, name: str) -> Memory:
        """Return the one memory with a given memId, path or title. A path needs no index.

        Raises:
            NotFound: no memory has this name.
            Ambiguous: several memories have it; they are listed in its details as ``candidates``.
        """
        self._store.complete_interrupted_move()
        memory = self._store.read_listed(resolve.cleaned(name))
        return (
            memory
            if memory is not None
            else self._retry_stale(lambda last: self._read_named(name, last))
        )

    def try_resolve(self, name: str) -> Memory | None:
        """Return the memory with a given name, or None if the text is rather a query."""
        try:
            memory = self.resolve(name)
        except Ambiguous:
            records = self._retry_stale(lambda _: self._records_named(name))
            if any(resolve.is_name_of(name, record) for record in records):
                raise
            return None
        except NotFound:
            return None
        return memory if resolve.is_name_of(name, memory) else None

    def invalidate(self) -> None:
        """Discard the view, so that changes made before a lock was acquired become visible."""
        self._view = None

    def notes(self) -> list[str]:
        """Return what the last refresh left out of the view, and whether validity is unknown."""
        missing = self._view.missing if self._view is not None else 0
        note = f"{missing} memories are not indexed yet; another process is indexing them"
        return [note] * bool(missing) + [self._validity_note] * bool(self._validity_note)

    def _current_view(self, vectors: bool, patience: WaitPolicy | None = None) -> View:
        policy = patience or self._patience
        if self._view is None or (self._view.missing and not policy.allow_partial):
            self._store.complete_interrupted_move()
            self._view = self._index.refresh(vectors, policy)
        elif vectors:
            self._view = self._view.with_vectors()
        return self._view

    def _view_for(self, request: RecallRequest) -> View:
        """Return the view to search for a request: the current one, or that of a moment."""
        view = self._current_view(request.uses_vectors, request.patience)
        return self._index.at(view, request.as_of) if request.as_of is not None else view

    def _retry_stale(self, action: Callable[[bool], Result]) -> Result:
        """Run an action on a view, and retry with a fresh one if the view is stale or corrupted.

        ``action`` receives whether this is the last attempt.
        """
        for left in reversed(range(_MAX_ATTEMPTS)):
            try:
                return action(left == 0)
            except (StaleView, IndexCorrupted) as error:
                if isinstance(error, IndexCorrupted):
                    self._index.discard(error, self._view)
                self.invalidate()
                if left == 0:
                    if isinstance(error, LostIndex):
                        raise error.reason from error
                    raise given_up(error) from error
        raise AssertionError("the last attempt returns or raises")

    def _records_named(self, name: str) -> list[MemoryRecord]:
        cleaned = resolve.cleaned(name)
        view = self._current_view(False, BEST_EFFORT)
        records = resolve.match_name(name, view.find_by_name(cleaned))
        is_full_id = [record.mem_id for record in records] == [cleaned]
        if view.missing and not (is_full_id and self._patience.allow_partial):
            records = resolve.match_name(
                name, self._current_view(False, COMPLETE).find_by_name(cleaned)
            )
        return records

    def _read_named(self, name: str, last: bool) -> Memory:
        records = self._records_named(name)
        if not records:
            if not self._has_rescanned and not last and resolve.is_made_id(resolve.cleaned(name)):
                self._has_rescanned = True  # a scan may miss a file that is moved at the same time
                raise StaleView
            raise NotFound(f"There is no memory {name!r}", "memvault list shows all of them")
        if len(records) > 1:
            shared = len({record.mem_id for record in records}) == 1
            raise Ambiguous(
                f"{name!r} names {len(records)} memories" + " of the same memId" * shared,
                "use one of their paths" if shared else "use one of their memIds or paths",
                {"candidates": [memory_reference(record) for record in records[:20]]},
            )
        try:
            memory = self._store.read(records[0].path)
        except NotFound as error:
            if last:
                raise
            raise StaleView from error
        if memory.etag != records[0].etag and not last:  # another memory may have this path now
            raise StaleView
        return memory

    def _single(self, request: RecallRequest, last: bool) -> RecallAnswer:
        """Answer by a single signal, in the order in which it was retrieved."""
        view = self._view_for(request)
        query = parse(request.query, query_analyser(view.languages()))
        retrieved = retrieve(view, query, request, None)
        compared = Compared(view, query, retrieved, None)
        scored = sorted(retrieved.order, key=lambda entry: -entry.score)
        return self._present(request, compared, scored, {}, Reader(view, query, last))

    def _hybrid(self, request: RecallRequest, last: bool) -> RecallAnswer:
        """Answer by keywords and vectors, ranked with the features of the best candidates."""
        now = request.as_of or clock.now()
        weights = self._store.settings.ranking
        if not request.diverse:
            weights = weights.replace(diversity=False)
        text = plain(request.query)
        view = self._view_for(request)
        analysers = query_analyser(view.languages())
        days = date_constraint(text, analysers.analyser_for(text), weights, now)
        query = parse(text, analysers)
        retrieved = retrieve(view, query, request, days.span if days and days.dominates else None)
        compared = Compared(view, query, retrieved, days)
        reader = Reader(view, query, last)
        top = retrieved  # the best results do not depend on the limit
        if request.limit > CANDIDATES:
            top = retrieved.candidates(bool(query.phrases))
        pool = top.pool()
        if query.phrases:
            pool = list(reader.first((key for key, _ in top.fused), len(pool)))
        candidates = compared.candidates([*pool, *retrieved.dated])
        ranked = ranking.rank(candidates, compared.fit, weights, now, days)
        newer: Mapping[int, int] = {}
        if request.diverse and not days:
            first = {
                entry.candidate.key: retrieved.passages.get(entry.candidate.key, 0)
                for entry in ranked[:_CHECKED_FOR_NEWER]
            }
            ranked, newer = ranking.prefer_newer(ranked, view.similarity_matrix(first))
        scored = ranking.append_unscored(ranked, retrieved.fused, frozenset(pool))
        if days and days.dominates:
            records = {entry.key: entry.record for entry in candidates}
            scored = note_first(scored, records, days.span)
        return self._present(request, compared, scored, newer, reader)

    def _present(
        self,
        request: RecallRequest,
        compared: Compared,
        scored: list[ScoredMemory],
        newer: Mapping[int, int],
        reader: Reader,
    ) -> RecallAnswer:
        """Read as many of the best memories as requested, and cut a snippet from each."""
        if request.rerank:
            scored = self._rerank(request, compared, scored, reader)
        compared.order(scored, newer)
        results: list[RecallResult] = []
        checker = ValidityChecker(compared.view, request.as_of or clock.now())
        order = (
            checker.reorder(
                scored,
                request.filters.predicate(),
                request.only_current,
                lambda key: compared.chance(key) >= FAIR,
            )
            if request.diverse
            else checker.annotate(scored)
        )
        for validated in order:
            if len(results) >= request.limit:
                break
            probability = compared.chance(validated.scored.key)
            if validated.stands_for is not None:
                # A query in the words of a superseded memory matches its replacement as well.
                probability = max(probability, compared.chance(validated.stands_for))
            if probability < request.threshold or (request.strict and probability < FAIR):
                continue
            memory = reader.read(validated.scored.key)
            if memory is None:
                continue
            result = self._result(
                memory,
                validated.scored,
                compared,
                probability,
                reader.analyser(validated.scored.key),
            )
            if request.lines:
                from memvault.recall.lines import best_sentence

                best = best_sentence(
                    result.snippet, compared.query, reader.analyser(validated.scored.key)
                )
                result = result._replace(line=best)
            earlier = compared.view.is_earlier(validated.scored.key)
            standing = validated.standing._replace(newer=compared.newer(validated.scored.key))
            part = compared.view.part(validated.scored.key)
            results.append(
                result._replace(
                    standing=standing, is_earlier=earlier, vault=part.name, sent=part.sent
                )
            )
        notes = [*self._index.notes(), *self.notes(), *compared.retrieved.notes]
        return RecallAnswer(results, notes)

    def _rerank(
        self, request: RecallRequest, compared: Compared, scored: list[ScoredMemory], reader: Reader
    ) -> list[ScoredMemory]:
        """Rescore the best memories with a cross-encoder, by title and shown passage."""
        best = reader.first((entry.key for entry in scored), judged_count(request.limit))
        texts = []
        for key, memory in best.items():
            nearest = compared.retrieved.passages.get(key)
            passage = snippets.best_passage(
                memory.body, compared.passages(key), compared.query, reader.analyser(key), nearest
            )
            texts.append(f"{memory.title}\n{passage.text}")
        scores = self._index.rerank_scores(compared.query.text, texts)
        return rerank(scored, dict(zip(best, scores, strict=True)))

    def _result(
        self,
        memory: Memory,
        entry: ScoredMemory,
        compared: Compared,
        probability: float,
        analyser: Analyser,
    ) -> RecallResult:
        query, retrieved = compared.query, compared.retrieved
        nearest = retrieved.passages.get(entry.key)
        snippet = snippets.make_snippet(
            memory.body, compared.passages(entry.key), query, analyser, nearest
        )
        features = compared.closeness(entry.key)
        coverage = features.coverage if features is not None else 0.0
        return RecallResult(
            memory,
            entry.score,
            probability,
            retrieved.similarity(entry.key),
            coverage,
            snippets.coverage(memory.title, query, analyser),
            snippet.text,
            snippet.heading,
            {
                "parts": {name: round(part, 4) for name, part in entry.parts.items()},
                **retrieved.evidence(entry.key),
                "coverage": round(coverage, 4),
                "chance": round(probability, 4),
            },
        )
