"""Rank candidates by weighted sums of features.

A score is a sum of named parts, so each score can be explained.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from datetime import datetime
from itertools import chain, combinations

from memvault import clock
from memvault.index.protocol import DISTINCTIVE_BIT, SKIP_BIT, MemoryRecord, SentenceFeatures
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import STRONG, ScoredMemory
from memvault.recall.dates import DateConstraint, date_proximity, effective_date, is_newer
from memvault.recall.features import FeatureRow, columns, evidence
from memvault.recall.filters import tags_with_parents
from memvault.recall.query import Query
from memvault.recall.weights import RankingWeights, constants
from memvault.settings.vault_settings import RankingSettings
from memvault.vault.names import normalize_title, tag_key

_SYMBOL_NAME = lazy_pattern(r"(?<!\w)\w{1,40}(?:\+\+|#)(?!\w)")
"""Matches a name that ends in symbols, such as C++ or F#."""


def answer_probability(features: dict[str, float], fit: RankingWeights, behind: float) -> float:
    """Return the probability in 0..1 that a memory answers a query.

    ``behind`` is the difference between the best score and the memory's score.
    """
    logit = fit.bias + sum(
        weight * features.get(name, 0.0) for name, weight in fit.evidence.items()
    )
    return 0.5 + 0.5 * math.tanh((logit - constants().deficit_weight * behind) / 2)


def probability(
    row: FeatureRow,
    fit: RankingWeights,
    behind: float,
    query: Query,
    days: DateConstraint | None,
) -> float:
    """Return the probability in 0..1 that a memory answers a query, including its requested days.

    ``behind`` is the difference between the best score and the memory's score. A query that
    consists of stop words or punctuation is answered only by a memory with that title. A memory
    whose title is the query is a strong match in any language.
    """
    is_vague = query.is_vague and days is None
    is_title = (is_vague or row.sentences.title_coverage >= 1.0) and normalize_title(
        row.record.title
    ) == normalize_title(query.text)
    if is_vague and not is_title:
        return 0.0
    value = answer_probability(evidence(row, len(query.words)), fit, behind)
    if is_title:
        return max(value, STRONG)
    if days is None:
        numbers = row.sentences.number_coverage
        return (
            value if numbers is None or numbers >= 1.0 else min(value, constants().max_other_number)
        )
    is_of_days = days.is_main_subject and date_proximity(row.record, days.span) == 1.0
    return max(value, constants().min_on_date) if is_of_days else value


_MIN_RERANKED, _MAX_RERANKED = 20, 50


def rerank_count(limit: int) -> int:
    """Return how many memories the cross-encoder scores: as many as requested, within bounds."""
    return min(max(limit, _MIN_RERANKED), _MAX_RERANKED)


def rerank(
    scored: Sequence[ScoredMemory], rerank_scores: Mapping[int, float]
) -> list[ScoredMemory]:
    """Reorder the memories that a cross-encoder scored; the others follow in their previous order.

    ``rerank_scores`` maps uids to the relevance to the query, in 0..1. The scores of other memories
    are capped at the lowest score of a reranked memory.
    """
    weight = constants().rerank_weight
    best = [
        entry.scaled(1 - weight).plus("rerank", weight * rerank_scores[entry.uid])
        for entry in scored
        if entry.uid in rerank_scores
    ]
    best.sort(key=lambda entry: -entry.score)
    last = best[-1].score if best else 1.0
    return best + [
        entry.scaled(min(1 - weight, last / entry.score) if entry.score else 0.0)
        for entry in scored
        if entry.uid not in rerank_scores
    ]


_EPSILON = 1e-6


class Ranked(NamedTuple):
    """A candidate with its score in 0..1 and the parts that add up to the score."""

    row: FeatureRow
    score: float
    parts: dict[str, float]

    @property
    def undemoted_score(self) -> float:
        """Return the score without the penalty for repeating a better candidate."""
        return self.score - self.parts.get("repeats", 0.0)


def rank(
    candidates: Sequence[FeatureRow],
    fit: RankingWeights,
    ranking: RankingSettings,
    now: datetime,
    days: DateConstraint | None,
) -> list[Ranked]:
    """Rank candidates, best first; ties are ordered by uid."""
    if not candidates:
        return []
    values = columns(candidates)
    weights = {name: weight for name, weight in fit.parts.items() if name in values}
    total = sum(weights.values()) or 1.0
    weights = {name: weight / total for name, weight in weights.items()}
    for name, weight, column in (
        ("recency", ranking.recency, [_recency(entry.record, now) for entry in candidates]),
        ("importance", ranking.importance, [_importance(entry.record) for entry in candidates]),
        (
            "date",
            ranking.date * days.weight if days else 0.0,
            [date_proximity(entry.record, days.span) if days else 0.0 for entry in candidates],
        ),
    ):
        if weight:
            weights[name], values[name] = weight, column
    max_numbers = max((entry.sentences.number_coverage or 0.0 for entry in candidates), default=0.0)
    total = sum(weights.values())
    ranked = []
    for row, entry in enumerate(candidates):
        parts = {name: weights[name] * values[name][row] / total for name in weights}
        if days is None and (missing := max_numbers - (entry.sentences.number_coverage or 0.0)) > 0:
            parts["number"] = -constants().missing_number_loss * missing * sum(parts.values())
        if (loss := length_loss(entry.record.size)) > 0:
            parts["length"] = -min(loss, sum(parts.values()))
        ranked.append(Ranked(entry, sum(parts.values()), parts))
    ranked.sort(key=_sort_key)
    return demote_duplicates(ranked) if ranking.diversity else ranked


def length_loss(size: int) -> float:
    """Return how much the score of a memory of this size is lowered for its length.

    A long memory has many passages, and its best one matches a query better by chance alone. The
    loss is proportional to the logarithm of the size between ``short_size`` and ``long_size``.
    """
    measured = constants()
    bounded = min(max(size, measured.short_size), measured.long_size)
    return measured.length_weight * math.log(bounded / measured.short_size)


def prefer_newer(
    ranked: Sequence[Ranked], similarities: Sequence[Sequence[float]]
) -> tuple[list[Ranked], dict[int, int]]:
    """Move newer memories above older ones about the same subject.

    ``similarities`` is the similarity matrix of the first candidates. Two memories are about the
    same subject if both are short, they share words, neither is more similar to another short
    memory that it shares words with, and their tags and vaults do not tell them apart. Returns the
    new ranking, and a mapping from the uid of each older memory to its newest replacement.
    """
    measured = constants()
    similarities = _similarities_with_shared_words(ranked, similarities)
    days = [effective_date(entry.row.record) for entry in ranked[: len(similarities)]]
    scores = [entry.score for entry in ranked]
    newest_by_uid: dict[int, int] = {}
    for old in sorted(range(len(similarities)), key=days.__getitem__):
        newer = [
            new
            for new, like in enumerate(similarities[old])
            if is_newer(days[new], days[old])
            and like > 0
            and ranked[new].score >= measured.newer_score * ranked[old].score
            and not _identifies_older(ranked[old], ranked[new])
            and _are_mutually_nearest(similarities, old, new)
            and _may_share_subject(ranked[old].row.record, ranked[new].row.record)
        ]
        for new in newer:
            scores[new] = max(scores[new], scores[old] + _EPSILON)
        if newer:
            newest = max(newer, key=lambda index: days[index])
            newest_by_uid[ranked[old].row.uid] = ranked[newest].row.uid
    raised = [
        entry._replace(score=score, parts={**entry.parts, "newer": score - entry.score})
        if score > entry.score
        else entry
        for entry, score in zip(ranked, scores, strict=True)
    ]
    return sorted(raised, key=_sort_key), newest_by_uid


def _similarities_with_shared_words(
    ranked: Sequence[Ranked], similarities: Sequence[Sequence[float]]
) -> list[list[float]]:
    """Return a matrix of similarities in which long or dissimilar memories have 0.

    Long memories are larger than ``newer_size``. Dissimilar ones are below ``newer_similarity``,
    or share less than ``shared_words`` of the words of the shorter one. Similarity alone is not
    enough: in a language that the embedder does not support, all memories are similar.
    """
    measured = constants()
    terms: dict[int, set[int]] = {}

    def share_words(first: int, second: int) -> bool:
        for index in {first, second} - terms.keys():
            term_ids = ranked[index].row.sentences.term_ids
            terms[index] = {term for term in term_ids if not term & SKIP_BIT}
        least = min(len(terms[first]), len(terms[second]))
        return len(terms[first] & terms[second]) >= measured.shared_words * least > 0

    filtered = [[0.0] * len(similarities) for _ in similarities]
    short = [
        index
        for index in range(len(similarities))
        if ranked[index].row.record.size <= measured.newer_size
    ]
    for first, second in combinations(short, 2):
        if similarities[first][second] >= measured.newer_similarity and share_words(first, second):
            filtered[first][second] = filtered[second][first] = similarities[first][second]
    return filtered


def _identifies_older(old: Ranked, new: Ranked) -> bool:
    """Return whether a query identifies the older of two memories and not the newer one.

    Words, numbers and identifiers in the query are compared.
    """
    numbers = old.row.sentences.number_coverage or 0.0
    if numbers > (new.row.sentences.number_coverage or 0.0):
        return True
    coverage = old.row.sentences.coverage
    return (
        coverage >= constants().identifying_coverage
        and new.row.sentences.coverage < constants().newer_coverage * coverage
    )


def _are_mutually_nearest(similarities: Sequence[Sequence[float]], first: int, second: int) -> bool:
    """Return whether two memories are each other's most similar ones, or nearly so."""
    similarity = similarities[first][second]
    return all(
        similarity
        >= constants().equal_similarity
        * max(value for column, value in enumerate(similarities[row]) if column != row)
        for row in (first, second)
    )


def _may_share_subject(first: MemoryRecord, second: MemoryRecord) -> bool:
    """Return whether two memories are in one vault, and share a tag if both have tags.

    A tag counts as shared with its parents, such as ``home/roof`` with ``home``. Titles with
    different names that share a word, such as C# and C++, are about different subjects.
    """
    if first.vault != second.vault or _symbol_names(first) != _symbol_names(second):
        return False
    if not first.tags or not second.tags:
        return True
    return any(
        not tags_with_parents(one.tags).isdisjoint(map(tag_key, other.tags))
        for one, other in ((first, second), (second, first))
    )


def _symbol_names(record: MemoryRecord) -> frozenset[str]:
    return frozenset(name.lower() for name in _SYMBOL_NAME.findall(record.title))


def append_unscored(
    ranked: Sequence[Ranked], fused: Sequence[tuple[int, float]], regular: Container[int]
) -> list[ScoredMemory]:
    """Add memories that were not compared, with their fused scores, and sort all, best first.

    Their scores are capped at the lowest score of the ``regular`` candidates, which were compared
    because their fused scores were higher.
    """
    undemoted = [entry.undemoted_score for entry in ranked if entry.row.uid in regular]
    max_score = min(undemoted, default=1.0)
    compared = {entry.row.uid for entry in ranked}
    scored = [ScoredMemory(entry.row.uid, entry.score, entry.parts) for entry in ranked]
    for uid, score in fused:
        if uid not in compared:
            scored.append(
                ScoredMemory(uid, min(score, max_score), {"fused": min(score, max_score)})
            )
    return sorted(scored, key=lambda entry: -entry.score)


def _sort_key(entry: Ranked) -> tuple[float, int]:
    return -entry.score, entry.row.uid


def _recency(memory: MemoryRecord, now: datetime) -> float:
    modified = clock.parse(memory.modified)
    if modified is None:
        return 0.0
    return float(
        0.5 ** (max(0.0, (now - modified).total_seconds()) / 86_400 / constants().half_life_days)
    )


def _importance(memory: MemoryRecord) -> float:
    """Return the importance in a memory's header, or 0.5 if there is none."""
    value = memory.metadata.get("importance")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return 0.5
    return float(value)


def demote_duplicates(ranked: list[Ranked]) -> list[Ranked]:
    """Move candidates that repeat a better one down.

    Among duplicates that have nearly equal scores and contain equally much of the query, the newest
    keeps its score.
    """
    groups: list[list[Ranked]] = []
    for indexes in group_duplicates([entry.row.sentences for entry in ranked]):
        by_names: defaultdict[frozenset[str], list[Ranked]] = defaultdict(list)
        for index in indexes:
            by_names[_symbol_names(ranked[index].row.record)].append(ranked[index])
        groups += by_names.values()
    demoted = []
    for group in groups:
        best = group[0]
        if len(group) == 1:
            demoted.append(best)
            continue
        near_equals = [
            entry
            for entry in group
            if entry.score >= constants().equal_score * best.score
            and _match_quality(entry) >= _match_quality(best)
        ]
        first = max(near_equals, key=_recency_key)
        demoted += [entry if entry is first else _demoted(entry) for entry in group]
    return sorted(demoted, key=_sort_key)


def _demoted(entry: Ranked) -> Ranked:
    loss = entry.score * (1.0 - constants().duplicate_factor)
    return entry._replace(score=entry.score - loss, parts={**entry.parts, "repeats": -loss})


def _recency_key(entry: Ranked) -> tuple[str, float, int]:
    return effective_date(entry.row.record), entry.score, -entry.row.uid


def _match_quality(entry: Ranked) -> float:
    """Return how much of the query's words and word order a memory contains."""
    sentences = entry.row.sentences
    return sentences.proximity + (sentences.adjacency or 0.0)


_TERM_BITS = 32


def group_duplicates(memories: Sequence[SentenceFeatures]) -> list[list[int]]:
    """Return the positions of duplicates in groups, ordered by first occurrence.

    Each memory is compared with the first of each group. Only memories that share one of their
    rarest terms are compared, because sets as similar as duplicates always share one (the prefix
    filter of Chaudhuri, Ganti and Kaushik 2006). A memory with too few terms that occur in other
    memories has no duplicate.
    """
    counts = Counter(chain.from_iterable(memory.term_ids for memory in memories))
    repeated = {term for term, count in counts.items() if count > 1}
    groups: list[list[int]] = []
    groups_by_term: defaultdict[int, list[int]] = defaultdict(list)
    for index, memory in enumerate(memories):
        least = math.ceil(constants().duplicate_overlap * len(memory.term_ids))
        shared = memory.term_ids & repeated
        if len(shared) < least:
            groups.append([index])
            continue
        rarest_first = sorted([counts[term] << _TERM_BITS | term for term in shared])
        prefix = rarest_first[: len(shared) - least + 1]
        near = sorted({number for term in prefix for number in groups_by_term.get(term, ())})
        matching_groups = (
            number for number in near if _are_duplicates(memory, memories[groups[number][0]])
        )
        group = next(matching_groups, None)
        if group is not None:
            groups[group].append(index)
            continue
        for term in prefix:
            groups_by_term[term].append(len(groups))
        groups.append([index])
    return groups


def _are_duplicates(first: SentenceFeatures, second: SentenceFeatures) -> bool:
    """Return whether memories share nearly all terms, and all numbers and negations in order.

    Order matters because versions and addresses are sequences of numbers: 1.4.2 is not 2.4.1.
    """
    terms, others = first.term_ids, second.term_ids
    shared = len(terms & others)
    if shared < constants().duplicate_overlap * (len(terms) + len(others) - shared):
        return False
    return _distinctive(first) == _distinctive(second)


def _distinctive(memory: SentenceFeatures) -> list[int]:
    """Return the numbers and negations of a memory in text order."""
    return [code for code in chain.from_iterable(memory.codes) if code & DISTINCTIVE_BIT]
