"""How the index's own files were when they were written, to know later that they still are.

Size, times and inode: a killed writer, a power cut or another program leaves
others. It is no protection from anyone: nobody else can write there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FileStamp = tuple[int, ...]
"""Size, time of change of content and of the file, and inode."""
_TABLE = ".toc"
"""How the names of those files end that name all others; the highest is the one that is read."""


def state_of(path: Path | str) -> FileStamp | None:
    """Return a file's state, or None where there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def states_in(keyword: Path) -> dict[str, FileStamp]:
    """Return the states of a keyword index's files by their names, but for Whoosh's own lock."""
    found = {name: state_of(os.path.join(keyword, name)) for name in os.listdir(keyword)}
    return {name: state for name, state in found.items() if state and "WRITELOCK" not in name}


class IndexCommit(NamedTuple):
    """One commit of the index: which one, what it was made for, its keyword index's files."""

    number: tuple[int, int]
    fingerprint: str
    files: dict[str, FileStamp]

    def holds(self, keyword: Path) -> bool:
        """Say whether the keyword index in a folder is still exactly the one committed."""
        try:
            tables = {name for name in os.listdir(keyword) if name.endswith(_TABLE)}
        except OSError:
            return False
        return tables == {name for name in self.files if name.endswith(_TABLE)} and all(
            state_of(os.path.join(keyword, name)) == state for name, state in self.files.items()
        )
