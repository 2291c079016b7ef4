"""The imported folder or file, read with limits and without following links."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from memvault.errors import UsageError
from memvault.files import plain_files
from memvault.files.walk import is_link, walk
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import ItemWarning, SkippedItem

MAX_FILE = plain_files.MAX_MEMORY_BYTES
"""Maximum size in bytes of a file that is read into memory."""
MAX_FILES = 1_000_000
"""Maximum number of files in a source."""
_HEAD, _LONG_HEAD = 4096, 1 << 16
_MAX_HEADS = 64 * 1024 * 1024
"""Maximum total size of cached file beginnings."""
JUNK = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"})
"""Names of files and folders that operating systems add."""
LINK = "a symbolic link, which is not followed"
_FIXED_NAMES = frozenset({"memory", "claude", "bookmarks", "conversations"})
"""File names that are the same in all exports of a program, so they cannot identify a source."""


class Source:
    """The files in a source by name: a relative path with forward slashes.

    ``path`` is the path that the user gave; ``skipped`` lists the unreadable parts. A single file
    is a source with one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: list[SkippedItem] = []
        self.warnings: list[ItemWarning] = []
        """Parts that are imported in another form, or with guessed values."""
        self.counts = ContentCounts()
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._room_for_heads = _MAX_HEADS
        self.tables: dict[str, frozenset[str]] = {}
        """The names of the tables of each database inspected so far."""
        self.left_out: list[str] = []
        """The names of files that are skipped because reading them failed."""
        self.current = ""
        """The name of the most recently opened file."""
        self.opened_bytes = 0
        """The total size of all opened files."""
        self.tick: Callable[[], object] = lambda: None
        """Called repeatedly while a file is read."""

    @cached_property
    def names(self) -> list[str]:
        """The names of all files, sorted."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The name of the folder or file, without its extension."""
        if not self.path.is_dir() and self.path.stem.casefold() not in _FIXED_NAMES:
            return self.path.stem
        folder = self.path if self.path.is_dir() else self.path.parent
        is_hidden = folder.name.startswith(".")  # a fixed name, such as .mnemonics
        return folder.parent.name if is_hidden else folder.name

    def close(self) -> None:
        """Close open files."""

    def leave_out(self, name: str) -> None:
        """Remove a file from the source."""
        self.left_out.append(name)
        self.names = [other for other in self.names if other != name]
        for listing in ("name_set", "visible"):
            self.__dict__.pop(listing, None)
        self.tables.pop(name, None)

    @cached_property
    def name_set(self) -> frozenset[str]:
        """The names of all files, for membership tests."""
        return frozenset(self.names)

    @cached_property
    def visible(self) -> list[str]:
        """The names of all files that are not hidden or in a hidden folder, sorted."""
        return [name for name in self.names if "/." not in f"/{name}"]

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        raise NotImplementedError

    def modified(self, name: str) -> float:
        """Return the modification time of a file, in seconds since 1970."""
        raise NotImplementedError

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; opening and reading raise ``OSError``."""
        self.begin(name)
        return self._open(name)

    def _open(self, name: str) -> BinaryIO:
        raise NotImplementedError

    def begin(self, name: str) -> None:
        """Record that a file is about to be read."""
        self.current = name
        self.opened_bytes += self.size(name)
        self.tick()

    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        """Return a file's bytes; raises ``OSError`` if there are more than ``max_bytes``."""
        if self.size(name) <= max_bytes:
            with self.open(name) as file:
                data = file.read(max_bytes + 1)
            if len(data) <= max_bytes:
                return data
        raise OSError(errno.EFBIG, f"larger than {max_bytes >> 20} MB", name)

    def head(self, name: str, length: int = _HEAD) -> bytes:
        """Return the first bytes of a file; empty if it cannot be read."""
        asked, data = self._heads.get(name, (0, b""))
        if asked < length and len(data) == asked:  # the file may be longer than its cached part
            asked = _HEAD if length <= _HEAD else max(length, _LONG_HEAD)
            try:
                with self._open(name) as file:
                    data = file.read(asked)
            except OSError:
                data = b""
            if len(data) <= self._room_for_heads:
                self._room_for_heads -= len(data)
                self._heads[name] = asked, data
        return data[:length]

    def with_endings(self, *endings: str) -> list[str]:
        """Return the names with one of these endings, ignoring case."""
        return [name for name in self.names if name.lower().endswith(endings)]


class PlainSource(Source):
    """A folder, or a single file."""

    @cached_property
    def names(self) -> list[str]:
        """The names of all files, sorted."""
        if not self.path.is_dir():
            return [self.path.name]
        files: list[str] = []
        for folder, folders, names in walk(self.path, self._skip):
            below = os.path.relpath(folder, self.path).replace(os.sep, "/")
            prefix = "" if below == "." else f"{below}/"
            for name in list(folders):
                if name in JUNK or name == ".git":
                    folders.remove(name)
                elif is_link(os.path.join(folder, name)):
                    self.skipped.append(SkippedItem(prefix + name, LINK))
            for name in filter(lambda name: name not in JUNK, names):
                reason = _why_not_regular(os.path.join(folder, name))
                if reason:
                    self.skipped.append(SkippedItem(prefix + name, reason))
                else:
                    files.append(prefix + name)
            if len(files) > MAX_FILES:
                reason = f"{self.path} has more than {MAX_FILES:,} files"
                raise UsageError(reason, "import a folder in it")
        return sorted(files)

    def _skip(self, error: OSError) -> None:
        self.skipped.append(SkippedItem(str(error.filename), error.strerror or str(error)))

    def file(self, name: str) -> Path:
        """Return the absolute path of a file."""
        return self.path / name if self.path.is_dir() else self.path

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        return self.file(name).lstat().st_size

    def modified(self, name: str) -> float:
        """Return the modification time of a file, in seconds since 1970."""
        return self.file(name).lstat().st_mtime

    def _open(self, name: str) -> BinaryIO:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        if not stat.S_ISREG(self.file(name).lstat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        return open(os.open(self.file(name), flags), "rb")


def _why_not_regular(path: str) -> str:
    """Return why a path is not a regular file; empty if it is one."""
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:  # deleted since it was listed, or in /proc
        return error.strerror or str(error)
    if stat.S_ISREG(mode):
        return ""
    return LINK if stat.S_ISLNK(mode) else "not a regular file"


def text_lines(source: Source, name: str, max_bytes: int = MAX_FILE) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, truncated to ``max_bytes`` bytes, with line numbers starting at 1.

    Raises ``OSError`` if the file becomes unreadable.
    """
    with source.open(name) as file:
        number = 0
        while line := file.readline(max_bytes):
            number += 1
            source.tick()
            yield number, line
            while len(line) >= max_bytes and not line.endswith(b"\n"):
                line = file.readline(max_bytes)
