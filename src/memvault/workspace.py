"""The composition root: one vault with all its parts, each built when first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.files.user_folders import SETTINGS_FILE
from memvault.settings import locate, vault_settings

if TYPE_CHECKING:
    from memvault.index.local.local_index import LocalIndex
    from memvault.store.memory_store import MemoryStore


_NO_KINGFISHER = (
    "memvault.toml asks for kingfisher, which is not installed, so secrets are known by the "
    "built-in forms only: pip install 'memvault[secrets]'"
)


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody how far it is."""


class _Waits(threading.local):
    """Of each thread: what is called before its call waits; it returns whether it need not."""

    begin: Callable[[], bool] = staticmethod(lambda: False)


WAITS = _Waits()


class Turn(threading.Condition):
    """The lock of a vault as a condition, on which a call waits while others go on."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is notified, or the caller has gone."""
        return WAITS.begin() or super().wait(timeout)


class Workspace:
    """One open vault, for one call at a time (``lock``).

    ``progress`` is told of slow work, in the thread that does it. ``turn`` is the lock as a
    condition: who waits on it lets other calls go on.
    """

    def __init__(self, root: Path, progress: Callable[[str, int, int], None] = _silent) -> None:
        self.root = root
        self.lock = threading.RLock()
        self.condition = Turn(self.lock)
        self.progress = progress
        self._settings_state: tuple[int, ...] = ()
        self._beside: dict[Path, Workspace] = {}

    @cached_property
    def settings(self) -> vault_settings.Settings:
        """The vault's settings, as they were when last looked at."""
        self._settings_state = _state(self.root / SETTINGS_FILE)
        settings = vault_settings.load_settings(self.root)
        if settings.secrets.detector == "kingfisher":
            from memvault.secrets import detector

            if not detector.is_installed():
                return settings._replace(warnings=(*settings.warnings, _NO_KINGFISHER))
            detector.enable_source(detector.spans)
        return settings

    def refresh_settings(self) -> None:
        """Begin anew where ``memvault.toml`` was changed since the settings were read."""
        if "settings" in self.__dict__:
            state = _state(self.root / SETTINGS_FILE)
            if not state:
                locate.find_vault(str(self.root))  # says that it is no longer a vault
            if state != self._settings_state:
                self.reload()

    @cached_property
    def store(self) -> MemoryStore:
        """The memories as files."""
        if not self.settings.shared.sent:
            from memvault.store.memory_store import MemoryStore

            return MemoryStore(self.root, self.settings)
        from memvault.index.factory import open_store

        return open_store(self.root, self.settings, lambda: self.index)

    @cached_property
    def index(self) -> LocalIndex:
        """The derived index, in a folder of the user's own."""
        from memvault.index.factory import open_index
        from memvault.index.folder import forget_older, prepare_folder

        forget_older(self.root)
        return open_index(self.store, prepare_folder(self.root), self._told)

    def open_other(self, root: Path) -> Workspace:
        """Return another vault, which stays open as long as this one; itself for its own folder."""
        if root == self.root:
            return self
        if root not in self._beside:
            self._beside[root] = Workspace(locate.find_vault(str(root)), self.progress)
        self._beside[root].refresh_settings()
        return self._beside[root]

    def _told(self, what: str, done: int, total: int) -> None:
        self.progress(what, done, total)

    def reload(self) -> None:
        """Forget settings and parts, because ``memvault.toml`` has changed."""
        self.close()
        for name in ("settings", "store", "index"):
            self.__dict__.pop(name, None)

    def notify_waiters(self) -> None:
        """Let every tool that waits look whether its caller has gone."""
        with self.condition:
            self.condition.notify_all()

    def close(self) -> None:
        """Let go of whatever is open."""
        if "index" in self.__dict__:
            self.index.close()
        for other in self._beside.values():
            other.close()
        self._beside.clear()


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
