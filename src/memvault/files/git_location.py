"""Find a git repository and its worktrees from their files, without running git.

The files may come from a stranger. A worktree is used only if it refers to the repository and the
repository refers to it, so that a forged file cannot point to someone else's folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from memvault.files import plain_files
from memvault.files.user_folders import is_owned
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}
_GITDIR = "gitdir: "
_REF = "ref: "
_BRANCHES = "refs/heads/"
_MAX_REFS = 5
"""Maximum length of a chain of symbolic refs, as in git."""
_WORKTREES = "worktrees"
_MAX_WORKTREES, _MAX_LISTED = 100, 1_000
_MAX_PATH = 4_096
_MAX_BRANCH = 100
_CONFIGURED_TOP = lazy_pattern(
    r"^[ \t]*+worktree[ \t]*+=[ \t]*+\"?([^\r\n\"]{1,4096})", re.MULTILINE
)
"""Matches ``core.worktree``: the working tree of a submodule or of a separate git directory."""
_COMMIT = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class RepositoryLocation(NamedTuple):
    """The paths of a repository.

    ``top`` is the top folder of the working tree, ``folder`` is the git directory, and ``common``
    is the part of the git directory that worktrees share.
    """

    top: Path
    folder: Path
    common: Path

    @property
    def is_linked(self) -> bool:
        """Whether this is a linked worktree, which ``git worktree remove`` deletes."""
        return self.folder != self.common

    @property
    def branch(self) -> str:
        """The name of the branch in HEAD; empty if no branch is checked out."""
        ref = next(iter(self.refs), "")
        return ref.removeprefix(_BRANCHES) if ref.startswith(_BRANCHES) else ""

    @property
    def checked_out(self) -> str:
        """The branch, or ``commit`` and the start of its id if HEAD is detached."""
        if branch := self.branch:
            return "".join(filter(str.isprintable, branch))[:_MAX_BRANCH]
        with contextlib.suppress(OSError, ValueError):
            head = _read_line(self.folder / "HEAD")
            if _COMMIT.fullmatch(head):
                return f"commit {head[:7]}"
        return "no branch"

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
        """The operation in progress, such as ``rebase`` or ``merge``, or an empty string."""
        operations = (what for name, what in _OPERATIONS.items() if (self.folder / name).exists())
        return next(operations, "")

    @property
    def state(self) -> str:
        """A text that changes if HEAD may have moved, determined without running git."""
        own_names = ("HEAD", "logs/HEAD", "reftable/tables.list")
        shared = ("packed-refs", "reftable/tables.list", "shallow", *self.refs)
        files = [self.folder / name for name in own_names]
        files += [self.common / name for name in shared]
        return json.dumps([str(self.folder), [plain_files.stamp_of(file) for file in files]])

    def prefix_of(self, root: Path) -> str:
        """Return the path from the top folder to a vault, ending with a slash; empty if equal."""
        below = Path(os.path.realpath(root)).relative_to(self.top).as_posix()
        return "" if below == "." else f"{below}/"


def location_at(top: Path) -> RepositoryLocation | None:
    """Return the repository whose working tree has a given top folder, or None."""
    folder = top / ".git"
    try:
        if not folder.is_dir():  # In a worktree or submodule, .git is a file.
            line = _read_line(folder)
            if not line.startswith(_GITDIR):
                return None
            folder = top / line.removeprefix(_GITDIR)
        folder = common = Path(os.path.realpath(folder))
        if os.path.lexists(folder / "commondir"):
            common = Path(os.path.realpath(folder / _read_line(folder / "commondir")))
        has_head = os.path.lexists(folder / "HEAD") and not (folder / "HEAD").is_dir()
        if has_head and (common / "objects").is_dir() and (common / "refs").is_dir():
            return RepositoryLocation(top, folder, common)
    except (OSError, ValueError):
        pass
    return None


def is_worktree_of_same_repository(folder: Path, root: Path) -> bool:
    """Return whether a folder is the top of a linked worktree of the repository around ``root``."""
    location = location_at(folder)
    if location is None or not location.is_linked:
        return False
    tops = (top for top in (root, *root.parents) if os.path.lexists(top / ".git"))
    own = next(filter(None, map(location_at, tops)), None)
    return own is not None and own.common == location.common


def linked_worktree(path: Path) -> RepositoryLocation | None:
    """Return the linked worktree that contains a path, or None; its repository must list it."""
    location = vault_location(path)
    return location if location is not None and location.is_linked else None


def vault_location(root: Path) -> RepositoryLocation | None:
    """Return the repository around a vault if the working tree and the repository agree, or None.

    Only the nearest folder with a ``.git`` counts.
    """
    root = Path(os.path.realpath(root))
    for top in (root, *root.parents):
        if os.path.lexists(top / ".git"):
            location = location_at(top)
            return location if location is not None and _is_mutual(location) else None
    return None


def _is_mutual(location: RepositoryLocation) -> bool:
    """Return whether a repository refers to a working tree that refers to it."""
    return _is_listed(location) if location.is_linked else main_worktree(location) == location


def main_worktree(location: RepositoryLocation) -> RepositoryLocation | None:
    """Return the main worktree of a repository; None if it is bare or was moved."""
    tops = [location.common.parent] if location.common.name == ".git" else []
    for name in () if tops else ("config.worktree", "config"):
        with contextlib.suppress(OSError):
            config = plain_files.read(location.common / name, plain_files.MAX_SETTING_BYTES)
            if match := _CONFIGURED_TOP.search(os.fsdecode(config)):
                tops.append(location.common / match[1].strip())
    for top in tops:
        with contextlib.suppress(OSError, ValueError):
            main = location_at(Path(os.path.realpath(top)))
            if main is not None and main.folder == location.common and _is_own(main):
                return main
    return None


def other_worktrees(location: RepositoryLocation) -> list[RepositoryLocation]:
    """Return the other worktrees of a repository that exist on this machine, the main one first.

    ``location`` must come from ``vault_location``. At most 100 are returned.
    """
    main = main_worktree(location)
    others = [main] if main is not None else []
    for top in islice(_linked_tops(location.common), _MAX_LISTED):
        with contextlib.suppress(OSError, ValueError):
            other = location_at(Path(os.path.realpath(top)))
            if other is not None and other.common == location.common and other.is_linked:
                others += [other] * (_is_listed(other) and _is_own(other))
    return [other for other in others if other.top != location.top][:_MAX_WORKTREES]


def _linked_tops(common: Path) -> Iterator[Path]:
    """Yield the top folders of the linked worktrees that a repository lists."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(common / _WORKTREES)):
            with contextlib.suppress(OSError, ValueError):
                yield _listed_git_file(common / _WORKTREES / name).parent


def created_ns(folder: Path) -> int:
    """Return when a linked worktree's git directory was created, in nanoseconds since 1970.

    Returns 0 for the main worktree's.
    """
    with contextlib.suppress(OSError):
        return os.lstat(folder / "commondir").st_mtime_ns  # Git writes this file only once.
    return 0


def _listed_git_file(folder: Path) -> Path:
    """Return the path of the ``.git`` file that belongs to a worktree's git directory."""
    return folder / _read_line(folder / "gitdir")


def _is_listed(location: RepositoryLocation) -> bool:
    """Return whether the repository of a linked worktree refers to it."""
    if location.folder.parent != location.common / _WORKTREES:
        return False
    with contextlib.suppress(OSError, ValueError):
        file = _listed_git_file(location.folder)
        return os.path.realpath(file) == os.path.realpath(location.top / ".git")
    return False


def _is_own(location: RepositoryLocation) -> bool:
    """Return whether this user owns a worktree's folder and its git directory."""
    with contextlib.suppress(OSError):
        return is_owned(location.top.stat()) and is_owned(location.folder.stat())
    return False


def _read_line(path: Path) -> str:
    """Return the line in one of git's files; raise ``ValueError`` if it cannot be a path or ref."""
    line = os.fsdecode(plain_files.read(path, plain_files.MAX_SETTING_BYTES)).rstrip("\r\n")
    if len(line) > _MAX_PATH or "\0" in line:
        raise ValueError("not a path")
    return line
