"""One run of a tool: who calls, what it may, its look at the vault, and what it hands out.

Nothing about one call outlives it: the workspace knows only the vault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from memvault import clock
from memvault.errors import MemvaultError, TimedOut
from memvault.settings import vault_settings
from memvault.store.change_set import ChangeSet
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.agents.address import Address
    from memvault.agents.messages.inbox import Inbox, Lease
    from memvault.index.local.local_index import LocalIndex
    from memvault.recall.engine import RecallEngine
    from memvault.store.memory_store import MemoryStore


Scope = Literal["read", "write", "all"]
"""What a caller may do: read; write memories and what is its own; look after the vault too."""


def not_cancelled() -> bool:
    """Say that the caller is still there."""
    return False


class Caller(NamedTuple):
    """Who calls, and what it may.

    ``programs`` says whether it may name a program to run, ``paths`` whether it
    is at this machine and may name, and be told, its paths. ``budgeted`` says that
    it pays for each token, so that the settings' budget holds where it names none.
    ``vaults`` are names of other vaults that it may reach, None for all. With less than
    the whole ``scope`` it sees nothing of what is other agents' own. Its answers have masks
    over secrets (``masks``), so what a tool compares or cuts has to be masked before.
    """

    agent: str = "main"
    may_run_programs: bool = True
    may_see_paths: bool = True
    budgeted: bool = False
    vaults: tuple[str, ...] | None = None
    scope: Scope = "all"
    masks: bool = False


LOCAL = Caller()
"""Whoever sits at this machine, as the agent main."""


class EventDelivery:
    """The events that one result hands out: the caller's own once it has the result."""

    def __init__(self) -> None:
        self._leases: list[Lease] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is handed out."""
        return not self._leases

    def add(self, lease: Lease) -> None:
        """Hand out the events of a lease too."""
        self._leases.append(lease)

    def acknowledge(self) -> list[str]:
        """Let go of the events, which the caller has now; say of those that may come again."""
        notes = []
        for lease in self._taken():
            try:
                lease.acknowledge()
            except MemvaultError as error:
                notes.append(f"these events may come a second time: {error.message}")
        return notes

    def requeue(self) -> None:
        """Give events back that the caller will not have."""
        for lease in self._taken():
            lease.requeue()

    def _taken(self) -> list[Lease]:
        leases, self._leases = self._leases, []
        return leases


class Call:
    """One run of a tool in a vault.

    ``notes`` collects what the caller should be told beside the result, ``deed``
    what was changed; ``gone`` says whether the caller has left meanwhile. A tool
    that ``only_reads`` may answer from a part of the memories, which a note says then.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller = LOCAL,
        gone: Callable[[], bool] = not_cancelled,
    ) -> None:
        self.workspace = workspace
        self.caller = caller
        self.is_cancelled = gone
        self.only_reads = False
        self.change_set = ChangeSet(agent=caller.agent, sees_all=caller.scope == "all")
        self._store: MemoryStore | None = None
        self.notes: list[str] = []
        self.delivery = EventDelivery()

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.workspace.root

    @property
    def settings(self) -> vault_settings.Settings:
        """The vault's settings."""
        return self.workspace.settings

    @property
    def store(self) -> MemoryStore:
        """The memories as files, changed by this call."""
        store = self.workspace.store
        if self._store is None or self._store.settings is not store.settings:
            self._store = store.with_change_set(self.change_set)
        return self._store

    @property
    def index(self) -> LocalIndex:
        """The derived index."""
        return self.workspace.index

    @cached_property
    def engine(self) -> RecallEngine:
        """Recall, with one look at the folder for the whole call."""
        from memvault.index.protocol import BEST_EFFORT, COMPLETE
        from memvault.recall.engine import RecallEngine

        return RecallEngine(self.store, self.index, BEST_EFFORT if self.only_reads else COMPLETE)

    def vaults(self, names: Sequence[str]) -> dict[str, Path]:
        """Return the folders of the vaults that are to be asked.

        Raises:
            VaultNotFound: none has such a name, or the caller may not reach it.
        """
        from memvault.settings.locate import select_vaults

        return select_vaults(names, self.root, self.caller.vaults)

    def federated_engine(self, vaults: Mapping[str, Path]) -> RecallEngine:
        """Return recall over several vaults, by their names; one that is missing costs a note."""
        from memvault.index.federated import FederatedIndex, VaultMember
        from memvault.index.protocol import BEST_EFFORT
        from memvault.recall.engine import RecallEngine

        def opened(root: Path) -> LocalIndex:
            return self.workspace.open_other(root).index

        members = [VaultMember(name, partial(opened, root)) for name, root in vaults.items()]
        return RecallEngine(self.store, FederatedIndex(members), BEST_EFFORT)

    def all_notes(self) -> list[str]:
        """Return the notes, those on what was changed first, and what the look left out."""
        left_out = self.engine.notes() if "engine" in self.__dict__ else []
        return [*self.change_set.warnings, *self.notes, *left_out]

    @cached_property
    def address(self) -> Address:
        """Who is asking.

        Raises:
            UsageError: the agent's name cannot be one.
        """
        from memvault.agents.address import address

        return address(self.caller.agent)

    @cached_property
    def inbox(self) -> Inbox:
        """The agent's own inbox, into which its plans are fired."""
        from memvault.agents.messages.inbox import Inbox
        from memvault.agents.plans import plans

        if self.caller.scope == "read":  # who reads writes no event of a plan either
            return Inbox(self.root, self.address, only_reads=True)
        return plans.inbox(self.store, self.address, clock.zone(self.settings.timezone))

    def sleep(self, seconds: float) -> None:
        """Wait, at most so long; other threads that share the vault go on meanwhile.

        Raises:
            TimedOut: the caller has gone.
        """
        self.workspace.condition.wait(seconds)
        if self.is_cancelled():
            raise TimedOut("The call was cancelled", "call again")
