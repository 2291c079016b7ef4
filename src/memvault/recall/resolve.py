"""Resolve names to memories: the single place that decides which memory a name refers to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from memvault.vault.file_names import name_key, normalize_title

_GENERATED_ID = re.compile(r"[^\s/,]+-[a-z0-9]{6}")


class Nameable(Protocol):
    """An object with the names of a memory."""

    @property
    def path(self) -> str:
        """The file's path in the vault."""

    @property
    def mem_id(self) -> str:
        """The memId."""

    @property
    def title(self) -> str:
        """The title."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names given in its header."""


Entry = TypeVar("Entry", bound=Nameable)


def cleaned(name: str) -> str:
    """Return a name in the form in which names are compared."""
    return name.strip().removeprefix("./")


def match_name(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a name refers to: one, none, or several that match equally well.

    A name is a path, a memId, an exact title, a title that ignores case and Unicode form, an alias
    compared the same way, or the beginning of a memId; the first of these that matches decides.
    """
    cleaned_name = cleaned(name)
    if not cleaned_name:
        return []
    title = normalize_title(cleaned_name)
    kinds: tuple[Callable[[Entry], bool], ...] = (
        lambda entry: entry.path == cleaned_name,
        lambda entry: entry.mem_id == cleaned_name,
        lambda entry: entry.title == cleaned_name,
        lambda entry: normalize_title(entry.title) == title,
        lambda entry: title in map(normalize_title, entry.aliases),
        lambda entry: entry.mem_id.startswith(cleaned_name),
    )
    all_entries = list(entries)
    matches = ([entry for entry in all_entries if fits(entry)] for fits in kinds)
    return next((matching for matching in matches if matching), [])


def match_link(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a header or a wikilink refers to: one, none, or several.

    The target is a path, with or without ``.md``, a memId, a title in any case, a file name or an
    alias; the first of these that matches decides.
    """
    key = name_key(cleaned(name))
    kinds: tuple[Callable[[Entry], Iterable[str]], ...] = (
        lambda entry: [entry.path],
        lambda entry: [entry.mem_id],
        lambda entry: [entry.title],
        lambda entry: [PurePosixPath(entry.path).name],
        lambda entry: entry.aliases,
    )
    all_entries = list(entries)
    matches = (
        [entry for entry in all_entries if key in map(name_key, names_of(entry))]
        for names_of in kinds
    )
    return next((matching for matching in matches if matching), [])


def is_made_id(name: str) -> bool:
    """Return whether a name looks like a complete memId that memvault generated."""
    return _GENERATED_ID.fullmatch(name) is not None


def is_name_of(name: str, entry: Nameable) -> bool:
    """Return whether a text is meant as a memory's name rather than as a query.

    The beginning of a memId counts only if it contains the whole slug, so that a short word is not
    taken for a name.
    """
    cleaned_name = cleaned(name)
    slug = entry.mem_id.rpartition("-")[0]
    titles = map(normalize_title, (entry.title, *entry.aliases))
    is_full_name = (
        cleaned_name in (entry.mem_id, entry.path) or normalize_title(cleaned_name) in titles
    )
    return is_full_name or bool(
        slug and entry.mem_id.startswith(cleaned_name) and cleaned_name.startswith(slug)
    )
