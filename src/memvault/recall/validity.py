"""What is so now, or was so at a moment: what was replaced, has ended, or has not begun.

A memory is *current* unless another one that has begun supersedes it, its
``valid_to`` is past, or its ``valid_from`` is still to come. What is not
current stays: it is marked, and comes after what replaces it.
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

_LOSS = 0.5
"""What a score is worth of what is not current."""
_SAYING = frozenset(("valid_from", "valid_to", SUPERSEDED_BY))
"""Keys of a header that alone can say that its memory is not current."""
_FEW = 20
"""Memories of which each name is asked for; with more, all that supersedes anything is read."""
_LONGEST_CHAIN = 50
_MOST_CLAIMS = 50
"""How many memories that say they replace another are looked at, the newest first."""
_PART = re.compile(r"(\d{4})(?:-(\d\d))?", re.ASCII)


class ValidatedMemory(NamedTuple):
    """A hit with where it stands; ``stands_for`` is the key of what it replaces."""

    scored: ScoredMemory
    standing: Validity
    stands_for: int | None = None


class ValidityChecker:
    """Says what is current at a moment, in one view."""

    def __init__(self, view: View, moment: datetime) -> None:
        self._view = view
        self._moment = moment
        self._named: dict[str, list[MemoryRecord]] = {}
        self._following: dict[str, MemoryRecord | None] = {}
        self._others: dict[str, ValidityChecker] = {}

    def at(self, key: int) -> Validity:
        """Say where a hit stands, in the vault that it lies in; what is gone is as it was."""
        record = self._view.record(key)
        if record is None:
            return CURRENT
        part = self._view.part(key)
        if not part.name:  # not kept among the others: a cycle would keep the view's files open
            return self.standing(record)
        if part.name not in self._others:
            self._others[part.name] = ValidityChecker(part, self._moment)
        return self._others[part.name].standing(record)

    def standing(self, entry: MemoryRecord | Memory) -> Validity:
        """Say where a memory stands."""
        return self.standings([entry])[0]

    def standings(self, entries: Sequence[MemoryRecord | Memory]) -> list[Validity]:
        """Say where memories stand, with one question to the index for all of them."""
        names = None
        if len(entries) <= _FEW:
            names = list({name for entry in entries for name in _names(entry)})
        claims: dict[str, list[MemoryRecord]] = {}
        for record in self._view.superseding(names):
            for name in referenced_names(record.metadata, SUPERSEDES):
                claims.setdefault(name_key(name), []).append(record)
        found = []
        for entry in entries:
            if _SAYING.isdisjoint(entry.metadata) and claims.keys().isdisjoint(_names(entry)):
                found.append(CURRENT)
                continue
            ended, begins = self.ended(entry.metadata), self.begins(entry.metadata)
            last = self._last(entry, claims)
            found.append(Validity(last, ended, begins) if last or ended or begins else CURRENT)
        return found

    def ended(self, metadata: Mapping[str, Any]) -> str:
        """Return what ``valid_to`` says where that is past, else an empty text."""
        said = _said(metadata, "valid_to")
        end = _moment(said, True)
        return said if end is not None and end < self._moment else ""

    def begins(self, metadata: Mapping[str, Any]) -> str:
        """Return what ``valid_from`` says where that is still to come, else an empty text."""
        said = _said(metadata, "valid_from")
        start = _moment(said, False)
        return said if start is not None and start > self._moment else ""

    def _last(
        self, entry: MemoryRecord | Memory, claims: Mapping[str, Sequence[MemoryRecord]]
    ) -> MemoryRecord | None:
        """Return what replaces a memory by now: the last of those that replace each other."""
        following = self._replacing(entry, claims)
        seen = {entry.path}
        last = None
        while following is not None and following.path not in seen and len(seen) < _LONGEST_CHAIN:
            seen.add(following.path)
            last, following = following, self._next(following)
        return last

    def _next(self, entry: MemoryRecord) -> MemoryRecord | None:
        if entry.path not in self._following:
            names = _names(entry)
            claiming = tuple(self._view.superseding(names))
            claims = dict.fromkeys(names, claiming)
            self._following[entry.path] = self._replacing(entry, claims)
        return self._following[entry.path]

    def _replacing(
        self, entry: MemoryRecord | Memory, claims: Mapping[str, Sequence[MemoryRecord]]
    ) -> MemoryRecord | None:
        """Return the newest memory that replaces one directly."""
        said = {record.path: record for name in _names(entry) for record in claims.get(name, ())}
        newest = nlargest(_MOST_CLAIMS, said.values(), key=_age)
        found = [record for record in newest if self._replaces(record, entry)]
        for name in referenced_names(entry.metadata, SUPERSEDED_BY):
            found += match_link(name, self._called(name))[:1]
        begun = [
            record
            for record in found
            if record.path != entry.path and not self.begins(record.metadata)
        ]
        return max(begun, key=_age, default=None)

    def _replaces(self, record: MemoryRecord, entry: MemoryRecord | Memory) -> bool:
        """Say whether a memory's header means just this one.

        A name that several have means those that are older than who says it. Of
        two that replace each other the newer stands.
        """
        if record.path == entry.path:
            return False
        own = set(_names(entry))
        for name in referenced_names(record.metadata, SUPERSEDES):
            if name_key(name) not in own:
                continue
            meant = match_link(name, [one for one in self._called(name) if one.path != record.path])
            paths = {one.path for one in meant} or {entry.path}
            if entry.path not in paths or (len(paths) > 1 and _age(entry) > _age(record)):
                continue
            back = {name_key(other) for other in referenced_names(entry.metadata, SUPERSEDES)}
            if not back.intersection(_names(record)) or _age(record) > _age(entry):
                return True
        return False

    def _called(self, name: str) -> list[MemoryRecord]:
        if name not in self._named:
            found = [*self._view.find_by_name(name), *self._view.find_by_name(f"{name}.md")]
            self._named[name] = list({record.path: record for record in found}.values())
        return self._named[name]

    def annotate(self, scored: Iterable[ScoredMemory]) -> Iterator[ValidatedMemory]:
        """Say of each hit where it stands, and leave it where it is."""
        for entry in scored:
            yield ValidatedMemory(entry, self.at(entry.key))

    def reorder(
        self,
        scored: Iterable[ScoredMemory],
        allowed: Callable[[MemoryRecord], bool] | None,
        only_current: bool = False,
        fits: Callable[[int], bool] = lambda _: True,
    ) -> Iterator[ValidatedMemory]:
        """Put what is not current behind what replaces it, and behind the first that is current.

        What replaces a hit answers in its place, found or not, if it is
        ``allowed``. Each is looked at when its turn comes, so that the cost is
        that of what is shown.
        """
        return _Order(self, scored, allowed, only_current).placed(fits)


class _Order:
    """The hits still to come, best first, and those that wait for another one."""

    def __init__(
        self,
        judge: ValidityChecker,
        scored: Iterable[ScoredMemory],
        allowed: Callable[[MemoryRecord], bool] | None,
        only_current: bool,
    ) -> None:
        self._judge = judge
        self._allowed = allowed
        self._only_current = only_current
        self._own = {entry.key: entry for entry in scored}
        self._known: dict[int, Validity] = {}
        self._done: set[int] = set()
        self._heap: list[tuple[float, int, ScoredMemory, int | None]] = []
        self._count = 0
        self._behind: dict[int, list[ScoredMemory]] = {}
        for entry in self._own.values():
            self._push(entry)

    def _push(self, entry: ScoredMemory, stands_for: int | None = None) -> None:
        """Let a hit wait for its turn; whatever score it waited with before counts no more."""
        self._own[entry.key] = entry
        self._count += 1
        heappush(self._heap, (-entry.score, self._count, entry, stands_for))

    def placed(self, fits: Callable[[int], bool]) -> Iterator[ValidatedMemory]:
        """Yield every hit once; what is not current waits for the first that is and ``fits``."""
        waiting: list[ValidatedMemory] = []
        first: ScoredMemory | None = None
        for ready in self._settled():
            if first is None and not ready.standing.is_current:
                waiting.append(ready)
                continue
            if first is None and waiting and not fits(ready.scored.key):
                first = ready.scored  # nothing that is so fits: what was so tells more
                yield from waiting
                yield ready
                continue
            yield ready
            if first is None:
                first = ready.scored
                yield from (
                    held._replace(scored=_at_most(held.scored, first.score)) for held in waiting
                )
        if first is None:
            yield from waiting

    def _settled(self) -> Iterator[ValidatedMemory]:
        """Yield every hit once, each behind what replaces it."""
        while self._heap:
            _, _, entry, stands_for = heappop(self._heap)
            if entry.key in self._done or entry is not self._own[entry.key]:
                continue
            if entry.key not in self._known and self._moved(entry):
                continue
            self._done.add(entry.key)
            standing = self._known[entry.key]
            if standing.is_current or not self._only_current:
                yield ValidatedMemory(entry, standing, stands_for)
            for held in self._behind.pop(entry.key, ()):
                self._push(_at_most(held, entry.score))

    def _moved(self, entry: ScoredMemory) -> bool:
        """Look where a hit stands, and put it where it belongs if that is further down."""
        standing = self._judge.at(entry.key)
        self._known[entry.key] = standing
        if standing.is_current:
            return False
        lost = entry.score * (1.0 - _LOSS)
        word = next(iter(standing.marks()))
        less = ScoredMemory(entry.key, entry.score - lost, {**entry.parts, word: -lost})
        new = standing.replaced_by
        if (
            new is None
            or new.key in self._done
            or not (self._allowed is None or self._allowed(new))
        ):
            self._push(less)
            return True
        self._own[entry.key] = less
        self._behind.setdefault(new.key, []).append(less)
        before = self._own.get(new.key, ScoredMemory(new.key, 0.0, {}))
        # what was looked at and is not done has lost its share already, and so it counts here
        most = less.score if new.key in self._known else entry.score
        gain = max(0.0, most - before.score)
        parts = {**before.parts, "replaces": gain}
        self._push(ScoredMemory(new.key, before.score + gain, parts), entry.key)
        return True


def _at_most(entry: ScoredMemory, most: float) -> ScoredMemory:
    """Return a hit with a score that is not above another's."""
    if entry.score <= most:
        return entry
    cut = most - entry.score
    return ScoredMemory(
        entry.key, most, {**entry.parts, "behind": entry.parts.get("behind", 0.0) + cut}
    )


def _names(entry: MemoryRecord | Memory) -> list[str]:
    return name_keys(entry.path, entry.mem_id, entry.title, entry.aliases)


def _age(entry: MemoryRecord | Memory) -> tuple[str, str, str]:
    return entry.created, entry.modified, entry.path


def _said(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _moment(said: str, end: bool) -> datetime | None:
    """Return the moment that a day, a month, a year or a time means: its first, or its last."""
    part = _PART.fullmatch(said)
    try:
        if part is not None:
            year, month = int(part[1]), int(part[2] or (12 if end else 1))
            later = date(year + month // 12, month % 12 + 1, 1)
            day = later - timedelta(days=1) if end else date(year, month, 1)
        else:
            day = date.fromisoformat(said)
    except (ValueError, OverflowError):
        return clock.parse(said)
    return datetime.combine(day, time.max if end else time.min, UTC)
