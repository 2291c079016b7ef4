"""Find a vault's repository and read its state without running git."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from memvault.errors import Refused
from memvault.files.git_location import RepositoryLocation, location_at
from memvault.sanitize import replace_surrogates

GRANT = "git", "repository"
"""The kind and name of the grant that lets git run in a vault's repository."""
_READ = "", "info", "objects/info", "objects/pack", "refs"
"""Folders whose files git opens without checking their type."""
_IN_TOP = ".gitattributes", ".gitignore", ".gitmodules", ".mailmap"
_MAX_FILES = 10_000
"""Maximum number of entries to check; a blocked git process is terminated anyway."""
_STALE_LOCK_SECONDS = 3_600.0


class NoRepository(Refused):
    """The vault has a ``.git`` that is not a git repository."""


def find_repository(root: Path) -> RepositoryLocation | None:
    """Return the repository that contains a vault, or None.

    Raises:
        NoRepository: the vault's .git is not a repository.
    """
    root = Path(os.path.realpath(root))
    for top in (root, *root.parents):
        if os.path.lexists(top / ".git"):
            location = location_at(top)
            if location is not None:
                return location
            if top == root:
                hint = "move it elsewhere if you do not need it"
                if (top / ".git").is_file():
                    hint = "if its repository was moved, run `git worktree repair` there"
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
