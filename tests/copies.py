"""Copies of a folder that many tests share, each of which finds it as it was made."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path


class Copy:
    """A copy of a folder, made anew by ``put_back`` where a file of it has changed."""

    def __init__(self, made: Path, root: Path) -> None:
        self.root = root
        self._made = made
        self._make()

    def put_back(self) -> None:
        """Undo whatever was written."""
        if _state(self.root) != self._state:
            shutil.rmtree(self.root)
            self._make()

    def _make(self) -> None:
        shutil.copytree(self._made, self.root, symlinks=True)
        self._state = _state(self.root)


def _state(root: Path) -> dict[Path, tuple[int, ...]]:
    """Return what a write changes of each file, and the mode of each folder."""
    found = {}
    for path in root.rglob("*"):
        seen = path.lstat()
        times = () if stat.S_ISDIR(seen.st_mode) else (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        found[path] = (seen.st_mode, *times)
    return found
