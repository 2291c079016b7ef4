"""Find submodules of a vault's repository, and nested repositories."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from memvault.files import plain_files
from memvault.repository.program import Git, Repository, null_separated

_MODULE = re.compile(r"^[ \t]*+path[ \t]*+=[ \t]*+\"?([^\s\"][^\r\n\"]*)", re.MULTILINE)
HINT = "sync it separately, or remove its .git"
"""Hint for a nested repository."""


def submodules(root: Path) -> frozenset[str]:
    """Return the folders listed in ``.gitmodules``, which are nested on purpose."""
    with contextlib.suppress(OSError):
        data = plain_files.read(root / ".gitmodules", plain_files.MAX_SETTING_BYTES)
        paths = _MODULE.findall(data.decode("utf-8", "replace"))
        return frozenset(path.rstrip() for path in paths)
    return frozenset()


def nested_repositories(root: Path, folders: Iterable[str]) -> list[str]:
    """Return the vault's folders that are nested repositories, without running git.

    Submodules are left out; the list is empty if the vault itself is not in a repository.
    """
    if not any(os.path.lexists(folder / ".git") for folder in (root, *root.parents)):
        return []
    intended = submodules(root)
    return [
        path for path in folders if path not in intended and os.path.lexists(root / path / ".git")
    ]


def repositories(repository: Repository) -> list[str]:
    """Return the folders that are nested repositories but not submodules."""
    inherited = null_separated(repository.git.run("ls-files", "--stage", "-z"))
    held = [line.partition("\t")[2] for line in inherited if line.startswith("160000 ")]
    new = [path.rstrip("/") for path in _untracked(repository.git) if path.endswith("/")]
    return sorted({*held, *new} - submodules(repository.top))


def new_files(git: Git) -> list[str]:
    """Return the untracked files that are not ignored."""
    return [path for path in _untracked(git) if not path.endswith("/")]


def tracked(git: Git, path: str, seconds: float = 0) -> list[str]:
    """Return the tracked files at or below a path in the vault."""
    return null_separated(git.run("ls-files", "-z", "--", path, seconds=seconds))


def _untracked(git: Git) -> list[str]:
    """Return the untracked paths that are not ignored; a nested repository ends with a slash."""
    return null_separated(git.run("ls-files", "--others", "--exclude-standard", "-z"))
