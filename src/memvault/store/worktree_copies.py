"""Copy the memories written in a linked git worktree to its repository.

``git worktree remove`` deletes a worktree's files, with ``--force`` even uncommitted ones. The
copies outlive it, in the folder ``memvault`` of the repository's common git directory. There is one
vault of copies per worktree, with the same paths. Nothing is read or written through a link.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from memvault.errors import MemvaultError, Refused
from memvault.files import atomic, plain_files
from memvault.files.git_location import RepositoryLocation, created_ns, linked_worktree
from memvault.files.user_folders import SETTINGS_FILE
from memvault.files.walk import walk
from memvault.named_tuple import NamedTuple
from memvault.vault.naming import slug
from memvault.vault.paths import is_memory_path, require_plain_folders

_FOLDER = "memvault"
_ABOUT = "worktree.json"
_MARKERS = {_ABOUT, SETTINGS_FILE}
_ATTEMPTS = 5
"""Number of attempts to write a copy while another process removes its empty folder."""


class Copies(NamedTuple):
    """The copies of one vault in one linked worktree: where they are, and the worktree's branch.

    ``prefix`` is the vault's path in the working tree (see ``RepositoryLocation.prefix_of``).
    """

    common: Path
    name: str
    prefix: str
    checked_out: str

    @property
    def root(self) -> Path:
        """The folder with the same paths as the vault."""
        return self.common / _FOLDER / self.name / self.prefix

    def paths(self) -> list[str]:
        """Return the paths of the copied memories that can be listed, without following links."""
        with contextlib.suppress(Refused, OSError):
            self._require_plain("")
            return [
                path
                for parent, _, names in walk(self.root)
                for name in names
                if is_memory_path(path := Path(parent, name).relative_to(self.root).as_posix())
            ]
        return []

    def write(self, source: Path, path: str) -> None:
        """Copy a memory with its time from the vault in a folder.

        Raises:
            Refused: a folder of the copies is a link or a file.
            StorageError: the copy cannot be written.
            OSError: the memory or the vault's settings cannot be read.
        """
        self._require_plain(path)
        data = plain_files.read(source / path)
        times = os.lstat(source / path)
        settings = plain_files.read(source / SETTINGS_FILE, plain_files.MAX_SETTING_BYTES)
        about = json.dumps({"branch": self.checked_out}).encode()
        _write(self.root / path, data)
        os.utime(self.root / path, ns=(times.st_atime_ns, times.st_mtime_ns))
        # Write the memory first: another process deletes markers only where there is no copy.
        _write(self.root / SETTINGS_FILE, settings)
        _write(self._top / _ABOUT, about)

    def delete(self, path: str) -> None:
        """Delete the copy of a memory, and the folders and markers that no copy needs then."""
        with contextlib.suppress(Refused, OSError):
            self._require_plain(path)
            (self.root / path).unlink(missing_ok=True)
            folder = (self.root / path).parent
            while folder.is_relative_to(self._top):
                _remove_without_copies(folder)
                folder = folder.parent

    @property
    def _top(self) -> Path:
        return self.common / _FOLDER / self.name

    def _require_plain(self, path: str) -> None:
        parent = PurePosixPath(self.prefix, path).parent if path else PurePosixPath(self.prefix)
        require_plain_folders(self.common, f"{_FOLDER}/{self.name}/{parent}")


def copies_of(location: RepositoryLocation, root: Path) -> Copies | None:
    """Return where a vault's memories are copied to; None if it is not in a linked worktree."""
    if not location.is_linked:
        return None
    name = _name_of(location.folder)
    return Copies(location.common, name, location.prefix_of(root), location.checked_out)


def update(root: Path, path: str) -> str:
    """Copy a memory after a write in a linked worktree, or delete the copy of a deleted one.

    ``root`` is the vault in the worktree; nothing happens in other vaults. Returns why the memory
    could not be copied, or an empty string.
    """
    location = linked_worktree(root) if is_memory_path(path) else None
    copies = copies_of(location, root) if location is not None else None
    if copies is None:
        return ""
    if plain_files.is_missing(root / path):
        copies.delete(path)
        return ""
    try:
        copies.write(root, path)
    except MemvaultError as error:
        return error.message
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def abandoned(location: RepositoryLocation, prefix: str) -> Iterator[Copies]:
    """Yield the copies of a vault from worktrees that no longer exist.

    ``location`` must come from ``vault_location``.
    """
    folder = location.common / _FOLDER
    try:
        require_plain_folders(location.common, _FOLDER)
        names = sorted(os.listdir(folder))
    except (OSError, MemvaultError):
        return
    existing = {*_existing_names(location.common)}
    for name in names:
        if name not in existing:
            about = plain_files.read_json(folder / name / _ABOUT)
            branch = "".join(filter(str.isprintable, str(about.get("branch") or "unknown")))[:100]
            copies = Copies(location.common, name, prefix, branch)
            if copies.paths() and not plain_files.is_missing(copies.root / SETTINGS_FILE):
                yield copies


def _existing_names(common: Path) -> Iterator[str]:
    """Yield the names of the copies' folders of worktrees that still exist."""
    folder = common / "worktrees"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError):
                line = plain_files.read(folder / name / "gitdir", plain_files.MAX_SETTING_BYTES)
                if os.path.lexists(folder / name / os.fsdecode(line).rstrip("\r\n")):
                    yield _name_of(folder / name)


def _name_of(folder: Path) -> str:
    """Return the name of the copies' folder for a worktree's git directory.

    It includes the time of the worktree's creation, because a later worktree may have the same
    name.
    """
    created = created_ns(folder)
    return f"{slug(folder.name, 40)}-{plain_files.digest_of(str(created).encode(), 4).hex()}"


def _write(path: Path, data: bytes) -> None:
    with contextlib.suppress(OSError):
        if plain_files.read(path) == data:
            return
    for _ in range(_ATTEMPTS - 1):
        # Another process may have removed the empty folder.
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            atomic.write(path, data, private=True)
            return
    atomic.write(path, data, private=True)


def _remove_without_copies(folder: Path) -> None:
    """Remove a folder that is empty or contains only markers.

    If another process writes a copy to it at the same time, the folder and its markers stay.

    Raises:
        OSError: the folder contains something else, or cannot be removed.
    """
    names = os.listdir(folder)
    if not _MARKERS.issuperset(names):
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(folder))
    markers = {folder / name: plain_files.read(folder / name) for name in names}
    try:
        for marker in markers:
            marker.unlink(missing_ok=True)
        folder.rmdir()
    except FileNotFoundError:  # Another process has removed it.
        pass
    except OSError:
        for marker, data in markers.items():
            _write(marker, data)
        raise
