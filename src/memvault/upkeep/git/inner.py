"""Git repositories inside the vault's: git would keep their names only, so they are left out."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from memvault import plain_files
from memvault.upkeep.git.program import Git, Repository

_MODULE = re.compile(r"^[ \t]*+path[ \t]*+=[ \t]*+\"?([^\s\"][^\r\n\"]*)", re.MULTILINE)
HINT = "sync it by itself, or move its .git away"
"""What to do about one."""


def submodules(root: Path) -> frozenset[str]:
    """Return the folders that ``.gitmodules`` names: they are there on purpose."""
    with contextlib.suppress(OSError):
        data = plain_files.read(root / ".gitmodules", plain_files.SETTING)
        found = _MODULE.findall(data.decode("utf-8", "replace"))
        return frozenset(path.rstrip() for path in found)
    return frozenset()


def repositories(found: Repository) -> list[str]:
    """Return the folders that are repositories of their own, and no submodules."""
    kept = found.git.run("ls-files", "--stage", "-z").decode("utf-8", "surrogateescape")
    held = [line.partition("\t")[2] for line in kept.split("\0") if line.startswith("160000 ")]
    new = [path.rstrip("/") for path in _untracked(found.git) if path.endswith("/")]
    return sorted({*held, *new} - submodules(found.top))


def new_files(git: Git) -> list[str]:
    """Return the files that git does not hold yet, and may."""
    return [path for path in _untracked(git) if not path.endswith("/")]


def _untracked(git: Git) -> list[str]:
    """Return what git does not hold and may; a repository ends with a slash."""
    listed = git.run("ls-files", "--others", "--exclude-standard", "-z")
    return [path for path in listed.decode("utf-8", "surrogateescape").split("\0") if path]
