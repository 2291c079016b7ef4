"""The composition root: one vault with all its parts, each built when first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock, config, locate
from memvault.user_folders import SETTINGS_FILE

if TYPE_CHECKING:
    from memvault.index.sync import Index
    from memvault.recall.engine import Engine
    from memvault.vault.store import Store
    from memvault.work.agents import Address
    from memvault.work.claims import Claim
    from memvault.work.mailbox import Inbox

__all__ = ["DEFAULT_AGENT", "Delivery", "Workspace", "never"]

DEFAULT_AGENT = "main"


def _silent(what: str, done: int, total: int) -> None:
    """Tell nobody how far it is."""


def never() -> bool:
    """Say that the caller is still there."""
    return False


class Delivery:
    """The events that one result hands out."""

    def __init__(self, taken: list[Claim]) -> None:
        self._taken = taken

    def settle(self) -> list[str]:
        """Let go of the events, which the caller has now; say of those that may come again."""
        from memvault.errors import MemvaultError

        notes = []
        taken, self._taken = self._taken, []
        for claim in taken:
            try:
                claim.settle()
            except MemvaultError as error:
                notes.append(f"these events may come a second time: {error.message}")
        return notes

    def abandon(self) -> None:
        """Give events back that the caller will not have."""
        taken, self._taken = self._taken, []
        for claim in taken:
            claim.put_back()


class _Turn(threading.Condition):
    """A workspace's lock, to wait on: other calls run meanwhile, and this one's own comes back."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.lock)
        self._workspace = workspace

    def wait(self, timeout: float | None = None) -> bool:
        """Let others go on until one of them wakes whoever waits."""
        notes, stopped = self._workspace.notes, self._workspace.stopped
        try:
            return super().wait(timeout)
        finally:
            self._workspace.notes, self._workspace.stopped = notes, stopped


class Workspace:
    """One open vault, for one caller at a time (``lock``).

    ``progress`` is told of slow work; ``notes`` collects what a caller should
    be told beside a result. ``taken`` are events that are the caller's own once
    it has the result; where that does not reach it they go back. ``turn`` is
    the lock as a condition: who waits on it lets others go on, and has its own
    ``notes`` and ``stopped`` again afterwards. ``stopped`` says whether the
    caller of the tool that runs has gone; a tool that takes long looks now and
    then. ``programs`` says whether the caller may name a program to run, ``paths``
    whether it is at this machine and may name, and be told, its paths.
    """

    def __init__(
        self,
        root: Path,
        agent: str = DEFAULT_AGENT,
        progress: Callable[[str, int, int], None] = _silent,
    ) -> None:
        self.root = root
        self.agent = agent
        self.notes: list[str] = []
        self.taken: list[Claim] = []
        self.lock = threading.RLock()
        self.turn = _Turn(self)
        self.stopped: Callable[[], bool] = never
        self.programs = True
        self.paths = True
        self._progress = progress
        self._settings_state: tuple[int, ...] = ()

    @cached_property
    def settings(self) -> config.Settings:
        """The vault's settings, as they were when last looked at."""
        self._settings_state = _state(self.root / SETTINGS_FILE)
        return config.load_settings(self.root)

    def look(self) -> None:
        """Begin anew where ``memvault.toml`` was changed since the settings were read."""
        if "settings" in self.__dict__:
            state = _state(self.root / SETTINGS_FILE)
            if not state:
                locate.find_vault(str(self.root))  # says that it is none any more
            if state != self._settings_state:
                self.reload()

    @cached_property
    def store(self) -> Store:
        """The memories as files."""
        from memvault.vault.store import Store

        return Store(self.root, self.settings)

    @cached_property
    def index(self) -> Index:
        """The derived index, in a folder of the user's own."""
        from memvault.index.place import forget_older, place_of
        from memvault.index.sync import Index

        forget_older(self.root)
        return Index(self.store, place_of(self.root), self._progress)

    @cached_property
    def engine(self) -> Engine:
        """Recall."""
        from memvault.recall.engine import Engine

        return Engine(self.store, self.index)

    @cached_property
    def address(self) -> Address:
        """Who is asking.

        Raises:
            UsageError: the agent's name cannot be one.
        """
        from memvault.work.agents import address

        return address(self.agent)

    @cached_property
    def inbox(self) -> Inbox:
        """The agent's own inbox, into which its plans are fired."""
        from memvault.work import firing

        return firing.inbox(self.store, self.address, clock.zone(self.settings.timezone))

    def reload(self) -> None:
        """Forget settings and parts, because ``memvault.toml`` has changed."""
        self.close()
        for name in ("settings", "store", "index", "engine", "inbox"):
            self.__dict__.pop(name, None)

    def detach(self) -> Delivery:
        """Take out what the last result hands out, so that other tools may run before it is out."""
        taken, self.taken = self.taken, []
        return Delivery(taken)

    def settle(self) -> list[str]:
        """Let go of the events that the caller has now; say of those that may come again."""
        return self.detach().settle()

    def abandon(self) -> None:
        """Give events back that the caller will not have."""
        self.detach().abandon()

    def patience(self) -> Callable[[float], None]:
        """Return what a tool waits with for a program; other threads go on meanwhile.

        Raises, when it is called:
            TimedOut: the caller has gone.
        """

        def wait(seconds: float) -> None:
            from memvault.errors import TimedOut

            self.turn.wait(seconds)
            if self.stopped():
                raise TimedOut("The call was given up", "call again")

        return wait

    def wake(self) -> None:
        """Let every tool that waits look whether its caller has gone."""
        with self.turn:
            self.turn.notify_all()

    def close(self) -> None:
        """Let go of whatever is open."""
        self.abandon()
        if "index" in self.__dict__:
            self.index.close()


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
