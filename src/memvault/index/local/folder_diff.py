"""Compare the files in a vault's folder with the indexed files."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Mapping, Sequence

from memvault.index.local.manifest import IndexCommit, IndexedFile, Manifest
from memvault.model import FileState, is_document
from memvault.named_tuple import NamedTuple
from memvault.vault.scan import TIMESTAMP_GRANULARITY, Scan

_MAX_READ_FILES = 500
_MAX_READ_BYTES = 4_000_000
_MIN_DOCUMENT_BYTES = 200_000
_MAX_BATCH_FILES = 2_000
_MAX_BATCH_BYTES = 8_000_000


class FolderDiff(NamedTuple):
    """The files to index, the uids to remove, and the files that may have changed unnoticed.

    ``changed`` pairs each indexed file with its current state. ``doubtful`` files were edited so
    shortly before the last check that a later edit may not have changed their times, so their bytes
    must be compared.
    """

    added: Sequence[FileState] = ()
    changed: Sequence[tuple[IndexedFile, FileState]] = ()
    removed: Sequence[int] = ()
    doubtful: Sequence[tuple[IndexedFile, FileState]] = ()

    @property
    def size(self) -> int:
        """The number of memories known to differ before any file is read."""
        return len(self.added) + len(self.changed) + len(self.removed)

    def paths(self, manifest: Manifest) -> set[str]:
        """Return the paths of all its files."""
        states = (*self.added, *(state for _, state in (*self.changed, *self.doubtful)))
        removed = manifest.paths(self.removed) if self.removed else ()
        return {*(state.path for state in states), *(path for _, path in removed)}


EMPTY_DIFF = FolderDiff()


class PendingChanges(NamedTuple):
    """The differences between the folder and a commit, split by whether they can be read quickly.

    ``whole`` is the complete difference, ``small`` is the part that can be read quickly, and
    ``large`` is the rest. With ``is_partial``, ``known`` contains only files that may differ.
    ``scan`` is None if only watched changes were compared.
    """

    commit: IndexCommit
    known: dict[str, IndexedFile]
    whole: FolderDiff
    small: FolderDiff
    large: FolderDiff
    is_partial: bool = False
    scan: Scan | None = None

    @property
    def is_unchanged(self) -> bool:
        """Return whether there are no differences and no doubtful files."""
        return not self.small.size and not self.small.doubtful and not self.large.size


def diff_folder(
    indexed_files: Mapping[str, IndexedFile],
    files: Iterable[FileState],
    unreadable: Iterable[str],
    due: Container[str] = (),
) -> FolderDiff:
    """Compare the indexed files with a scan.

    Files in ``due`` count as changed, even if their states are equal. Memories below a folder that
    could not be listed are left unchanged, so a temporary loss of permission does not empty the
    index.
    """
    added, changed, doubtful = [], [], []
    seen = set()
    for state in files:
        entry = indexed_files.get(state.path)
        seen.add(state.path)
        if entry is None:
            added.append(state)
        elif entry.state != state or state.path in due:
            changed.append((entry, state))
        elif not is_settled(entry):
            doubtful.append((entry, state))
    hidden = tuple(f"{folder}/" for folder in unreadable)
    removed = [
        entry.uid
        for path, entry in indexed_files.items()
        if path not in seen and not (hidden and path.startswith(hidden))
    ]
    return FolderDiff(added, changed, removed, doubtful)


def split_readable(diff: FolderDiff) -> tuple[FolderDiff, FolderDiff]:
    """Split a diff into a part that can be read quickly, and the rest.

    The first part contains all doubtful and removed files, and up to 500 other files (4 MB), most
    recently changed first. Documents are in the rest, because parsing one may take seconds.
    """
    states = (*diff.added, *(state for _, state in diff.changed))
    files = sorted(
        (state for state in states if not is_document(state.path)), key=changed_at, reverse=True
    )
    parts = split_files(files, _MAX_READ_FILES, _MAX_READ_BYTES)
    readable = {state.path for part in parts[:1] for state in part}
    first = diff._replace(
        added=[state for state in diff.added if state.path in readable],
        changed=[entry for entry in diff.changed if entry[1].path in readable],
    )
    rest = FolderDiff(
        [state for state in diff.added if state.path not in readable],
        [entry for entry in diff.changed if entry[1].path not in readable],
    )
    return first, rest


def is_settled(indexed: IndexedFile) -> bool:
    """Return whether any edit of a file since its state was read has changed that state."""
    return changed_at(indexed.state) + TIMESTAMP_GRANULARITY < indexed.checked


def changed_at(state: FileState) -> int:
    """Return when the file last changed, in nanoseconds: mtime on Windows, else ctime.

    On Windows, ctime is the creation time.
    """
    return state.mtime if sys.platform == "win32" else state.ctime


def split_files(
    files: Sequence[FileState],
    most_files: int = _MAX_BATCH_FILES,
    most_bytes: int = _MAX_BATCH_BYTES,
) -> list[list[FileState]]:
    """Split files, in order, into batches whose texts fit into memory.

    A batch has at most 2,000 files and 8 MB, or is one larger file. A document counts as at least
    200 KB, so that a batch takes about the same time.
    """
    parts: list[list[FileState]] = []
    total = 0
    for state in files:
        size = max(state.size, _MIN_DOCUMENT_BYTES) if is_document(state.path) else state.size
        total += size
        if not parts or len(parts[-1]) == most_files or total > most_bytes:
            parts.append([])
            total = size
        parts[-1].append(state)
    return parts


def total_size(files: Iterable[FileState]) -> int:
    """Return the total size of files in bytes."""
    return sum(file.size for file in files)
