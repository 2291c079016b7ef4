"""Reading files that may come from anyone: plain ones, never through a link, never without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MEMORY = 64 * 1024 * 1024
"""Bytes of a memory, a message or an entry at most."""
SETTING = 1024 * 1024
"""Bytes of a file of settings, or of a tool's description, at most."""
STATE = 16 * 1024 * 1024
"""Bytes of a file of the program's own in the vault at most."""


def read(path: Path, most: int = MEMORY) -> bytes:
    """Return a plain file's bytes; a link, a pipe or a device is never opened for reading.

    Raises:
        FileNotFoundError: there is no plain file of that name.
        OSError: it cannot be read, or (``EFBIG``) has more than ``most`` bytes.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    if not stat.S_ISREG(path.lstat().st_mode):
        raise FileNotFoundError(errno.ENOENT, "Not a plain file", str(path))
    with open(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, "Not a plain file", str(path))
        # A file may grow while it is read.
        data = file.read(most + 1) if status.st_size <= most else b""
    if status.st_size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"The file is larger than {most >> 20} MB", str(path))
    return data
