"""One call of a tool: its caller and scope, its change set, its index snapshot, its events.

Nothing about a call outlives it: the workspace knows only the vault.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from memvault import clock
from memvault.errors import MemvaultError, Refused, TimedOut
from memvault.settings import vault_settings
from memvault.store.change_set import ChangeSet
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.agents.address import Address
    from memvault.agents.messages.inbox import Inbox
    from memvault.agents.messages.leases import Lease
    from memvault.agents.plans.agent_plans import AgentPlans
    from memvault.index.protocol import Index, SearchIndex, View
    from memvault.memories.link_graph import LinkGraph
    from memvault.model import Memory
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine
    from memvault.store.memory_store import MemoryReader, MemoryStore


SecretVisibility = Literal["shown", "asked", "masked"]
"""Which results show secrets: all, only those of tools that read text on request, or none."""
Scope = Literal["read", "write", "all"]
"""What a caller may do: read; also write memories and its own files; also maintain the vault."""


def not_cancelled() -> bool:
    """Return False: the caller has not cancelled."""
    return False


class Caller(NamedTuple):
    """The caller of a tool, and what it is allowed to do.

    ``may_run_programs`` is whether it may name a program to run, ``may_see_paths`` whether it is on
    this machine and may name and be shown its paths. ``budgeted`` means that each token has a cost
    for it, so that the budget of the settings applies if it gives none. ``vaults`` are the names of
    other vaults that it may reach, None for all. With a ``scope`` other than ``all`` it sees no
    files of other agents. ``secrets`` says in which results it sees secrets. ``asks`` prints lines
    and a question to the person at the terminal, and returns whether the answer is yes; None if
    there is no terminal. ``prefers`` does the same for a correction that memvault suggests, with
    yes as the default; None with --quiet, too. If ``speaks`` is "tools", messages name tools and
    arguments, not commands. If it ``adds_arguments``, its program adds arguments that a tool does
    not have, and they are ignored. If it ``reads_early``, a person is shown an answer from what is
    indexed so far, and the caller indexes the rest afterwards.
    """

    agent: str = "main"
    may_run_programs: bool = True
    may_see_paths: bool = True
    budgeted: bool = False
    vaults: tuple[str, ...] | None = None
    scope: Scope = "all"
    secrets: SecretVisibility = "asked"
    asks: Callable[[Sequence[str], str], bool] | None = None
    prefers: Callable[[Sequence[str], str], bool] | None = None
    speaks: Literal["shell", "tools"] = "shell"
    adds_arguments: bool = False
    reads_early: bool = False

    @property
    def masks(self) -> bool:
        """Whether all secrets are masked, so that a tool masks what it compares or cuts."""
        return self.secrets == "masked"


LOCAL = Caller()
"""The caller on this machine, as the agent main."""


class EventDelivery:
    """The events handed out by one result; they belong to the caller once it has the result."""

    def __init__(self) -> None:
        self._leases: list[Lease] = []

    @property
    def is_empty(self) -> bool:
        """Whether no events are handed out."""
        return not self._leases

    def add(self, lease: Lease) -> None:
        """Add the events of a lease."""
        self._leases.append(lease)

    def take_over(self, other: EventDelivery) -> None:
        """Move the events of another delivery to this one."""
        self._leases += other._take_leases()

    def acknowledge(self) -> list[str]:
        """Acknowledge the leases, as the caller has the events, and return notes about failures."""
        notes = []
        for lease in self._take_leases():
            try:
                lease.acknowledge()
            except MemvaultError as error:
                notes.append(f"these events may come a second time: {error.message}")
        return notes

    def requeue(self) -> None:
        """Put back events that the caller will not get."""
        for lease in self._take_leases():
            lease.requeue()

    def _take_leases(self) -> list[Lease]:
        leases, self._leases = self._leases, []
        return leases


class Call:
    """One call of a tool in a vault.

    ``tool`` is the tool's name for the journal. If it is ``read_only``, it may answer from a part
    of the memories, which a note then reports. ``is_cancelled`` returns whether the caller has
    cancelled. Searches find only memories that pass the filters ``within``. ``notes`` collects what
    to report to the caller in addition to the result, ``change_set`` what was changed, ``delivery``
    the events in the result. ``budget`` is the maximum number of tokens of the result, 0 for no
    limit.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller = LOCAL,
        tool: str = "",
        read_only: bool = False,
        is_cancelled: Callable[[], bool] = not_cancelled,
        within: Filters | None = None,
    ) -> None:
        self.budget = 0
        self.workspace = workspace
        self.caller = caller
        self.read_only = read_only
        self.is_cancelled = is_cancelled
        self.within = within
        self.change_set = ChangeSet(tool, caller.agent, sees_all=caller.scope == "all")
        self._store: MemoryStore | None = None
        self.notes: list[str] = []
        self.delivery = EventDelivery()

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.workspace.root

    @cached_property
    def hide_paths(self) -> Callable[[str], str]:
        """Hide the paths of this machine in a text, if the caller may not see them."""
        if self.caller.may_see_paths:
            return str
        from memvault.settings import local_paths

        loaded = self.workspace.__dict__.get("settings")  # if loading them succeeded
        return local_paths.path_hider(self.root, loaded, self.caller.vaults)

    @property
    def settings(self) -> vault_settings.Settings:
        """The vault's settings."""
        return self.workspace.settings

    @property
    def store(self) -> MemoryStore:
        """The store of memories, with changes in this call's change set."""
        store = self.workspace.store
        if self._store is None or self._store.settings is not store.settings:
            self._store = store.with_change_set(self.change_set)
        return self._store

    @property
    def reader(self) -> MemoryReader:
        """The reader of memories, on this machine or in an engine."""
        return self.workspace.reader if self.settings.index.sent else self.store

    @property
    def index(self) -> Index:
        """The derived index of the vault's folder."""
        return self.workspace.index

    @cached_property
    def engine(self) -> RecallEngine:
        """The recall engine, with one snapshot of the index for the whole call."""
        from memvault.index.protocol import BEST_EFFORT, COMPLETE, EARLY
        from memvault.recall.recall_engine import RecallEngine

        patience = BEST_EFFORT if self.read_only else COMPLETE
        if self.read_only and self.caller.reads_early:
            patience = EARLY
        return RecallEngine(
            self.reader,
            self.workspace.search_index,
            patience,
            self.within,
            self.workspace.rerank_scores,
        )

    def link_graph(self, view: View) -> LinkGraph:
        """Return the links of the vault as of a view of its index."""
        from memvault.memories.link_graph import LinkGraph

        return LinkGraph(view.links(), view.record)

    def resolve(
        self, name: str, writes: bool | None = None, whole: bool = False, suggests: bool = True
    ) -> Memory:
        """Return the memory that the caller means by a name.

        A part of a title, or the beginning of a memId without the whole slug, is enough for
        reading. For writing it is not, unless the person at the terminal confirms it; ``writes``
        overrides whether the tool does. With ``whole``, any beginning of a memId has to be
        confirmed there.

        Raises:
            NotFound: no memory has this name; if ``suggests`` is set, the closest are in its
                details as ``candidates``.
            Ambiguous: several memories have it.
            Refused: the person does not mean the memory.
        """
        from memvault.recall.resolve import is_exact, is_name_of

        asks = self.caller.asks if writes or (writes is None and not self.read_only) else None
        partial = asks is not None or (self.read_only if writes is None else not writes)
        memory = self.engine.resolve_similar(name, partial, suggests)
        if asks is None or (is_exact if whole else is_name_of)(name, memory):
            return memory
        masked = self.settings.detector.masking(memory.metadata)
        if not asks((), f"Do you mean {masked(memory.title)!r} ({masked(memory.mem_id)})?"):
            raise Refused("Nothing was changed", "name the memory by its memory id")
        return memory

    def vaults(self, names: Sequence[str]) -> dict[str, Path]:
        """Return the folders of the vaults to search.

        Raises:
            VaultNotFound: no vault has one of the names, or the caller may not reach it.
        """
        from memvault.settings.locate import select_vaults

        return select_vaults(names, self.root, self.caller.vaults)

    def federated_engine(self, vaults: Mapping[str, Path]) -> RecallEngine:
        """Return a recall engine over several vaults by name; a missing one only adds a note."""
        from memvault.index.federated import FederatedIndex
        from memvault.index.protocol import BEST_EFFORT
        from memvault.recall.recall_engine import RecallEngine

        def opened(root: Path) -> SearchIndex[Any]:
            return self.workspace.open_other(root).search_index

        index = FederatedIndex({name: partial(opened, root) for name, root in vaults.items()})
        return RecallEngine(
            self.reader, index, BEST_EFFORT, rerank_scores=self.workspace.rerank_scores
        )

    def all_notes(self) -> list[str]:
        """Return the notes, with warnings about changes first and the snapshot's notes last."""
        left_out: list[str] = []
        if "engine" in self.__dict__:
            with contextlib.suppress(OSError, MemoryError):  # the index is gone
                left_out = self.engine.notes()
        return [*self.change_set.warnings, *self.notes, *left_out]

    @cached_property
    def address(self) -> Address:
        """The address of the calling agent.

        Raises:
            UsageError: the agent's name is invalid.
        """
        from memvault.agents.address import address

        return address(self.caller.agent)

    @property
    def plans(self) -> AgentPlans:
        """The agent's plans."""
        from memvault.agents.plans.agent_plans import AgentPlans

        return AgentPlans(self.store, self.address, clock.zone(self.settings.plans.timezone))

    @cached_property
    def inbox(self) -> Inbox:
        """The agent's own inbox, to which its due plans are delivered."""
        from memvault.agents.messages.inbox import Inbox
        from memvault.agents.plans.planned_inbox import PlannedInbox

        if self.caller.scope == "read":  # a read-only caller does not write events of plans either
            return Inbox(self.root, self.address, only_reads=True)
        return PlannedInbox(self.plans)

    def sleep(self, seconds: float) -> None:
        """Wait for at most the given seconds; other threads can use the vault until then.

        Raises:
            TimedOut: the caller has cancelled.
        """
        self.workspace.condition.wait(seconds)
        if self.is_cancelled():
            raise TimedOut("The call was cancelled", "call again")
