"""Zips and tars as sources, read with limits and without extracting them."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import posixpath
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from memvault.errors import NotFound, UsageError
from memvault.importers.items import SkippedItem
from memvault.importers.source import JUNK, LINK, MAX_FILES, PlainSource, Source

if TYPE_CHECKING:
    import tarfile

_MAX_RATIO, _MIN_EXPANDED = 200, 256 * 1024 * 1024
"""An archive may expand to this many times its size, or to this many bytes if that is more."""
_MAX_NESTED = 2
"""Maximum nesting depth of zips."""
_MAX_ZIPS = 100
"""Maximum number of zips in a folder of zips that is read as one source."""
_COPIED = 1 << 20
_SHORTER = "the tar was truncated while it was read"
_TAR_SIGN, _TAR_SIGN_AT = b"ustar", 257
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)


class _Listed(NamedTuple):
    """A file in an archive; ``reason`` is why it is not read, ``label`` its archive's name."""

    name: str
    size: int
    reason: str
    entry: Any
    label: str = ""


class _Room:
    """Counts down the bytes to which the files of an archive may expand."""

    def __init__(self, packed: int) -> None:
        self._left = max(_MIN_EXPANDED, _MAX_RATIO * packed)

    def take(self, size: int) -> bool:
        """Reserve space for a file; return whether there was enough."""
        self._left -= size
        return self._left >= 0


class _ArchiveSource(Source):
    """A zip or a tar; a single top folder is not part of the names."""

    @property
    def label(self) -> str:
        return self._top or super().label

    @cached_property
    def _top(self) -> str:
        """The name of the single top folder; empty if there is none."""
        tops = {name.partition("/")[0] for name in self._all}
        return tops.pop() if len(tops) == 1 and all("/" in name for name in self._all) else ""

    @cached_property
    def _entries(self) -> dict[str, Any]:
        top = f"{self._top}/" if self._top else ""
        return {name.removeprefix(top): entry for name, entry in self._all.items()}

    @cached_property
    def _all(self) -> dict[str, Any]:
        """The files by name, without those in ``skipped``."""
        entries: dict[str, Any] = {}
        for listed in self._listed():
            reason = listed.reason or self._why_unsafe(listed)
            if not reason and len(entries) >= MAX_FILES:
                reason = self._too_large
            if reason:
                self.skipped.append(SkippedItem(listed.name, reason))
            elif name := self._free_name(entries, listed):
                entries[name] = listed.entry
        return entries

    def _free_name(self, entries: dict[str, Any], listed: _Listed) -> str:  # noqa: ARG002  # for zips
        """Return the unique name for a file; empty for a duplicate."""
        return str(PurePosixPath(listed.name))

    form = "archive"
    """The archive format, for messages."""

    def _listed(self) -> Iterator[_Listed]:
        """Yield the files."""
        raise NotImplementedError

    @cached_property
    def _room(self) -> _Room:
        return _Room(self._packed_size)

    @property
    def _packed_size(self) -> int:
        return self.path.stat().st_size

    @property
    def _too_large(self) -> str:
        return f"the {self.form} expands beyond the import limit"

    def _why_unsafe(self, listed: _Listed) -> str:
        """Return why the name or size of a file is not accepted; empty if it is."""
        name, is_too_large = listed.name, not self._room.take(listed.size)
        if name.startswith("/") or "\\" in name or ":" in name[:2] or ".." in name.split("/"):
            return f"the path points outside the {self.form}"
        return self._too_large if is_too_large else ""

    @cached_property
    def names(self) -> list[str]:
        return sorted(self._entries)

    def _entry(self, name: str) -> Any:
        if name not in self._entries:
            raise FileNotFoundError(errno.ENOENT, f"not found in the {self.form}", name)
        return self._entries[name]


class _ZipSource(_ArchiveSource):
    """The files of one or more zips.

    A zip that contains only zips, such as Notion's, stands for their files.
    """

    form = "zip"

    def __init__(self, path: Path, zips: Sequence[Path]) -> None:
        super().__init__(path)
        self._paths = zips
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            self._zips = [
                (archive.stem, stack.enter_context(zipfile.ZipFile(archive))) for archive in zips
            ]
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    @property
    def _packed_size(self) -> int:
        return sum(path.stat().st_size for path in self._paths)

    def _listed(self) -> Iterator[_Listed]:
        for label, archive in self._zips:
            yield from self._listed_in(label, archive, 0)

    def _listed_in(self, label: str, archive: zipfile.ZipFile, depth: int) -> Iterator[_Listed]:
        """Yield the files of a zip, or of its zips if it contains nothing else."""
        entries = [
            _Listed(
                entry.filename, entry.file_size, _why_unreadable(entry), (archive, entry), label
            )
            for entry in archive.infolist()
            if not entry.is_dir() and not _is_junk(entry.filename)
        ]
        has_zips = bool(entries) and all(listed.name.lower().endswith(".zip") for listed in entries)
        for listed in entries:
            if has_zips and depth < _MAX_NESTED and not listed.reason:
                yield from self._listed_within(listed, depth + 1)
            else:
                yield listed

    def _listed_within(self, listed: _Listed, depth: int) -> Iterator[_Listed]:
        """Unpack a zip in a zip to a temporary file, and yield its files."""
        from tempfile import TemporaryFile

        reason = self._why_unsafe(listed)
        if reason:
            self.skipped.append(SkippedItem(listed.name, reason))
            return
        archive, entry = listed.entry
        try:
            file = self._stack.enter_context(TemporaryFile())  # noqa: SIM115  # closed by it
            with archive.open(entry) as packed:
                while data := packed.read(_COPIED):
                    file.write(data)
                    self.tick()
            inner = self._stack.enter_context(zipfile.ZipFile(file))
        except (*_ZIP_ERRORS, OSError, RuntimeError) as error:
            self.skipped.append(SkippedItem(listed.name, f"the zip is damaged: {error}"))
        else:
            yield from self._listed_in(PurePosixPath(listed.name).stem, inner, depth)

    def _free_name(self, entries: dict[str, Any], listed: _Listed) -> str:
        """Return a name; add the zip's name if another zip has a different file of that name."""
        name = super()._free_name(entries, listed)
        if name not in entries:
            return name
        other, entry = entries[name][1], listed.entry[1]
        if (other.CRC, other.file_size) == (entry.CRC, entry.file_size):
            return ""
        above, _, base = name.rpartition("/")
        return self._numbered("/".join(filter(None, (above, listed.label, base))), entries)

    @staticmethod
    def _numbered(name: str, entries: dict[str, Any]) -> str:
        stem, suffix = posixpath.splitext(name)
        variants = (f"{stem}-{number}{suffix}" for number in itertools.count(2))
        return next(
            variant for variant in itertools.chain((name,), variants) if variant not in entries
        )

    def _zip_entry(self, name: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
        archive, entry = self._entry(name)
        return archive, entry

    def size(self, name: str) -> int:
        return self._zip_entry(name)[1].file_size

    def modified(self, name: str) -> float:
        from datetime import UTC, datetime

        try:
            return datetime(*self._zip_entry(name)[1].date_time, tzinfo=UTC).timestamp()
        except ValueError:
            return self.path.stat().st_mtime

    def _open(self, name: str) -> BinaryIO:
        archive, entry = self._zip_entry(name)
        try:
            return io.BufferedReader(_ZipReader(archive.open(entry)))
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise OSError(errno.EIO, str(error), name) from error


class _ZipReader(io.RawIOBase):
    """A file in a zip that raises only ``OSError``."""

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


def _why_unreadable(entry: zipfile.ZipInfo) -> str:
    """Return why an entry of a zip is not read; empty if it is."""
    if stat.S_ISLNK(entry.external_attr >> 16):
        return LINK
    return "encrypted" if entry.flag_bits & 1 else ""


class _TarEntry(NamedTuple):
    """The position of a file in a tar."""

    offset: int
    size: int
    modified: float


class _TarSource(_ArchiveSource):
    """An uncompressed tar, whose files are read in place."""

    form = "tar"

    def _listed(self) -> Iterator[_Listed]:
        import tarfile

        most = self.path.stat().st_size
        end = 0
        try:
            with tarfile.open(self.path, "r:") as tar:
                while (member := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps all members otherwise
                    if member.offset_data <= end or member.offset_data + member.size > most:
                        raise tarfile.ReadError("an entry extends past the end of the tar")
                    end = member.offset_data
                    self.tick()
                    if not member.isdir() and not _is_junk(member.name):
                        entry = _TarEntry(end, member.size, float(member.mtime))
                        yield _Listed(member.name, member.size, _why_not_plain(member), entry)
        except (tarfile.TarError, ValueError, OverflowError, OSError) as error:
            self.skipped.append(SkippedItem(self.path.name, f"the rest cannot be read: {error}"))

    def size(self, name: str) -> int:
        size: int = self._entry(name).size
        return size

    def modified(self, name: str) -> float:
        modified: float = self._entry(name).modified
        return modified

    def _open(self, name: str) -> BinaryIO:
        entry = self._entry(name)
        return io.BufferedReader(_Section(self.path, entry.offset, entry.size))


def _why_not_plain(entry: tarfile.TarInfo) -> str:
    """Return why an entry of a tar is not read; empty if it is."""
    if entry.issym() or entry.islnk():
        return LINK
    return "" if entry.isreg() and not entry.issparse() else "not a regular file"


class _Section(io.RawIOBase):
    """A byte range of a file."""

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
    """Return whether a file is an uncompressed tar."""
    with path.open("rb") as file:
        file.seek(_TAR_SIGN_AT)
        return file.read(len(_TAR_SIGN)) == _TAR_SIGN


def _is_junk(name: str) -> bool:
    """Return whether a file of an archive was added by an operating system or git."""
    parts = PurePosixPath(name).parts
    return not parts or bool(JUNK.intersection(parts)) or ".git" in parts


def open_source(argument: str) -> Source:
    """Open a folder, a file, a zip, a tar, or a folder of zips.

    Raises:
        NotFound: there is no such file or folder.
        UsageError: it is neither, or a damaged archive.
    """
    path = Path(argument).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise NotFound(f"There is no file or folder {argument}", "check the path") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise UsageError(f"{argument} is neither a file nor a folder", "name a file or a folder")
    try:
        path = path.resolve()
        if stat.S_ISREG(mode) and zipfile.is_zipfile(path):
            return _ZipSource(path, [path])
        if stat.S_ISREG(mode) and _is_tar(path):
            return _TarSource(path)
        source = PlainSource(path)
        names = source.names if stat.S_ISDIR(mode) and len(os.listdir(path)) <= _MAX_ZIPS else []
        if names and all(name.lower().endswith(".zip") for name in names):
            return _ZipSource(path, [source.file(name) for name in names])
        return source
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise UsageError(f"{argument} cannot be read: {error}", "export it again") from error
