"""Resolve names to memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Protocol, TypeVar

from memvault.lazy_pattern import lazy_pattern
from memvault.vault.header_links import link_target
from memvault.vault.names import link_distance, name_key, normalize_title

MAX_SUGGESTIONS = 5
"""Maximum number of suggestions for an unknown name."""
_SIMILARITY = 0.7
"""Minimum ``difflib`` ratio between a name and a title or one of its words."""
_PATH_SIMILARITY = 0.8
"""Minimum ``difflib`` ratio between two paths, which often share the name of their folder."""
_MIN_BEGINNING = 3
"""Minimum length of a name that is matched against the beginnings of words."""
_WORD = lazy_pattern(r"\w+")
_GENERATED_ID = lazy_pattern(r"[^\s/,]+-[a-z0-9]{6}")


class Nameable(Protocol):
    """An object with the names of a memory."""

    @property
    def path(self) -> str:
        """Return the file's path in the vault."""

    @property
    def mem_id(self) -> str:
        """Return the memId."""

    @property
    def title(self) -> str:
        """Return the title."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the aliases in its header."""


Entry = TypeVar("Entry", bound=Nameable)


def normalize(name: str) -> str:
    """Return a name normalized for comparison."""
    return name.strip().removeprefix("./")


def match_name(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a name refers to: one, none, or several equal matches.

    The name is compared with paths, memIds, exact titles, titles ignoring case and Unicode form,
    aliases in the same way, paths without ``.md``, and memId prefixes, in this order. The first
    kind with a match determines the result.
    """
    cleaned_name = normalize(name)
    if not cleaned_name:
        return []
    title = normalize_title(cleaned_name)
    kinds: tuple[Callable[[Entry], bool], ...] = (
        lambda entry: entry.path == cleaned_name,
        lambda entry: entry.mem_id == cleaned_name,
        lambda entry: entry.title == cleaned_name,
        lambda entry: normalize_title(entry.title) == title,
        lambda entry: title in map(normalize_title, entry.aliases),
        lambda entry: entry.path == f"{cleaned_name}.md",
        lambda entry: entry.mem_id.startswith(cleaned_name),
    )
    all_entries = list(entries)
    matches = ([entry for entry in all_entries if fits(entry)] for fits in kinds)
    return next((matching for matching in matches if matching), [])


def match_link(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a header or a wikilink refers to: one, none, or several.

    The target is compared with paths, with or without ``.md``, memIds, file names, titles ignoring
    case and aliases, in this order. The first kind with a match determines the result.
    """
    key = name_key(normalize(name))
    kinds: tuple[Callable[[Entry], Iterable[str]], ...] = (
        lambda entry: [entry.path],
        lambda entry: [entry.mem_id],
        lambda entry: [PurePosixPath(entry.path).name],
        lambda entry: [entry.title],
        lambda entry: entry.aliases,
    )
    all_entries = list(entries)
    matches = (
        [entry for entry in all_entries if key in map(name_key, names_of(entry))]
        for names_of in kinds
    )
    return next((matching for matching in matches if matching), [])


def closest_to(source: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries in the folder to which a link in the file ``source`` leads, in order.

    ``entries`` have the same name; those in one folder are equally close (``link_distance``).
    """
    all_entries = list(entries)
    if not all_entries:
        return []
    closest = min(all_entries, key=lambda entry: link_distance(entry.path, source))
    folder = PurePosixPath(closest.path).parent
    return [entry for entry in all_entries if PurePosixPath(entry.path).parent == folder]


def is_link(name: str) -> bool:
    """Return whether a name is a wikilink."""
    return name.strip().startswith("[[") and bool(link_target(name))


def match_file(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries whose path ends with a name, ignoring case, with or without ``.md``."""
    key = name_key(link_target(name).strip("/"))
    return [entry for entry in entries if key and f"/{name_key(entry.path)}".endswith(f"/{key}")]


def match_wikilink(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a wikilink refers to: one, none, or several."""
    target, all_entries = link_target(name), list(entries)
    return match_link(target, all_entries) or match_file(target, all_entries)


def match_part(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with a title or alias that contains a name as words or as a prefix.

    Case, accents and punctuation are ignored. A memId prefix also matches.
    """
    from memvault.index.text.analyzer import fold

    def words(text: str) -> str:
        return " ".join(_WORD.findall(fold(text)))

    part = words(name)
    return [
        entry
        for entry in entries
        if part
        for names in [[words(text) for text in (entry.title, *entry.aliases)]]
        if entry.mem_id.startswith(normalize(name))
        or any(text.startswith(part) or f" {part} " in f" {text} " for text in names)
    ]


def may_be_path(name: str) -> bool:
    """Return whether a name contains a slash or ends in ``.md``."""
    return "/" in name or is_file_name(name)


def is_file_name(name: str) -> bool:
    """Return whether a name ends in ``.md``."""
    return normalize(name).rstrip("/").lower().endswith(".md")


def is_path(name: str, entries: Iterable[Nameable]) -> bool:
    """Return whether a string is meant as a memory's path rather than as a query.

    A single word that ends in ``.md`` always counts as a path. A single word with a slash, such as
    "CI/CD", and several words that end in ``.md`` count as a path only if they begin with a folder
    in the vault or are similar to the path of an entry.
    """
    path = normalize(name)
    is_word = len(path.split()) == 1
    if not may_be_path(name) or not (is_word or is_file_name(path)):
        return False
    if is_word and is_file_name(path):
        return True
    all_entries = list(entries)
    folder = name_key(path.rpartition("/")[0])
    return bool(
        folder and any(name_key(entry.path).startswith(f"{folder}/") for entry in all_entries)
    ) or bool(_closest_paths(path, all_entries, by_file_name="/" not in path))


def _closest_paths(name: str, entries: Iterable[Entry], by_file_name: bool) -> list[Entry]:
    """Return the entries with a path, or else with a file name, similar to a path, best first."""
    from difflib import get_close_matches

    by_key: dict[str, list[Entry]] = {}
    target = name_key(normalize(name))
    all_entries = list(entries)
    for entry in all_entries:
        by_key.setdefault(name_key(entry.path), []).append(entry)
    near = get_close_matches(target, by_key, MAX_SUGGESTIONS, _PATH_SIMILARITY)
    if not near and by_file_name:
        by_key = {}
        for entry in all_entries:
            by_key.setdefault(name_key(PurePosixPath(entry.path).name), []).append(entry)
        file_name = PurePosixPath(target).name
        near = get_close_matches(file_name, by_key, MAX_SUGGESTIONS, _PATH_SIMILARITY)
    return [entry for key in near for entry in by_key[key]][:MAX_SUGGESTIONS]


def closest(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries with a similar title or alias, or a similar word in one, best first.

    A word that begins with the name also counts. A name that may be a path is compared with paths
    first. There are at most ``MAX_SUGGESTIONS``.
    """
    from difflib import get_close_matches

    from memvault.index.text.analyzer import fold

    if may_be_path(name):
        all_entries = list(entries)
        if near_paths := _closest_paths(name, all_entries, by_file_name=True):
            return near_paths
        entries = all_entries
    by_part: dict[str, list[Entry]] = {}
    for entry in entries:
        for text in map(fold, (entry.title, *entry.aliases)):
            for part in {text, *_WORD.findall(text)}:
                by_part.setdefault(part, []).append(entry)
    target = fold(link_target(name))
    near = get_close_matches(target, by_part, MAX_SUGGESTIONS, _SIMILARITY)
    if len(target) >= _MIN_BEGINNING:
        near += [part for part in by_part if part.startswith(target)]
    by_path = {entry.path: entry for part in near for entry in by_part[part]}
    return list(by_path.values())[:MAX_SUGGESTIONS]


def suggestion(name: str, close: Sequence[Nameable], otherwise: str) -> str:
    """Return a hint with the entry closest to an unknown name, or another hint if none is close."""
    if not close:
        return otherwise
    if len(close) > 1:
        return "did you mean one of these?"
    meant = f"{close[0].title!r} ({close[0].mem_id})"
    return f"did you mean {repr(close[0].path) if may_be_path(name) else meant}?"


def is_generated_id(name: str) -> bool:
    """Return whether a name looks like a complete generated memId."""
    return _GENERATED_ID.fullmatch(name) is not None


def is_exact(name: str, entry: Nameable) -> bool:
    """Return whether a name is a memory's complete path, file name, memId, title or alias."""
    return (
        normalize(name) in (entry.mem_id, entry.path)
        or is_title_of(name, entry)
        or bool(match_wikilink(name, [entry]))
    )


def is_title_of(name: str, entry: Nameable) -> bool:
    """Return whether a name is a memory's title or alias, ignoring case."""
    titles = map(normalize_title, (entry.title, *entry.aliases))
    return normalize_title(normalize(name)) in titles


def is_name_of(name: str, entry: Nameable) -> bool:
    """Return whether a string is meant as a memory's name rather than as a query.

    A memId prefix counts only if it contains the whole slug, so that a short word is not mistaken
    for a name.
    """
    cleaned_name = normalize(name)
    slug = entry.mem_id.rpartition("-")[0]
    return is_exact(name, entry) or bool(
        slug and entry.mem_id.startswith(cleaned_name) and cleaned_name.startswith(slug)
    )
