"""Types and tags that a search names and no memory has, with the nearest that exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from memvault.index.protocol import MemoryRecord
from memvault.model import MemoryType
from memvault.recall.filters import Filters, normal_tag, tagged
from memvault.vault.normal_form import normalize_title

_FOREIGN = {
    "architectural-decision": "adr architecture",
    "context": "background general misc note other",
    "conventions-pattern": "convention rule style",
    "episode": "event experience",
    "issue": "bug defect error incident problem ticket",
    "learning": "gotcha insight knowledge lesson til",
    "procedure": "how-to howto playbook recipe runbook workflow",
}
"""What other programs call the types, in the singular."""
_MODES = ("hybrid", "keyword", "vector", "tag")
_MOST = 2
_MOST_TAGS = 10
"""Tags that the nearest ones are looked for: each is compared with every tag of the vault."""


def unknown_value_notes(
    records: Sequence[MemoryRecord], filters: Filters, types: Iterable[MemoryType]
) -> list[str]:
    """Say of each type and tag that filters name whether it is one that no memory has."""
    known = list(dict.fromkeys([entry.name for entry in types] + [r.memory_type for r in records]))
    notes = []
    kind = filters.memory_type
    if kind and kind.lower() in _MODES and kind.lower() not in known:
        word = kind.lower()
        notes.append(f"there is no memory type {kind!r}; --mode {word}, in JSON type, searches so")
    elif kind and not _has(records, Filters(memory_type=kind)) and not _is_among(kind, known):
        notes.append(
            f"there is no memory type {kind!r}; {_hint(_near_types(kind, known), 'types')}"
        )
    missing = _without(records, filters.tags)
    tags = sorted({entry for record in records for entry in record.tags}) if missing else []
    notes += [
        f"there is no tag {tag!r}; {_hint(_near(tag.lstrip('#'), tags), 'tags')}"
        for tag in missing[:_MOST_TAGS]
    ]
    if len(missing) > _MOST_TAGS:
        notes.append(f"{len(missing) - _MOST_TAGS:,} more of the tags are on no memory")
    return notes


def _without(records: Iterable[MemoryRecord], tags: Iterable[str]) -> list[str]:
    """Return the tags that no memory has."""
    had = {tag for record in records for tag in tagged(record)}
    return [tag for tag in tags if normal_tag(tag) not in had]


def _has(records: Iterable[MemoryRecord], filters: Filters) -> bool:
    test = filters.predicate()
    return test is None or any(map(test, records))


def _is_among(kind: str, known: Iterable[str]) -> bool:
    return normalize_title(kind).replace("_", "-").replace(" ", "-") in map(normalize_title, known)


def _hint(near: list[str], command: str) -> str:
    return f"did you mean {' or '.join(near)}?" if near else f"memvault {command} shows what is"


def _near_types(kind: str, known: list[str]) -> list[str]:
    word = normalize_title(kind)
    forms = (word, word.removesuffix("s"))
    meant = [name for name, words in _FOREIGN.items() if {*forms} & {*words.split()}]
    return [name for name in meant if name in known] or _near(kind, known)


def _near(name: str, known: list[str]) -> list[str]:
    """Return the nearest names: misspelt, in the other number, or with it as one of their words."""
    word = normalize_title(name)
    plain = {normalize_title(entry): entry for entry in known}
    found = get_close_matches(word, list(plain), n=_MOST, cutoff=0.7)
    parted = [entry for entry in plain if word.removesuffix("s") in entry.split("-")]
    chosen = found or parted or get_close_matches(word, list(plain), n=1)
    return [plain[entry] for entry in chosen[:_MOST]]
