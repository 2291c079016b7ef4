"""Zips and tars as sources, read with limits and without extracting them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from memvault.errors import NotFound, UsageError
from memvault.importers.items import SkippedItem
from memvault.importers.source import JUNK, LINK, MAX_FILES, PlainSource, Source
from memvault.named_tuple import NamedTuple
from memvault.vault import paths

_MAX_RATIO, _MIN_EXPANDED = 200, 256 * 1024 * 1024
"""Expansion limits: a multiple of the archive's size, or a number of bytes if that is larger."""
_MAX_NESTED = 2
"""Maximum nesting depth of zips."""
_MAX_ZIPS = 100
"""Maximum number of zips in a folder of zips that is read as one source."""
_COPIED = 1 << 20
_TAR_SIGN, _TAR_SIGN_AT = b"ustar", 257
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, tarfile.TarError),
    *(EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError),
)


class _Entry(NamedTuple):
    """A file in an archive; ``label`` is the archive's name.

    ``reason`` says why the file is not read; it is empty for a readable file.
    """

    name: str
    size: int
    reason: str
    archive: Any
    info: Any
    label: str = ""


class _ArchiveSource(Source):
    """One or more zips, or a tar, as a source."""

    form = "archive"
    """The archive format, for messages."""
    strips_top = True
    """Whether a single top folder is omitted from the names."""

    def __init__(self, path: Path, packed_size: int = 0) -> None:
        super().__init__(path)
        self._stack = contextlib.ExitStack()
        self._room = max(_MIN_EXPANDED, _MAX_RATIO * packed_size)
        """Number of bytes that may still be extracted."""

    def close(self) -> None:
        self._stack.close()

    @property
    def label(self) -> str:
        return self._top or super().label

    @cached_property
    def _top(self) -> str:
        """The name of the omitted top folder, or an empty string."""
        tops = {name.partition("/")[0] for name in self._all} if self.strips_top else set()
        return tops.pop() if len(tops) == 1 and all("/" in name for name in self._all) else ""

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        top = f"{self._top}/" if self._top else ""
        return {name.removeprefix(top): entry for name, entry in self._all.items()}

    @cached_property
    def _all(self) -> dict[str, _Entry]:
        """The files by name, except those in ``skipped``."""
        entries: dict[str, _Entry] = {}
        for entry in self._listed():
            reason = entry.reason or self._why_unsafe(entry)
            if not reason and len(entries) >= MAX_FILES:
                reason = self._too_large
            if reason:
                self.skipped.append(SkippedItem(entry.name, reason))
            elif name := self._free_name(entries, entry):
                entries[name] = entry
        return entries

    def _free_name(self, _entries: dict[str, _Entry], entry: _Entry) -> str:
        """Return the unique name for a file; empty for a duplicate."""
        return str(PurePosixPath(entry.name))

    def _listed(self) -> Iterator[_Entry]:
        """Yield the files."""
        raise NotImplementedError

    def _opened(self, entry: _Entry) -> Any:
        """Open a file; raises ``_DAMAGED`` exceptions."""
        raise NotImplementedError

    @property
    def _too_large(self) -> str:
        return f"the {self.form} expands beyond the size limit"

    def _why_unsafe(self, entry: _Entry) -> str:
        """Return why the name or size of a file is not accepted; empty if it is."""
        name = entry.name
        if name.startswith("/") or "\\" in name or ":" in name[:2] or ".." in name.split("/"):
            return f"the path points outside the {self.form}"
        if entry.size > self._room:
            return self._too_large
        self._room -= entry.size
        return ""

    @cached_property
    def names(self) -> list[str]:
        return sorted(self._entries)

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            reason = dict(self.skipped).get(name, f"not found in the {self.form}")
            raise FileNotFoundError(errno.ENOENT, reason, name)
        return self._entries[name]

    def size(self, name: str) -> int:
        return self._entry(name).size

    def _open(self, name: str) -> BinaryIO:
        entry = self._entry(name)
        try:
            return io.BufferedReader(_PackedFile(self._opened(entry), self.form))
        except _DAMAGED as error:
            raise OSError(errno.EIO, str(error), name) from error


class _PackedFile(io.RawIOBase):
    """An open file in an archive; its methods raise only ``OSError``."""

    def __init__(self, file: Any, form: str) -> None:
        self._file, self._form = file, form

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except _DAMAGED as error:
            raise OSError(errno.EIO, f"the {self._form} is damaged: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _ZipSource(_ArchiveSource):
    """The files in one or more zips.

    A zip that contains only zips, as Notion's do, represents the files in them.
    """

    form = "zip"

    def __init__(
        self,
        path: Path,
        zips: Sequence[Path | BinaryIO],
        packed_size: int = 0,
        strips_top: bool = True,
    ) -> None:
        super().__init__(path, packed_size)
        self.strips_top = strips_top
        with self._stack as stack:
            self._zips = [stack.enter_context(zipfile.ZipFile(file)) for file in zips]
            self._stack = stack.pop_all()

    def _listed(self) -> Iterator[_Entry]:
        for archive in self._zips:
            label = Path(archive.filename or "").stem
            yield from self._listed_in(label, archive, 0)

    def _listed_in(self, label: str, archive: zipfile.ZipFile, depth: int) -> Iterator[_Entry]:
        """Yield the files in a zip, or in its zips if it contains nothing else."""
        entries = [
            _Entry(info.filename, info.file_size, _why_unreadable(info), archive, info, label)
            for info in archive.infolist()
            if not info.is_dir() and not _is_junk(info.filename)
        ]
        has_zips = bool(entries) and all(entry.name.lower().endswith(".zip") for entry in entries)
        for entry in entries:
            if has_zips and depth < _MAX_NESTED and not entry.reason:
                yield from self._listed_within(entry, depth + 1)
            else:
                yield entry

    def _listed_within(self, entry: _Entry, depth: int) -> Iterator[_Entry]:
        """Unpack a zip in a zip to a temporary file, and yield its files."""
        from tempfile import TemporaryFile

        if reason := self._why_unsafe(entry):
            self.skipped.append(SkippedItem(entry.name, reason))
            return
        try:
            file = self._stack.enter_context(TemporaryFile())  # noqa: SIM115  # closed by it
            with self._opened(entry) as packed:
                while data := packed.read(_COPIED):
                    file.write(data)
                    self.tick()
            inner = self._stack.enter_context(zipfile.ZipFile(file))
        except (*_DAMAGED, OSError) as error:
            self.skipped.append(SkippedItem(entry.name, f"the zip is damaged: {error}"))
        else:
            yield from self._listed_in(PurePosixPath(entry.name).stem, inner, depth)

    def _free_name(self, entries: dict[str, _Entry], entry: _Entry) -> str:
        """Return a name; add the zip's name if another zip has a different file with that name."""
        name = super()._free_name(entries, entry)
        if name not in entries:
            return name
        other = entries[name]
        if (other.info.CRC, other.size) == (entry.info.CRC, entry.size):
            return ""
        above, _, base = name.rpartition("/")
        wanted = "/".join(filter(None, (above, entry.label, base)))
        names = paths.numbered_names(wanted, entries.__contains__)
        return next(free for free in names if free not in entries)

    def _opened(self, entry: _Entry) -> Any:
        return entry.archive.open(entry.info)

    def modified(self, name: str) -> float:
        from calendar import timegm

        try:
            return timegm((*self._entry(name).info.date_time, 0, 0, 0))
        except ValueError:
            return self.path.stat().st_mtime


def _why_unreadable(info: zipfile.ZipInfo) -> str:
    """Return why an entry in a zip is not read; empty if it is."""
    if stat.S_ISLNK(info.external_attr >> 16):
        return LINK
    return "encrypted" if info.flag_bits & 1 else ""


class _TarSource(_ArchiveSource):
    """An uncompressed tar."""

    form = "tar"

    def _listed(self) -> Iterator[_Entry]:
        most = self.path.stat().st_size
        end = 0
        try:
            tar = self._stack.enter_context(tarfile.open(self.path, "r:"))  # noqa: SIM115
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps all members otherwise
                if member.offset_data <= end or member.offset_data + member.size > most:
                    raise tarfile.ReadError("an entry extends past the end of the tar")
                end = member.offset_data
                self.tick()
                if not member.isdir() and not _is_junk(member.name):
                    yield _Entry(member.name, member.size, _why_not_plain(member), tar, member)
        except (*_DAMAGED, OSError) as error:
            self.skipped.append(SkippedItem(self.path.name, f"the rest cannot be read: {error}"))

    def _opened(self, entry: _Entry) -> Any:
        return entry.archive.extractfile(entry.info)

    def modified(self, name: str) -> float:
        return float(self._entry(name).info.mtime)


def _why_not_plain(entry: tarfile.TarInfo) -> str:
    """Return why an entry in a tar is not read; empty if it is."""
    if entry.issym() or entry.islnk():
        return LINK
    return "" if entry.isreg() and not entry.issparse() else "not a regular file"


def _is_tar(path: Path) -> bool:
    """Return whether a file is an uncompressed tar."""
    with path.open("rb") as file:
        file.seek(_TAR_SIGN_AT)
        return file.read(len(_TAR_SIGN)) == _TAR_SIGN


def _is_junk(name: str) -> bool:
    """Return whether a file in an archive was added by an operating system or git."""
    parts = PurePosixPath(name).parts
    return not parts or bool(JUNK.intersection(parts)) or ".git" in parts


def open_packed(source: Source, name: str, strips_top: bool) -> Source:
    """Open a zip in a source, such as a Word document, in memory; it may expand to 256 MB.

    ``strips_top`` omits a single top folder from the names. Files in the zip that are not read are
    added to the source's skipped items.

    Raises:
        OSError: if the zip cannot be read.
        ValueError: if the file is not a zip.
    """
    packed = open_zip(name, source.read(name), strips_top)
    _ = packed.names  # Listing the files also finds the files to skip.
    source.skipped += [SkippedItem(f"{name}/{one.what}", one.reason) for one in packed.skipped]
    return packed


def open_zip(name: str, data: bytes, strips_top: bool = False) -> Source:
    """Open the bytes of a zip, as ``open_packed``; raises ``ValueError`` if they are not a zip."""
    try:
        return _ZipSource(Path(name), [io.BytesIO(data)], strips_top=strips_top)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(f"damaged: {error}") from error


def open_source(argument: str) -> Source:
    """Open a folder, a file, a zip, a tar, or a folder of zips.

    Raises:
        NotFound: if there is no such file or folder.
        UsageError: if the path is neither a file nor a folder, or the archive is damaged.
    """
    path = Path(argument).expanduser()
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise NotFound(f"There is no file or folder {argument}", "check the path") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise UsageError(f"{argument} is neither a file nor a folder", "pass a file or a folder")
    try:
        path = path.resolve()
        if stat.S_ISREG(mode) and zipfile.is_zipfile(path):
            return _ZipSource(path, [path], path.stat().st_size)
        if stat.S_ISREG(mode) and _is_tar(path):
            return _TarSource(path, path.stat().st_size)
        source = PlainSource(path)
        names = source.names if stat.S_ISDIR(mode) and len(os.listdir(path)) <= _MAX_ZIPS else []
        if names and all(name.lower().endswith(".zip") for name in names):
            zips = [source.file(name) for name in names]
            return _ZipSource(path, zips, sum(map(source.size, names)))
        return source
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise UsageError(f"{argument} cannot be read: {error}", "export it again") from error
