"""Combine the indexes of several vaults, so that one recall ranks their memories together.

A memory's federated uid is its uid within its vault, times the number of vaults, plus the position
of the vault. Names are unique only within a vault. Word rarity is computed over all vaults, which
makes scores comparable. Vaults whose transformer vectors come from different bundled models are
compared by calibrated cosines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property, partial
from itertools import chain
from typing import Any, cast

from memvault.errors import MemvaultError
from memvault.index.protocol import (
    KeywordAnswer,
    KeywordHit,
    KeywordQuery,
    LinkEntry,
    MatchLocation,
    MemoryName,
    MemoryRecord,
    SearchIndex,
    SentenceFeatures,
    SentenceQuery,
    Value,
    VectorAnswer,
    VectorQuery,
    View,
    WaitPolicy,
    page_of,
    without_documents,
)
from memvault.index.text.analyzer import DEFAULT_LANGUAGE
from memvault.model import Memory, Passage
from memvault.named_tuple import NamedTuple
from memvault.vault.date_ranges import DateRange

_ANY_LANGUAGE = "none"


class VaultView(NamedTuple):
    """A searched vault: its name, its index, and a view that uses the vault's own uids."""

    name: str
    source: SearchIndex[Any]
    view: View


class FederatedView:
    """A view of several vaults.

    ``errors`` maps the names of unreadable vaults to their errors.
    """

    published_at = ""
    state = None

    def __init__(self, vaults: Sequence[VaultView], errors: Mapping[str, MemvaultError]) -> None:
        self.vaults = vaults
        self.errors = errors

    def _uid(self, vault_number: int, uid: int) -> int:
        """Return the federated uid of a memory in the vault with the given number."""
        return uid * len(self.vaults) + vault_number

    def _own_uids(self, vault_number: int, uids: Iterable[int]) -> dict[int, int]:
        """Map the uids of memories in one vault to their federated uids."""
        count = len(self.vaults)
        return {uid // count: uid for uid in uids if uid % count == vault_number}

    def _allowed(self, vault_number: int, uids: Set[int] | None) -> Set[int] | None:
        """Return the uids that belong to one vault, as uids of that vault; None means all."""
        return None if uids is None else set(self._own_uids(vault_number, uids))

    @property
    def missing(self) -> int:
        """See ``View.missing``."""
        return sum(vault.view.missing for vault in self.vaults)

    @property
    def notes(self) -> list[str]:
        """Return notes about unreadable vaults, and the notes of each view."""
        failed = [
            f"the vault {name} was not searched: {error.message}"
            for name, error in self.errors.items()
        ]
        return failed + [
            f"{vault.name}: {note}" for vault in self.vaults for note in vault.view.notes
        ]

    def keyword(self, query: KeywordQuery) -> KeywordAnswer:
        """See ``View.keyword``; memories are scored as if they were in one vault."""
        answers = []
        for number, vault in enumerate(self.vaults):
            allowed = self._allowed(number, query.allowed_uids)
            answers.append(vault.view.keyword(query._replace(allowed_uids=allowed, explain=True)))
        rarity = _rarity_of_all(answers)
        hits = [
            _rescale(hit, answer.idf, rarity, query.explain)._replace(
                uid=self._uid(number, hit.uid)
            )
            for number, answer in enumerate(answers)
            for hit in answer.hits
        ]
        hits.sort(key=lambda hit: -hit.score)
        return KeywordAnswer(
            hits[: query.limit], rarity, sum(answer.document_count for answer in answers)
        )

    def languages(self) -> tuple[str, ...]:
        """Return the languages in which a query is analyzed.

        They are ordered by their best rank in any vault.
        """
        ranks: dict[str, int] = {}
        for vault in self.vaults:
            for rank, name in enumerate(vault.view.languages()):
                ranks[name] = min(rank, ranks.get(name, rank))
        return tuple(sorted(ranks, key=lambda name: (ranks[name], name != DEFAULT_LANGUAGE, name)))

    def nearest(self, query: VectorQuery) -> VectorAnswer:
        """See ``View.nearest``.

        Transformer vectors are used only if every vault has them. If some vaults use the
        multilingual model, vaults with the English model still embed the query with their own
        model. A query in another language then has low cosines to their memories, as it should.
        """
        answers = [self._nearest_in(number, query) for number in range(len(self.vaults))]
        if any(answer.is_multilingual for answer in answers):
            query = query._replace(language=_ANY_LANGUAGE)
            answers = [
                self._nearest_in(number, query)
                if answer.has_vectors and not answer.transformer_weight
                else answer
                for number, answer in enumerate(answers)
            ]
        share = min(
            (answer.transformer_weight for answer in answers if answer.has_vectors), default=0.0
        )
        hits = [
            hit._replace(uid=self._uid(number, hit.uid))
            for number, answer in enumerate(answers)
            for hit in answer.hits
        ]
        if not share:  # at least one vault does not use transformer vectors
            hits = [
                hit._replace(
                    transformer_cosine=None,
                    similarity=hit.static_similarity,
                    is_multilingual=False,
                )
                for hit in hits
            ]
        hits.sort(key=lambda hit: (-hit.similarity, -hit.static_cosine))
        selected = [
            hit
            for number, hit in enumerate(hits)
            if number < query.limit or hit.uid in query.include_uids
        ]
        static = _combined(
            [(answer.memories, answer.static_mean, answer.static_spread) for answer in answers]
        )
        transformer = (0.0, 0.0)
        if share:
            transformer = _combined(
                [
                    (answer.memories, answer.transformer_mean, answer.transformer_spread)
                    for answer in answers
                ]
            )
        return VectorAnswer(
            selected,
            waiting=sum(answer.waiting for answer in answers),
            has_vectors=any(answer.has_vectors for answer in answers),
            transformer_weight=share,
            memories=sum(answer.memories for answer in answers),
            static_mean=static[0],
            static_spread=static[1],
            transformer_mean=transformer[0],
            transformer_spread=transformer[1],
            is_multilingual=share > 0 and any(answer.is_multilingual for answer in answers),
            notes=tuple(
                f"{vault.name}: {note}"
                for vault, answer in zip(self.vaults, answers, strict=True)
                for note in answer.notes
            ),
        )

    def _nearest_in(self, vault_number: int, query: VectorQuery) -> VectorAnswer:
        """Return the nearest memories of one vault, with that vault's uids."""
        vault_query = query._replace(
            allowed_uids=self._allowed(vault_number, query.allowed_uids),
            include_uids=frozenset(self._own_uids(vault_number, query.include_uids)),
        )
        return self.vaults[vault_number].view.nearest(vault_query)

    def token_matches(self, text: str, passages: Mapping[int, Sequence[int]]) -> dict[int, float]:
        """See ``View.token_matches``; empty if any vault has no token vectors."""
        matches: dict[int, float] = {}
        for number, vault in enumerate(self.vaults):
            uids = self._own_uids(number, passages)
            vault_passages = {own_uid: passages[uid] for own_uid, uid in uids.items()}
            vault_matches = vault.view.token_matches(text, vault_passages) if vault_passages else {}
            if vault_passages and not vault_matches:
                return {}
            matches |= {uids[own_uid]: match for own_uid, match in vault_matches.items()}
        return matches

    def sentence_features(
        self, asked: SentenceQuery, locations: Mapping[int, MatchLocation]
    ) -> dict[int, SentenceFeatures]:
        """See ``View.sentence_features``."""
        features: dict[int, SentenceFeatures] = {}
        for number, vault in enumerate(self.vaults):
            uids = self._own_uids(number, locations)
            vault_locations = {own_uid: locations[uid] for own_uid, uid in uids.items()}
            vault_features = vault.view.sentence_features(asked, vault_locations)
            features |= {uids[own_uid]: values for own_uid, values in vault_features.items()}
        return features

    def similarity_matrix(self, passages: Mapping[int, int]) -> list[list[float]]:
        """Return the similarity matrix; memories of different vaults have similarity 0."""
        rows = {uid: row for row, uid in enumerate(passages)}
        table = [[0.0] * len(rows) for _ in rows]
        for number, vault in enumerate(self.vaults):
            uids = self._own_uids(number, passages)
            vault_passages = {own_uid: passages[uid] for own_uid, uid in uids.items()}
            values = vault.view.similarity_matrix(vault_passages) if vault_passages else []
            if len(values) < len(vault_passages):
                return []
            for uid, row_values in zip(uids.values(), values, strict=True):
                for other, value in zip(uids.values(), row_values, strict=True):
                    table[rows[uid]][rows[other]] = value
        return table

    def passages(self, uid: int, location: MatchLocation) -> list[tuple[int, Passage]]:
        """See ``View.passages``."""
        own_uid, number = divmod(uid, len(self.vaults))
        return self.vaults[number].view.passages(own_uid, location)

    def record(self, uid: int) -> MemoryRecord | None:
        """See ``View.record``."""
        own_uid, number = divmod(uid, len(self.vaults))
        record = self.vaults[number].view.record(own_uid)
        return record and record._replace(uid=uid, vault=self.vaults[number].name)

    def records_of(self, uids: Collection[int]) -> dict[int, MemoryRecord]:
        """See ``View.records_of``."""
        records = {}
        for number, vault in enumerate(self.vaults):
            own_uids = self._own_uids(number, uids)
            for own_uid, record in vault.view.records_of(own_uids).items():
                uid = own_uids[own_uid]
                records[uid] = record._replace(uid=uid, vault=vault.name)
        return records

    def records(self) -> Iterator[MemoryRecord]:
        """See ``View.records``."""
        return self._records("", lambda view: view.records())

    def visit_records(self, visit: Callable[[Iterable[MemoryRecord]], Value]) -> Value:
        """See ``View.visit_records``."""
        return visit(self.records())

    def visit_names(self, visit: Callable[[Iterable[MemoryName]], Value]) -> Value:
        """See ``View.visit_names``."""
        return visit(record.name for record in self.records())

    def dated(self, days: DateRange) -> Iterator[MemoryRecord]:
        """See ``View.dated``."""
        return self._records("", lambda view: view.dated(days))

    def latest(self, limit: int, offset: int) -> tuple[list[MemoryRecord], int]:
        """See ``View.latest``."""
        return page_of(without_documents(self.records()), limit, offset)

    def links(self, names: Set[str] | None = None) -> dict[int, LinkEntry]:
        """See ``View.links``."""
        return {
            self._uid(number, own_uid): entry
            for number, vault in enumerate(self.vaults)
            for own_uid, entry in vault.view.links(names).items()
        }

    def find_by_name(self, name: str, vault: str = "") -> list[MemoryRecord]:
        """See ``View.find_by_name``."""
        return list(self._records(vault, lambda view: view.find_by_name(name)))

    def superseding(self, names: Sequence[str] | None, vault: str = "") -> list[MemoryRecord]:
        """See ``View.superseding``."""
        return list(self._records(vault, lambda view: view.superseding(names)))

    def _records(
        self, vault: str, ask: Callable[[View], Iterable[MemoryRecord]]
    ) -> Iterator[MemoryRecord]:
        """Yield the records that ``ask`` returns for one vault, or all if ``vault`` is empty."""
        for number, (name, _, view) in enumerate(self.vaults):
            if vault in ("", name):
                for record in ask(view):
                    yield record._replace(uid=self._uid(number, record.uid), vault=name)

    def text(self, uid: int, accept_changed: bool = False) -> Memory | None:
        """See ``View.text``."""
        own_uid, number = divmod(uid, len(self.vaults))
        return self.vaults[number].view.text(own_uid, accept_changed)


class ExtendedIndex:
    """An index whose views a function extends, for example with memories from other worktrees."""

    def __init__(self, index: SearchIndex[Any], extend: Callable[[View], View]) -> None:
        self._index = index
        self._extend = extend
        self._view: View | None = None
        """The last view before ``_extend`` was applied."""

    def refresh(self, vectors: bool, wait_policy: WaitPolicy) -> View:
        """See ``SearchIndex.refresh``."""
        self._view = self._index.refresh(vectors, wait_policy)
        return self._extend(self._view)

    def with_vectors(self, view: View, wait_policy: WaitPolicy) -> View:
        """See ``SearchIndex.with_vectors``."""
        self._view = self._index.with_vectors(self._view or view, wait_policy)
        return self._extend(self._view)

    def at(self, view: View, moment: datetime) -> View:
        """See ``SearchIndex.at``; memories of other worktrees are left out."""
        return cast("View", self._index.at(self._view or view, moment))


class FederatedIndex:
    """The combined index of several vaults; an unavailable vault is reported as a note.

    ``vaults`` maps the name of each vault to a function that opens its index.
    """

    def __init__(self, vaults: Mapping[str, Callable[[], SearchIndex[Any]]]) -> None:
        self._vaults = vaults

    def refresh(self, vectors: bool, wait_policy: WaitPolicy) -> FederatedView:
        """Refresh the index of each vault.

        Raises:
            MemvaultError: if no vault can be read; the error is the first vault's.
        """
        indexes, errors = self._opened
        return _combine(
            (
                (name, index, partial(index.refresh, vectors, wait_policy))
                for name, index in indexes
            ),
            errors,
        )

    def with_vectors(self, view: FederatedView, wait_policy: WaitPolicy) -> FederatedView:
        """See ``SearchIndex.with_vectors``."""
        return _combine(
            (
                (name, index, partial(index.with_vectors, vault_view, wait_policy))
                for name, index, vault_view in view.vaults
            ),
            view.errors,
        )

    def at(self, view: FederatedView, moment: datetime) -> FederatedView:
        """See ``SearchIndex.at``."""
        return _combine(
            (
                (name, index, partial(index.at, vault_view, moment))
                for name, index, vault_view in view.vaults
            ),
            view.errors,
        )

    @cached_property
    def _opened(self) -> tuple[list[tuple[str, SearchIndex[Any]]], dict[str, MemvaultError]]:
        """Return the indexes that can be opened, by name, and the errors for the rest."""
        indexes, errors = [], {}
        for name, open_index in self._vaults.items():
            try:
                indexes.append((name, open_index()))
            except MemvaultError as error:
                errors[name] = error
        return indexes, errors


def _combine(
    steps: Iterable[tuple[str, SearchIndex[Any], Callable[[], View]]],
    earlier_errors: Mapping[str, MemvaultError],
) -> FederatedView:
    """Return a view of the readable vaults.

    Raises:
        MemvaultError: if no vault is readable; the error is the first vault's.
    """
    vaults, errors = [], dict(earlier_errors)
    for name, index, step in steps:
        try:
            vaults.append(VaultView(name, index, step()))
        except MemvaultError as error:
            errors[name] = error
    if not vaults and errors:
        raise next(iter(errors.values()))
    return FederatedView(vaults, errors)


def _combined(parts: Sequence[tuple[int, float, float]]) -> tuple[float, float]:
    """Return the pooled mean and standard deviation of several groups.

    Each group is given as count, mean and deviation.
    """
    total = sum(count for count, _, _ in parts) or 1
    mean = sum(count * group_mean for count, group_mean, _ in parts) / total
    squares = (
        sum(count * (spread**2 + group_mean**2) for count, group_mean, spread in parts) / total
    )
    return mean, math.sqrt(max(squares - mean**2, 0.0))


def _rarity_of_all(answers: Sequence[KeywordAnswer]) -> dict[str, float]:
    """Return each word's idf over all memories, computed from its idf in each vault."""
    total = sum(answer.document_count for answer in answers)
    words = dict.fromkeys(chain(*(answer.idf for answer in answers)))
    return {
        word: math.log(
            (total + 1.0) / (sum(_document_frequency(answer, word) for answer in answers) + 0.5)
        )
        for word in words
    }


def _document_frequency(answer: KeywordAnswer, word: str) -> float:
    """Return the number of documents with a word, by inverting idf = ln((total + 1) / (n + .5))."""
    if word not in answer.idf:
        return 0.0
    return max(0.0, (answer.document_count + 1.0) / math.exp(answer.idf[word]) - 0.5)


def _rescale(
    hit: KeywordHit, before: Mapping[str, float], now: Mapping[str, float], explain: bool
) -> KeywordHit:
    """Return a hit with its term scores rescaled from its vault's idf to the overall idf."""
    terms = {
        word: gain * now[word] / before[word] if before.get(word) else gain
        for word, gain in hit.terms.items()
    }
    return hit._replace(score=sum(terms.values()), terms=terms if explain else {})
