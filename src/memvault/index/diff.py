"""How the folder differs from what is indexed: found by comparing, before anything is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memvault.index.file_states import IndexCommit
from memvault.index.manifest import IndexedFile
from memvault.model import FileState
from memvault.vault.scan import Scan

_GRANULARITY = 1_000_000_000
"""Nanoseconds within which two edits may leave a file with the same times."""
_MOST_FILES = 2_000
_MOST_BYTES = 8_000_000
_READ_FILES = 500
_READ_BYTES = 4_000_000


class FolderDiff(NamedTuple):
    """Files to index, uids to take out, and files that look the same but may not be.

    ``changed`` pairs the old uid with the file; ``doubtful`` were edited so
    shortly before they were last looked at that a second edit could hide
    behind the same times: their bytes must be compared.
    """

    added: list[FileState]
    changed: list[tuple[IndexedFile, FileState]]
    removed: list[int]
    doubtful: list[tuple[IndexedFile, FileState]]

    @property
    def size(self) -> int:
        """How many memories differ, as far as is known without reading one."""
        return len(self.added) + len(self.changed) + len(self.removed)


class PendingChanges(NamedTuple):
    """How the folder differs from a commit: what can be read directly, and what is too much."""

    commit: IndexCommit
    known: dict[str, IndexedFile]
    whole: FolderDiff
    small: FolderDiff
    large: FolderDiff

    @property
    def is_unchanged(self) -> bool:
        """Whether nothing differs, nor may."""
        return not self.small.size and not self.small.doubtful and not self.large.size


def diff_folder(known: Mapping[str, IndexedFile], found: Scan) -> FolderDiff:
    """Compare what is indexed with what one pass over the folders found.

    Memories below a folder that could not be listed are left as they are: a
    permission lost for a moment must not empty the index.
    """
    diff = FolderDiff([], [], [], [])
    seen = set()
    for state in found.files:
        entry = known.get(state.path)
        seen.add(state.path)
        if entry is None:
            diff.added.append(state)
        elif entry.state != state:
            diff.changed.append((entry, state))
        elif _edited(state) + _GRANULARITY >= entry.checked:
            diff.doubtful.append((entry, state))
    hidden = tuple(f"{folder}/" for folder in found.unreadable)
    for path, entry in known.items():
        if path not in seen and not (hidden and path.startswith(hidden)):
            diff.removed.append(entry.uid)
    return diff


def split_readable(diff: FolderDiff) -> tuple[FolderDiff, FolderDiff]:
    """Divide a diff into what can be read directly without a long wait, and the rest.

    Files that may not differ, and those that are gone, are in the first part;
    of the others those that were changed last, at most 500 and 4 MB.
    """
    files = sorted((*diff.added, *(state for _, state in diff.changed)), key=_edited, reverse=True)
    parts = batches(files, _READ_FILES, _READ_BYTES)
    now = {state.path for part in parts[:1] for state in part}
    first = diff._replace(
        added=[state for state in diff.added if state.path in now],
        changed=[entry for entry in diff.changed if entry[1].path in now],
    )
    rest = FolderDiff(
        [state for state in diff.added if state.path not in now],
        [entry for entry in diff.changed if entry[1].path not in now],
        [],
        [],
    )
    return first, rest


def batches(
    files: Sequence[FileState], most_files: int = _MOST_FILES, most_bytes: int = _MOST_BYTES
) -> list[list[FileState]]:
    """Divide files into parts of which all texts can be held at once, in their order.

    One has at most 2,000 files and 8 MB, or is a single larger file.
    """
    found: list[list[FileState]] = []
    size = 0
    for state in files:
        size += state.size
        if not found or len(found[-1]) == most_files or size > most_bytes:
            found.append([])
            size = state.size
        found[-1].append(state)
    return found


def _edited(state: FileState) -> int:
    """Return when the file last changed; Windows gives the time of creation as ctime."""
    return state.mtime if sys.platform == "win32" else state.ctime
