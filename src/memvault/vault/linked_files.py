"""Find the files that links refer to by name, including files that are not memories."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from memvault.files.walk import walk
from memvault.sanitize import replace_surrogates
from memvault.settings.exclusions import TOOL_FOLDERS
from memvault.vault.markdown_inline import Link
from memvault.vault.names import link_distance, name_key, path_suffixes


class LinkedFiles:
    """The files in a vault's folder by name, listed when they are first needed.

    Hidden files, and folders that tools fill, are omitted.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def _by_key(self) -> dict[str, list[str]]:
        """The paths of the files by each name that links may use."""
        by_key: dict[str, list[str]] = {}
        for folder, folders, names in walk(self._root):
            below = os.path.relpath(folder, self._root).replace(os.sep, "/")
            prefix = "" if below == "." else f"{below}/"
            folders[:] = [name for name in folders if _can_be_linked(name)]
            for name in filter(_can_be_linked, names):
                path = f"{prefix}{name}"
                key = name_key(path)
                for end in (key, *path_suffixes(key)):
                    by_key.setdefault(end, []).append(path)
        return by_key

    def __contains__(self, target: str) -> bool:
        """Return whether a file has this path, name or end of a path."""
        return name_key(target) in self._by_key

    def find(self, target: str, source: str) -> str:
        """Return the path of the file with this path, name or end of a path; empty if none.

        If there are several, it is the one that a link in the file ``source`` refers to, as in
        Obsidian.
        """
        matches = self._by_key.get(name_key(target), ())
        return min(matches, key=lambda path: link_distance(path, source), default="")

    def target(self, link: Link, source: str) -> str:
        """Return the path of the file that a link in the file ``source`` refers to, or ''."""
        beside = link.path_beside(source)
        return (self.find(beside, source) if beside else "") or self.find(link.target, source)


def _can_be_linked(name: str) -> bool:
    return not (name.startswith(".") or name in TOOL_FOLDERS) and replace_surrogates(name) == name
