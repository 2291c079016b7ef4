"""The folder, file or zip that is imported, read with limits and without following links."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from memvault.errors import NotFound, UsageError
from memvault.files import plain_files
from memvault.files.walk import is_link, walk
from memvault.importers.items import Unreadable
from memvault.importers.tally import Tally

MAX_FILE = plain_files.MEMORY
"""Maximum size in bytes of a file that is read as a whole."""
_MAX_FILES = 1_000_000
_MAX_RATIO, _MIN_EXPANDED = 200, 256 * 1024 * 1024
"""A zip's files may expand to this many times its size, or to these bytes if that is more."""
_MAX_NESTED = 2
"""How deeply zips in a zip are read."""
_MAX_ZIPS = 100
"""Maximum number of zips of a folder that has nothing else, which are read as one source."""
_COPIED = 1 << 20
_JUNK = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"})
_FIXED_NAMES = frozenset({"memory", "claude", "bookmarks", "conversations"})
"""Names that a program gives to each of its files, which tell no source from another."""


class Source:
    """The files of a source by their names: relative paths with forward slashes, sorted.

    ``path`` is what the user named. ``skipped`` are the parts that cannot be read. A single file
    is a source with one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.skipped: list[Unreadable] = []
        self.tally = Tally()
        self.tables: dict[str, frozenset[str]] = {}
        """The names of the tables of each database that was looked into."""
        self.left_out: list[str] = []
        """The names of files that are skipped because reading them failed."""
        self.current = ""
        """The name of the file that was opened last."""
        self.opened_bytes = 0
        """The sizes of all files that were opened, together."""
        self.tick: Callable[[], object] = lambda: None
        """Called while a file is read."""

    @cached_property
    def names(self) -> list[str]:
        """The names of all files, sorted."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """The name by which a source is known: that of the folder or file, without an ending."""
        if not self.path.is_dir() and self.path.stem.casefold() not in _FIXED_NAMES:
            return self.path.stem
        folder = self.path if self.path.is_dir() else self.path.parent
        is_hidden = folder.name.startswith(".")  # named by the program, such as .mnemonics
        return folder.parent.name if is_hidden else folder.name

    def close(self) -> None:
        """Close what is open."""

    def leave_out(self, name: str) -> None:
        """Skip a file from now on, as if the source did not have it."""
        self.left_out.append(name)
        self.names = [one for one in self.names if one != name]
        self.__dict__.pop("name_set", None)
        self.tables.pop(name, None)

    @cached_property
    def name_set(self) -> frozenset[str]:
        """The names of all files, for membership tests."""
        return frozenset(self.names)

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        raise NotImplementedError

    def modified(self, name: str) -> float:
        """Return when a file was changed last, in seconds since 1970."""
        raise NotImplementedError

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raises ``OSError``, also while it is read."""
        self.begin(name)
        return self._open(name)

    def _open(self, name: str) -> BinaryIO:
        raise NotImplementedError

    def begin(self, name: str) -> None:
        """Record that reading a file begins."""
        self.current = name
        self.opened_bytes += self.size(name)
        self.tick()

    def read(self, name: str, most: int = MAX_FILE) -> bytes:
        """Return a file's bytes; raises ``OSError``, also if there are more than ``most``."""
        if self.size(name) <= most:
            with self.open(name) as file:
                data = file.read(most + 1)
            if len(data) <= most:
                return data
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MB", name)

    def head(self, name: str, length: int = 4096) -> bytes:
        """Return the first bytes of a file; empty if it cannot be read."""
        try:
            with self._open(name) as file:
                return file.read(length)
        except OSError:
            return b""

    def named(self, *endings: str) -> list[str]:
        """Return the names with one of these endings, in any case."""
        return [name for name in self.names if name.lower().endswith(endings)]


class _PlainSource(Source):
    """A folder, or a single file."""

    @cached_property
    def names(self) -> list[str]:
        if not self.path.is_dir():
            return [self.path.name]
        found: list[str] = []
        for folder, folders, names in walk(self.path, self._skip):
            below = os.path.relpath(folder, self.path).replace(os.sep, "/")
            prefix = "" if below == "." else f"{below}/"
            for name in list(folders):
                if name in _JUNK or name == ".git":
                    folders.remove(name)
                elif is_link(os.path.join(folder, name)):
                    self.skipped.append(Unreadable(prefix + name, "a link, which is not followed"))
            for name in filter(lambda name: name not in _JUNK, names):
                reason = _why_no_file(os.path.join(folder, name))
                if reason:
                    self.skipped.append(Unreadable(prefix + name, reason))
                else:
                    found.append(prefix + name)
            if len(found) > _MAX_FILES:
                reason = f"{self.path} has more than {_MAX_FILES:,} files"
                raise UsageError(reason, "import a folder in it")
        return sorted(found)

    def _skip(self, error: OSError) -> None:
        self.skipped.append(Unreadable(str(error.filename), error.strerror or str(error)))

    def file(self, name: str) -> Path:
        """Return the path of a file on this machine."""
        return self.path / name if self.path.is_dir() else self.path

    def size(self, name: str) -> int:
        return self.file(name).lstat().st_size

    def modified(self, name: str) -> float:
        return self.file(name).lstat().st_mtime

    def _open(self, name: str) -> BinaryIO:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        if not stat.S_ISREG(self.file(name).lstat().st_mode):
            raise OSError(errno.EINVAL, "no plain file", name)
        return open(os.open(self.file(name), flags), "rb")


def _why_no_file(path: str) -> str:
    """Return why a path is no plain file; empty if it is one."""
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:  # deleted meanwhile, or in /proc
        return error.strerror or str(error)
    if stat.S_ISREG(mode):
        return ""
    return "a link, which is not followed" if stat.S_ISLNK(mode) else "no file"


class _ZipSource(Source):
    """A zip, or all zips of a folder. Their only top folder is not a part of the names.

    A zip that has nothing but zips, as those of Notion, is read as the files of these together.
    """

    def __init__(self, path: Path, zips: Sequence[Path]) -> None:
        super().__init__(path)
        self._stack = contextlib.ExitStack()
        self._room = max(_MIN_EXPANDED, _MAX_RATIO * sum(one.stat().st_size for one in zips))
        """How many bytes all files may still expand to, also within zips in zips."""
        with contextlib.ExitStack() as stack:
            self._zips = [(one.stem, stack.enter_context(zipfile.ZipFile(one))) for one in zips]
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    @property
    def label(self) -> str:
        return self._top or super().label

    @cached_property
    def _top(self) -> str:
        """The name of the only top folder; empty if there is none."""
        tops = {name.partition("/")[0] for name in self._all}
        return tops.pop() if len(tops) == 1 and all("/" in name for name in self._all) else ""

    @cached_property
    def _entries(self) -> dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]]:
        top = f"{self._top}/" if self._top else ""
        return {name.removeprefix(top): entry for name, entry in self._all.items()}

    @cached_property
    def _all(self) -> dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]]:
        entries: dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]] = {}
        for name, archive in self._zips:
            self._add(entries, name, archive, 0)
        return entries

    def _add(
        self,
        entries: dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]],
        label: str,
        archive: zipfile.ZipFile,
        depth: int,
    ) -> None:
        """Add the files of a zip, and of the zips in it if it has nothing else."""
        found = [entry for entry in archive.infolist() if not _is_junk(entry)]
        has_zips = bool(found) and all(one.filename.lower().endswith(".zip") for one in found)
        for entry in found:
            self._room -= entry.file_size
            reason = _why_unsafe(entry)
            if not reason and (self._room < 0 or len(entries) >= _MAX_FILES):
                reason = "the zip expands to more than is read"
            if reason:
                self.skipped.append(Unreadable(entry.filename, reason))
            elif has_zips and depth < _MAX_NESTED:
                self._add_nested(entries, archive, entry, depth + 1)
            else:
                name = str(PurePosixPath(entry.filename))
                other = entries.get(name)
                if other is None:
                    entries[name] = archive, entry
                elif (other[1].CRC, other[1].file_size) != (entry.CRC, entry.file_size):
                    above, _, base = name.rpartition("/")
                    entries["/".join(filter(None, (above, label, base)))] = archive, entry

    def _add_nested(
        self,
        entries: dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]],
        archive: zipfile.ZipFile,
        entry: zipfile.ZipInfo,
        depth: int,
    ) -> None:
        """Add the files of a zip in a zip, which is unpacked to a temporary file."""
        from tempfile import TemporaryFile

        try:
            file = self._stack.enter_context(TemporaryFile())  # noqa: SIM115  # closed by it
            with archive.open(entry) as packed:
                while data := packed.read(_COPIED):
                    file.write(data)
                    self.tick()
            inner = self._stack.enter_context(zipfile.ZipFile(file))
        except (*_ZIP_ERRORS, OSError, RuntimeError) as error:
            self.skipped.append(Unreadable(entry.filename, f"the zip is damaged: {error}"))
        else:
            self._add(entries, PurePosixPath(entry.filename).stem, inner, depth)

    @cached_property
    def names(self) -> list[str]:
        return sorted(self._entries)

    def _entry(self, name: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
        if name not in self._entries:
            raise FileNotFoundError(errno.ENOENT, "there is no such file in the zip", name)
        return self._entries[name]

    def size(self, name: str) -> int:
        return self._entry(name)[1].file_size

    def modified(self, name: str) -> float:
        from datetime import UTC, datetime

        try:
            return datetime(*self._entry(name)[1].date_time, tzinfo=UTC).timestamp()
        except ValueError:
            return self.path.stat().st_mtime

    def _open(self, name: str) -> BinaryIO:
        archive, entry = self._entry(name)
        try:
            return io.BufferedReader(_ZipReader(archive.open(entry)))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise OSError(errno.EIO, str(error), name) from error


_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)


def _is_junk(entry: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(entry.filename).parts
    return entry.is_dir() or bool(_JUNK.intersection(parts)) or ".git" in parts


class _ZipReader(io.RawIOBase):
    """A file in a zip, whose errors are all ``OSError``."""

    def __init__(self, file: object) -> None:
        self._file: BinaryIO = file  # type: ignore[assignment]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except _ZIP_ERRORS as error:
            raise OSError(errno.EIO, f"the zip is damaged: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _why_unsafe(entry: zipfile.ZipInfo) -> str:
    """Return why an entry of a zip is not read; empty if it may be."""
    name = entry.filename
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "a link, which is not followed"
    if name.startswith("/") or "\\" in name or ":" in name[:2] or ".." in name.split("/"):
        return "its path leads out of the zip"
    return "it is encrypted" if entry.flag_bits & 1 else ""


def open_source(given: str) -> Source:
    """Open a folder, a file or a zip.

    Raises:
        NotFound: there is no such file or folder.
        UsageError: it is neither, or a damaged zip.
    """
    path = Path(given).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise NotFound(f"There is no file or folder {given}", "check the path") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise UsageError(f"{given} is neither a file nor a folder", "name a file or a folder")
    try:
        path = path.resolve()
        if stat.S_ISREG(mode):
            return _ZipSource(path, [path]) if zipfile.is_zipfile(path) else _PlainSource(path)
        source = _PlainSource(path)
        names = source.names if len(os.listdir(path)) <= _MAX_ZIPS else []
        if names and all(name.lower().endswith(".zip") for name in names):
            return _ZipSource(path, [source.file(name) for name in names])
        return source
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise UsageError(f"{given} cannot be read: {error}", "export it again") from error


def local_file(source: Source, name: str) -> Path | None:
    """Return the path of a file that a program can open by itself; None in a zip."""
    return source.file(name) if isinstance(source, _PlainSource) else None


def text_lines(source: Source, name: str, most: int = MAX_FILE) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, from 1; one longer than ``most`` is cut.

    Raises ``OSError`` where the file cannot be read any further.
    """
    with source.open(name) as file:
        number = 0
        while line := file.readline(most):
            number += 1
            source.tick()
            yield number, line
            while len(line) >= most and not line.endswith(b"\n"):
                line = file.readline(most)
