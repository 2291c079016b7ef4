"""List the memories in a vault's folders, and read its folders of files with headers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from memvault.errors import VaultUnreadable
from memvault.files import atomic, plain_files
from memvault.model import FileState
from memvault.sanitize import replace_surrogates
from memvault.vault import paths
from memvault.vault.document import Document

_MAX_INT64 = (1 << 63) - 1


class Scan(NamedTuple):
    """The files found by a scan; ``unreadable`` are folders that could not be listed."""

    files: list[FileState]
    unreadable: list[str]


def scan(root: Path, ignore: tuple[str, ...] = ()) -> Scan:
    """List the files of all memories without opening them.

    Symbolic links are not followed: their target is either in the vault under its own name or does
    not belong to it.

    Raises:
        VaultUnreadable: the root folder cannot be listed.
    """
    files: list[FileState] = []
    unreadable: list[str] = []
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder if folder else root) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name.startswith(".") or (ignore and paths.is_ignored(path, ignore)):
                        continue
                    _add_entry(entry, path, files, pending)
        except FileNotFoundError:
            continue  # deleted between the listing and the check
        except OSError as error:
            if not folder:
                raise VaultUnreadable(
                    f"{root} cannot be listed: {error.strerror}", "check its permissions"
                ) from error
            unreadable.append(folder)
    return Scan(files, unreadable)


def listed(root: Path, path: str, ignore: tuple[str, ...] = ()) -> bool:
    """Return whether ``scan`` lists a memory's file under exactly this path.

    Each folder of the path is listed, since a file system may accept a name in another spelling.
    """
    if state_of(root, path) is None or not paths.is_memory_path(path):
        return False
    folder = ""
    for part in path.split("/"):
        inside = f"{folder}/{part}" if folder else part
        try:
            linked = part not in os.listdir(root / folder) or (root / inside).is_symlink()
        except OSError:
            return False
        if linked or paths.is_ignored(inside, ignore):
            return False
        folder = inside
    return True


def _add_entry(
    entry: os.DirEntry[str], path: str, files: list[FileState], pending: list[str]
) -> None:
    """Append a memory's file to the files, or a folder that may hold some to the pending ones."""
    try:
        if entry.is_dir(follow_symlinks=False):
            if path not in paths.RESERVED:
                pending.append(path)
        elif entry.name[-3:].lower() == ".md" and entry.is_file(follow_symlinks=False):
            files.append(_state(path, entry.stat(follow_symlinks=False)))
    except FileNotFoundError:
        return


def state_of(root: Path, path: str) -> FileState | None:
    """Return one file's state, or None if there is no regular file at that path."""
    import stat

    try:
        status = os.lstat(root / path)
    except (OSError, ValueError):
        return None
    return _state(path, status) if stat.S_ISREG(status.st_mode) else None


def _state(path: str, status: os.stat_result) -> FileState:
    # SQLite's integers are signed 64-bit; on Windows, scandir gives no inodes.
    inode = 0 if sys.platform == "win32" else status.st_ino & _MAX_INT64
    mtime, ctime = (
        max(-_MAX_INT64, min(time, _MAX_INT64)) for time in (status.st_mtime_ns, status.st_ctime_ns)
    )
    return FileState(path, status.st_size, mtime, ctime, inode)


class HeaderFile(NamedTuple):
    """A markdown file as read once: its path in the vault, bytes, and mtime in nanoseconds."""

    path: str
    data: bytes
    document: Document
    mtime: int


def read_header_file(
    root: Path, path: str, max_bytes: int = plain_files.MEMORY, ours: bool = False
) -> HeaderFile:
    """Read a markdown file; a link is not followed. ``ours`` is that of ``Document.parse``.

    Raises:
        OSError: it cannot be read; ``FileNotFoundError`` if it is no regular file.
        ValueError: its header is broken, or it is binary.
    """
    data = plain_files.read(root / path, max_bytes)
    mtime = (root / path).lstat().st_mtime_ns
    document = Document.parse(data, ours)
    if document.problem:
        raise ValueError(document.problem)
    return HeaderFile(path, data, document, mtime)


def read_header_files(
    root: Path,
    folder: str,
    skipped: Callable[[str, str], object],
    max_bytes: int = plain_files.MEMORY,
    ours: bool = False,
) -> Iterator[HeaderFile]:
    """Yield the markdown files in a folder of the vault, sorted by name; none if it is missing.

    ``skipped`` is called with the printable path of each file that cannot be read, and the reason.

    Raises:
        Refused: the folder is a link or a file.
        StorageError: the folder cannot be listed.
    """
    paths.require_plain_folders(root, folder)
    try:
        with atomic.map_os_errors(folder):
            names = sorted(os.listdir(root / folder))
    except FileNotFoundError:
        return
    for name in names:
        path = f"{folder}/{name}"
        if name[0] == "." or not name.lower().endswith(".md"):
            continue
        try:
            file = read_header_file(root, path, max_bytes, ours)
        except (OSError, ValueError) as error:
            skipped(replace_surrogates(path), getattr(error, "strerror", None) or str(error))
        else:
            yield file
