"""Finding tracked files of ``.memvault`` by reading git's index file.

Git itself is not run, since the settings of a repository from someone else may
name programs that it would start. The format is described in git's documentation,
gitformat-index(5).
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from memvault.files import plain_files
from memvault.repository import program

_FIXED = 62
"""Number of bytes of an entry before its path, including the SHA-1 of its content."""
_LONGER = 0x4000
"""The flag of an extended entry, which has two more bytes."""
_LONGEST = 4_096
"""Maximum number of bytes of a path; supported systems have no longer ones."""
_OLD = 3_600.0


def private_file(root: Path) -> str:
    """Return the first tracked file of ``.memvault``, or an empty text if there is none."""
    for folder in (root, *root.parents):
        repository = folder / ".git"
        if os.path.lexists(repository):
            if repository.is_symlink() or not repository.is_dir():
                return ""  # it refers to a folder elsewhere and is not followed
            below = root.relative_to(folder).as_posix()
            prefix = os.fsencode(".memvault/" if below == "." else f"{below}/.memvault/")
            with contextlib.suppress(OSError, ValueError, IndexError, struct.error):
                data = plain_files.read(repository / "index", plain_files.MEMORY)
                for path in paths(data):
                    if path.startswith(prefix):
                        return os.fsdecode(path[len(prefix) - len(".memvault/") :])
                    if path > prefix:
                        break  # entries are sorted
            return ""
    return ""


def repositories_inside(root: Path, folders: Iterable[str]) -> list[str]:
    """Return the given folders of a vault in git that are nested repositories.

    Folders that the vault's ``.gitmodules`` names are left out: they are nested on purpose.
    """
    if not any(os.path.lexists(folder / ".git") for folder in (root, *root.parents)):
        return []
    named = program.submodules(root)
    return [path for path in folders if path not in named and os.path.lexists(root / path / ".git")]


def is_locked(root: Path) -> bool:
    """Return whether the vault's repository has an index lock older than an hour.

    Such a lock was left by a git process that was killed.
    """
    with contextlib.suppress(OSError):
        folder = root / ".git"
        if not folder.is_symlink():
            return time.time() - (folder / "index.lock").lstat().st_mtime > _OLD
    return False


def paths(data: bytes) -> Iterator[bytes]:
    """Yield the paths in an index of version 2, 3 or 4, in time linear in its size.

    Raises:
        ValueError: the data is not an index; also ``IndexError`` or ``struct.error``.
    """
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("not an index")
    place, before = 12, b""
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, place + _FIXED - 2)
        start = place + _FIXED + (2 if flags & _LONGER else 0)
        kept = 0
        if version == 4:
            strip, start = _number(data, start)
            kept = len(before) - strip
            if kept < 0:
                raise ValueError("not an index")
        end = data.index(b"\0", start, start + _LONGEST + 1 - kept)
        name = before[:kept] + data[start:end]
        yield name
        before = name
        place = end + 1 if version == 4 else place + (end - place + 8) // 8 * 8


def _number(data: bytes, place: int) -> tuple[int, int]:
    """Return a number of variable length at ``place``, and the position after it."""
    value = data[place] & 127
    while data[place] & 128:
        place += 1
        value = (value + 1 << 7) | (data[place] & 127)
    return value, place + 1
