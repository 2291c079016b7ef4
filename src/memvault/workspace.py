"""The composition root: one vault with all its parts, each built on first use."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.errors import INSTALL
from memvault.files.plain_files import FileStamp, stamp_of
from memvault.files.user_folders import SETTINGS_FILE
from memvault.settings import locate, vault_settings
from memvault.settings.exclusions import sources_state

if TYPE_CHECKING:
    from memvault.index.embedding.fastembed_models import CrossEncoder
    from memvault.index.milvus.remote import RemoteIndex
    from memvault.index.protocol import Index, SearchIndex
    from memvault.repository.code_check import CodeCitations
    from memvault.repository.dates import CommitDates
    from memvault.serial_executor import SerialExecutor
    from memvault.store.memory_store import MemoryReader, MemoryStore


_NO_KINGFISHER = (
    "memvault.toml selects kingfisher, which is not installed, so only the built-in secret "
    f"formats are detected: {INSTALL} '.[secrets]'"
)


IN_BYTES = "indexing"
"""The step whose progress is in bytes (see ``index.local.backend.Progress``)."""


UNUSED_SECONDS = 300.0
"""Seconds without use after which long-running processes free a vault's memory."""


def return_memory() -> None:
    """Return free memory to the system, which the C library otherwise keeps for later."""
    import ctypes
    import gc

    gc.collect()
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def silent(what: str, done: int, total: int) -> None:
    """Ignore progress reports."""


reuse: Callable[[Path], Workspace] | None = None
"""Returns the open workspace of a folder in the resident process; None in other processes, where
each command opens its own.
"""


def open_workspace(root: Path, progress: Callable[[str, int, int], None] = silent) -> Workspace:
    """Open the vault in a folder, or reuse it in the resident process."""
    if reuse is None:
        return Workspace(root, progress)
    workspace = reuse(root)
    workspace.progress = progress
    return workspace


class Workspace:
    """One open vault, used by one call at a time (``lock``).

    ``progress`` is called during slow work, in the working thread. ``condition`` is the lock as a
    condition: waiting on it lets other calls run. ``executor`` runs calls in order; any thread that
    holds the lock can also run a call. A ``long_lived`` workspace watches the folder, so only its
    first call scans it. ``release`` does not close a workspace that ``is_cached``.
    """

    def __init__(
        self,
        root: Path,
        progress: Callable[[str, int, int], None] = silent,
        long_lived: bool = False,
        is_cached: bool = False,
    ) -> None:
        self.root = root
        self.long_lived = long_lived
        self.is_cached = is_cached
        self.lock = threading.RLock()
        self.condition = threading.Condition(self.lock)
        self.progress = progress
        self._settings_state: tuple[FileStamp | None, ...] = ()
        self._other_vaults: dict[Path, Workspace] = {}

    @cached_property
    def executor(self) -> SerialExecutor:
        """The executor of calls; first used by the thread that accepts calls."""
        from memvault.serial_executor import SerialExecutor

        return SerialExecutor()

    @cached_property
    def settings(self) -> vault_settings.Settings:
        """The vault's settings, as last loaded."""
        self._settings_state = self._current_settings_state()
        settings = vault_settings.load_settings(self.root)
        if settings.secrets.detector == "kingfisher":
            from memvault.secrets import kingfisher

            if not kingfisher.is_installed():
                return settings.replace(warnings=(*settings.warnings, _NO_KINGFISHER))
        return settings

    def refresh_settings(self) -> None:
        """Reload the settings and dependent parts if one of their source files has changed."""
        if "settings" in self.__dict__:
            state = self._current_settings_state()
            if state[0] is None:
                locate.find_vault(str(self.root))  # raises if it is no longer a vault
            if state != self._settings_state:
                self.reload()

    def _current_settings_state(self) -> tuple[FileStamp | None, ...]:
        return stamp_of(self.root / SETTINGS_FILE), *sources_state(self.root)

    @cached_property
    def store(self) -> MemoryStore:
        """The store of the memories in the vault's folder."""
        from memvault.store.memory_store import MemoryStore

        return MemoryStore(
            self.root, self.settings, open_dates=self._open_dates, find_index=self._find_index
        )

    def _find_index(self) -> Path | None:
        from memvault.index.folder import find_folder

        return find_folder(self.root)

    def _open_dates(self) -> CommitDates | None:
        """Return the commit dates of the vault's files, or None outside of a repository."""
        return self._dates if any(map(os.path.lexists, self._git_paths)) else None

    @property
    def may_have_worktrees(self) -> bool:
        """Whether the repository may have other worktrees, or copies from deleted ones."""
        git = next(filter(os.path.lexists, self._git_paths), None)
        if git is None:
            return False
        names = ("worktrees", "memvault")
        return Path(git).is_file() or any(os.path.lexists(f"{git}/{name}") for name in names)

    @cached_property
    def _git_paths(self) -> list[str]:
        """Paths where the vault's repository may be."""
        root = Path(os.path.realpath(self.root))
        return [str(folder / ".git") for folder in (root, *root.parents)]

    @cached_property
    def _dates(self) -> CommitDates:
        from memvault.index.folder import find_folder
        from memvault.repository.dates import CommitDates

        return CommitDates(self.root, partial(find_folder, self.root))

    @property
    def citations(self) -> CodeCitations | None:
        """The code that memories cite; None without a repository or with ``cites = false``."""
        if not any(map(os.path.lexists, self._git_paths)) or self.settings.index.sent:
            return None
        if not self.settings.cites:
            return None
        from memvault.index.folder import find_folder
        from memvault.repository.code_check import CodeCitations

        return CodeCitations(self.root, partial(find_folder, self.root))

    @property
    def reader(self) -> MemoryReader:
        """The reader of local or remote memories; raises like ``access.open_remote``."""
        return self._remote.reader if self.settings.index.sent else self.store

    @property
    def search_index(self) -> SearchIndex[Any]:
        """The index of local or remote memories; raises like ``access.open_remote``."""
        return self._remote if self.settings.index.sent else self.index

    @cached_property
    def _remote(self) -> RemoteIndex:
        from memvault.index.folder import prepare_folder
        from memvault.index.milvus.access import open_remote

        return open_remote(self.root, self.settings, prepare_folder(self.root), self._report)

    @cached_property
    def index(self) -> Index:
        """The index of the vault's folder, stored in one of the user's folders."""
        from memvault.index import open_index
        from memvault.index.folder import prepare_folder

        index = open_index(self.store, prepare_folder(self.root), self._report)
        if self.long_lived:
            index.watch_folder()
        return index

    def rerank_scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the cross-encoder's score for each text and a query, from 0 to 1.

        Raises:
            EmbedderError: there is no cross-encoder on this machine.
        """
        return self._reranker.scores(query, texts)

    @cached_property
    def _reranker(self) -> CrossEncoder:
        from memvault.index.embedding.fastembed_models import open_reranker

        return open_reranker(self.settings, self.root)

    def _report(self, what: str, done: int, total: int) -> None:
        self.progress(what, done, total)

    def finish_indexing(self) -> None:
        """Index the changes that a call skipped in order to answer sooner."""
        from memvault.index.protocol import FINISHING

        index = self.__dict__.get("index")
        if index is not None and index.is_unfinished:
            index.refresh(True, FINISHING)

    def open_other(self, root: Path) -> Workspace:
        """Return the vault in a folder, which stays open as long as this one.

        For this vault's own folder, returns this workspace.
        """
        if root == self.root:
            return self
        if root not in self._other_vaults:
            location = locate.find_vault(str(root))
            self._other_vaults[root] = Workspace(location, self._report, self.long_lived)
        self._other_vaults[root].refresh_settings()
        return self._other_vaults[root]

    def reload(self) -> None:
        """Close and discard the settings and parts after ``memvault.toml`` has changed."""
        self.close()
        for name in ("settings", "store", "index", "_remote", "_dates"):
            self.__dict__.pop(name, None)

    def notify_waiters(self) -> None:
        """Wake all waiting tools, so that they check whether their caller has canceled."""
        with self.condition:
            self.condition.notify_all()

    def release(self) -> None:
        """Close the vault after a command, unless the process keeps it open for others."""
        if not self.is_cached:
            self.close()

    def free_memory(self) -> None:
        """Close the index and other vaults, and release models; the folder is still watched."""
        if "index" in self.__dict__:
            self.index.free_memory()
        if "store" in self.__dict__:
            self.store.close()
        for other in self._other_vaults.values():
            other.close()
        self._other_vaults.clear()
        self.__dict__.pop("_reranker", None)

    def close(self) -> None:
        """Close all open files and other vaults."""
        for name in ("index", "_remote", "_dates", "store"):
            if name in self.__dict__:
                self.__dict__[name].close()
        self.free_memory()
