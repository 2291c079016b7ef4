"""Copy the memories written in a linked git worktree to its repository.

``git worktree remove`` deletes a worktree's files, with ``--force`` even uncommitted ones. The
copies outlive it, in the folder ``memvault`` of the repository's common git directory. There is one
vault of copies per worktree, with the same paths. A copy is deleted when another worktree contains
the memory.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.git_location import RepositoryLocation, linked_worktree
from memvault.files.user_folders import SETTINGS_FILE
from memvault.files.walk import walk
from memvault.vault.naming import slug
from memvault.vault.paths import is_memory_path, require_plain_folders

_COPIES = "memvault"
_ABOUT = "worktree.json"
_CREATED = "commondir"
"""A file of a worktree's git directory that git writes only when it creates the worktree."""


class CopiedVault(NamedTuple):
    """The copies from one worktree: the vault's folder among them, and the worktree's branch."""

    root: Path
    checked_out: str


def update(root: Path, path: str) -> str:
    """Copy a memory after a write in a linked worktree, or delete the copy of a deleted one.

    ``root`` is the vault in the worktree; nothing happens in other vaults. Returns why the memory
    could not be copied, or an empty string.
    """
    location = linked_worktree(Path(os.path.realpath(root))) if is_memory_path(path) else None
    if location is not None:
        try:
            _update(location, root, path)
        except MemvaultError as error:
            return error.message
    return ""


def update_all(root: Path, unmerged: Collection[str]) -> None:
    """Make the copies of a linked worktree equal to its unmerged memories, whose paths are given.

    Nothing happens in other vaults. A memory that cannot be copied is skipped.
    """
    location = linked_worktree(Path(os.path.realpath(root)))
    if location is None:
        return
    copies = location.common / _COPIES / _folder_name(location) / location.prefix_of(root)
    if not unmerged and not copies.is_dir():
        return
    for path in unmerged:
        with contextlib.suppress(MemvaultError, OSError):
            copied, written = os.lstat(copies / path), os.lstat(root / path)
            if (copied.st_size, copied.st_mtime_ns >= written.st_mtime_ns) == (written.st_size, 1):
                continue
        with contextlib.suppress(MemvaultError):
            _update(location, root, path)
    for path in set(_paths(copies)) - set(unmerged):
        delete_copy(copies, path)


def _update(location: RepositoryLocation, root: Path, path: str) -> None:
    """Copy one memory, or delete its copy if the memory is missing.

    Raises:
        Refused: a folder of the copies is a link or a file.
        StorageError: the copy cannot be written.
    """
    prefix = location.prefix_of(root)
    name = f"{_COPIES}/{_folder_name(location)}"
    folder = location.common / name
    require_plain_folders(location.common, f"{name}/{prefix}{PurePosixPath(path).parent}")
    with atomic.map_os_errors(folder / prefix / path):
        try:
            data = plain_files.read(root / path)
        except FileNotFoundError:
            delete_copy(folder / prefix, path)
            return
        settings = plain_files.read(root / SETTINGS_FILE, plain_files.MAX_SETTING_BYTES)
        about = {"branch": location.checked_out, "worktree": str(location.top)}
        _write(folder / _ABOUT, json.dumps(about).encode())
        _write(folder / prefix / SETTINGS_FILE, settings)
        _write(folder / prefix / path, data)


def _write(path: Path, data: bytes) -> None:
    with contextlib.suppress(OSError):
        if plain_files.read(path) == data:
            os.utime(path)
            return
    atomic.write(path, data, private=True)


def copied_vaults(location: RepositoryLocation, prefix: str) -> Iterator[CopiedVault]:
    """Yield the vaults with copies from worktrees that no longer exist.

    ``prefix`` is the vault's path in the working tree (see ``RepositoryLocation.prefix_of``).
    """
    folder = location.common / _COPIES
    try:
        require_plain_folders(location.common, _COPIES)
        names = sorted(os.listdir(folder))
    except (OSError, MemvaultError):
        return
    existing = {_folder_name(location), *_existing_names(location.common)}
    for name in names:
        root = folder / name / prefix
        if name not in existing and (root / SETTINGS_FILE).is_file():
            with contextlib.suppress(MemvaultError):
                require_plain_folders(folder, f"{name}/{prefix}")
                about = plain_files.read_json(folder / name / _ABOUT)
                yield CopiedVault(root, str(about.get("branch") or "unknown"))


def delete_copy(root: Path, path: str) -> None:
    """Delete a memory's copy, and the folder of its worktree's copies if no others are left."""
    with contextlib.suppress(OSError, StopIteration):
        (root / path).unlink(missing_ok=True)
        top = next(folder for folder in (root, *root.parents) if (folder / _ABOUT).is_file())
        if not any(name.endswith(".md") for _, _, names in walk(top) for name in names):
            import shutil  # It takes 3 ms to load.

            shutil.rmtree(top)


def _paths(folder: Path) -> Iterator[str]:
    """Yield the paths of the memories in a folder of copies."""
    for parent, _, names in walk(folder):
        for name in names:
            path = Path(parent, name).relative_to(folder).as_posix()
            if is_memory_path(path):
                yield path


def _existing_names(common: Path) -> Iterator[str]:
    """Yield the names of the folders for copies from worktrees that still exist."""
    folder = common / "worktrees"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                line = plain_files.read(folder / name / "gitdir", plain_files.MAX_SETTING_BYTES)
                if os.path.lexists(folder / name / os.fsdecode(line).rstrip("\r\n")):
                    yield _name_of(folder / name)


def _folder_name(location: RepositoryLocation) -> str:
    return _name_of(location.folder) if location.is_linked else ""


def _name_of(folder: Path) -> str:
    """Return the name of the folder for a worktree's copies, given the worktree's git directory.

    It includes the time of the worktree's creation, since a later one may have the same name.
    """
    created = 0
    with contextlib.suppress(OSError):
        created = os.lstat(folder / _CREATED).st_mtime_ns
    return f"{slug(folder.name, 40)}-{plain_files.digest_of(str(created).encode(), 4).hex()}"
