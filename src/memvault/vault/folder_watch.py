"""Note which memories' files change, so that a process that stays need not scan the folder.

A watch begins with a scan: each folder is watched before it is listed, so that a change is seen by
one of the two. Whenever it cannot be certain of having noticed every change, such as after a lost
event, a changed folder, or on a network file system, the folder must be scanned again. A write
through a hard link outside of the vault or through a memory mapping makes no event, so a scan
counts for ``TRUSTED_SECONDS`` only.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from memvault.files import inotify
from memvault.files.inotify import FolderEvent, Inotify
from memvault.files.user_folders import SETTINGS_FILE
from memvault.vault import reader
from memvault.vault.reader import Scan

TRUSTED_SECONDS = 300.0
_GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT | inotify.IGNORED


class FolderWatch:
    """The files that have changed in a vault's folder since it was scanned.

    Raises:
        OSError: changes cannot be watched here.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inotify = Inotify()
        self._folders: dict[int, str] = {}
        """The watched folders by their watches, relative to the root."""
        self._device = 0
        self._identity = (0, 0)
        self._changed: set[str] = set()
        self._is_complete = False
        self._scanned_at = 0.0

    def fileno(self) -> int:
        """Return the descriptor that can be read when something has changed."""
        return self._inotify.descriptor

    def scan(self, ignore: tuple[str, ...] = ()) -> Scan:
        """Scan the vault, and watch the folders that the scan enters from now on.

        Raises as ``reader.scan``.
        """
        self._drain()
        self._changed.clear()
        earlier, self._folders = self._folders, {}
        self._is_complete, self._scanned_at = True, time.monotonic()
        found = reader.scan(self._root, ignore, self._enter)
        for watch in earlier.keys() - self._folders.keys():
            self._inotify.remove(watch)
        self._is_complete &= not found.has_hard_links
        return found

    def _enter(self, folder: str) -> None:
        path = os.path.join(self._root, folder)
        try:
            status = os.lstat(path)
            if not folder:
                self._identity = status.st_dev, status.st_ino
            if status.st_dev != self._device:
                self._is_complete &= inotify.reports_all_changes(path)
                self._device = status.st_dev
            self._folders[self._inotify.add(path)] = folder
        except OSError:
            self._is_complete = False

    def changes(self) -> frozenset[str] | None:
        """Return the paths of the files that may have changed and were not ``settled``.

        None if the folder must be scanned.
        """
        self._drain()
        if not self._is_complete or time.monotonic() - self._scanned_at > TRUSTED_SECONDS:
            return None
        try:
            status = os.lstat(self._root)
        except OSError:
            return None
        is_same = (status.st_dev, status.st_ino) == self._identity
        return frozenset(self._changed) if is_same else None

    def settle(self, paths: frozenset[str]) -> None:
        """Forget changes that ``changes`` has returned, since they have been indexed."""
        self._changed -= paths

    def twin(self) -> FolderWatch:
        """Return another watch of the same folders with the same changes, for another process.

        Raises:
            OSError: the user's limit is reached, or a folder no longer exists.
        """
        other = FolderWatch(self._root)
        try:
            for folder in self._folders.values():
                other._folders[other._inotify.add(os.path.join(self._root, folder))] = folder
        except OSError:
            other.close()
            raise
        self._drain()  # what happens from now on is seen by both
        other._identity, other._scanned_at = self._identity, self._scanned_at
        other._changed, other._is_complete = set(self._changed), self._is_complete
        return other

    def close(self) -> None:
        """Stop watching."""
        self._inotify.close()
        self._is_complete = False

    def _drain(self) -> None:
        try:
            for event in self._inotify.read():
                self._note(event)
        except OSError:
            self._is_complete = False

    def _note(self, event: FolderEvent) -> None:
        folder = self._folders.get(event.watch)
        if event.mask & inotify.OVERFLOW:
            self._is_complete = False
        elif folder is None or event.name[:1] == ".":
            return
        elif event.mask & (_GONE | inotify.IS_DIRECTORY) or not event.name:
            self._is_complete = False
        elif event.name[-3:].lower() == ".md":
            self._changed.add(f"{folder}/{event.name}" if folder else event.name)
        elif event.name == SETTINGS_FILE and not folder:
            self._is_complete = False  # it may ignore other files


def open_watch(root: Path) -> FolderWatch | None:
    """Return a watch of a vault's folder; None if changes cannot be watched here."""
    try:
        return FolderWatch(root)
    except OSError:
        return None
