"""Export as a folder with the vault's files."""

from __future__ import annotations

from pathlib import Path

from memvault.errors import Refused
from memvault.exporters.files import ExportedFiles
from memvault.files import atomic


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files below a folder; as ``ExportFormat.write``. Other files in it are kept."""
    require_free(target, replaces)
    written = 0
    for file, data in files.contents():
        atomic.write(target / file.path, data)
        written += 1
    return written


def require_free(target: Path, replaces: bool) -> None:
    """Raise ``Refused`` for a target that is there and not an empty folder, unless ``replaces``."""
    if not replaces and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Refused(f"{target} is there already, and not empty", "--force writes into it")
