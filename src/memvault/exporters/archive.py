"""Export a zip of the vault's files."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

from memvault.exporters.files import ExportedFile, ExportedFiles
from memvault.files.target import target_file

_FIRST, _LAST = (1980, 1, 1, 0, 0, 0), (2107, 12, 31, 23, 59, 58)
"""The earliest and latest time in a zip."""


def write(files: ExportedFiles, target: Path, replaces: bool) -> int:
    """Write all files to a zip, as ``ExportFormat.write``; skip names that are not UTF-8."""
    written = 0
    with (
        target_file(target, replaces) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for file, data in files.contents():
            try:
                file.path.encode()
            except UnicodeEncodeError:
                files.problems.append(f"{file.path} is skipped: its name is not UTF-8")
                continue
            archive.writestr(_about(file), data)
            written += 1
    return written


def _about(file: ExportedFile) -> zipfile.ZipInfo:
    changed = time.gmtime(file.file.lstat().st_mtime)[:6]
    about = zipfile.ZipInfo(file.path, min(max(changed, _FIRST), _LAST))
    about.compress_type = zipfile.ZIP_DEFLATED
    about.external_attr = 0o100600 << 16  # permissions of the unpacked file
    return about
