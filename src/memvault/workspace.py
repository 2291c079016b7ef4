"""The composition root: one vault with all its parts, each built on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.files.user_folders import SETTINGS_FILE, user_folder
from memvault.settings import locate, vault_settings

if TYPE_CHECKING:
    from memvault.index.milvus.remote import RemoteIndex
    from memvault.index.protocol import Index, SearchIndex
    from memvault.store.memory_store import MemoryReader, MemoryStore
    from memvault.vault.folder_watch import FolderWatch

_MAX_KEPT = 4
_PER_CALL = ("MEMVAULT_AGENT", "MEMVAULT_JSON", "MEMVAULT_PAGER", "MEMVAULT_VAULT")

_NO_KINGFISHER = (
    "memvault.toml asks for kingfisher, which is not installed, so secrets are known by the "
    "built-in forms only: pip install 'memvault[secrets]'"
)


def _silent(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


class _Waits(threading.local):
    """The hook of each thread called before its call waits; it returns true to skip the wait."""

    begin: Callable[[], bool] = staticmethod(lambda: False)


WAITS = _Waits()


class Turn(threading.Condition):
    """The lock of a vault as a condition; a call that waits on it lets others run."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a notification, unless the caller has cancelled."""
        return WAITS.begin() or super().wait(timeout)


class Workspace:
    """One open vault, used by one call at a time (``lock``).

    ``progress`` is called during slow work, in the thread that does it. ``condition`` is the lock
    as a condition: waiting on it lets other calls run. A process that ``stays`` watches the folder,
    so that only the first of its calls scans it.
    """

    def __init__(
        self,
        root: Path,
        progress: Callable[[str, int, int], None] = _silent,
        stays: bool = False,
    ) -> None:
        self.root = root
        self.stays = stays
        self.is_kept = False
        self.lock = threading.RLock()
        self.condition = Turn(self.lock)
        self.progress = progress
        self._settings_state: tuple[int, ...] = ()
        self._other_vaults: dict[Path, Workspace] = {}

    @cached_property
    def settings(self) -> vault_settings.Settings:
        """The vault's settings, as last loaded."""
        self._settings_state = _state(self.root / SETTINGS_FILE)
        settings = vault_settings.load_settings(self.root)
        if settings.secrets.detector == "kingfisher":
            from memvault.secrets import detector

            if not detector.is_installed():
                return settings.replace(warnings=(*settings.warnings, _NO_KINGFISHER))
        return settings

    def refresh_settings(self) -> None:
        """Reload the settings and parts if ``memvault.toml`` has changed since it was loaded."""
        if "settings" in self.__dict__:
            state = _state(self.root / SETTINGS_FILE)
            if not state:
                locate.find_vault(str(self.root))  # raises if it is no longer a vault
            if state != self._settings_state:
                self.reload()

    @cached_property
    def store(self) -> MemoryStore:
        """The store of the memories in the vault's folder."""
        from memvault.store.memory_store import MemoryStore

        return MemoryStore(self.root, self.settings)

    @property
    def reader(self) -> MemoryReader:
        """The reader of memories, wherever they are; errors as for ``access.open_remote``."""
        return self._remote.reader if self.settings.index.sent else self.store

    @property
    def search_index(self) -> SearchIndex:
        """The index to search, wherever the memories are; errors as for ``access.open_remote``."""
        return self._remote if self.settings.index.sent else self.index

    @cached_property
    def _remote(self) -> RemoteIndex:
        from memvault.index.folder import prepare_folder
        from memvault.index.milvus.access import open_remote

        return open_remote(self.root, self.settings, prepare_folder(self.root), self._report)

    @cached_property
    def index(self) -> Index:
        """The derived index of the vault's folder, in a folder of the user."""
        from memvault.index.factory import open_index
        from memvault.index.folder import prepare_folder

        index = open_index(self.store, prepare_folder(self.root), self._report)
        if self.stays:
            index.watch_folder()
        return index

    def _report(self, what: str, done: int, total: int) -> None:
        self.progress(what, done, total)

    def open_other(self, root: Path) -> Workspace:
        """Return another vault, open as long as this one; this one for its own folder."""
        if root == self.root:
            return self
        if root not in self._other_vaults:
            found = locate.find_vault(str(root))
            self._other_vaults[root] = Workspace(found, self._report, self.stays)
        self._other_vaults[root].refresh_settings()
        return self._other_vaults[root]

    def reload(self) -> None:
        """Close and drop the settings and parts, because ``memvault.toml`` has changed."""
        self.close()
        for name in ("settings", "store", "index", "_remote"):
            self.__dict__.pop(name, None)

    def notify_waiters(self) -> None:
        """Wake all waiting tools, so that they check whether their caller has cancelled."""
        with self.condition:
            self.condition.notify_all()

    def release(self) -> None:
        """Close the vault after a command, unless the process keeps it open for others."""
        if not self.is_kept:
            self.close()

    def close(self) -> None:
        """Close all open files and other vaults."""
        for name in ("index", "_remote"):
            if name in self.__dict__:
                self.__dict__[name].close()
        for other in self._other_vaults.values():
            other.close()
        self._other_vaults.clear()


class KeptWorkspaces:
    """The vaults that a resident process keeps open: those used last, by folder and environment."""

    def __init__(self) -> None:
        self._workspaces: dict[tuple[Path, object], Workspace] = {}

    @property
    def roots(self) -> list[Path]:
        """The folders of the vaults, the last used one at the end."""
        return [root for root, _ in self._workspaces]

    def open(self, root: Path) -> Workspace:
        """Return a vault that is kept open from now on."""
        key = root, _surroundings()
        workspace = self._workspaces.pop(key, None)
        if workspace is None:
            workspace = Workspace(root, stays=True)
            workspace.is_kept = True
        self._workspaces[key] = workspace
        while len(self._workspaces) > _MAX_KEPT:
            self._drop(next(iter(self._workspaces)))
        return workspace

    def watched(self) -> list[FolderWatch]:
        """Return the watches of the folders of this environment's vaults."""
        indexes = (workspace.__dict__.get("index") for _, workspace in self._current())
        watches = (index.watch for index in indexes if index is not None)
        return [watch for watch in watches if watch is not None]

    def for_each(self, work: Callable[[Workspace], object]) -> None:
        """Do some work in each vault of this environment; drop the vaults in which it fails."""
        from memvault.errors import MemvaultError

        for key, workspace in self._current():
            try:
                with workspace.lock:
                    workspace.refresh_settings()
                    work(workspace)
            except (MemvaultError, OSError):
                self._drop(key)

    def _current(self) -> list[tuple[tuple[Path, object], Workspace]]:
        surroundings = _surroundings()
        return [entry for entry in self._workspaces.items() if entry[0][1] == surroundings]

    def close(self) -> None:
        """Close all vaults."""
        for key in list(self._workspaces):
            self._drop(key)

    def _drop(self, key: tuple[Path, object]) -> None:
        self._workspaces.pop(key).close()


kept: KeptWorkspaces | None = None
"""Where ``open_workspace`` keeps vaults open; None in a process that ends after one command."""


def open_workspace(root: Path, progress: Callable[[str, int, int], None] = _silent) -> Workspace:
    """Return the vault in a folder, as the resident process has kept it if this is one."""
    if kept is None:
        return Workspace(root, progress)
    workspace = kept.open(root)
    workspace.progress = progress
    return workspace


def _surroundings() -> object:
    """Return what a vault's parts depend on besides its folder: variables and the user's settings.

    Those that the command line reads at each call are left out.
    """
    variables = tuple(
        (name, value)
        for name, value in sorted(os.environ.items())
        if name.startswith(("MEMVAULT_", "XDG_", "HOME", "OPENBLAS_", "HF_"))
        and name not in _PER_CALL
    )
    folder = user_folder("config")
    return variables, _state(folder / "settings.toml") if folder is not None else ()


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
