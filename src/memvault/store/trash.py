"""Store forgotten files, each at its own path in a folder named by the time.

The trash is in ``.memvault`` and never synced by git.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from memvault import clock
from memvault.errors import MemvaultError
from memvault.files import atomic
from memvault.named_tuple import NamedTuple
from memvault.settings.vault_settings import DEFAULTS, HistorySettings
from memvault.store.revisions import files_linked_to
from memvault.store.stamps import STAMPED_NAME, format_stamp, new_stamp
from memvault.vault.paths import is_memory_path
from memvault.vault.private_folder import existing_private, list_private


class TrashedFile(NamedTuple):
    """A file in the trash: its location, its path in the vault, deletion time and folder."""

    file: Path
    path: str
    when: str
    folder: str


class Trash:
    """The trash of one vault."""

    def __init__(self, root: Path, limits: HistorySettings = DEFAULTS.history) -> None:
        self._root = root
        self._folder = root / ".memvault" / "trash"
        self._days = limits.trash_days
        self._last_folder = ""

    def discard(self, path: str) -> TrashedFile:
        """Move a file in the vault to the trash.

        Raises:
            FileNotFoundError: the file is missing.
            StorageError: the file cannot be moved.
        """
        # One call may discard thousands of files, and listing the trash for each would take
        # minutes.
        last = self._last_folder
        when = new_stamp([last] if last else list_private(self._root, "trash"))
        folder = self._last_folder = f"{when}-{clock.random_id()}"
        target = self._folder / folder / path
        atomic.move_exclusive(self._root / path, target)
        return TrashedFile(target, path, when, folder)

    def files(self) -> list[TrashedFile]:
        """Return the files in the trash, newest first."""
        items = []
        for folder in reversed(list_private(self._root, "trash")):
            items += self.files_in(folder)
        return items

    def files_in(self, folder: str) -> list[TrashedFile]:
        """Return the files in one folder of the trash, which were trashed at the same moment."""
        base = existing_private(self._root, f"trash/{folder}")
        if base is None or not STAMPED_NAME.fullmatch(folder):
            return []
        when = folder.rsplit("-", 1)[0]
        from memvault.files.walk import walk

        paths = (Path(parent, name) for parent, _, names in walk(base) for name in sorted(names))
        files = ((path, path.relative_to(base).as_posix()) for path in paths)
        return [
            TrashedFile(path, name, when, folder) for path, name in files if is_memory_path(name)
        ]

    def put_back(self, item: TrashedFile, paths: Iterable[str]) -> str:
        """Move a file out of the trash to the first path that is free, and return that path.

        Raises:
            FileExistsError: no path is free.
            StorageError: the file cannot be moved.
        """
        for path in paths:
            with contextlib.suppress(FileExistsError):
                atomic.move_exclusive(item.file, self._root / path)
                self._remove_empty_folders(item.file)
                return path
        raise FileExistsError(errno.EEXIST, "All names are taken", item.path)

    def delete(self, items: Iterable[TrashedFile]) -> None:
        """Delete files in the trash permanently.

        Raises:
            StorageError: a file cannot be deleted.
        """
        for item in items:
            with atomic.map_os_errors(item.path):
                item.file.unlink(missing_ok=True)
            self._remove_empty_folders(item.file)

    def expired(self) -> list[TrashedFile]:
        """Return the files that are older than the settings allow."""
        if not self._days:
            return []
        oldest = format_stamp(clock.now() - timedelta(days=self._days))
        return [item for item in self.files() if item.when < oldest]

    def prune(self) -> None:
        """Delete the expired files."""
        with contextlib.suppress(MemvaultError):
            self.delete(self.expired())

    def linked(self, files: Iterable[Path | str]) -> Iterator[Path]:
        """Yield the trashed files that are hard links to one of the vault's files.

        A killed change leaves such a link: the file was not yet moved, or was already restored.
        """
        yield from files_linked_to(files, (item.file for item in self.files()))

    def separate(self, path: Path) -> None:
        """Delete a file yielded by ``linked``; the vault lock must be held.

        Raises:
            OSError: the file cannot be deleted.
        """
        path.unlink()
        self._remove_empty_folders(path)

    def _remove_empty_folders(self, file: Path) -> None:
        """Delete the empty folders above a file that was removed from the trash."""
        with contextlib.suppress(OSError):
            for folder in file.relative_to(self._folder).parents[:-1]:
                (self._folder / folder).rmdir()
