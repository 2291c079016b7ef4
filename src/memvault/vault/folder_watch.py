"""Track changed memory files, so a resident process need not scan the folder again.

A watch begins with a scan: each folder is watched before it is listed, so every change is either
listed or reported. If changes may have been missed, such as after a lost event or a change to a
folder, or on a network file system, the vault must be scanned again. A write through a hard link
outside of the vault or through a memory mapping causes no event, so a scan is trusted for
``TRUSTED_SECONDS`` only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from memvault.files import inotify
from memvault.files.inotify import FolderEvent, Inotify, Mounts
from memvault.files.user_folders import SETTINGS_FILE
from memvault.settings.exclusions import FOLDER_MARKERS, Exclusions
from memvault.vault import paths, scan
from memvault.vault.scan import Scan

TRUSTED_SECONDS = 300.0
_GONE = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT | inotify.IGNORED


class FolderWatch:
    """Tracks the files that have changed in a vault's folder since it was scanned.

    Raises:
        OSError: changes cannot be watched here.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: dict[int, str] = {}
        """The watched folders, relative to the root, by watch."""
        self._device = 0
        self._identity = (0, 0)
        self._changed: set[str] = set()
        self._is_complete = False
        self._scanned_at = 0.0
        self._has_documents = False
        self._open()

    def _open(self) -> None:
        """Start without watches; also called after a fork to avoid sharing events with the parent.

        Raises:
            OSError: changes cannot be watched here.
        """
        self._inotify, self._mounts, self._folders = Inotify(), Mounts(), {}
        self._process = os.getpid()

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when something has changed."""
        return self._inotify.descriptor

    def scan(
        self, exclusions: Exclusions, has_documents: Callable[[], bool] = lambda: False
    ) -> Scan:
        """Scan the vault, and watch all scanned folders; the arguments are those of ``scan.scan``.

        Raises:
            VaultUnreadable: the root folder cannot be listed.
        """
        if self._process != os.getpid():
            try:
                self._open()
            except OSError:
                return scan.scan(self._root, exclusions, has_documents=has_documents)
        self._has_documents = has_documents()
        self._drain()
        self._changed.clear()
        earlier, self._folders, self._device = self._folders, {}, 0
        self._is_complete, self._scanned_at = True, time.monotonic()
        self._mounts.has_changed()
        new_scan = scan.scan(self._root, exclusions, self._enter, has_documents)
        for watch in earlier.keys() - self._folders.keys():
            self._inotify.remove(watch)
        self._is_complete &= not new_scan.has_hard_links
        return new_scan

    def _enter(self, folder: str) -> None:
        path = os.path.join(self._root, folder)
        try:
            status = os.lstat(path)
            if not folder:
                self._identity = status.st_dev, status.st_ino
            if status.st_dev != self._device:
                self._is_complete &= inotify.reports_all_changes(path)
                self._device = status.st_dev
            watch = self._inotify.add(path)
            self._is_complete &= watch not in self._folders  # A folder may be mounted twice.
            self._folders[watch] = folder
        except OSError:
            self._is_complete = False

    def changes(self) -> frozenset[str] | None:
        """Return the paths of the files that may have changed and were not passed to ``settle``.

        Returns None if the folder must be scanned.
        """
        if self._process != os.getpid():
            return None
        self._drain()
        if self._mounts.has_changed():
            self._is_complete = False
        if not self._is_complete or time.monotonic() - self._scanned_at > TRUSTED_SECONDS:
            return None
        try:
            status = os.lstat(self._root)
        except OSError:
            return None
        is_same = (status.st_dev, status.st_ino) == self._identity
        return frozenset(self._changed) if is_same else None

    def settle(self, paths: frozenset[str]) -> None:
        """Mark changed files as indexed, so ``changes`` does not return them again."""
        self._changed -= paths

    def close(self) -> None:
        """Stop watching."""
        self._inotify.close()
        self._mounts.close()
        self._is_complete = False

    def _drain(self) -> None:
        # Marked incomplete until the end, because an interrupt may lose events already read.
        was_complete, self._is_complete = self._is_complete, False
        try:
            for event in self._inotify.read():
                was_complete &= self._note(event)
        except OSError:
            return
        self._is_complete = was_complete

    def _note(self, event: FolderEvent) -> bool:
        """Note a changed file; return False if only a scan can determine what has changed."""
        folder = self._folders.get(event.watch)
        if folder is None:  # A scan has removed this watch.
            return bool(event.mask & inotify.IGNORED)
        if event.mask & inotify.OVERFLOW:
            return False
        if event.name in FOLDER_MARKERS:
            return False
        if event.name[:1] == ".":
            return True
        if event.mask & (_GONE | inotify.IS_DIRECTORY) or not event.name:
            return False
        is_document = self._has_documents and paths.is_document_path(event.name)
        if event.name[-3:].lower() == ".md" or is_document:
            self._changed.add(f"{folder}/{event.name}" if folder else event.name)
        # A changed ignore file can change which files are memories.
        return folder != "" or event.name != SETTINGS_FILE
