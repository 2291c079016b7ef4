"""Export as a folder with the vault's files."""

from __future__ import annotations

import posixpath
from pathlib import Path

from memvault.errors import Refused
from memvault.exporters.files import ExportedFiles
from memvault.files import atomic
from memvault.vault import paths


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files below a folder; as ``ExportFormat.write``. Other files in it are kept."""
    require_free(target, replaces)
    folder = TargetFolder(target)
    written = 0
    for file, data in files.contents():
        folder.write(file.path, data)
        written += 1
    return written


class TargetFolder:
    """The folder that is written to, below which no link is followed."""

    def __init__(self, path: Path) -> None:
        atomic.sweep_below(path)  # an export that was killed could leave a file there
        self.path = path
        self._plain: set[str] = set()

    def write(self, path: str, data: bytes, durable: bool = True) -> None:
        """Write a file at a path below the folder, replacing an older one.

        Raises:
            Refused: a folder on the way is a link or a file.
            StorageError: the file cannot be written.
        """
        parent = posixpath.dirname(path)
        if parent not in self._plain:
            paths.require_plain_folders(self.path, parent)
            self._plain.add(parent)
        atomic.write(self.path / path, data, durable)


def require_free(target: Path, replaces: bool) -> None:
    """Raise ``Refused`` for a target that is there and not an empty folder, unless ``replaces``."""
    if not replaces and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Refused(f"{target} is there already, and not empty", "--force writes into it")
