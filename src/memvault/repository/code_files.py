"""Read the source files of a vault's repository safely, and look them up by name.

The repository is untrusted: only regular files that are neither hidden nor ignored are read, never
through a link, and only up to a fixed size.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from memvault.errors import MemvaultError, Refused
from memvault.files import plain_files
from memvault.files.git_location import RepositoryLocation
from memvault.lazy_pattern import lazy_pattern
from memvault.repository import definitions
from memvault.repository.location import find_repository
from memvault.settings.exclusions import FOLDER_MARKERS, Exclusions, Levels
from memvault.vault.paths import is_memory_path, require_plain_folders

_MAX_BYTES = plain_files.MAX_SETTING_BYTES
_MAX_FILES = 20_000
"""Maximum number of entries to list when a file is looked up by its name."""
_MAX_PATH = 500
_WORD = lazy_pattern(r"[\w$]+")
_VISIBLE = frozenset((".github",))
"""Hidden folders that are still read."""


def is_plain_path(path: str) -> bool:
    """Return whether a path is relative and normal, and has no hidden part."""
    return (
        len(path) <= _MAX_PATH
        and path.isprintable()
        and "\\" not in path
        and all(part and (part in _VISIBLE or not part.startswith(".")) for part in path.split("/"))
    )


class RepositoryFiles:
    """Checks whether files exist outside of a vault, in the repository that contains it."""

    def __init__(self, root: Path) -> None:
        self._location = None
        self._prefix = ""
        with contextlib.suppress(MemvaultError, OSError):
            self._location = find_repository(root)
        if self._location is not None:
            self._prefix = self._location.prefix_of(root)

    def may_exist(self, path: str) -> bool:
        """Return whether a path relative to the vault exists, or is not in the repository."""
        below = posixpath.normpath(self._prefix + path)
        if self._location is None or below.startswith("..") or "\0" in below:
            return True
        return os.path.lexists(self._location.top / below)


class CodeFiles:
    """The files of a repository by their path from its top folder; each is read once."""

    def __init__(self, root: Path, location: RepositoryLocation) -> None:
        self.top = location.top
        self.prefix = location.prefix_of(root)
        """The path of the vault, ending with a slash; empty if the vault is the top folder."""
        self._exclusions = Exclusions(self.top)
        self._read: dict[str, list[str] | None] = {}
        self._words: dict[str, frozenset[str]] = {}

    def stamp(self, path: str) -> list[int] | None:
        """Return a file's stamp as a list; None if the file is missing."""
        stamp = plain_files.stamp_of(f"{self.top}/{path}")
        return None if stamp is None else list(stamp)

    def lines(self, path: str) -> list[str] | None:
        """Return a file's lines; None if it is binary or larger than 1 MB.

        Raises:
            OSError: there is no regular file, or it is hidden, ignored or behind a link.
        """
        if path not in self._read:
            file = self.top / path
            if not is_plain_path(path) or self._exclusions.covers(path):
                raise FileNotFoundError
            try:
                require_plain_folders(self.top, posixpath.dirname(path))
            except Refused as error:
                raise FileNotFoundError from error
            is_large = file.lstat().st_size > _MAX_BYTES
            data = b"\0" if is_large else plain_files.read(file, _MAX_BYTES)
            self._read[path] = definitions.lines_of(data)
        return self._read[path]

    def has_word(self, path: str, word: str) -> bool:
        """Return whether a file has a word.

        Raises:
            OSError: there is no regular file, or it is hidden, ignored or behind a link.
        """
        if path not in self._words:
            self._words[path] = frozenset(_WORD.findall("\n".join(self.lines(path) or ())))
        return word.rstrip("?!") in self._words[path]

    def is_code(self, path: str) -> bool:
        """Return whether a file can be read that is not a memory of the vault."""
        is_in_vault = path.startswith(self.prefix)
        if is_in_vault and is_memory_path(path.removeprefix(self.prefix)):
            return False
        with contextlib.suppress(OSError):
            self.lines(path)
            return True
        return False

    def ending_with(self, path: str) -> list[str]:
        """Return the files whose path ends with another path."""
        named = self._by_name.get(posixpath.basename(path), [])
        return [other for other in named if f"/{other}".endswith(f"/{path}")]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for path in self._walk():
            by_name.setdefault(posixpath.basename(path), []).append(path)
        return by_name

    def _walk(self) -> Iterator[str]:
        """Yield the files that are neither hidden nor ignored, up to a maximum."""
        pending: list[tuple[str, Levels]] = [("", ())]
        count = 0
        while pending and count < _MAX_FILES:
            folder, above = pending.pop()
            with contextlib.suppress(OSError), os.scandir(self.top / folder) as listed:
                entries = list(listed)
                markers = FOLDER_MARKERS.intersection([entry.name for entry in entries])
                levels = self._exclusions.levels(folder, markers, above)
                for entry in entries if levels is not None else ():
                    count += 1
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    is_folder = entry.is_dir(follow_symlinks=False)
                    if not is_plain_path(path) or entry.is_symlink():
                        continue
                    if self._exclusions.excludes(path, is_folder, levels or ()):
                        continue
                    if is_folder:
                        pending.append((path, levels or ()))
                    else:
                        yield path
