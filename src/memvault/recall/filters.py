"""Filters on memories: by type, tags, dates and filter expressions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.errors import UsageError
from memvault.index.protocol import KeywordQuery, MemoryRecord
from memvault.model import DOCUMENT, MemoryType
from memvault.named_tuple import NamedTuple
from memvault.vault.names import folded, normalize_title, tag_key
from memvault.vault.naming import normal_type

if TYPE_CHECKING:
    from memvault.index.protocol import View
    from memvault.recall.query import Query

_TYPE_SYNONYMS = {
    "architectural-decision": "adr architecture",
    "context": "background general misc note other",
    "conventions-pattern": "convention rule style",
    "episode": "event experience",
    "issue": "bug defect error incident problem ticket",
    "learning": "gotcha insight knowledge lesson til",
    "procedure": "how-to howto playbook recipe runbook workflow",
}
"""Singular names that other programs use for the memory types."""
_MODES = ("hybrid", "keyword", "vector", "tag")
_MAX_SUGGESTIONS = 2
_SAME_WORD = 0.85
"""Minimum similarity of two spellings of a word, in 0..1."""
_MAX_UNKNOWN_TAGS = 10
"""Maximum number of unknown tags to suggest alternatives for; each is compared with every tag in
the vault.
"""
_MAX_CHECKED, _MAX_ABSENT = 30, 3
"""Maximum number of query words to look up, and of absent words to report."""
_MIN_LENGTH, _MAX_LENGTH = 6, 40
"""Minimum and maximum length of a word to report; shorter words are too common, and longer strings
are rarely words.
"""
_PUNCTUATION = "\"'`“”„«»‘’.,;:!?()[]{}<>*"


def unknown_value_notes(
    records: Iterable[MemoryRecord], filters: Filters, types: Iterable[MemoryType]
) -> list[str]:
    """Return a note for each type, tag and folder in the filters that no memory has."""
    required = list(filters.required())
    unused_folders = {folder: _folder(folder) for part in required for folder in part.folders}
    used_types: set[str] = set()
    used_tags: set[str] = set()
    for record in records:
        used_types.add(record.memory_type)
        used_tags.update(record.tags)
        for name, folder in [*unused_folders.items()]:
            if _is_in(record.path, folder):
                del unused_folders[name]
    type_names = list(dict.fromkeys([*(entry.name for entry in types), *sorted(used_types)]))
    kinds = [kind for part in required for kind in (part.memory_type, *part.types) if kind]
    notes = [note for kind in kinds if (note := _unknown_type_note(used_types, kind, type_names))]
    existing = tags_with_parents(used_tags)
    asked_tags = (tag for part in required for tag in part.tags)
    missing = [tag for tag in asked_tags if normal_tag(tag) not in existing]
    tags = sorted(used_tags)
    notes += [
        f"there is no tag {tag!r}; {_hint(_similar_names(tag.lstrip('#'), tags), 'tags')}"
        for tag in missing[:_MAX_UNKNOWN_TAGS]
    ]
    if len(missing) > _MAX_UNKNOWN_TAGS:
        notes.append(f"{len(missing) - _MAX_UNKNOWN_TAGS:,} more tags are not used")
    notes += [
        f"no memories in {folder!r}; in: expects a folder in the vault" for folder in unused_folders
    ]
    return notes


def _unknown_type_note(used_types: Set[str], kind: str, type_names: list[str]) -> str:
    """Return a note if a type is neither used by a memory nor declared, else an empty string."""
    word = kind.lower()
    if word in _MODES and word not in type_names:
        return f"there is no memory type {kind!r}; pass `--mode {word}` for that search mode"
    if _kebab(kind) in map(_kebab, used_types) or _is_among(kind, type_names):
        return ""
    return f"there is no memory type {kind!r}; {_hint(_similar_types(kind, type_names), 'types')}"


def _is_among(kind: str, type_names: Iterable[str]) -> bool:
    return normalize_title(kind).replace("_", "-").replace(" ", "-") in map(
        normalize_title, type_names
    )


def _hint(suggestions: list[str], command: str) -> str:
    return (
        f"did you mean {' or '.join(suggestions)}?"
        if suggestions
        else f"`memvault {command}` lists the existing ones"
    )


def suggest_types(kind: str, records: Iterable[MemoryRecord], declared: Iterable[str]) -> list[str]:
    """Return the known types that an unknown type may refer to, most frequent first.

    The list is empty if a memory has the type, if it is declared, or if no known type is close.
    """
    used = Counter(record.memory_type for record in records)
    by_count = sorted(used, key=lambda name: (-used[name], name))
    type_names = list(dict.fromkeys([*by_count, *declared]))
    return [] if _is_among(kind, type_names) else _similar_types(kind, type_names, only_close=True)


def _similar_types(kind: str, type_names: list[str], only_close: bool = False) -> list[str]:
    word = normalize_title(kind)
    forms = (word, word.removesuffix("s"))
    synonyms = [name for name, words in _TYPE_SYNONYMS.items() if {*forms} & {*words.split()}]
    return [name for name in synonyms if name in type_names] or _similar_names(
        kind, type_names, only_close
    )


def _similar_names(name: str, known_names: list[str], only_close: bool = False) -> list[str]:
    """Return the known names closest to a name.

    These are similar names; if there are none, names with a word that differs only in a plural "s";
    if there are none, the most similar name. With ``only_close``, only very similar names are
    returned, or names whose last word nearly equals the name, so that nothing is suggested for
    distinct names such as "contact" or "reference".
    """
    from difflib import get_close_matches

    word = normalize_title(name)
    by_form = {normalize_title(entry): entry for entry in known_names}
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
    """Conditions that a memory must satisfy; empty fields are ignored.

    It must have one of ``types`` and be in one of ``folders``. It must contain all words of
    ``containing``, which ``on`` looks up in an index. It must pass all filters in ``also`` and none
    in ``unless``. ``passes`` is an additional predicate supplied by the caller.
    """

    memory_type: str = ""
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    expression: str = ""
    passes: Callable[[MemoryRecord], bool] | None = None
    types: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    containing: tuple[str, ...] = ()
    also: tuple[Filters, ...] = ()
    unless: tuple[Filters, ...] = ()

    def both(self, other: Filters) -> Filters:
        """Return filters that require both these filters and another set."""
        if other == Filters():
            return self
        return other if self == Filters() else self._replace(also=(*self.also, other))

    def required(self) -> Iterator[Filters]:
        """Yield these filters and all filters in ``also``, recursively."""
        yield self
        for other in self.also:
            yield from other.required()

    def require_documents(self) -> bool:
        """Return whether only memories with the type of documents pass."""
        parts = list(self.required())
        kinds = (kind for part in parts for kind in (part.memory_type, *part.types) if kind)
        return DOCUMENT in map(_kebab, kinds)

    def on(self, view: View) -> Filters:
        """Return the same filters, with their words looked up in a view."""
        if not (self.containing or self.also or self.unless):
            return self
        find = _word_finder(view)
        uid_sets = [uids for text in self.containing if (uids := find(text)) is not None]
        own_passes = self.passes

        def passes(record: MemoryRecord) -> bool:
            is_found = all(record.uid in uids for uids in uid_sets)
            return is_found and (own_passes is None or own_passes(record))

        unless = (part.on(view) for part in self.unless)
        return self._replace(
            passes=passes if uid_sets else own_passes,
            containing=(),
            also=tuple(part.on(view) for part in self.also),
            # The text contains no words to search for.
            unless=tuple(part for part in unless if part != Filters()),
        )

    def predicate(self) -> Callable[[MemoryRecord], bool] | None:
        """Return a predicate on records, or None if every memory passes.

        It does not check ``containing``, which needs a view.

        Raises:
            UsageError: if the expression is invalid.
        """
        if self == Filters():
            return None
        since = clock.iso(self.since) if self.since else ""
        until = clock.iso(self.until) if self.until else "9999"
        kind = _kebab(self.memory_type) if self.memory_type else ""
        kinds = set(map(_kebab, self.types))
        folders = [_folder(folder) for folder in self.folders]
        also = [test for other in self.also if (test := other.predicate()) is not None]
        unless = [test for other in self.unless if (test := other.predicate()) is not None]
        tags = set(map(normal_tag, self.tags))
        matches = None
        if self.expression.strip():
            from memvault.recall import filter_expression

            matches = filter_expression.compile_expression(self.expression)

        def passes(record: MemoryRecord) -> bool:
            return (
                (not kind or kind == _kebab(record.memory_type))
                and (not kinds or _kebab(record.memory_type) in kinds)
                and (not folders or any(_is_in(record.path, folder) for folder in folders))
                and (not tags or tags <= tags_with_parents(record.tags))
                and since <= clock.first_moment(record.modified) <= until
                and (matches is None or matches(values_of(record)))
                and (self.passes is None or self.passes(record))
                and all(test(record) for test in also)
                and not any(test(record) for test in unless)
            )

        return passes

    def passing(self, records: Iterable[MemoryRecord]) -> Iterable[MemoryRecord]:
        """Return the records of all memories of a view that pass.

        Raises:
            UsageError: if the expression is invalid, or, after the last record, if it uses a name
                that no memory has.
        """
        test = self.predicate()
        if test is None:
            return records
        if self.expression.strip():
            from memvault.recall import filter_expression

            records = filter_expression.check_names(self.expression, records)
        return filter(test, records)


def _word_finder(view: View, limit: int = sys.maxsize) -> Callable[[str], Set[int] | None]:
    """Return a function that finds the memories with all words in a value; see ``_uids_with``."""
    from memvault.index.text.analyzer import query_analyzer
    from memvault.recall.query import parse

    analyzers = query_analyzer(view.languages())
    return lambda text: _uids_with(view, parse(text, analyzers), limit)


def _uids_with(view: View, query: Query, limit: int) -> Set[int] | None:
    """Return the uids of the memories that contain all words in a query, in any form.

    Quoted text must occur literally. The result is None if the query has no words. For a query
    without quoted text, it contains at most ``limit`` memories.
    """
    asked = [KeywordQuery([group]) for group in query.search_groups]
    asked = asked or [KeywordQuery((), [whole]) for whole in query.wholes]
    if asked and not query.phrases:
        asked[-1] = asked[-1]._replace(limit=limit)
    uids: Set[int] | None = None
    for word in asked:
        matches = view.keyword(word._replace(allowed_uids=uids))
        uids = {hit.uid for hit in matches.hits}
    if not query.phrases or not uids:
        return uids
    memories = {uid: view.text(uid, accept_changed=True) for uid in uids}
    return {
        uid
        for uid, memory in memories.items()
        if memory is not None and query.has_phrases(f"{memory.title}\n{memory.body}")
    }


def absent_words(view: View, text: str) -> list[str]:
    """Return the names and numbers in a query that no memory contains.

    If every name and number occurs in some memory, return the query's other absent words instead,
    without stop words and short words. The list is empty while memories are missing from the view.
    """
    if view.missing or view.notes:
        return []
    from memvault.index.text.analyzer import ideographs, query_analyzer

    analyzers = query_analyzer(view.languages())
    find = _word_finder(view, limit=1)
    stripped = (word.strip(_PUNCTUATION).removesuffix("'s") for word in text.split()[:_MAX_CHECKED])
    absent = [
        word
        for word in dict.fromkeys(stripped)
        if len(word) <= _MAX_LENGTH
        and not ideographs(word)
        and analyzers.has_content(word)
        and find(word) == set()
    ]
    names = [word for word in absent if not word.islower()]
    return (names or [word for word in absent if len(word) >= _MIN_LENGTH])[:_MAX_ABSENT]


def _folder(name: str) -> str:
    """Return a folder's path, normalized for comparison."""
    parts = PurePosixPath(folded(name.replace("\\", "/"))).parts
    return "/".join(part for part in parts if part not in ("/", "."))


def _is_in(path: str, folder: str) -> bool:
    return not folder or f"{folded(path)}/".startswith(f"{folder}/")


def normal_tag(tag: str) -> str:
    """Return a tag, normalized for comparison."""
    return tag_key(tag).strip("#/")


def tags_with_parents(tags: Iterable[str]) -> set[str]:
    """Return the tags by which a memory is found, in lower case: its tags and their parents."""
    names = set()
    for tag in tags:
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
    """Return the values of a memory for the names in expressions."""
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
