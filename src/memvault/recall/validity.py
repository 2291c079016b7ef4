"""Check which memories are superseded, expired or not yet valid at a given time.

A memory is *current* unless a valid memory supersedes it, its ``valid_to`` is past, or its
``valid_from`` is in the future. Memories that are not current are marked, and ranked after their
replacements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Any

from memvault import clock
from memvault.index.protocol import MemoryRecord, View
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import CURRENT, ScoredMemory, Validity
from memvault.recall.weights import constants
from memvault.vault.date_ranges import parse_period
from memvault.vault.header_links import SUPERSEDED_BY, SUPERSEDES, referenced_names
from memvault.vault.names import name_key, name_keys

_VALIDITY_KEYS = frozenset(("valid_from", "valid_to", SUPERSEDED_BY))
"""Header keys that affect whether a memory is current."""
_MAX_NAMES = 2_000
"""The maximum number of names to query; for more, every superseding memory is read."""
_MAX_CHAIN = 50
_MAX_CLAIMS = 50
"""The maximum number of superseding memories to check for one memory, newest first."""


class ValidatedMemory(NamedTuple):
    """A result with its validity; ``replaces`` is the uid of the memory that it replaces."""

    scored: ScoredMemory
    validity: Validity
    replaces: int | None = None


def check(view: View, entries: Sequence[MemoryRecord | Memory], moment: datetime) -> list[Validity]:
    """Return the validity of memories at a given time, in the same order.

    Each is checked within its own vault, with one query per vault.
    """
    checker = ValidityChecker(view, moment)
    names_by_vault: dict[str, set[str]] = {}
    for entry in entries if len(entries) <= _MAX_NAMES else ():
        names_by_vault.setdefault(_vault(entry), set()).update(_names(entry))
    for vault, names in names_by_vault.items():
        if len(names) <= _MAX_NAMES:
            checker.read_claims(vault, list(names))
    return list(map(checker.check, entries))


class ValidityChecker:
    """Checks the validity of any number of memories at a given time, each within its own vault."""

    def __init__(self, view: View, moment: datetime) -> None:
        self._view = view
        self._moment = moment
        self._claims: dict[str, dict[str, list[MemoryRecord]]] = {}
        self._replacements = _Replacements(view, moment)

    def read_claims(
        self, vault: str, names: Sequence[str] | None = None
    ) -> dict[str, list[MemoryRecord]]:
        """Read which memories of a vault supersede others, or only those that supersede a name."""
        claims = self._claims[vault] = {}
        for record in self._view.superseding(names, vault):
            for name in referenced_names(record.metadata, SUPERSEDES):
                claims.setdefault(name_key(name), []).append(record)
        return claims

    def check(self, entry: MemoryRecord | Memory) -> Validity:
        """Return the validity of a memory."""
        vault = _vault(entry)
        claims = self._claims[vault] if vault in self._claims else self.read_claims(vault)
        if _VALIDITY_KEYS.isdisjoint(entry.metadata) and (
            not claims or claims.keys().isdisjoint(_names(entry))
        ):
            return CURRENT
        return Validity(
            self._replacements.last(entry, claims),
            _ended(entry.metadata, self._moment),
            _begins(entry.metadata, self._moment),
        )


class _Replacements:
    """Finds which memories supersede others as of a given time; caches each name lookup."""

    def __init__(self, view: View, moment: datetime) -> None:
        self._view = view
        self._moment = moment
        self._records_by_name: dict[tuple[str, str], list[MemoryRecord]] = {}
        self._direct: dict[int, MemoryRecord | None] = {}

    def last(
        self, entry: MemoryRecord | Memory, claims: Mapping[str, Sequence[MemoryRecord]]
    ) -> MemoryRecord | None:
        """Return the current replacement of a memory: the last one in the chain.

        ``claims`` maps names to the memories that supersede them.
        """
        replacement = self._newest(entry, claims)
        seen = {entry.path}
        last = None
        while replacement is not None and replacement.path not in seen and len(seen) < _MAX_CHAIN:
            seen.add(replacement.path)
            last, replacement = replacement, self._newest_of(replacement)
        return last

    def _newest_of(self, entry: MemoryRecord) -> MemoryRecord | None:
        if entry.uid not in self._direct:
            names = _names(entry)
            claims = dict.fromkeys(names, self._view.superseding(names, entry.vault))
            self._direct[entry.uid] = self._newest(entry, claims)
        return self._direct[entry.uid]

    def _newest(
        self, entry: MemoryRecord | Memory, claims: Mapping[str, Sequence[MemoryRecord]]
    ) -> MemoryRecord | None:
        """Return the newest memory that directly replaces the given one."""
        claimants = {
            record.path: record for name in _names(entry) for record in claims.get(name, ())
        }
        newest = nlargest(_MAX_CLAIMS, claimants.values(), key=_age)
        replacements = [record for record in newest if self._replaces(record, entry)]
        for name in referenced_names(entry.metadata, SUPERSEDED_BY):
            named = self._find_named(name, _vault(entry))
            replacements += _referenced(name, named, entry.path)[:1]
        begun = [record for record in replacements if not _begins(record.metadata, self._moment)]
        return max(begun, key=_age, default=None)

    def _replaces(self, record: MemoryRecord, entry: MemoryRecord | Memory) -> bool:
        """Return whether a memory's header says that it supersedes exactly the given one.

        If several memories have the name, it refers to those in the closest folder, as for links,
        and only to older ones. If two memories supersede each other, the newer one wins.
        """
        if record.path == entry.path:
            return False
        entry_names = set(_names(entry))
        for name in referenced_names(record.metadata, SUPERSEDES):
            if name_key(name) not in entry_names:
                continue
            named = self._find_named(name, record.vault)
            referenced = _referenced(name, named, record.path)
            paths = {target.path for target in referenced} or {entry.path}
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


def _referenced(name: str, named: Iterable[MemoryRecord], source: str) -> list[MemoryRecord]:
    """Return the other memories that a name in the header of the file ``source`` refers to.

    If several memories have the name, those in the closest folder are returned, as for links.
    """
    from memvault.recall.resolve import closest_to, match_link

    matches = match_link(name, [record for record in named if record.path != source])
    return closest_to(source, matches)


def reorder(
    scored: Sequence[ScoredMemory],
    validities: Mapping[int, Validity],
    allowed: Callable[[MemoryRecord], bool] | None,
    only_current: bool,
    fits: Callable[[int], bool],
) -> list[ValidatedMemory]:
    """Move outdated memories below their replacement and below the first current memory.

    ``scored`` contains the results, best first; ``validities`` has an entry for each, and for each
    replacement that exists. A replacement takes the position of the replaced result, even if the
    search did not find the replacement, provided that it is ``allowed``. If the first current
    result does not fit the query (``fits``), outdated memories with better scores stay above it.
    """
    results = {entry.uid: ValidatedMemory(entry, validities[entry.uid]) for entry in scored}
    positions = {uid: position for position, uid in enumerate(results)}
    for entry in scored:
        replacement = validities[entry.uid].replaced_by
        if replacement is None or replacement.uid not in validities:
            continue
        if allowed is not None and not allowed(replacement):
            continue
        uid = replacement.uid
        validated = results.get(uid) or ValidatedMemory(ScoredMemory(uid, 0.0, {}), validities[uid])
        if validated.replaces is None and positions.get(uid, len(positions)) > positions[entry.uid]:
            raised = validated.scored.plus("replaces", entry.score - validated.scored.score)
            results[uid] = validated._replace(scored=raised, replaces=entry.uid)
    ordered = sorted(
        map(_demote_outdated, results.values()),
        # With equal scores, current memories come first, then replacements, then outdated ones.
        key=lambda result: (
            -result.scored.score,
            result.replaces is not None or not result.validity.is_current,
            result.replaces is None,
        ),
    )
    if only_current:
        return [result for result in ordered if result.validity.is_current]
    return list(_after_current(ordered, fits))


def _demote_outdated(result: ValidatedMemory) -> ValidatedMemory:
    """Reduce the score of a memory that is not current."""
    if result.validity.is_current:
        return result
    mark = next(iter(result.validity.marks()))
    loss = result.scored.score * (1.0 - constants().outdated_factor)
    return result._replace(scored=result.scored.plus(mark, -loss))


def _after_current(
    ordered: Iterable[ValidatedMemory], fits: Callable[[int], bool]
) -> Iterator[ValidatedMemory]:
    """Yield every result once; outdated ones follow the first current one if that ``fits``."""
    outdated: list[ValidatedMemory] = []
    results = iter(ordered)
    for result in results:
        if not result.validity.is_current:
            outdated.append(result)
        elif fits(result.scored.uid):
            yield result
            yield from (_cap_score(entry, result.scored.score) for entry in outdated)
            break
        else:
            yield from (*outdated, result)
            break
    else:
        yield from outdated
    yield from results


def _cap_score(result: ValidatedMemory, max_score: float) -> ValidatedMemory:
    """Return a result whose score is limited to ``max_score``."""
    excess = result.scored.score - max_score
    return result._replace(scored=result.scored.plus("behind", -excess)) if excess > 0 else result


def _names(entry: MemoryRecord | Memory) -> list[str]:
    return name_keys(entry.path, entry.mem_id, entry.title, entry.aliases)


def _vault(entry: MemoryRecord | Memory) -> str:
    """Return the vault in which a memory's validity is checked; empty if only one is searched."""
    return entry.vault if isinstance(entry, MemoryRecord) else ""


def _age(entry: MemoryRecord | Memory) -> tuple[str, str, str]:
    return entry.created, entry.modified, entry.path


def _ended(metadata: Mapping[str, Any], moment: datetime) -> str:
    """Return the value of ``valid_to`` if it is before the given time, else an empty string."""
    text = _header_text(metadata, "valid_to")
    end = _moment(text, True)
    return text if end is not None and end < moment else ""


def _begins(metadata: Mapping[str, Any], moment: datetime) -> str:
    """Return the value of ``valid_from`` if it is after the given time, else an empty string."""
    text = _header_text(metadata, "valid_from")
    start = _moment(text, False)
    return text if start is not None and start > moment else ""


def _header_text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _moment(text: str, end: bool) -> datetime | None:
    """Return the start or end of a day, week, month, year or time."""
    period = parse_period(text)
    return period.edge(end) if period is not None else clock.parse(text)
