"""Search one view: retrieve, compare, rank, rerank, check validity and read the results."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from memvault import clock
from memvault.index.protocol import NO_WAIT, StaleView, View
from memvault.index.text.analyzer import analyzer, query_analyzer
from memvault.index.text.passages import split_passages
from memvault.model import MAX_RESULTS, Memory, Passage, is_example
from memvault.recall import features, ranking, snippets, validity
from memvault.recall.answer import (
    CURRENT,
    RELEVANT,
    RecallRequest,
    RecallResult,
    ScoredMemory,
    Validity,
)
from memvault.recall.dates import date_constraint, note_first
from memvault.recall.features import FeatureRow
from memvault.recall.query import parse, plain
from memvault.recall.retrieve import CANDIDATES, retrieve
from memvault.recall.snippets import Snippet
from memvault.recall.validity import ValidatedMemory
from memvault.recall.weights import RankingWeights, constants, select_weights
from memvault.settings.vault_settings import RankingSettings

_CHECKED_FOR_NEWER = 10
"""The number of best results checked for a newer memory about the same subject."""
_CERTAIN = 0.995
"""The minimum probability that is reported as 1, so that results can reach a threshold of 1."""
_ALWAYS_SHOWN = 5
"""The number of best results shown even if they are dissimilar and unlikely to answer the query."""
_MIN_REPEATED = 80
"""The minimum length of a snippet that is checked for repetition in other memories."""
_NEXT = 100
"""The maximum number of additional hits to compare if too few of the first ones can be shown."""
_GROWTH = 4
"""The number of additional hits to compare for each hit compared so far."""
_ENOUGH = 20
"""The minimum number of hits that a search that must not wait compares before it can end early."""


class Search:
    """A search of one view; feature rows are computed once and files are read once.

    ``notes`` contains notes for the caller. After ``results``, ``stale`` contains memories omitted
    because their files have changed since the refresh. With ``accept_changed`` a changed file is
    shown in its current state, and only deleted files are omitted. With ``ignore_phrases`` quoted
    phrases count as plain words.
    """

    def __init__(
        self,
        view: View,
        request: RecallRequest,
        settings: RankingSettings,
        accept_changed: bool = False,
        ignore_phrases: bool = False,
    ) -> None:
        self._view = view
        self._request = request = request._replace(
            filters=request.filters.on(view), limit=min(request.limit, MAX_RESULTS)
        )
        self._settings = settings if request.diverse else settings.replace(diversity=False)
        self._now = request.as_of or clock.now()
        text = plain(request.query)
        analyzers = query_analyzer(view.languages())
        self._days = None
        if request.mode == "hybrid":
            language = analyzers.analyzer_for(text)
            self._days = date_constraint(text, language, self._settings, self._now)
        self._query = parse(text, analyzers)
        if ignore_phrases:
            self._query = self._query._replace(phrases=())
        self._span = self._days.span if self._days and self._days.is_main_subject else None
        self._candidates = retrieve(view, self._query, request, self._span)
        self._rows: dict[int, FeatureRow] = {}
        self._missing: set[int] = set()
        self._validities: dict[int, Validity] = {}
        self._files: dict[int, Memory | None] = {}
        self._snippets: dict[int, Snippet] = {}
        self.notes = self._candidates.notes
        self._accept_changed = accept_changed
        self.stale: set[int] = set()

    def results(
        self, rerank_scores: Callable[[str, Sequence[str]], list[float]]
    ) -> list[RecallResult]:
        """Return up to the requested number of results, best first.

        ``rerank_scores`` returns the relevance of passages to a query, in 0..1.
        """
        scored: Sequence[ScoredMemory] = self._candidates.order
        newer: Mapping[int, int] = {}
        if self._request.mode == "hybrid":
            scored, newer = self._rank()
        if self._request.rerank:
            scored = self._rerank(scored, rerank_scores)
        request = self._request
        count, previous = request.limit, 0
        is_brief = request.strict and request.mode == "vector" and request.patience == NO_WAIT
        while True:
            results = self._page(scored, count, newer)
            if len(results) >= request.limit or count >= len(scored):
                return results
            if is_brief and count >= _ENOUGH:
                probability = self._probability(scored)
                last = (entry.uid for entry in scored[previous:count])
                if all(probability(uid) < RELEVANT for uid in last if uid in self._rows):
                    return results  # the next hits are less similar, so few are relevant
            previous = count
            count += min(_NEXT, _GROWTH * count)

    @property
    def is_vague(self) -> bool:
        """Return whether the query contains only stop words or punctuation, and no days."""
        return self._query.is_vague and self._days is None

    @property
    def lacks_phrases(self) -> bool:
        """Return whether no memory contains the query's quoted phrases, after ``results``."""
        return bool(self._query.phrases) and not any(self._files.values())

    def _rank(self) -> tuple[list[ScoredMemory], Mapping[int, int]]:
        """Rank the candidates by their features, followed by the hits that were not compared.

        Also returns a mapping from older memories to newer ones about the same subject.
        """
        candidates = self._candidates
        first = candidates  # the best results do not depend on the limit
        if self._request.limit > CANDIDATES:
            first = candidates.first(CANDIDATES, None if self._query.phrases else CANDIDATES)
        pool = first.pool()
        if self._query.phrases:
            pool = [uid for uid, _ in self._read_first((uid for uid, _ in first.fused), len(pool))]
        self._add_rows([*pool, *candidates.dated])
        rows = list(self._rows.values())
        weights = self._weights(candidates.is_multilingual)
        ranked = ranking.rank(rows, weights, self._settings, self._now, self._days)
        newer: Mapping[int, int] = {}
        if self._request.diverse and not self._days:
            best = [entry.row.uid for entry in ranked[:_CHECKED_FOR_NEWER]]
            passages = {uid: candidates.passage(uid) or 0 for uid in best}
            ranked, newer = ranking.prefer_newer(ranked, self._view.similarity_matrix(passages))
        scored = ranking.append_unscored(ranked, candidates.fused, frozenset(pool))
        if self._span is not None:
            scored = note_first(scored, {row.uid: row.record for row in rows}, self._span)
        return scored, newer

    def _rerank(
        self,
        scored: Sequence[ScoredMemory],
        rerank_scores: Callable[[str, Sequence[str]], list[float]],
    ) -> list[ScoredMemory]:
        """Rescore the best memories with a cross-encoder, by title and shown passage."""
        count = ranking.rerank_count(self._request.limit)
        best = dict(self._read_first((entry.uid for entry in scored), count))
        self._add_rows(best)
        texts = []
        for uid, memory in best.items():
            passages, nearest = self._passages(uid, memory)
            language = self._rows[uid].record.language
            passage = snippets.best_passage(
                memory.body,
                passages,
                self._query,
                analyzer(language),
                nearest,
                self._candidates.idf,
            )
            texts.append(f"{memory.title}\n{passage.text}")
        scores = rerank_scores(self._query.text, texts)
        return ranking.rerank(scored, dict(zip(best, scores, strict=True)))

    def _page(
        self, scored: Sequence[ScoredMemory], count: int, newer: Mapping[int, int]
    ) -> list[RecallResult]:
        """Return the results among the first ``count`` hits and the hits already compared."""
        request = self._request
        self._add_rows(entry.uid for entry in scored[:count])
        self._check_validity()
        newer = {
            old: valid
            for old, new in newer.items()
            if (valid := self._valid(new)) is not None and valid != old
        }
        scored_with_rows = [entry for entry in scored if entry.uid in self._rows]
        compared = self._rows.keys() | self._missing
        next_score = next((entry.score for entry in scored if entry.uid not in compared), 0.0)
        probability = self._probability(scored)
        order = [ValidatedMemory(entry, self._validities[entry.uid]) for entry in scored_with_rows]
        if request.diverse:
            order = validity.reorder(
                scored_with_rows,
                self._validities,
                request.filters.predicate(),
                request.only_current,
                lambda uid: probability(uid) >= RELEVANT,
            )
        results = self._iter_results(order, probability, newer, next_score)
        records = (row.record for row in self._rows.values())
        unmerged = {record.mem_id for record in records if record.branch}
        if unmerged:
            results = _best_versions(results, unmerged)
        if self._settings.diversity:
            replaced_by = (entry.replaced_by for entry in self._validities.values())
            replacements = {record.uid for record in replaced_by if record is not None}
            results = _demote_repeats(results, replacements.union(newer.values()), next_score)
        return [result for _, result in islice(results, request.limit)]

    def _probability(self, scored: Sequence[ScoredMemory]) -> Callable[[int], float]:
        """Return a function that computes the match probability of a compared memory by uid."""
        scores = {entry.uid: entry.score for entry in scored}
        best = scored[0].score if scored else 0.0
        fits = self._weights(False), self._weights(True)
        static_fit = select_weights(self._candidates.has_vectors)

        def probability(uid: int) -> float:
            behind = best - scores.get(uid, 0.0)
            fit = fits[self._is_multilingual(uid)]
            if self._has_only_static_vectors(uid):
                fit = static_fit
            value = ranking.probability(self._rows[uid], fit, behind, self._query, self._days)
            # Round as displayed, so that a displayed value can be used as a threshold.
            return round(value, 4) if value < _CERTAIN else 1.0

        return probability

    def _iter_results(
        self,
        order: Sequence[ValidatedMemory],
        probability: Callable[[int], float],
        newer: Mapping[int, int],
        next_score: float,
    ) -> Iterator[tuple[int, RecallResult]]:
        """Yield relevant results with their uids, if the score is at least ``next_score``."""
        request = self._request
        for position, entry in enumerate(order):
            uid = entry.scored.uid
            if entry.scored.score < next_score:
                return
            probability_of_answer = probability(uid)
            if entry.replaces is not None:
                # A query in the words of a superseded memory matches its replacement as well.
                probability_of_answer = max(probability_of_answer, probability(entry.replaces))
            is_dissimilar = uid in self._candidates.dissimilar
            is_doubtful = (
                request.strict or request.specific or (is_dissimilar and position >= _ALWAYS_SHOWN)
            )
            if probability_of_answer < request.threshold or (
                is_doubtful and probability_of_answer < RELEVANT
            ):
                continue
            is_specific = None
            if request.specific or request.marks_specific:
                is_specific = self._is_specific(uid, probability_of_answer)
            if request.specific and not is_specific:
                continue
            memory = self._read(uid)
            if memory is not None:
                result = self._build_result(
                    memory, self._rows[uid], entry, probability_of_answer, newer
                )
                yield uid, result._replace(is_specific=is_specific)

    def _is_specific(self, uid: int, probability: float) -> bool:
        """Return whether a memory is relevant, and about something that the query names."""
        from memvault.recall import specificity

        if probability < RELEVANT:
            return False
        row = self._rows[uid]
        return specificity.stands_out(row, self._query, self._is_multilingual(uid), probability)

    def _is_multilingual(self, uid: int) -> bool:
        """Return whether the bundled multilingual model embedded a memory, or may have."""
        hit = self._candidates.vector.get(uid)
        return self._candidates.is_multilingual if hit is None else hit.is_multilingual

    def _has_only_static_vectors(self, uid: int) -> bool:
        """Return whether the transformer has not embedded a memory in English yet."""
        hit = self._candidates.vector.get(uid)
        if hit is None or not hit.is_estimated or hit.is_multilingual:
            return False
        return self._rows[uid].tokens is None

    def _weights(self, is_multilingual: bool) -> RankingWeights:
        """Return the weights for the available signals and the given bundled model."""
        return select_weights(
            self._candidates.has_vectors,
            self._candidates.transformer_weight,
            any(row.tokens is not None for row in self._rows.values()),
            is_multilingual,
            self._settings.vectors,
        )

    def _add_rows(self, uids: Iterable[int]) -> None:
        """Compute the missing rows of memories; note missing memories."""
        compared = self._rows.keys() | self._missing
        new = [uid for uid in dict.fromkeys(uids) if uid not in compared]
        if new:
            rows = features.compute(self._view, self._query, self._candidates, new)
            self._rows |= {row.uid: row for row in rows}
            self._missing |= set(new) - self._rows.keys()
            self.stale |= self._missing

    def _check_validity(self) -> None:
        """Check the memories compared so far, and compare and check their replacements."""
        while unchecked := [
            row.record for uid, row in self._rows.items() if uid not in self._validities
        ]:
            for record, new_validity in zip(
                unchecked, validity.check(self._view, unchecked, self._now), strict=True
            ):
                self._validities[record.uid] = new_validity
            if self._request.diverse:
                replacements = (entry.replaced_by for entry in self._validities.values())
                self._add_rows(record.uid for record in replacements if record is not None)

    def _valid(self, uid: int) -> int | None:
        """Return the uid of a memory or of its replacement, or None if neither is valid."""
        replacement = self._validities[uid].replaced_by
        uid = uid if replacement is None else replacement.uid
        return uid if self._validities.get(uid, CURRENT).is_current else None

    def _read_first(self, uids: Iterable[int], count: int) -> Iterator[tuple[int, Memory]]:
        """Yield the first ``count`` memories that can be read and match, in the given order."""
        read = ((uid, self._read(uid)) for uid in uids)
        return islice(((uid, memory) for uid, memory in read if memory is not None), count)

    def _read(self, uid: int) -> Memory | None:
        """Return a memory, or None if it cannot be read or lacks a quoted phrase of the query."""
        if uid not in self._files:
            memory = None
            try:
                memory = self._view.text(uid, self._accept_changed)
            except StaleView as error:
                if error.reason is not None:
                    raise
                self.stale.add(uid)
            if memory is not None and (
                is_example(memory.metadata)
                or not self._query.has_phrases(f"{memory.title}\n{memory.body}")
            ):
                memory = None
            self._files[uid] = memory
        return self._files[uid]

    def _snippet(self, uid: int, memory: Memory) -> Snippet:
        """Return the cached snippet of a memory."""
        if uid not in self._snippets:
            passages, nearest = self._passages(uid, memory)
            self._snippets[uid] = snippets.make_snippet(
                memory.body,
                passages,
                self._query,
                analyzer(self._rows[uid].record.language),
                nearest,
                self._candidates.idf,
            )
        return self._snippets[uid]

    def _passages(self, uid: int, memory: Memory) -> tuple[list[tuple[int, Passage]], int | None]:
        """Return the passages around a memory's best matches, and the number of the nearest."""
        if memory.etag == self._rows[uid].record.etag:
            location = self._candidates.location(uid)
            return self._view.passages(uid, location), self._candidates.passage(uid)
        # The index contains an older version of the text.
        return list(enumerate(split_passages(memory.body))), None

    def _build_result(
        self,
        memory: Memory,
        row: FeatureRow,
        entry: ValidatedMemory,
        probability_of_answer: float,
        newer: Mapping[int, int],
    ) -> RecallResult:
        """Cut a snippet from a memory and collect the values that explain its score."""
        uid = row.uid
        query, candidates, record = self._query, self._candidates, row.record
        memory_analyzer = analyzer(record.language)
        snippet = self._snippet(uid, memory)
        line = ""
        if self._request.lines:
            from memvault.recall.one_line import best_sentence

            line = best_sentence(snippet.text, query, memory_analyzer)
        newest = self._rows.get(newer.get(uid, 0))
        coverage = row.sentences.coverage
        return RecallResult(
            memory,
            entry.scored.score,
            probability_of_answer,
            candidates.similarity(uid),
            coverage,
            snippets.coverage(memory.title, query, memory_analyzer),
            snippet.text,
            {
                "parts": {name: round(value, 4) for name, value in entry.scored.parts.items()},
                **candidates.raw_scores(uid),
                "coverage": round(coverage, 4),
                "proximity": round(row.sentences.proximity, 4),
                "dates": {"created": record.created_from, "modified": record.modified_from},
            },
            entry.validity._replace(newer=newest.record.mem_id if newest is not None else ""),
            record.is_past,
            line,
            memory.line_at(snippet.place),
            record.vault,
            record.published_at,
            record.branch,
        )


def _best_versions(
    results: Iterable[tuple[int, RecallResult]], unmerged: Set[str]
) -> Iterator[tuple[int, RecallResult]]:
    """Omit all but the best version of each memory that is unmerged in another git worktree."""
    shown: set[str] = set()
    for uid, result in results:
        mem_id = result.memory.mem_id
        if mem_id not in shown:
            yield uid, result
        if mem_id in unmerged:
            shown.add(mem_id)


def _demote_repeats(
    results: Iterable[tuple[int, RecallResult]], kept_uids: Set[int], next_score: float
) -> Iterator[tuple[int, RecallResult]]:
    """Move down results that repeat a better result's snippet, except those in ``kept_uids``.

    Results that would fall below ``next_score`` are omitted, because memories that have not been
    compared yet may rank above them.
    """
    snippets_shown: set[str] = set()
    waiting: list[tuple[int, RecallResult]] = []
    for uid, result in results:
        while waiting and waiting[0][1].score > result.score:
            yield waiting.pop(0)
        is_repeated = result.snippet in snippets_shown and "repeats" not in result.parts
        if is_repeated and uid not in kept_uids:
            demoted = result.demoted("repeats", constants().duplicate_factor)
            insort(waiting, (uid, demoted), key=lambda entry: -entry[1].score)
            continue
        if len(result.snippet) >= _MIN_REPEATED:
            snippets_shown.add(result.snippet)
        yield uid, result
    yield from (entry for entry in waiting if entry[1].score >= next_score)
