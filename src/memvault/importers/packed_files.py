"""The files of a zip in a source, such as a Word document."""

from __future__ import annotations

import errno
import io
import zipfile
import zlib

from memvault.importers.source import MAX_FILE, Source

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
_MAX_FILES = 100_000
_MAX_EXPANDED = 4 * MAX_FILE
"""Maximum number of bytes that are read from one zip."""


class PackedFiles:
    """Reads the files of a zip into memory, with limits on each and on all."""

    def __init__(self, source: Source, name: str) -> None:
        """Open the zip.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not a zip, or has too many files.
        """
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(source.read(name)))
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise ValueError(f"damaged: {error}") from error
        entries = [entry for entry in self._zip.infolist() if not entry.is_dir()]
        if len(entries) > _MAX_FILES:
            raise ValueError(f"more than {_MAX_FILES:,} files")
        self._room = _MAX_EXPANDED
        self._entries = {entry.filename: entry for entry in entries}
        self.names = sorted(self._entries)
        """Return the sorted names of its files; they may be unsafe, but nothing is extracted."""

    def read(self, name: str) -> bytes:
        """Return a file's bytes; raises ``OSError``, for example beyond the limit."""
        if name not in self._entries:
            raise FileNotFoundError(errno.ENOENT, f"{name} is missing")
        most = min(MAX_FILE, self._room)
        try:
            with self._zip.open(self._entries[name]) as file:
                data = file.read(most + 1)
        except _DAMAGED as error:
            raise OSError(errno.EIO, f"damaged: {error}") from error
        self._room -= len(data)
        if len(data) > most:
            raise OSError(errno.EFBIG, "expands beyond the import limit")
        return data
