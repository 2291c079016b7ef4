"""Read untrusted files: only regular files, never through a link, and of limited size.

A file's stamp is its size, times and inode. It reveals incomplete writes, power failures and
changes by other programs, but not forgery by an attacker who can write to the folder.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from memvault.errors import Refused

try:  # hashlib also loads OpenSSL, which takes 3 ms
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

MAX_MEMORY_BYTES = 64 * 1024 * 1024
"""Maximum size in bytes of a memory, a message or an entry."""
MAX_SETTING_BYTES = 1024 * 1024
"""Maximum size in bytes of a settings file or a tool's description."""
MAX_STATE_BYTES = 16 * 1024 * 1024
"""Maximum size in bytes of a file in `.memvault`."""
FileStamp = tuple[int, ...]
"""Size, mtime and ctime in nanoseconds, and inode of a file."""


def read(path: Path | str, max_bytes: int = MAX_MEMORY_BYTES) -> bytes:
    """Return a regular file's bytes; links, pipes and devices are never opened for reading.

    Raises:
        FileNotFoundError: there is no regular file at that path.
        OSError: the file cannot be read, or (``EFBIG``) is larger than ``max_bytes``.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise FileNotFoundError(errno.ENOENT, "Not a regular file", str(path))
    with open(os.open(path, flags), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "Not a regular file", str(path))
        if status.st_size <= max_bytes:
            # The file may grow while it is read, and Python allocates as many bytes as requested.
            data = file.read(status.st_size + 1)
            if len(data) != status.st_size:
                with open(file.fileno(), "rb", closefd=False) as rest:
                    data += rest.read(max_bytes + 1 - len(data))
            if len(data) <= max_bytes:
                return data
    raise OSError(errno.EFBIG, f"The file is larger than {max_bytes >> 20} MB", str(path))


class RandomAccessFile:
    """A file from which any thread can read at any position.

    It is closed by ``close``, or when it is no longer referenced.
    """

    def __init__(self, path: Path) -> None:
        from threading import Lock
        from weakref import finalize

        self._lock = Lock()
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - until close
        self.close = finalize(self, self._file.close)

    @property
    def size(self) -> int:
        """The current size of the file in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, start: int, size: int) -> bytes:
        """Return ``size`` bytes from a position, or fewer at the end of the file."""
        data: bytes
        if hasattr(os, "pread"):
            data = os.pread(self._file.fileno(), size, start)
            return data
        with self._lock:  # on Windows, threads share the file position
            self._file.seek(start)
            data = self._file.read(size)
        return data


def check_size(data: bytes) -> None:
    """Check that data is small enough for ``read``, before it is written.

    Raises:
        Refused: the data is too large.
    """
    if len(data) > MAX_MEMORY_BYTES:
        raise Refused(
            f"The file would be larger than {MAX_MEMORY_BYTES >> 20} MB, the maximum",
            "split the text into several memories",
        )


def digest_of(data: bytes | memoryview, size: int) -> bytes:
    """Return the BLAKE2b digest of bytes."""
    return blake2b(data, digest_size=size).digest()


def is_missing(path: Path) -> bool:
    """Return whether there is nothing at a path; False if a folder above cannot be searched."""
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ENOTDIR)
    return False


def read_json(path: Path, max_bytes: int = MAX_STATE_BYTES) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing, unreadable or damaged."""
    try:
        value = json.loads(read(path, max_bytes))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def stamp_of(path: Path | str) -> FileStamp | None:
    """Return a file's stamp, or None if the file is missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
