"""One pass over the vault's folders, for all that lies in them beside memories."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from memvault.vault import layout

_Kind = Literal["file", "folder", "link out", "unreadable", "dangling", "special", "too deep"]
"""What an entry of a folder is, in the order of ``Tree``."""


class FileTree(NamedTuple):
    """Plain files and folders by their paths; ``unreadable`` could not be listed.

    ``links_out`` are links that lead out of the vault, ``dangling`` those that lead
    nowhere; none is followed. ``special`` are called like memories and are no files.
    ``too_deep`` are folders whose paths are longer than the system takes.
    What begins with a dot, or is ignored by the settings, is not in it.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    links_out: tuple[str, ...]
    unreadable: tuple[str, ...]
    dangling: tuple[str, ...]
    special: tuple[str, ...]
    too_deep: tuple[str, ...] = ()


def walk_tree(root: Path, ignore: tuple[str, ...]) -> FileTree:
    """Return what lies in a vault."""
    real = os.path.realpath(root)
    found: dict[_Kind, list[str]] = {kind: [] for kind in get_args(_Kind)}
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name.startswith(".") or (ignore and layout.is_ignored(path, ignore)):
                        continue
                    kind = _kind(entry, real)
                    if kind == "folder":
                        pending.append(path)
                    if kind is not None:
                        found[kind].append(path)
        except FileNotFoundError:
            continue  # gone between the listing and the look at it
        except OSError as error:
            is_deep = error.errno == errno.ENAMETOOLONG
            found["too deep" if is_deep else "unreadable"].append(folder)
    return FileTree(*(tuple(sorted(paths)) for paths in found.values()))


def _kind(entry: os.DirEntry[str], real: str) -> _Kind | None:
    """Say what an entry is; nothing of a link within the vault, and of what is called otherwise."""
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if target != real and not target.startswith(real + os.sep):
            return "link out"
        return None if _leads(entry) else "dangling"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "special" if entry.name[-3:].lower() == ".md" else None


def _leads(entry: os.DirEntry[str]) -> bool:
    """Say whether there is something where a link leads, as far as this user may know."""
    try:
        entry.stat()
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
    return True
