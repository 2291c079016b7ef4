"""One pass over the vault's folders, for all that lies in them beside memories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from memvault.vault import layout


class Tree(NamedTuple):
    """Plain files and folders by their paths; ``unreadable`` could not be listed.

    ``links_out`` are links that lead out of the vault; they are not followed.
    What begins with a dot, or is ignored by the settings, is not in it.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    links_out: tuple[str, ...]
    unreadable: tuple[str, ...]


def walked(root: Path, ignore: tuple[str, ...]) -> Tree:
    """Return what lies in a vault."""
    real = os.path.realpath(root)
    files: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    unreadable: list[str] = []
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name.startswith(".") or (ignore and layout.is_ignored(path, ignore)):
                        continue
                    if entry.is_symlink():
                        target = os.path.realpath(entry.path)
                        if target != real and not target.startswith(real + os.sep):
                            links.append(path)
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                        pending.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        files.append(path)
        except FileNotFoundError:
            continue  # gone between the listing and the look at it
        except OSError:
            unreadable.append(folder)
    return Tree(*(tuple(sorted(part)) for part in (files, folders, links, unreadable)))
