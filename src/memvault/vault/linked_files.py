"""Find the files that links refer to by name, including files that are not memories."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from memvault.files.walk import walk
from memvault.sanitize import replace_surrogates
from memvault.settings.exclusions import TOOL_FOLDERS
from memvault.vault.markdown_inline import Link
from memvault.vault.names import link_distance, name_key


class LinkedFiles:
    """The files in a vault's folder by name, listed when they are first needed.

    Hidden files, and folders that tools fill, are omitted.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        by_name: dict[str, list[str]] = {}
        for folder, folders, names in walk(self._root):
            below = os.path.relpath(folder, self._root).replace(os.sep, "/")
            prefix = "" if below == "." else f"{below}/"
            folders[:] = [name for name in folders if _can_be_linked(name)]
            for name in filter(_can_be_linked, names):
                by_name.setdefault(name_key(name), []).append(f"{prefix}{name}")
        return by_name

    def find(self, target: str, source: str) -> str:
        """Return the path of the file with this path, name or end of a path; empty if none.

        If there are several, it is the one that a link in the file ``source`` refers to, as in
        Obsidian.
        """
        key = f"/{name_key(target)}"
        named = self._by_name.get(key.rpartition("/")[2], ())
        matches = (path for path in named if f"/{name_key(path)}".endswith(key))
        return min(matches, key=lambda path: link_distance(path, source), default="")

    def target(self, link: Link, source: str) -> str:
        """Return the path of the file that a link in the file ``source`` refers to, or ''."""
        beside = link.path_beside(source)
        return (self.find(beside, source) if beside else "") or self.find(link.target, source)


def _can_be_linked(name: str) -> bool:
    return not (name.startswith(".") or name in TOOL_FOLDERS) and replace_surrogates(name) == name
