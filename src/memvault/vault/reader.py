"""List the memories in a vault's folders, with the state of each file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

from memvault.errors import VaultUnreadable
from memvault.model import FileState
from memvault.vault import paths

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
