"""Check which memories are superseded, expired or not yet valid, now or at a moment.

A memory is *current* unless another one that is already valid supersedes it, its ``valid_to`` is
past, or its ``valid_from`` is in the future. Memories that are not current are kept: they are
marked, and ranked after what replaces them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from heapq import heappop, heappush, nlargest
from typing import Any, NamedTuple

from memvault import clock
from memvault.index.protocol import MemoryRecord, View
from memvault.model import Memory
from memvault.recall.answer import CURRENT, ScoredMemory, Validity
from memvault.recall.resolve import match_link
from memvault.vault.file_names import (
    SUPERSEDED_BY,
    SUPERSEDES,
    name_key,
    name_keys,
    referenced_names,
)

_OUTDATED_FACTOR = 0.5
"""The factor on the score of a memory that is not current."""
_VALIDITY_KEYS = frozenset(("valid_from", "valid_to", SUPERSEDED_BY))
"""Header keys that can by themselves make a memory not current."""
_MAX_NAME_LOOKUPS = 20
"""The maximum number of memories whose names are queried; for more, every superseding memory is
read."""
_MAX_CHAIN = 50
_MAX_CLAIMS = 50
"""How many memories that claim to supersede the same one are checked, newest first."""
_YEAR_OR_MONTH = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)


class ValidatedMemory(NamedTuple):
    """A result with its validity; ``stands_for`` is the key of the memory that it replaces."""

    scored: ScoredMemory
    standing: Validity
    stands_for: int | None = None


class ValidityChecker:
    """Check whether memories are current, replaced, expired or not yet valid at a given time.

    All lookups use one view.
    """

    def __init__(self, view: View, moment: datetime) -> None:
        self._view = view
        self._moment = moment
        self._records_by_name: dict[tuple[str, str], list[MemoryRecord]] = {}
        self._replacements: dict[int, MemoryRecord | None] = {}

    def at(self, key: int) -> Validity:
        """Return the validity of a result; a missing memory is current."""
        record = self._view.record(key)
        return CURRENT if record is None else self.standing(record)

    def standing(self, entry: MemoryRecord | Memory) -> Validity:
        """Return the validity of a memory."""
        return self.standings([entry])[0]

    def standings(self, entries: Sequence[MemoryRecord | Memory]) -> list[Validity]:
        """Return the validity of each memory, with a single query for each vault of them."""
        claims_by_vault: dict[str, dict[str, list[MemoryRecord]]] = {}
        for vault in {_vault(entry) for entry in entries}:
            names = None
            if len(entries) <= _MAX_NAME_LOOKUPS:
                own = (entry for entry in entries if _vault(entry) == vault)
                names = list({name for entry in own for name in _names(entry)})
            claims = claims_by_vault[vault] = {}
            for record in self._view.superseding(names, vault):
                for name in referenced_names(record.metadata, SUPERSEDES):
                    claims.setdefault(name_key(name), []).append(record)
        validities = []
        for entry in entries:
            claims = claims_by_vault[_vault(entry)]
            if _VALIDITY_KEYS.isdisjoint(entry.metadata) and claims.keys().isdisjoint(
                _names(entry)
            ):
                validities.append(CURRENT)
                continue
            ended, begins = self.ended(entry.metadata), self.begins(entry.metadata)
            last = self._final_replacement(entry, claims)
            validities.append(Validity(last, ended, begins) if last or ended or begins else CURRENT)
        return validities

    def ended(self, metadata: Mapping[str, Any]) -> str:
        """Return the value of ``valid_to`` if it is past, else an empty string."""
        text = _header_text(metadata, "valid_to")
        end = _moment(text, True)
        return text if end is not None and end < self._moment else ""

    def begins(self, metadata: Mapping[str, Any]) -> str:
        """Return the value of ``valid_from`` if it is in the future, else an empty string."""
        text = _header_text(metadata, "valid_from")
        start = _moment(text, False)
        return text if start is not None and start > self._moment else ""

    def _final_replacement(
        self, entry: MemoryRecord | Memory, claims: Mapping[str, Sequence[MemoryRecord]]
    ) -> MemoryRecord | None:
        """Return what replaces a memory now: the last one in the chain of replacements."""
        replacement = self._newest_replacement(entry, claims)
        seen = {entry.path}
        last = None
        while replacement is not None and replacement.path not in seen and len(seen) < _MAX_CHAIN:
            seen.add(replacement.path)
            last, replacement = replacement, self._direct_replacement(replacement)
        return last

    def _direct_replacement(self, entry: MemoryRecord) -> MemoryRecord | None:
        if entry.key not in self._replacements:
            names = _names(entry)
            claiming = tuple(self._view.superseding(names, entry.vault))
            claims = dict.fromkeys(names, claiming)
            self._replacements[entry.key] = self._newest_replacement(entry, claims)
        return self._replacements[entry.key]

    def _newest_replacement(
        self, entry: MemoryRecord | Memory, claims: Mapping[str, Sequence[MemoryRecord]]
    ) -> MemoryRecord | None:
        """Return the newest memory that directly replaces the given one."""
        claimants = {
            record.path: record for name in _names(entry) for record in claims.get(name, ())
        }
        newest = nlargest(_MAX_CLAIMS, claimants.values(), key=_age)
        replacements = [record for record in newest if self._replaces(record, entry)]
        for name in referenced_names(entry.metadata, SUPERSEDED_BY):
            replacements += match_link(name, self._find_named(name, _vault(entry)))[:1]
        begun = [
            record
            for record in replacements
            if record.path != entry.path and not self.begins(record.metadata)
        ]
        return max(begun, key=_age, default=None)

    def _replaces(self, record: MemoryRecord, entry: MemoryRecord | Memory) -> bool:
        """Return whether a memory's header supersedes exactly the given one.

        A name shared by several memories means those that are older than the one that contains it.
        Of two memories that supersede each other the newer one wins.
        """
        if record.path == entry.path:
            return False
        entry_names = set(_names(entry))
        for name in referenced_names(record.metadata, SUPERSEDES):
            if name_key(name) not in entry_names:
                continue
            named = self._find_named(name, record.vault)
            referenced = match_link(name, [one for one in named if one.path != record.path])
            paths = {one.path for one in referenced} or {entry.path}
            if entry.path not in paths or (len(paths) > 1 and _age(entry) > _age(record)):
                continue
            superseded = {name_key(other) for other in referenced_names(entry.metadata, SUPERSEDES)}
            if not superseded.intersection(_names(record)) or _age(record) > _age(entry):
                return True
        return False

    def _find_named(self, name: str, vault: str) -> list[MemoryRecord]:
        if (name, vault) not in self._records_by_name:
            records = [
                record
                for variant in (name, f"{name}.md")
                for record in self._view.find_by_name(variant, vault)
            ]
            by_path = {record.path: record for record in records}
            self._records_by_name[name, vault] = list(by_path.values())
        return self._records_by_name[name, vault]

    def annotate(self, scored: Iterable[ScoredMemory]) -> Iterator[ValidatedMemory]:
        """Add the validity to each result, in unchanged order."""
        for entry in scored:
            yield ValidatedMemory(entry, self.at(entry.key))

    def reorder(
        self,
        scored: Iterable[ScoredMemory],
        allowed: Callable[[MemoryRecord], bool] | None,
        only_current: bool = False,
        fits: Callable[[int], bool] = lambda _: True,
    ) -> Iterator[ValidatedMemory]:
        """Move memories that are not current after their replacement and the first current one.

        The replacement of a result is yielded in its place, even if it was not found itself,
        provided that it is ``allowed``. Each result is checked when it is due, so that the cost
        depends on the number of results that are shown.
        """
        return _Order(self, scored, allowed, only_current).placed(fits)


class _Order:
    """A queue of results, best first, some of which wait for the memory that replaces them."""

    def __init__(
        self,
        checker: ValidityChecker,
        scored: Iterable[ScoredMemory],
        allowed: Callable[[MemoryRecord], bool] | None,
        only_current: bool,
    ) -> None:
        self._checker = checker
        self._allowed = allowed
        self._only_current = only_current
        self._entries = {entry.key: entry for entry in scored}
        self._validities: dict[int, Validity] = {}
        self._done: set[int] = set()
        self._heap: list[tuple[float, int, ScoredMemory, int | None]] = []
        self._count = 0
        self._held_back: dict[int, list[ScoredMemory]] = {}
        for entry in self._entries.values():
            self._push(entry)

    def _push(self, entry: ScoredMemory, stands_for: int | None = None) -> None:
        """Queue a result; an earlier entry of the same memory becomes invalid."""
        self._entries[entry.key] = entry
        self._count += 1
        heappush(self._heap, (-entry.score, self._count, entry, stands_for))

    def placed(self, fits: Callable[[int], bool]) -> Iterator[ValidatedMemory]:
        """Yield every result once; outdated ones follow the first current one that ``fits``."""
        waiting: list[ValidatedMemory] = []
        first: ScoredMemory | None = None
        for ready in self._by_replacement():
            if first is None and not ready.standing.is_current:
                waiting.append(ready)
                continue
            if first is None and waiting and not fits(ready.scored.key):
                first = ready.scored  # no current memory fits: outdated ones are more relevant
                yield from waiting
                yield ready
                continue
            yield ready
            if first is None:
                first = ready.scored
                yield from (
                    delayed._replace(scored=_capped(delayed.scored, first.score))
                    for delayed in waiting
                )
        if first is None:
            yield from waiting

    def _by_replacement(self) -> Iterator[ValidatedMemory]:
        """Yield every result once, each after what replaces it."""
        while self._heap:
            _, _, entry, stands_for = heappop(self._heap)
            if entry.key in self._done or entry is not self._entries[entry.key]:
                continue
            if entry.key not in self._validities and self._requeue(entry):
                continue
            self._done.add(entry.key)
            standing = self._validities[entry.key]
            if standing.is_current or not self._only_current:
                yield ValidatedMemory(entry, standing, stands_for)
            for waiting in self._held_back.pop(entry.key, ()):
                self._push(_capped(waiting, entry.score))

    def _requeue(self, entry: ScoredMemory) -> bool:
        """Check a result's validity, and requeue it if it belongs further down."""
        standing = self._checker.at(entry.key)
        self._validities[entry.key] = standing
        if standing.is_current:
            return False
        loss = entry.score * (1.0 - _OUTDATED_FACTOR)
        part_name = next(iter(standing.marks()))
        reduced = ScoredMemory(entry.key, entry.score - loss, {**entry.parts, part_name: -loss})
        replacement = standing.replaced_by
        if (
            replacement is None
            or replacement.key in self._done
            or not (self._allowed is None or self._allowed(replacement))
        ):
            self._push(reduced)
            return True
        self._entries[entry.key] = reduced
        self._held_back.setdefault(replacement.key, []).append(reduced)
        before = self._entries.get(replacement.key, ScoredMemory(replacement.key, 0.0, {}))
        # a checked memory that is still queued has lost its share already: compare reduced scores
        max_score = reduced.score if replacement.key in self._validities else entry.score
        gain = max(0.0, max_score - before.score)
        parts = {**before.parts, "replaces": gain}
        self._push(ScoredMemory(replacement.key, before.score + gain, parts), entry.key)
        return True


def _capped(entry: ScoredMemory, max_score: float) -> ScoredMemory:
    """Return a result whose score is limited to ``max_score``."""
    if entry.score <= max_score:
        return entry
    cut = max_score - entry.score
    return ScoredMemory(
        entry.key, max_score, {**entry.parts, "behind": entry.parts.get("behind", 0.0) + cut}
    )


def _names(entry: MemoryRecord | Memory) -> list[str]:
    return name_keys(entry.path, entry.mem_id, entry.title, entry.aliases)


def _vault(entry: MemoryRecord | Memory) -> str:
    """Return the vault in which a memory is checked; a name without a view means all."""
    return entry.vault if isinstance(entry, MemoryRecord) else ""


def _age(entry: MemoryRecord | Memory) -> tuple[str, str, str]:
    return entry.created, entry.modified, entry.path


def _header_text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _moment(text: str, end: bool) -> datetime | None:
    """Return the first or last moment of a day, month, year or time."""
    part = _YEAR_OR_MONTH.fullmatch(text)
    try:
        if part is not None:
            year, month = int(part[1]), int(part[2] or (12 if end else 1))
            later = date(year + month // 12, month % 12 + 1, 1)
            day = later - timedelta(days=1) if end else date(year, month, 1)
        else:
            day = date.fromisoformat(text)
    except (ValueError, OverflowError):
        return clock.parse(text)
    return datetime.combine(day, time.max if end else time.min, UTC)
