"""List the memories in a vault's folders."""

from __future__ import annotations

import os
import sys
import time
from array import array
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Self

from memvault.errors import VaultUnreadable
from memvault.model import RESERVED_FOLDERS, FileState
from memvault.settings.exclusions import FOLDER_MARKERS, Exclusions, Levels
from memvault.vault import paths

_MAX_INT64 = (1 << 63) - 1
_STATE = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_LINKS = attrgetter("st_nlink")
_UNKNOWN = array("q", [-1] * 4)
"""A state that no file has."""
_STEP = 256
"""The number of files compared per step."""
TIMESTAMP_GRANULARITY = 1_000_000_000
"""Coarsest file timestamp resolution, in nanoseconds; edits less than this far apart may have the
same timestamp.
"""


class Scan:
    """The files found by a scan; ``unreadable`` contains folders that could not be listed.

    ``excluded`` contains files and folders that are not memories, without the folders' contents.
    ``has_hard_links`` is whether a file has more than one name.
    """

    def __init__(self) -> None:
        self.unreadable: list[str] = []
        self.excluded: list[str] = []
        self.has_hard_links = False
        self._paths: list[str] = []
        self._states = array("q")
        """Size, mtime, ctime and inode of each file."""

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, prefix: str, files: list[os.DirEntry[str]]) -> None:
        """Add the files of a folder whose path, with a slash, is ``prefix``."""
        # Each step processes all files, because a loop over single files takes twice as long.
        try:
            statuses = [entry.stat(follow_symlinks=False) for entry in files]
        except FileNotFoundError:
            files = [entry for entry in files if _exists(entry)]
            statuses = [entry.stat(follow_symlinks=False) for entry in files]  # cached
        self._paths += [prefix + entry.name for entry in files]
        self.has_hard_links |= max(map(_LINKS, statuses), default=1) > 1
        try:
            self._states += array("q", chain.from_iterable(map(_STATE, statuses)))
        except OverflowError:
            for status in statuses:
                self._states.extend(_state("", status)[1:])

    def forget_states(self, paths: Collection[str]) -> None:
        """Mark the states of files as unknown, adding those that are not in the scan at the end."""
        added = set(paths)
        for number, path in enumerate(self._paths) if added else ():
            if path in paths:
                self._states[4 * number : 4 * number + 4] = _UNKNOWN
                added.discard(path)  # A damaged scan may contain a path twice.
        for path in added:
            self._paths.append(path)
            self._states += _UNKNOWN

    def set_states(self, states: Mapping[str, FileState]) -> None:
        """Set the states of the files at these paths."""
        for number, path in enumerate(self._paths):
            if (state := states.get(path)) is not None:
                self._states[4 * number : 4 * number + 4] = array("q", state[1:])

    @property
    def paths(self) -> Sequence[str]:
        """The path of each file, in the order of the folder listings."""
        return self._paths

    @property
    def files(self) -> Iterator[FileState]:
        """The state of each file, in the order of the folder listings."""
        states = iter(self._states)
        return map(FileState, self._paths, states, states, states, states)

    def packed(self, stamp: bytes = b"") -> bytes:
        """Return a stamp followed by the number of files, their states, and their paths."""
        names = "\0".join(self._paths).encode("utf-8", "surrogateescape")
        return b"".join((stamp, array("q", [len(self)]), self._states, names))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Return a scan from its packed form; raise ValueError if the bytes are invalid."""
        unpacked = cls()
        count = array("q", packed[:8])[0] if len(packed) >= 8 else -1
        end = 8 + 32 * count
        if not 8 <= end <= len(packed):
            raise ValueError("no scan")
        unpacked._states.frombytes(packed[8:end])
        unpacked._paths = (
            packed[end:].decode("utf-8", "surrogateescape").split("\0") if count else []
        )
        if len(unpacked) != count:
            raise ValueError("no scan")
        return unpacked

    def paths_that_differ(self, other: Scan) -> set[str]:
        """Return the paths of files that are in only one of two scans, or in different states.

        Equal runs of files in the same order are skipped in large steps. A file of unknown state in
        ``other`` differs even if it is not in this scan.
        """
        length = len(other)
        while length and other._states[4 * length - 4] == -1:  # added by ``forget_states``
            length -= 1
        shorter = min(len(self), length)
        start = end = 0
        while start + _STEP <= shorter and self._part(start) == other._part(start):
            start += _STEP
        while start + end + _STEP <= shorter and (
            self._part(len(self) - end - _STEP) == other._part(length - end - _STEP)
        ):
            end += _STEP
        own_entries = set(self._entries(start, len(self) - end))
        return set(other._paths[length:]).union(
            path
            for path, *_ in own_entries.symmetric_difference(other._entries(start, length - end))
        )

    def states_of(self, paths: Container[str]) -> list[FileState]:
        """Return the states of the files at the given paths, leaving out paths not in the scan."""
        return [
            FileState(path, *self._states[4 * number : 4 * number + 4])
            for number, path in enumerate(self._paths)
            if path in paths
        ]

    def _part(self, start: int) -> tuple[list[str], array[int]]:
        end = start + _STEP
        return self._paths[start:end], self._states[4 * start : 4 * end]

    def _entries(self, start: int, end: int) -> Iterator[tuple[str, int, int, int, int]]:
        states = iter(self._states[4 * start : 4 * end])
        return zip(self._paths[start:end], states, states, states, states, strict=False)


def scan(
    root: Path,
    exclusions: Exclusions,
    enter: Callable[[str], object] = lambda _: None,
    has_documents: Callable[[], bool] = lambda: False,
) -> Scan:
    """List the files of all memories without opening them.

    Symbolic links are not followed: their target either is in the vault under its own name or does
    not belong to it. ``enter`` is called with each folder before it is listed, even if a file in it
    excludes the folder. ``has_documents`` returns whether documents are listed, too; it is called
    only if there are any.

    Raises:
        VaultUnreadable: the root folder cannot be listed.
    """
    new_scan = Scan()
    pending: list[tuple[str, Levels]] = [("", ())]
    while pending:
        folder, above = pending.pop()
        enter(folder)
        try:
            with _entries(root / folder if folder else root) as listed_entries:
                files, others = _split(list(listed_entries))
                markers = FOLDER_MARKERS.intersection(entry.name for entry in others)
                levels = exclusions.levels(folder, markers, above)
                if levels is None:
                    new_scan.excluded.append(folder)
                    continue
                folders, documents = _add_files(new_scan, folder, files, others, exclusions, levels)
                pending += ((path, levels) for path in folders)
                if documents and has_documents():
                    _add(new_scan, folder, documents, exclusions, levels)
        except FileNotFoundError:
            continue  # The file was deleted after the listing.
        except OSError as error:
            if not folder:
                raise VaultUnreadable(
                    f"{root} cannot be listed: {error.strerror}", "check its permissions"
                ) from error
            new_scan.unreadable.append(folder)
    return new_scan


def _split(
    entries: list[os.DirEntry[str]],
) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    """Return the visible markdown files among a folder's entries, and all other entries."""
    files = [
        entry
        for entry in entries
        if entry.name[-3:].lower() == ".md"
        and entry.name[0] != "."
        and entry.is_file(follow_symlinks=False)
    ]
    if len(files) == len(entries):
        return files, []
    chosen = set(files)
    return files, [entry for entry in entries if entry not in chosen]


def _add_files(
    new_scan: Scan,
    folder: str,
    files: list[os.DirEntry[str]],
    others: list[os.DirEntry[str]],
    exclusions: Exclusions,
    levels: Levels,
) -> tuple[list[str], list[os.DirEntry[str]]]:
    """Add the memories among a folder's files; return the subfolders to scan, and the documents."""
    _add(new_scan, folder, files, exclusions, levels)
    prefix = f"{folder}/" if folder else ""
    folders: list[str] = []
    documents: list[os.DirEntry[str]] = []
    for entry in others:
        path = prefix + entry.name
        if entry.name[0] == "." or path in RESERVED_FOLDERS:
            continue
        if entry.is_dir(follow_symlinks=False):
            if exclusions.excludes(path, True, levels):
                new_scan.excluded.append(path)
            else:
                folders.append(path)
        elif paths.is_document_path(path) and entry.is_file(follow_symlinks=False):
            documents.append(entry)
    return folders, documents


def _add(
    new_scan: Scan,
    folder: str,
    files: list[os.DirEntry[str]],
    exclusions: Exclusions,
    levels: Levels,
) -> None:
    """Add a folder's files that are not excluded."""
    prefix = f"{folder}/" if folder else ""
    if exclusions.may_exclude_files(levels):
        listed, files = files, []
        for entry in listed:
            path = prefix + entry.name
            if exclusions.excludes(path, False, levels):
                new_scan.excluded.append(path)
            else:
                files.append(entry)
    new_scan.add(prefix, files)


def _exists(entry: os.DirEntry[str]) -> bool:
    """Return whether a listed file still exists."""
    try:
        entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _entries(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Iterate over a folder by its descriptor, so no path is resolved for each file."""
    if sys.platform == "win32" or os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def is_listed(
    root: Path,
    path: str,
    exclusions: Exclusions,
    has_documents: Callable[[], bool] = lambda: False,
) -> bool:
    """Return whether ``scan`` lists a memory's file under exactly this path.

    Each folder of the path is listed, because a file system may accept another spelling of a name.
    """
    if file_state(root, path) is None:
        return False
    if not paths.is_memory_path(path) and not (paths.is_document_path(path) and has_documents()):
        return False
    folder = ""
    for part in path.split("/"):
        inside = f"{folder}/{part}" if folder else part
        try:
            linked = part not in os.listdir(root / folder) or (root / inside).is_symlink()
        except OSError:
            return False
        if linked:
            return False
        folder = inside
    return not exclusions.covers(path)


def file_state(root: Path, path: str) -> FileState | None:
    """Return one file's state, or None if there is no regular file at that path."""
    import stat

    try:
        status = os.lstat(f"{root}/{path}")  # pathlib takes as long as the call
    except (OSError, ValueError):
        return None
    return _state(path, status) if stat.S_ISREG(status.st_mode) else None


def is_settled(state: FileState) -> bool:
    """Return whether any later edit of a file will change its timestamps."""
    return max(state.mtime, state.ctime) + TIMESTAMP_GRANULARITY < time.time_ns()


def _state(path: str, status: os.stat_result) -> FileState:
    # SQLite's integers are signed 64-bit; on Windows, scandir gives no inodes.
    inode = 0 if sys.platform == "win32" else status.st_ino & _MAX_INT64
    mtime, ctime = (
        max(-_MAX_INT64, min(time, _MAX_INT64)) for time in (status.st_mtime_ns, status.st_ctime_ns)
    )
    return FileState(path, status.st_size, mtime, ctime, inode)
