"""Export a folder with the vault's files."""

from __future__ import annotations

from pathlib import Path

from memvault.exporters.files import ExportedFiles
from memvault.files.target import target_files


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files to a folder, as ``ExportFormat.write``; its other files remain."""
    written = 0
    with target_files(target, replaces) as folder:
        for file, data in files.contents():
            folder.write(file.path, data)
            written += 1
    return written
