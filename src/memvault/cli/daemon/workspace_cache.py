"""The vaults that the resident process keeps open."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.files.plain_files import stamp_of
from memvault.files.user_folders import user_folder
from memvault.workspace import Workspace, return_memory

if TYPE_CHECKING:
    from memvault.vault.folder_watch import FolderWatch

_MAX_WORKSPACES = 4


class WorkspaceCache:
    """The most recently used vaults, which the resident process keeps open."""

    def __init__(self) -> None:
        self._workspaces: dict[tuple[Path, object], Workspace] = {}
        self._used: dict[tuple[Path, object], float] = {}
        """When each vault was last used; vaults whose memory has been freed are omitted."""

    @property
    def roots(self) -> list[Path]:
        """The folders of the vaults, the most recently used last."""
        return [root for root, _ in self._workspaces]

    def open(self, root: Path) -> Workspace:
        """Return an open vault, and keep it open."""
        key = root, _user_settings()
        workspace = self._workspaces.pop(key, None)
        if workspace is None:
            workspace = Workspace(root, long_lived=True, is_cached=True)
        self._workspaces[key], self._used[key] = workspace, time.monotonic()
        while len(self._workspaces) > _MAX_WORKSPACES:
            self._drop(next(iter(self._workspaces)))
        return workspace

    def watched(self) -> list[FolderWatch]:
        """Return the folder watches of the vaults that have the current user settings."""
        indexes = (workspace.__dict__.get("index") for _, workspace in self._current())
        watches = (index.watch for index in indexes if index is not None)
        return [watch for watch in watches if watch is not None]

    def for_each(self, work: Callable[[Workspace], object]) -> None:
        """Call ``work`` for each vault with the current user settings; drop vaults that fail."""
        from memvault.errors import MemvaultError

        for key, workspace in self._current():
            try:
                with workspace.lock:
                    workspace.refresh_settings()
                    work(workspace)
            except (MemvaultError, OSError):
                self._drop(key)

    def free_memory(self, seconds: float) -> None:
        """Free the memory of vaults that no command has used for ``seconds``."""
        until = time.monotonic() - seconds
        unused = [key for key, used in self._used.items() if used <= until]
        for key in unused:
            del self._used[key]
            self._workspaces[key].free_memory()
        if unused:
            return_memory()

    def _current(self) -> list[tuple[tuple[Path, object], Workspace]]:
        settings = _user_settings()
        return [entry for entry in self._workspaces.items() if entry[0][1] == settings]

    def close(self) -> None:
        """Close all vaults."""
        for key in list(self._workspaces):
            self._drop(key)

    def _drop(self, key: tuple[Path, object]) -> None:
        self._used.pop(key, None)
        self._workspaces.pop(key).close()


def _user_settings() -> object:
    """Return the state of the user's settings file, on which a vault's parts depend.

    They also depend on environment variables, but those are the same for all commands here.
    """
    folder = user_folder("config")
    return None if folder is None else stamp_of(folder / "settings.toml")
