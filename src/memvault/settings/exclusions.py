"""Decide which files in a vault's folder are not memories.

Excluded are files that match the setting ``ignore`` or a line of a ``.gitignore`` or ``.ignore`` in
the vault; Obsidian's excluded files, template folders and attachment folder; and folders that tools
fill, such as ``node_modules``. A folder with a ``memvault.toml`` is a nested vault: its memories
are also in the outer vault, except those that match its own setting ``ignore``; its templates and
state are not. As in ripgrep, ``.ignore`` has precedence over ``.gitignore``, so a line ``!drafts/``
in it includes a folder that git ignores. Ignore files above the vault are not read, because the
vault itself may be an ignored folder.

Patterns are untrusted, so their expressions never run more than one unbounded loop at a time.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import translate
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from memvault.errors import VaultUnreadable
from memvault.files import plain_files
from memvault.files.plain_files import FileStamp, stamp_of
from memvault.files.user_folders import SETTINGS_FILE
from memvault.lazy_pattern import lazy_pattern
from memvault.model import RESERVED_FOLDERS
from memvault.named_tuple import NamedTuple

IGNORE_FILES = (".ignore", ".gitignore")
"""The names of ignore files, in order of precedence."""
_OBSIDIAN = ".obsidian"
_OBSIDIAN_FILES = (
    f"{_OBSIDIAN}/app.json",
    f"{_OBSIDIAN}/templates.json",
    f"{_OBSIDIAN}/plugins/templater-obsidian/data.json",
)
TOOL_FOLDERS = frozenset(("node_modules", "bower_components", "site-packages", "__pycache__"))
_TOOL_MARKERS = frozenset(("CACHEDIR.TAG", "pyvenv.cfg"))
"""Files that mark their folder as a cache or as a Python virtual environment."""
_GIT = ".git"
FOLDER_MARKERS = _TOOL_MARKERS.union(IGNORE_FILES, (SETTINGS_FILE, _GIT))
"""The names of files that determine whether other entries of their folder are excluded."""
_POSIX_CLASS = lazy_pattern(r"\[:([a-z]+):\]")
_POSIX_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-.:-@\\[-`{-~",
    "space": "\\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_MAX_BYTES = 64 * 1024
_MAX_PATTERNS = 5_000
MAX_IGNORE_LENGTH = 10_000
"""Maximum total length of ``ignore`` patterns, which are matched against every file."""


Parsed = TypeVar("Parsed")


class _Rule(NamedTuple):
    """A pattern of an ignore file, as a regular expression for paths below its folder."""

    expression: str
    only_folders: bool
    negated: bool


class IgnoreFile:
    """The patterns of a ``.gitignore`` or ``.ignore``; the last one that matches decides."""

    def __init__(self, text: str) -> None:
        lines = text.splitlines()[:_MAX_PATTERNS]
        self._rules = [rule for line in lines if (rule := _parse(line)) is not None]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decision(self, path: str, is_folder: bool) -> bool | None:
        """Return whether a path is ignored, or None if no pattern matches."""
        for pattern, negated in self.folder_patterns if is_folder else self.file_patterns:
            if pattern.match(path):
                return not negated
        return None

    @cached_property
    def file_patterns(self) -> list[tuple[re.Pattern[str], bool]]:
        """The patterns for files in order of precedence, each with whether it is negated."""
        return _combined(rule for rule in self._rules if not rule.only_folders)

    @cached_property
    def folder_patterns(self) -> list[tuple[re.Pattern[str], bool]]:
        """The patterns for folders in order of precedence, each with whether it is negated."""
        return _combined(self._rules)


def _combined(rules: Iterable[_Rule]) -> list[tuple[re.Pattern[str], bool]]:
    """Return the rules' patterns, last first, each with whether it is negated.

    Adjacent rules of the same kind are merged into one pattern.
    """
    runs: list[tuple[list[str], bool]] = []
    for rule in rules:
        if not runs or runs[-1][1] != rule.negated:
            runs.append(([], rule.negated))
        runs[-1][0].append(rule.expression)
    return [(re.compile("|".join(run)), negated) for run, negated in reversed(runs)]


def _parse(line: str) -> _Rule | None:
    """Parse a ``.gitignore`` line; return None for a comment or a pattern for hidden files."""
    text = line.rstrip(" \t")
    if (len(text) - len(text.rstrip("\\"))) % 2:  # The first trailing space is escaped.
        text = line[: len(text) + 1]
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[negated:]
    only_folders = text.endswith("/")
    text = text.rstrip("/")
    is_anchored = "/" in text
    segments = text.removeprefix("/").split("/")
    if not text or segments[0].startswith("."):  # Hidden entries are never memories.
        return None
    if not is_anchored:
        segments = ["**", *segments]
    return _Rule(_expression(segments), only_folders, negated)


def _expression(segments: list[str]) -> str:
    """Return the regular expression of a pattern's segments.

    ``**`` separates the segments into runs. Every run but the last takes its first match, without
    backtracking, because a later match would leave less of the path for the rest.
    """
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            runs.append([])
        else:
            runs[-1].append(_segment(segment))
    first, *others = runs
    if not others:
        return rf"(?s:{'/'.join(first)}\Z)"
    text = "/".join(first) + "/" if first else ""
    for run in others[:-1]:
        text += rf"(?>(?:[^/]+/)*?{'/'.join(run)}/)" if run else ""
    last = "/".join(others[-1])
    return rf"(?s:{text}(?:[^/]+/)*{last}\Z)" if last else rf"(?s:{text}.+\Z)"


def _segment(text: str) -> str:
    """Return the regular expression of a pattern for one name; stars do not backtrack."""
    parts = [""]
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "*":
            parts.append("")
        elif character == "?":
            parts[-1] += "[^/]"
        elif character == "[":
            expression, position = _character_class(text, position)
            parts[-1] += expression
        else:
            if character == "\\" and position < len(text):
                character = text[position]
                position += 1
            parts[-1] += re.escape(character)
    first, *others = parts
    if not others:
        return first
    middle = "".join(f"(?>[^/]*?{part})" for part in others[:-1] if part)
    return rf"{first}{middle}[^/]*{others[-1]}(?=/|\Z)"


def _character_class(text: str, position: int) -> tuple[str, int]:
    """Return the regular expression of a character class, and the position after it.

    ``position`` is just after the opening bracket. As in git, an unterminated class matches
    nothing, and a reversed range matches its first character.
    """
    is_negated = text[position : position + 1] in ("!", "^")
    position += is_negated
    members: list[str] = []
    first = position
    while position < len(text) and (text[position] != "]" or position == first):
        posix = _POSIX_CLASS.match(text, position)
        if posix:
            members.append(_POSIX_CLASSES.get(posix[1], ""))
            position = posix.end()
            continue
        low, position = _class_member(text, position)
        members.append(re.escape(low))
        is_range = text[position : position + 1] == "-"
        if is_range and text[position + 1 : position + 2] not in ("", "]"):
            high, position = _class_member(text, position + 1)
            members.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")
    if position >= len(text):
        return "(?!)", position
    inside = "".join(members)
    if is_negated:
        return f"[^/{inside}]", position + 1
    return f"(?!/)[{inside}]" if inside else "(?!)", position + 1


def _class_member(text: str, position: int) -> tuple[str, int]:
    """Return a character of a class, possibly escaped, and the position after it."""
    if text[position] == "\\" and position + 1 < len(text):
        position += 1
    return text[position], position + 1


class NestedVault:
    """A vault inside another one, with the patterns of its setting ``ignore``."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._pattern = _settings_pattern(patterns)

    def excludes(self, path: str, is_folder: bool) -> bool:
        """Return whether the nested vault excludes a path in it."""
        is_reserved = is_folder and path in RESERVED_FOLDERS
        return is_reserved or (self._pattern is not None and self._pattern.match(path) is not None)


class _Level(NamedTuple):
    """The exclusion rules for a folder: those of a nested vault, and ignore files in order."""

    folder: str
    vault: NestedVault | None
    files: tuple[IgnoreFile, ...]

    def is_excluded_by_vault(self, path: str, is_folder: bool) -> bool:
        """Return whether a nested vault in the folder excludes a path."""
        return self.vault is not None and self.vault.excludes(self._below(path), is_folder)

    def decision(self, path: str, is_folder: bool) -> bool | None:
        """Return whether a path in the vault is ignored, or None if no pattern matches."""
        below = self._below(path)
        decisions = (file.decision(below, is_folder) for file in self.files)
        return next((decision for decision in decisions if decision is not None), None)

    def _below(self, path: str) -> str:
        return path[len(self.folder) + 1 :] if self.folder else path


Levels = tuple[_Level, ...]
"""The nested vaults and ignore files that apply in a folder, the deepest first."""


class Exclusions:
    """Decides which files in a vault's folder are not memories.

    ``patterns`` come from the setting ``ignore``. Obsidian's settings and the ignore files are read
    on demand; ignore files in subfolders are reread when they change.
    """

    def __init__(self, root: Path, patterns: tuple[str, ...] = ()) -> None:
        self.patterns = patterns
        self._root = root
        self._pattern = _settings_pattern(patterns)
        self._files = _Cache(_ignore_file)
        self._vaults = _Cache(_nested_vault)

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        return tuple(_obsidian_prefixes(self._root))

    @cached_property
    def _top(self) -> Levels:
        return self._level("", FOLDER_MARKERS)

    def levels(self, folder: str, names: Iterable[str], above: Levels) -> Levels | None:
        """Return the ignore files that apply in a folder, or None if the folder is excluded.

        ``names`` contains the ``FOLDER_MARKERS`` in the folder, and ``above`` contains the ignore
        files of its parent.
        """
        if not folder:
            return self._top
        entry_names = frozenset(names)
        if entry_names & _TOOL_MARKERS or (_GIT in entry_names and self._is_worktree(folder)):
            return None
        return (*self._level(folder, entry_names), *above) if entry_names else above

    def _is_worktree(self, folder: str) -> bool:
        """Return whether a folder is another git worktree, which has the vault's files as well."""
        if not (self._root / folder / _GIT).is_file():
            return False
        from memvault.files import git_location

        return git_location.is_worktree_of_same_repository(
            self._root.resolve() / folder, self._root.resolve()
        )

    def may_exclude_files(self, levels: Levels) -> bool:
        """Return whether any pattern for files applies in a folder with these ``levels``."""
        return bool(self._pattern is not None or levels or self._prefixes)

    def excludes(self, path: str, is_folder: bool, levels: Levels) -> bool:
        """Return whether an entry in a folder with these ignore files is excluded."""
        if self._pattern is not None and self._pattern.match(path):
            return True
        if any(level.is_excluded_by_vault(path, is_folder) for level in levels):
            return True  # Ignore files cannot re-include it, as inside the nested vault.
        for level in levels:
            decision = level.decision(path, is_folder)
            if decision is not None:
                return decision
        if is_folder and path.rpartition("/")[2] in TOOL_FOLDERS:
            return True
        return bool(self._prefixes) and (f"{path}/" if is_folder else path).startswith(
            self._prefixes
        )

    def covers(self, path: str) -> bool:
        """Return whether a file or one of its parent folders is excluded."""
        levels: Levels | None = self._top
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            inside = "/".join(parts[:count])
            is_folder = count < len(parts)
            if levels is None or self.excludes(inside, is_folder, levels):
                return True
            if is_folder:
                folder = self._root / inside
                names = [name for name in FOLDER_MARKERS if os.path.lexists(folder / name)]
                levels = self.levels(inside, names, levels)
        return False

    def _level(self, folder: str, names: Iterable[str]) -> Levels:
        is_vault = bool(folder) and SETTINGS_FILE in names
        vault = self._vaults.read(self._root, folder, SETTINGS_FILE) if is_vault else None
        read = (
            self._files.read(self._root, folder, name) for name in IGNORE_FILES if name in names
        )
        files = tuple(file for file in read if file)
        return (_Level(folder, vault, files),) if vault or files else ()


class _Cache(Generic[Parsed]):
    """Parsed files by path, each parsed again when its file changes; it can be pickled."""

    def __init__(self, parse: Callable[[Path], Parsed]) -> None:
        self._parse = parse
        self._parsed: dict[str, tuple[FileStamp | None, Parsed]] = {}

    def read(self, root: Path, folder: str, name: str) -> Parsed:
        """Return a parsed file of a folder in the vault."""
        path = f"{folder}/{name}" if folder else name
        stamp = stamp_of(root / path)
        cached = self._parsed.get(path)
        if cached is None or cached[0] != stamp:
            cached = self._parsed[path] = stamp, self._parse(root / path)
        return cached[1]


# Functions rather than lambdas, because settings are pickled for other processes.
def _ignore_file(path: Path) -> IgnoreFile:
    return IgnoreFile(_text(path))


def _nested_vault(path: Path) -> NestedVault:
    return NestedVault(_ignore_setting(path))


def sources_state(root: Path) -> tuple[FileStamp | None, ...]:
    """Return a value that changes with the files that define exclusions.

    Ignore files in subfolders are not included.
    """
    return tuple(stamp_of(root / name) for name in (*IGNORE_FILES, *_OBSIDIAN_FILES))


def _obsidian_prefixes(root: Path) -> Iterator[str]:
    """Yield the path prefixes of Obsidian's excluded files, templates and attachments.

    Obsidian's regular expressions, which are written between slashes, are not applied, because
    their running time is unlimited.
    """
    if not os.path.lexists(root / _OBSIDIAN):
        return
    app, templates, templater = (_json(root / name) for name in _OBSIDIAN_FILES)
    filters = app.get("userIgnoreFilters")
    for text in filters if isinstance(filters, list) else ():
        if isinstance(text, str) and text.strip("/") and not (text[0] == text[-1] == "/"):
            yield text
    attachments = app.get("attachmentFolderPath")
    folders = [templates.get("folder"), templater.get("templates_folder"), attachments]
    for folder in folders:
        # ./ means the folder of each note.
        if isinstance(folder, str) and not folder.startswith("."):
            name = folder.strip("/")
            if name:
                yield f"{name}/"


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ignore_setting(path: Path) -> tuple[str, ...]:
    """Return the patterns of the setting ``ignore`` in a settings file; none if it is invalid."""
    from memvault.settings.toml_file import read_table

    try:
        value = read_table(path, VaultUnreadable).get("ignore")
    except VaultUnreadable:
        return ()
    patterns = value if isinstance(value, list) else []
    is_valid = all(isinstance(entry, str) for entry in patterns)
    return tuple(patterns) if is_valid and sum(map(len, patterns)) <= MAX_IGNORE_LENGTH else ()


def _text(path: Path) -> str:
    """Return a file's text; empty if it is missing, too large or cannot be read."""
    try:
        return plain_files.read(path, _MAX_BYTES).decode("utf-8-sig", "surrogateescape")
    except OSError:
        return ""


@lru_cache(maxsize=32)
def _settings_pattern(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    expressions = []
    for pattern in patterns:
        cleaned = pattern.strip().removeprefix("./").rstrip("/").removesuffix("/**")
        for form in dict.fromkeys((cleaned, cleaned.removeprefix("**/"))):
            if form:
                expressions += [translate(form), translate(f"{form}/*")]
    return re.compile("|".join(expressions)) if expressions else None
