"""The folder, file or archive that is imported, read with limits and without following links."""

from __future__ import annotations

import errno
import io
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from memvault.errors import NotFound, UsageError
from memvault.files import plain_files
from memvault.files.walk import is_link, walk
from memvault.importers.items import Unreadable
from memvault.importers.tally import Tally

if TYPE_CHECKING:
    import tarfile

MAX_FILE = plain_files.MEMORY
"""Maximum size in bytes of a file that is read as a whole."""
_MAX_FILES = 1_000_000
_MAX_RATIO, _MIN_EXPANDED = 200, 256 * 1024 * 1024
"""An archive's files may expand to this many times its size, or to these bytes if that is more."""
_LINK = "a link, which is not followed"
_HEAD, _LONG_HEAD = 4096, 1 << 16
_MAX_HEADS = 64 * 1024 * 1024
"""Maximum size of the beginnings of files that are stored, so that each file is opened once."""
_JUNK = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"})
_SHORTER = "the tar has become shorter"
_TAR_SIGN, _TAR_SIGN_AT = b"ustar", 257
_PIECE = 1 << 16
"""Maximum size of a file of a tar that is read at once when it is opened."""
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
        self._heads: dict[str, tuple[int, bytes]] = {}
        self._room_for_heads = _MAX_HEADS
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

    def head(self, name: str, length: int = _HEAD) -> bytes:
        """Return the first bytes of a file; empty if it cannot be read."""
        asked, data = self._heads.get(name, (0, b""))
        if asked < length and len(data) == asked:  # the file may be longer
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
                    self.skipped.append(Unreadable(prefix + name, _LINK))
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
    except OSError as error:  # deleted in the meantime, or in /proc
        return error.strerror or str(error)
    if stat.S_ISREG(mode):
        return ""
    return "a link, which is not followed" if stat.S_ISLNK(mode) else "no file"


class _ArchiveSource(Source):
    """A zip or a tar. Its only top folder, if it has one, is no part of the names."""

    @property
    def label(self) -> str:
        return self._top or super().label

    @cached_property
    def _top(self) -> str:
        """The name of the only top folder; empty if there is none."""
        tops = {name.partition("/")[0] for name in self._all}
        return tops.pop() if len(tops) == 1 and all("/" in name for name in self._all) else ""

    @cached_property
    def _entries(self) -> dict[str, Any]:
        top = f"{self._top}/" if self._top else ""
        return {name.removeprefix(top): entry for name, entry in self._all.items()}

    @cached_property
    def _all(self) -> dict[str, Any]:
        """The files by their names; those that are not read are in ``skipped``."""
        entries: dict[str, Any] = {}
        room = max(_MIN_EXPANDED, _MAX_RATIO * self.path.stat().st_size)
        for name, size, reason, entry in self._listed():
            parts = PurePosixPath(name).parts
            if not parts or _JUNK.intersection(parts) or ".git" in parts:
                continue
            room -= size
            reason = reason or self._why_unsafe(name)
            if not reason and (room < 0 or len(entries) >= _MAX_FILES):
                reason = f"the {self.form} expands to more than is read"
            if reason:
                self.skipped.append(Unreadable(name, reason))
            else:
                entries[str(PurePosixPath(name))] = entry
        return entries

    form = "archive"
    """What the file is, for people."""

    def _listed(self) -> Iterator[tuple[str, int, str, Any]]:
        """Yield the name and size of each file, why it is not read, and its entry."""
        raise NotImplementedError

    def _why_unsafe(self, name: str) -> str:
        """Return why a file is not read because of its name; empty if it may be."""
        is_out = name.startswith("/") or "\\" in name or ":" in name[:2] or ".." in name.split("/")
        return f"its path leads out of the {self.form}" if is_out else ""

    @cached_property
    def names(self) -> list[str]:
        return sorted(self._entries)

    def _entry(self, name: str) -> Any:
        if name not in self._entries:
            raise FileNotFoundError(errno.ENOENT, f"there is no such file in the {self.form}", name)
        return self._entries[name]


class _ZipSource(_ArchiveSource):
    """A zip."""

    form = "zip"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._zip = zipfile.ZipFile(path)

    def close(self) -> None:
        self._zip.close()

    def _listed(self) -> Iterator[tuple[str, int, str, Any]]:
        for entry in self._zip.infolist():
            if not entry.is_dir():
                yield entry.filename, entry.file_size, _why_unreadable(entry), entry

    def size(self, name: str) -> int:
        size: int = self._entry(name).file_size
        return size

    def modified(self, name: str) -> float:
        from datetime import UTC, datetime

        entry: zipfile.ZipInfo = self._entry(name)
        try:
            return datetime(*entry.date_time, tzinfo=UTC).timestamp()
        except ValueError:
            return self.path.stat().st_mtime

    def _open(self, name: str) -> BinaryIO:
        try:
            return io.BufferedReader(_ZipReader(self._zip.open(self._entry(name))))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise OSError(errno.EIO, str(error), name) from error


class _ZipReader(io.RawIOBase):
    """A file in a zip, whose errors are all ``OSError``."""

    def __init__(self, file: object) -> None:
        self._file: BinaryIO = file  # type: ignore[assignment]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise OSError(errno.EIO, f"the zip is damaged: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _why_unreadable(entry: zipfile.ZipInfo) -> str:
    """Return why an entry of a zip is not read; empty if it may be."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return _LINK
    return "it is encrypted" if entry.flag_bits & 1 else ""


class _TarEntry(NamedTuple):
    """Where a file is in a tar."""

    offset: int
    size: int
    modified: float


class _TarSource(_ArchiveSource):
    """A tar that is not compressed. Nothing is extracted: files are read where they are in it."""

    form = "tar"

    def _listed(self) -> Iterator[tuple[str, int, str, Any]]:
        import tarfile

        most = self.path.stat().st_size
        end = 0
        try:
            with tarfile.open(self.path, "r:") as tar:
                while (found := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]  # keeps what it has read
                    if found.offset_data <= end or found.offset_data + found.size > most:
                        raise tarfile.ReadError("a file in it ends beyond the tar")
                    end = found.offset_data
                    self.tick()
                    if not found.isdir():
                        entry = _TarEntry(end, found.size, float(found.mtime))
                        yield found.name, found.size, _why_not_plain(found), entry
        except (tarfile.TarError, ValueError, OverflowError, OSError) as error:
            self.skipped.append(Unreadable(self.path.name, f"its rest cannot be read: {error}"))

    def size(self, name: str) -> int:
        size: int = self._entry(name).size
        return size

    def modified(self, name: str) -> float:
        modified: float = self._entry(name).modified
        return modified

    def _open(self, name: str) -> BinaryIO:
        entry = self._entry(name)
        if entry.size > _PIECE:
            return io.BufferedReader(_Section(self.path, entry.offset, entry.size))
        with self.path.open("rb", buffering=0) as file:
            file.seek(entry.offset)
            data = file.read(entry.size)
        if len(data) < entry.size:
            raise OSError(errno.EIO, _SHORTER)
        return io.BytesIO(data)


def _why_not_plain(entry: tarfile.TarInfo) -> str:
    """Return why an entry of a tar is not read; empty if it may be."""
    if entry.issym() or entry.islnk():
        return _LINK
    return "" if entry.isreg() and not entry.issparse() else "not a plain file"


class _Section(io.RawIOBase):
    """A part of a file."""

    def __init__(self, path: Path, offset: int, size: int) -> None:
        self._file = path.open("rb", buffering=0)
        self._file.seek(offset)
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(min(len(buffer), self._left))
        if not data and self._left:
            raise OSError(errno.EIO, _SHORTER)
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _is_tar(path: Path) -> bool:
    """Return whether a file begins as a tar that is not compressed."""
    with path.open("rb") as file:
        file.seek(_TAR_SIGN_AT)
        return file.read(len(_TAR_SIGN)) == _TAR_SIGN


def open_source(given: str) -> Source:
    """Open a folder, a file, a zip or a tar.

    Raises:
        NotFound: there is no such file or folder.
        UsageError: it is neither, or a damaged archive.
    """
    path = Path(given).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise NotFound(f"There is no file or folder {given}", "check the path") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise UsageError(f"{given} is neither a file nor a folder", "name a file or a folder")
    try:
        if stat.S_ISREG(mode) and zipfile.is_zipfile(path):
            return _ZipSource(path.resolve())
        if stat.S_ISREG(mode) and _is_tar(path):
            return _TarSource(path.resolve())
        return _PlainSource(path.resolve())
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
