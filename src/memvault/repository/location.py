"""Find a vault's repository and read its state without running git."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from memvault.errors import Refused
from memvault.files import plain_files
from memvault.sanitize import replace_surrogates

_OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}
GRANT = "git", "repository"
"""The kind and name of the grant that lets git run in a vault's repository."""
_READ = "", "info", "objects/info", "objects/pack", "refs"
"""Folders whose files git opens without checking their type."""
_IN_TOP = ".gitattributes", ".gitignore", ".gitmodules", ".mailmap"
_MAX_FILES = 10_000
"""Maximum number of entries to check; a blocked git process is terminated anyway."""
_STALE_LOCK_SECONDS = 3_600.0
_GITDIR = "gitdir: "
_REF = "ref: "
_BRANCHES = "refs/heads/"
_MAX_REFS = 5
"""Maximum length of a chain of symbolic refs, as in git."""


class NoRepository(Refused):
    """The vault has a ``.git`` that is not a git repository."""


class RepositoryLocation(NamedTuple):
    """The paths of a repository.

    ``top`` is the top folder of the working tree, ``folder`` the git directory, and
    ``common`` the part of the git directory that worktrees share.
    """

    top: Path
    folder: Path
    common: Path

    @property
    def branch(self) -> str:
        """The name of the branch in HEAD; empty if no branch is checked out."""
        ref = next(iter(self.refs), "")
        return ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else ""

    @property
    def refs(self) -> list[str]:
        """The name of the ref in HEAD, and the names of the refs that it points to."""
        names: list[str] = []
        file = self.folder / "HEAD"
        with contextlib.suppress(OSError, ValueError):
            while len(names) < _MAX_REFS:
                data = plain_files.read(file, plain_files.MAX_SETTING_BYTES)
                text = data.decode("utf-8", "replace")
                name = text.removeprefix(_REF).strip()
                if not text.startswith(f"{_REF}refs/") or ".." in name:
                    break
                names.append(name)
                file = self.common / names[-1]
        return names

    @property
    def operation_in_progress(self) -> str:
        """The operation in progress, such as ``rebase`` or ``merge``; empty if there is none."""
        operations = (what for name, what in _OPERATIONS.items() if (self.folder / name).exists())
        return next(operations, "")

    def prefix_of(self, root: Path) -> str:
        """Return the path from the top folder to a vault, ending with a slash; empty if equal."""
        below = Path(os.path.realpath(root)).relative_to(self.top).as_posix()
        return "" if below == "." else f"{below}/"


def find_repository(root: Path) -> RepositoryLocation | None:
    """Return the repository that contains a vault, or None.

    Raises:
        NoRepository: the vault's .git is not a repository.
    """
    root = Path(os.path.realpath(root))
    for top in (root, *root.parents):
        if os.path.lexists(top / ".git"):
            location = _location_at(top)
            if location is not None:
                return location
            if top == root:
                hint = "move it elsewhere if you do not need it"
                raise NoRepository("The vault's .git is not a git repository", hint)
    return None


def has_stale_lock(root: Path) -> bool:
    """Return whether the vault's repository has an index lock older than an hour.

    A killed git process leaves such a lock.
    """
    with contextlib.suppress(OSError):
        folder = root / ".git"
        if not folder.is_symlink():
            return time.time() - (folder / "index.lock").lstat().st_mtime > _STALE_LOCK_SECONDS
    return False


def _location_at(top: Path) -> RepositoryLocation | None:
    folder = top / ".git"
    try:
        if not folder.is_dir():  # In a worktree or submodule, .git is a file.
            text = os.fsdecode(plain_files.read(folder, plain_files.MAX_SETTING_BYTES))
            if not text.startswith(_GITDIR):
                return None
            folder = top / text.removeprefix(_GITDIR).rstrip("\r\n")
        folder = common = Path(os.path.realpath(folder))
        if os.path.lexists(folder / "commondir"):
            data = plain_files.read(folder / "commondir", plain_files.MAX_SETTING_BYTES)
            text = os.fsdecode(data)
            common = Path(os.path.realpath(folder / text.rstrip("\r\n")))
    except (OSError, ValueError):
        return None
    has_head = os.path.lexists(folder / "HEAD") and not (folder / "HEAD").is_dir()
    if has_head and (common / "objects").is_dir() and (common / "refs").is_dir():
        return RepositoryLocation(top, folder, common)
    return None


def check_plain(location: RepositoryLocation) -> None:
    """Check that none of the paths that git opens is a pipe or a device, which would block it.

    Loose objects, and files deeper in the vault, are not checked. Sockets are allowed, because git
    fails on them immediately.

    Raises:
        Refused: a path is a pipe or a device.
    """
    for path in _opened(location):
        with contextlib.suppress(OSError):
            mode = os.stat(path).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                hint = "move it elsewhere; git would hang on it"
                named = replace_surrogates(os.path.relpath(path, location.top))
                raise Refused(f"{named} is a pipe or a device, not a file", hint)


def _opened(location: RepositoryLocation) -> Iterator[str | Path]:
    """Yield the paths that git opens and that may not be regular files."""
    yield from (location.top / name for name in _IN_TOP)
    pending = [(above / name, name == "refs") for above in {location.folder, location.common}
            for name in _READ]  # fmt: skip
    count = 0
    while pending and count < _MAX_FILES:
        folder, is_deep = pending.pop()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    if is_deep:
                        pending.append((Path(entry.path), True))
                elif not entry.is_file(follow_symlinks=False):
                    yield entry.path
