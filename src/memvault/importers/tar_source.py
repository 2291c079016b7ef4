"""A tar that is imported. Nothing is extracted: files are read where they are in it."""

from __future__ import annotations

import errno
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from memvault.importers.items import Unreadable
from memvault.importers.kinds import REST
from memvault.importers.source import LINK, ArchiveSource

_MAGIC, _MAGIC_AT = b"ustar", 257


def is_tar(path: Path) -> bool:
    """Return whether a file begins as a tar that is not compressed."""
    with path.open("rb") as file:
        file.seek(_MAGIC_AT)
        return file.read(len(_MAGIC)) == _MAGIC


class _Entry(NamedTuple):
    """Where a file is in a tar."""

    offset: int
    size: int
    modified: float


class TarSource(ArchiveSource):
    """A tar that is not compressed."""

    form = "tar"

    def _listed(self) -> Iterator[tuple[str, int, str, Any]]:
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
                        entry = _Entry(end, found.size, float(found.mtime))
                        yield found.name, found.size, _why_unreadable(found), entry
        except (tarfile.TarError, ValueError, OverflowError, OSError) as error:
            self.skipped.append(Unreadable(self.path.name, f"{REST}: {error}"))

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        size: int = self._entry(name).size
        return size

    def modified(self, name: str) -> float:
        """Return when a file was changed last, in seconds since 1970."""
        modified: float = self._entry(name).modified
        return modified

    def _open(self, name: str) -> BinaryIO:
        entry = self._entry(name)
        return io.BufferedReader(_Section(self.path, entry.offset, entry.size))


def _why_unreadable(entry: tarfile.TarInfo) -> str:
    """Return why an entry of a tar is not read; empty if it may be."""
    if entry.issym() or entry.islnk():
        return LINK
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
            raise OSError(errno.EIO, "the tar has become shorter")
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()
