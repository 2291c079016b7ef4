"""Read and write git's trees and blobs without the working tree and its index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from memvault.errors import Refused
from memvault.named_tuple import NamedTuple
from memvault.repository.program import Git, null_separated
from memvault.sanitize import replace_surrogates
from memvault.vault.names import folded, names_folded

_SHORT = re.compile(r"(?:git|memvau)~[0-9]+")
"""Windows' short names (8.3) of .git and .memvault."""


class TreeEntry(NamedTuple):
    """A file in a tree: its mode, and the object id of its content as ``name``."""

    mode: str
    name: str

    @property
    def is_plain(self) -> bool:
        """Whether it is a regular file, not a link or a submodule."""
        return self.mode.startswith("100")


class ChangedPath(NamedTuple):
    """A path that differs between two trees; ``None`` means that the tree has no such file."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


def tree_files(git: Git, tree: str) -> dict[str, TreeEntry]:
    """Return the files in a tree by path."""
    entries = {}
    for line in null_separated(git.run("ls-tree", "-r", "-z", "--full-tree", tree)):
        about, path = line.split("\t", 1)
        mode, _, name = about.split(" ")
        entries[path] = TreeEntry(mode, name)
    return entries


def differences(git: Git, before: str, after: str) -> list[ChangedPath]:
    """Return the paths that differ between two trees."""
    args = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", before, after)
    parts = null_separated(git.run(*args))
    changes = []
    for about, path in zip(parts[::2], parts[1::2], strict=True):
        mode, new_mode, name, new_name, _ = about.lstrip(":").split(" ")
        changes.append(ChangedPath(path, _entry(mode, name), _entry(new_mode, new_name)))
    return changes


def check_names(git: Git, tree: str) -> None:
    """Check that each path in a tree is a single file on every operating system.

    Raises:
        Refused: a path leads into .memvault or .git on some system, or is both a file and a folder.
    """
    files: dict[str, str] = {}
    folders: set[str] = set()
    for path in null_separated(git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)):
        if is_private(path):
            hint = "remove it with `git rm -r --cached` in the clone that committed it, and push"
            raise Refused(
                f"{replace_surrogates(path)} is machine-local and must not be committed", hint
            )
        above = folded(path)
        files[above] = path
        while (above := above.rpartition("/")[0]) and above not in folders:
            folders.add(above)
    for name in folders & files.keys():
        hint = "rename one of the two in the clone that committed it, and push with git"
        raise Refused(f"{replace_surrogates(files[name])} is both a file and a folder", hint)


def read_blobs(git: Git, names: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of objects by their ids."""
    unique_names = list(dict.fromkeys(names))
    if not unique_names:
        return {}
    data = git.run("cat-file", "--batch", data="".join(f"{n}\n" for n in unique_names).encode())
    blobs, position = {}, 0
    for name in unique_names:
        end = data.index(b"\n", position)
        size = int(data[position:end].rsplit(b" ", 1)[1])
        blobs[name] = data[end + 1 : end + 1 + size]
        position = end + size + 2
    return blobs


def smaller_blobs(git: Git, names: Iterable[str], max_bytes: int) -> list[str]:
    """Return the ids of objects with at most ``max_bytes``."""
    unique_names = dict.fromkeys(names)
    data = "".join(f"{name}\n" for name in unique_names).encode()
    sizes = git.run("cat-file", "--batch-check=%(objectsize)", data=data).split()
    return [
        name for name, size in zip(unique_names, map(int, sizes), strict=True) if size <= max_bytes
    ]


def write_blob(git: Git, data: bytes) -> str:
    """Store bytes as an object; return its id."""
    return git.run("hash-object", "-w", "--stdin", data=data).decode().strip()


def write_tree(git: Git, scratch: Path, tree: str, changes: Mapping[str, TreeEntry | None]) -> str:
    """Apply changes by path to a tree, and return the new tree's id; None deletes a file.

    A temporary index is written to the folder ``scratch``.
    """
    env = {"GIT_INDEX_FILE": str(scratch / "index")}
    git.run("read-tree", tree, env=env)
    nothing = TreeEntry("0", "0" * len(tree))
    # Delete first, because a new folder may have the name of a deleted file.
    ordered = sorted(changes.items(), key=lambda change: change[1] is not None)
    lines = (f"{' '.join(entry or nothing)}\t{path}\0" for path, entry in ordered)
    data = "".join(lines).encode("utf-8", "surrogateescape")
    git.run("update-index", "-z", "--index-info", data=data, env=env)
    return git.run("write-tree", env=env).decode().strip()


def is_private(path: str) -> bool:
    """Return whether a path leads into .git or .memvault on Linux, macOS or Windows."""
    return any(
        name in (".git", ".memvault") or _SHORT.fullmatch(name) for name in names_folded(path)
    )


def _entry(mode: str, name: str) -> TreeEntry | None:
    return None if set(mode) == {"0"} else TreeEntry(mode, name)
