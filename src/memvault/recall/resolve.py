"""Resolve names to memories."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Generic, Protocol, TypeVar

from memvault.lazy_pattern import lazy_pattern
from memvault.model import is_document
from memvault.vault.header_links import link_target
from memvault.vault.names import exact_key, link_distance, name_key, normalize_title

MAX_SUGGESTIONS = 5
"""Maximum number of suggestions for an unknown name."""
_SIMILARITY = 0.7
"""Minimum ``difflib`` ratio between a name and a title or one of its words."""
_PATH_SIMILARITY = 0.8
"""Minimum ``difflib`` ratio between two paths, which often share the name of their folder."""
_MIN_BEGINNING = 3
"""Minimum length of a name that is matched against the beginnings of words."""
_MAX_REJECTED = 250_000
"""Maximum number of cached keys that are too different from a name."""
_WORD = lazy_pattern(r"\w+")
_GENERATED_ID = lazy_pattern(r"[^\s/,]+-[a-z0-9]{6}")


class Nameable(Protocol):
    """An object with a memory's names."""

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
    """Return a name normalized for comparison: a path in the vault without ``.`` and ``..``."""
    name = name.strip().removeprefix("./")
    if "/" not in name or {".", ".."}.isdisjoint(name.split("/")):
        return name
    path = posixpath.normpath(name)
    return name if path.startswith(("/", ".")) else path


def match_name(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a name refers to: one, none, or several equal matches.

    The name is compared with paths, memIds, titles, aliases and paths without ``.md``, then with
    titles and aliases ignoring case and Unicode form, then with memId prefixes, in this order. The
    first kind with a match determines the result. A document with that path comes first; otherwise,
    documents are compared only if no memory matches.
    """
    cleaned_name = normalize(name)
    if not cleaned_name:
        return []
    title = normalize_title(cleaned_name)
    kinds: tuple[Callable[[Entry], bool], ...] = (
        lambda entry: entry.path == cleaned_name,
        lambda entry: entry.mem_id == cleaned_name,
        lambda entry: entry.title == cleaned_name,
        lambda entry: cleaned_name in entry.aliases,
        lambda entry: entry.path == f"{cleaned_name}.md",
        lambda entry: normalize_title(entry.title) == title,
        lambda entry: title in map(normalize_title, entry.aliases),
        lambda entry: entry.mem_id.startswith(cleaned_name),
    )
    return _first_kind(entries, kinds, (0,))


def match_link(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a header or a wikilink refers to: one, none, or several.

    The target is compared with paths, with or without ``.md``, memIds and file names, then with
    these ignoring case, then with titles and aliases, and with these ignoring case, in this order.
    The first kind with a match determines the result. A document with that path or file name comes
    first; otherwise, documents are compared only if no memory matches.
    """
    files = () if is_file_name(name) else _FILE_KINDS
    return _match(normalize(name), entries, (_file_kinds, _title_kinds), files)


_FILE_KINDS = (0, 2, 3, 5)
"""Indexes of the kinds that compare files if ``_file_kinds`` is the first group."""
_PATH_END_KINDS = (10, 11)
"""Indexes of ``_path_end_kinds`` after ``_file_kinds`` and ``_title_kinds``."""
_Kind = Callable[[Nameable], bool]
_KeyOf = Callable[[str], str]


def _match(
    name: str,
    entries: Iterable[Entry],
    groups: Sequence[Callable[[str, _KeyOf], tuple[_Kind, ...]]],
    files: Sequence[int],
) -> list[Entry]:
    """Return the matches of the first kind that has any; see ``_first_kind``.

    Each group is compared exactly, then ignoring case.
    """
    ignoring_case = [kind for group in groups for kind in group(name, name_key)]
    similar = (entry for entry in entries if any(kind(entry) for kind in ignoring_case))
    keys_of = (exact_key, name_key)
    kinds = [kind for group in groups for key_of in keys_of for kind in group(name, key_of)]
    return _first_kind(similar, kinds, files)


def _file_kinds(name: str, key_of: _KeyOf) -> tuple[_Kind, ...]:
    key = key_of(name)
    return (
        lambda entry: key_of(entry.path) == key,
        lambda entry: key_of(entry.mem_id) == key,
        lambda entry: key_of(PurePosixPath(entry.path).name) == key,
    )


def _title_kinds(name: str, key_of: _KeyOf) -> tuple[_Kind, ...]:
    key = key_of(name)
    return (
        lambda entry: key_of(entry.title) == key,
        lambda entry: key in map(key_of, entry.aliases),
    )


def _path_end_kinds(name: str, key_of: _KeyOf) -> tuple[_Kind, ...]:
    key = key_of(name.strip("/"))
    return (lambda entry: bool(key) and f"/{key_of(entry.path)}".endswith(f"/{key}"),)


def _first_kind(
    entries: Iterable[Entry], kinds: Sequence[Callable[[Entry], bool]], files: Sequence[int]
) -> list[Entry]:
    """Return the matches of the first kind that has any.

    Documents that match by a kind in ``files``, a list of indexes, come before memories, and
    memories come before other documents.
    """
    matches: list[Entry] = []
    of_memories = list(enumerate(kinds, len(files)))
    of_documents = [
        *enumerate(kinds[number] for number in files),
        *enumerate(kinds, len(files) + len(kinds)),
    ]
    best = len(files) + 2 * len(kinds)
    for entry in entries:
        for number, fits in of_documents if is_document(entry.path) else of_memories:
            if number > best:
                break
            if fits(entry):
                if number < best:
                    best, matches = number, []
                matches.append(entry)
                break
    return matches


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
    """Return the entries whose path ends with a name, ignoring case, with or without ``.md``.

    Documents come first, or last if the name ends in ``.md``.
    """
    files = () if is_file_name(name) else (0, 1)
    return _match(link_target(name), entries, (_path_end_kinds,), files)


def match_wikilink(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries that a wikilink refers to: one, none, or several."""
    target = normalize(link_target(name))
    files = () if is_file_name(target) else (*_FILE_KINDS, *_PATH_END_KINDS)
    return _match(target, entries, (_file_kinds, _title_kinds, _path_end_kinds), files)


def match_part(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entries with a title or alias that contains a name as words or as a prefix.

    Case, accents and punctuation are ignored. A memId prefix also matches. There are at most
    ``MAX_SUGGESTIONS``.
    """
    from memvault.index.text.analyzer import fold

    words = _WORD.findall(fold(name))
    if not words:
        return []
    part, prefix = " ".join(words), normalize(name)

    def contains(text: str) -> bool:
        folded = fold(text)
        if words[0] not in folded:
            return False
        folded = " ".join(_WORD.findall(folded))
        return folded.startswith(part) or f" {part} " in f" {folded} "

    matches = (
        entry
        for entry in entries
        if entry.mem_id.startswith(prefix) or any(map(contains, (entry.title, *entry.aliases)))
    )
    return list(islice(matches, MAX_SUGGESTIONS))


def may_be_path(name: str) -> bool:
    """Return whether a name contains a slash or ends in ``.md``."""
    return "/" in name or is_file_name(name)


def is_file_name(name: str) -> bool:
    """Return whether a name ends in ``.md``."""
    return normalize(name).rstrip("/").lower().endswith(".md")


def is_path(name: str, entries: Iterable[Nameable]) -> bool:
    """Return whether a string looks like a memory's path rather than a query.

    A single word that ends in ``.md`` always counts as a path. A single word with a slash, such as
    "CI/CD", and several words that end in ``.md`` count as a path only if they begin with a folder
    in the vault or are similar to an entry's path.
    """
    path = normalize(name)
    is_word = len(path.split()) == 1
    if not may_be_path(name) or not (is_word or is_file_name(path)):
        return False
    if is_word and is_file_name(path):
        return True
    folder = name_key(path.rpartition("/")[0])
    closest_paths: _ClosestPaths[Nameable] = _ClosestPaths(path)
    for entry in entries:
        if folder and name_key(entry.path).startswith(f"{folder}/"):
            return True
        closest_paths.add(entry)
    return bool(closest_paths.best(by_file_name="/" not in path))


class _CloseKeys(Generic[Entry]):
    """The keys most similar to a target, each with the first entries that have it.

    The keys equal those that ``difflib.get_close_matches`` returns, but they are added one at a
    time, so that only the most similar ones are in memory.
    """

    def __init__(self, target: str, cutoff: float) -> None:
        from difflib import SequenceMatcher

        self._matcher = SequenceMatcher(None, "", target)
        self._cutoff = cutoff
        self._length = len(target)
        self._positions: dict[str, int] = {}
        for number, char in enumerate(target):
            self._positions[char] = self._positions.get(char, 0) | 1 << number
        self._similar: dict[str, tuple[float, str]] = {}
        self._entries: dict[str, list[Entry]] = {}
        self.rejected: set[str] = set()
        """Some of the keys that are not similar enough."""

    def add(self, key: str, entry: Entry) -> None:
        """Add an entry, unless its key is known to be rejected."""
        if key not in self._similar:
            ratio = self._ratio(key)
            if ratio < self._cutoff:
                self._reject(key)
                return
            self._similar[key], self._entries[key] = (ratio, key), []
            if len(self._similar) > MAX_SUGGESTIONS:
                _, last = min(self._similar.values())
                del self._similar[last], self._entries[last]
                self._reject(last)
            if len(self._similar) == MAX_SUGGESTIONS:
                self._cutoff, _ = min(self._similar.values())
        _append(self._entries.get(key), entry)

    def best(self) -> Iterator[Entry]:
        """Yield the entries of the most similar keys, best first."""
        for _, key in sorted(self._similar.values(), reverse=True):
            yield from self._entries[key]

    def _reject(self, key: str) -> None:
        if len(self.rejected) >= _MAX_REJECTED:
            self.rejected.clear()
        self.rejected.add(key)

    def _ratio(self, key: str) -> float:
        """Return ``SequenceMatcher.ratio``, or an upper bound of it that is below the cutoff."""
        length = len(key) + self._length
        if not length:
            return 1.0
        bound = 2.0 * min(len(key), self._length) / length
        if bound >= self._cutoff:
            bound = 2.0 * self._common_length(key) / length
        if bound >= self._cutoff:
            self._matcher.set_seq1(key)
            bound = self._matcher.ratio()
        return bound

    def _common_length(self, key: str) -> int:
        """Return the length of the longest common subsequence with the target (Hyyrö 2004)."""
        every = row = (1 << self._length) - 1
        for mask in filter(None, map(self._positions.get, key)):
            matches = row & mask
            row = (row + matches) | (row - matches)
        return self._length - (row & every).bit_count()


class _ClosestPaths(Generic[Entry]):
    """The entries with a path, or else with a file name, similar to a path."""

    def __init__(self, name: str) -> None:
        target = name_key(normalize(name))
        self._paths: _CloseKeys[Entry] = _CloseKeys(target, _PATH_SIMILARITY)
        file_name = PurePosixPath(target).name
        self._files: _CloseKeys[Entry] = _CloseKeys(file_name, _PATH_SIMILARITY)

    def add(self, entry: Entry) -> None:
        """Compare an entry."""
        path = name_key(entry.path)
        file_name = path.rpartition("/")[2]
        self._paths.add(path, entry)
        if file_name not in self._files.rejected:
            self._files.add(file_name, entry)

    def best(self, by_file_name: bool) -> list[Entry]:
        """Return at most ``MAX_SUGGESTIONS`` entries, best first."""
        near = list(self._paths.best())
        if not near and by_file_name:
            near = list(self._files.best())
        return near[:MAX_SUGGESTIONS]


def _append(entries: list[Entry] | None, entry: Entry, most: int = MAX_SUGGESTIONS) -> None:
    """Append an entry to a key's entries, unless it was just added or there are enough."""
    if entries is not None and len(entries) < most and entry not in entries[-1:]:
        entries.append(entry)


class _ClosestNames(Generic[Entry]):
    """The entries with a similar title or alias, or a similar word in one.

    A word that begins with the name also counts. A name that may be a path is compared with paths
    first.
    """

    def __init__(self, name: str) -> None:
        from memvault.index.text.analyzer import fold

        self._fold = fold
        self._paths: _ClosestPaths[Entry] | None = (
            _ClosestPaths(name) if may_be_path(name) else None
        )
        self._target = fold(link_target(name))
        self._parts: _CloseKeys[Entry] = _CloseKeys(self._target, _SIMILARITY)
        self._beginnings: dict[str, list[Entry]] = {}
        self._begun: set[str] = set()

    def add(self, entry: Entry) -> None:
        """Compare an entry."""
        if self._paths is not None:
            self._paths.add(entry)
        rejected = self._parts.rejected
        for text in map(self._fold, (entry.title, *entry.aliases)):
            parts = (text, *_WORD.findall(text))
            for part in parts:
                if part not in rejected:
                    self._parts.add(part, entry)
            if self._target in text:
                for part in parts:
                    if part.startswith(self._target):
                        self._add_beginning(part, entry)

    def _add_beginning(self, part: str, entry: Entry) -> None:
        """Add an entry with a word that begins with the name, unless there are enough.

        Twice ``MAX_SUGGESTIONS`` are enough, even without those that ``best`` lists as similar.
        """
        most = 2 * MAX_SUGGESTIONS
        if part in self._beginnings or len(self._begun) < most:
            _append(self._beginnings.setdefault(part, []), entry, most)
            if len(self._begun) < most:
                self._begun.add(entry.path)

    def best(self) -> list[Entry]:
        """Return at most ``MAX_SUGGESTIONS`` entries, best first."""
        if self._paths is not None and (near_paths := self._paths.best(by_file_name=True)):
            return near_paths
        near = list(self._parts.best())
        if len(self._target) >= _MIN_BEGINNING:
            near += [entry for entries in self._beginnings.values() for entry in entries]
        return list({entry.path: entry for entry in near}.values())[:MAX_SUGGESTIONS]


def closest(name: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries whose titles, aliases or paths are most similar to a name, best first.

    There are at most ``MAX_SUGGESTIONS``.
    """
    names: _ClosestNames[Entry] = _ClosestNames(name)
    for entry in entries:
        names.add(entry)
    return names.best()


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
    """Return whether a string looks like a memory's name rather than a query.

    A memId prefix counts only if it contains the whole slug, so that a short word is not mistaken
    for a name.
    """
    cleaned_name = normalize(name)
    slug = entry.mem_id.rpartition("-")[0]
    return is_exact(name, entry) or bool(
        slug and entry.mem_id.startswith(cleaned_name) and cleaned_name.startswith(slug)
    )
