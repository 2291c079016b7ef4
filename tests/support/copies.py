"""Copies of folders that many tests share, restored for each test."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path


class Copy:
    """A copy of a folder; ``put_back`` restores everything that has changed."""

    def __init__(self, made: Path, root: Path) -> None:
        self.root = root
        self._made = made
        shutil.copytree(made, root, symlinks=True)
        self._state = _state(root)

    def changes(self) -> list[Path]:
        """Return the paths that were added, removed or changed."""
        return self._differing(_state(self.root))

    def _differing(self, now: dict[Path, tuple[int, ...]]) -> list[Path]:
        paths = sorted(now.keys() | self._state.keys())
        return [path for path in paths if now.get(path) != self._state.get(path)]

    def put_back(self) -> None:
        """Restore all files."""
        changed = self._differing(_state(self.root))
        for path in reversed(changed):
            if path not in self._state or not stat.S_ISDIR(self._state[path][0]):
                _remove(path)
        for path in changed:
            if path in self._state:
                self._restore(path)

    def _restore(self, path: Path) -> None:
        made = self._made / path.relative_to(self.root)
        if made.is_dir() and not made.is_symlink():
            if not path.is_dir() or path.is_symlink():
                _remove(path)
                path.mkdir()
            shutil.copystat(made, path)
        else:
            shutil.copy2(made, path, follow_symlinks=False)
        self._state[path] = _signature(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _state(root: Path) -> dict[Path, tuple[int, ...]]:
    return {path: _signature(path) for path in root.rglob("*")}


def _signature(path: Path) -> tuple[int, ...]:
    """Return a state of a file that changes with every write, or the mode of a folder."""
    status = path.lstat()
    times = (status.st_ino, status.st_size, status.st_mtime_ns)
    return (status.st_mode, *(() if stat.S_ISDIR(status.st_mode) else times))
