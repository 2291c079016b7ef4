"""Filters on memories: by type, tags, dates and the expressions of ``filter_expression``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.index.protocol import MemoryRecord
from memvault.model import MemoryType
from memvault.vault.file_names import normalize_title, tag_key
from memvault.vault.paths import normal_type

_TYPE_SYNONYMS = {
    "architectural-decision": "adr architecture",
    "context": "background general misc note other",
    "conventions-pattern": "convention rule style",
    "episode": "event experience",
    "issue": "bug defect error incident problem ticket",
    "learning": "gotcha insight knowledge lesson til",
    "procedure": "how-to howto playbook recipe runbook workflow",
}
"""Names that other programs use for the memory types, in the singular."""
_MODES = ("hybrid", "keyword", "vector", "tag")
_MAX_SUGGESTIONS = 2
_SAME_WORD = 0.85
"""Minimum similarity of two spellings of one word, in 0..1."""
_MAX_UNKNOWN_TAGS = 10
"""The maximum number of unknown tags to suggest alternatives for: each is compared with every tag
of the vault."""


def unknown_value_notes(
    records: Sequence[MemoryRecord], filters: Filters, types: Iterable[MemoryType]
) -> list[str]:
    """Return a note for each type and tag in the filters that no memory has."""
    known = list(dict.fromkeys([entry.name for entry in types] + [r.memory_type for r in records]))
    notes = []
    kind = filters.memory_type
    if kind and kind.lower() in _MODES and kind.lower() not in known:
        word = kind.lower()
        notes.append(f"there is no memory type {kind!r}; --mode {word} searches so")
    elif kind and not _has(records, Filters(memory_type=kind)) and not _is_among(kind, known):
        notes.append(
            f"there is no memory type {kind!r}; {_hint(_similar_types(kind, known), 'types')}"
        )
    missing = _unknown_tags(records, filters.tags)
    tags = sorted({entry for record in records for entry in record.tags}) if missing else []
    notes += [
        f"there is no tag {tag!r}; {_hint(_similar_names(tag.lstrip('#'), tags), 'tags')}"
        for tag in missing[:_MAX_UNKNOWN_TAGS]
    ]
    if len(missing) > _MAX_UNKNOWN_TAGS:
        notes.append(f"{len(missing) - _MAX_UNKNOWN_TAGS:,} more of the tags are on no memory")
    return notes


def _unknown_tags(records: Iterable[MemoryRecord], tags: Iterable[str]) -> list[str]:
    """Return the tags that no memory has."""
    known = {tag for record in records for tag in tagged(record)}
    return [tag for tag in tags if normal_tag(tag) not in known]


def _has(records: Iterable[MemoryRecord], filters: Filters) -> bool:
    test = filters.predicate()
    return test is None or any(map(test, records))


def _is_among(kind: str, known: Iterable[str]) -> bool:
    return normalize_title(kind).replace("_", "-").replace(" ", "-") in map(normalize_title, known)


def _hint(suggestions: list[str], command: str) -> str:
    return (
        f"did you mean {' or '.join(suggestions)}?"
        if suggestions
        else f"memvault {command} shows what is"
    )


def types_meant(kind: str, records: Iterable[MemoryRecord], declared: Iterable[str]) -> list[str]:
    """Return the known types that a new type may be meant as, the most used of a vault first.

    There are none if a memory has the type or it is declared, or if no known type is close.
    """
    used = Counter(record.memory_type for record in records)
    known = list(dict.fromkeys([*(name for name, _ in used.most_common()), *declared]))
    return [] if _is_among(kind, known) else _similar_types(kind, known, only_close=True)


def _similar_types(kind: str, known: list[str], only_close: bool = False) -> list[str]:
    word = normalize_title(kind)
    forms = (word, word.removesuffix("s"))
    synonyms = [name for name, words in _TYPE_SYNONYMS.items() if {*forms} & {*words.split()}]
    return [name for name in synonyms if name in known] or _similar_names(kind, known, only_close)


def _similar_names(name: str, known: list[str], only_close: bool = False) -> list[str]:
    """Return the nearest names.

    These are similar ones, else those of which a word is nearly the name without a plural "s",
    else the single most similar one. With ``only_close`` they are very similar, else their last
    word nearly is the name, so that names of their own, "contact" or "reference", have none.
    """
    from difflib import get_close_matches

    word = normalize_title(name)
    by_form = {normalize_title(entry): entry for entry in known}
    cutoff, first_word = (0.8, -1) if only_close else (0.7, 0)
    similar = get_close_matches(word, list(by_form), n=_MAX_SUGGESTIONS, cutoff=cutoff)
    stem = word.removesuffix("s")
    containing = [
        entry
        for entry in by_form
        for words in [entry.split("-")[first_word:]]
        if get_close_matches(stem, [w for w in words if w[:1] == stem[:1]], cutoff=_SAME_WORD)
    ]
    chosen = similar or containing
    if not chosen and not only_close:
        chosen = get_close_matches(word, list(by_form), n=1)
    return [by_form[entry] for entry in chosen[:_MAX_SUGGESTIONS]]


class Filters(NamedTuple):
    """Conditions that a memory must satisfy to be found; an empty field is no condition.

    ``passes`` is an additional predicate of the calling code.
    """

    memory_type: str = ""
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    expression: str = ""
    passes: Callable[[MemoryRecord], bool] | None = None

    def predicate(self) -> Callable[[MemoryRecord], bool] | None:
        """Return a predicate on records, or None if every memory passes.

        Raises:
            UsageError: the expression is not allowed.
        """
        if self == Filters():
            return None
        since = clock.iso(self.since) if self.since else ""
        until = clock.iso(self.until) if self.until else "9999"
        kind = _kebab(self.memory_type) if self.memory_type else ""
        tags = set(map(normal_tag, self.tags))
        matches = None
        if self.expression.strip():
            from memvault.recall import filter_expression

            matches = filter_expression.compile_expression(self.expression)

        def passes(record: MemoryRecord) -> bool:
            return (
                (not kind or kind == _kebab(record.memory_type))
                and (not tags or tags <= tagged(record))
                and since <= clock.first_moment(record.modified) <= until
                and (matches is None or matches(values_of(record)))
                and (self.passes is None or self.passes(record))
            )

        return passes

    def passing(self, records: Iterable[MemoryRecord]) -> Iterable[MemoryRecord]:
        """Return the records of all memories of a view that pass.

        Raises:
            UsageError: the expression is not allowed, or compares with a name that none of the
                memories has.
        """
        test = self.predicate()
        if test is None:
            return records
        if self.expression.strip():
            from memvault.recall import filter_expression

            records = list(records)
            filter_expression.check_names(self.expression, records)
        return filter(test, records)


def normal_tag(tag: str) -> str:
    """Return a tag in the form in which tags are compared."""
    return tag_key(tag).strip("#/")


def tagged(record: MemoryRecord) -> set[str]:
    """Return the tags by which a memory is found, in lower case: its own and their parents."""
    names = set()
    for tag in record.tags:
        name = tag_key(tag)
        while name:
            names.add(name)
            name = name.rpartition("/")[0]
    return names


@lru_cache(1_024)
def _kebab(name: str) -> str:
    try:
        return normal_type(name)
    except UsageError:
        return name


def values_of(record: MemoryRecord) -> dict[str, Any]:
    """Return the values of the names in an expression for one memory."""
    return {
        **record.metadata,
        "id": record.mem_id,
        "memId": record.mem_id,
        "title": record.title,
        "type": record.memory_type,
        "memory_type": record.memory_type,
        "memoryType": record.memory_type,
        "tags": list(record.tags),
        "created": record.created,
        "modified": record.modified,
        "path": record.path,
        "filePath": record.path,
    }
