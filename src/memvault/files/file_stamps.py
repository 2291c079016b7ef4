"""Stamps of the index's files, to detect later whether they are unchanged.

A stamp has size, times and inode, which differ after a killed writer, a power cut or a change by
another program. It is no protection against an attacker: only the user can write there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FileStamp = tuple[int, ...]
"""Size, mtime and ctime in nanoseconds, and inode."""


def state_of(path: Path | str) -> FileStamp | None:
    """Return a file's stamp, or None if the file is missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


class IndexCommit(NamedTuple):
    """One commit of the index: its number, the fingerprint it was built for, its keyword files."""

    number: tuple[int, int]
    fingerprint: str
    files: dict[str, FileStamp]

    def holds(self, keyword: Path) -> bool:
        """Return whether the committed files of the keyword index in a folder are unchanged."""
        return all(
            state_of(os.path.join(keyword, name)) == state for name, state in self.files.items()
        )
