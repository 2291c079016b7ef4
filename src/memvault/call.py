"""One call of a tool: its caller and scope, its change set, its index snapshot, its events.

No state of a call outlives it; the workspace holds only the vault.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memvault import clock
from memvault.errors import MemvaultError, NotFound, Refused, TimedOut
from memvault.named_tuple import NamedTuple
from memvault.settings import vault_settings
from memvault.store.change_set import ChangeSet
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.agents.address import Address
    from memvault.agents.messages.inbox import Inbox
    from memvault.agents.messages.leases import Lease
    from memvault.agents.plans.agent_plans import AgentPlans
    from memvault.index.protocol import Index, MemoryRecord, SearchIndex, View
    from memvault.memories.create import RenderedTemplate
    from memvault.memories.link_graph import LinkGraph
    from memvault.memories.unmerged import Unmerged, UnmergedMemory
    from memvault.model import Memory
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine
    from memvault.repository.code_check import CodeCitations
    from memvault.results import CitedCode
    from memvault.store.memory_store import MemoryReader, MemoryStore


SecretVisibility = Literal["shown", "asked", "masked"]
"""Which results show secrets: all, only the text that a tool was asked to return, or none."""
Scope = Literal["read", "write", "all"]
"""The scopes of a caller: read only; also write memories and its own files; also maintain the
vault."""
Confirm = Callable[[Sequence[str], str], bool]
"""A function that prints lines and a question, and returns whether the answer is yes."""


def not_cancelled() -> bool:
    """Return False, for callers that cannot cancel."""
    return False


class Caller(NamedTuple):
    """The caller of a tool and its permissions; by default all secrets are masked."""

    agent: str = "main"
    # Whether the caller may specify programs to run.
    may_run_programs: bool = True
    # Whether results may contain local paths.
    may_see_paths: bool = True
    # Whether the token budget in the settings applies if a call sets none.
    has_token_budget: bool = False
    # The names of other vaults that it may access, or None for all.
    vaults: tuple[str, ...] | None = None
    # With any scope but "all", it cannot access other agents' files.
    scope: Scope = "all"
    secrets: SecretVisibility = "masked"
    # Asks the user at the terminal; None without a terminal.
    confirm: Confirm | None = None
    # Asks whether to apply a suggested correction, by default yes; None with --quiet.
    confirm_suggestion: Confirm | None = None
    # Whether messages use commands and options, commands and JSON keys, or tools and JSON keys.
    message_style: Literal["shell", "keys", "tools"] = "shell"
    # Whether to ignore unknown arguments, which the caller's program may add.
    adds_arguments: bool = False
    # Whether it sees memories that exist only in other git worktrees.
    sees_worktrees: bool = True
    # Whether to answer from the current index; the caller updates it afterward.
    reads_early: bool = False
    # Whether a hook makes the call: it injects memories that the agent did not request, and
    # records them itself.
    is_hook: bool = False
    # The template of a text written in an editor; its header is added to the new memory.
    template: RenderedTemplate | None = None
    # Time limit in seconds for comparing the code that memories cite.
    code_seconds: float = 1.0

    @property
    def sees_repository(self) -> bool:
        """Whether the caller may see the vault's repository; network callers may not."""
        return self.sees_worktrees or self.may_see_paths

    @property
    def mask_secrets(self) -> bool:
        """Whether all secrets are masked, even in text that a tool compares or truncates."""
        return self.secrets == "masked"


LOCAL = Caller()
"""The default caller: the agent ``main`` on this machine, for whom secrets are masked."""


class EventDelivery:
    """The events in one result, which are acknowledged once the caller has received it."""

    def __init__(self) -> None:
        self._leases: list[Lease] = []

    @property
    def is_empty(self) -> bool:
        """Whether the result has no events."""
        return not self._leases

    def add(self, lease: Lease) -> None:
        """Add the events of a lease."""
        self._leases.append(lease)

    def take_over(self, other: EventDelivery) -> None:
        """Move another delivery's events to this one."""
        self._leases += other._take_leases()

    def acknowledge(self) -> list[str]:
        """Acknowledge the leases once the caller has the events; return notes about failures."""
        notes = []
        for lease in self._take_leases():
            try:
                lease.acknowledge()
            except MemvaultError as error:
                notes.append(f"these events may be delivered again: {error.message}")
        return notes

    def requeue(self) -> None:
        """Put back events that the caller did not receive."""
        for lease in self._take_leases():
            lease.requeue()

    def _take_leases(self) -> list[Lease]:
        leases, self._leases = self._leases, []
        return leases


class _OtherWorktrees:
    """The memories that exist only in other git worktrees, looked up on first use.

    A separate object, so that a call and its recall engine do not refer to each other.
    """

    def __init__(self, workspace: Workspace, caller: Caller) -> None:
        self._workspace = workspace
        self._caller = caller
        self._extended: tuple[View, View] | None = None

    @cached_property
    def unmerged(self) -> Unmerged | None:
        """See ``Call.unmerged``."""
        workspace, caller = self._workspace, self._caller
        is_off = workspace.settings.index.sent or not workspace.settings.git.worktrees
        if is_off or not caller.sees_worktrees or not workspace.may_have_worktrees:
            return None
        from memvault.memories.unmerged import Unmerged

        unmerged = Unmerged(workspace.store, workspace.index.folder, caller.scope != "read")
        return unmerged if unmerged.exists else None

    @property
    def notes(self) -> list[str]:
        """Notes about memories that were not searched."""
        unmerged = self.__dict__.get("unmerged")
        return unmerged.notes if unmerged is not None else []

    def extend(self, view: View) -> View:
        """Return a view with the memories that exist only in other git worktrees."""
        if self.unmerged is None:
            return view
        if self._extended is None or self._extended[0] is not view:
            items = self.unmerged.memories(view.records())
            added = [(item.memory, item.worktree.checked_out) for item in items]
            index = self._workspace.index
            self._extended = view, index.with_memories(view, added) if added else view
        return self._extended[1]


class Call:
    """One call of a tool in a vault.

    Attributes:
        tool: The tool's name in the journal.
        read_only: Whether it may answer from part of the memories, which a note then reports.
        is_cancelled: A function that returns whether the caller has canceled.
        saved_search_filters: Filters that all memories found by its searches must pass.
        notes: Sentences to report to the caller in addition to the result.
        memories_read: The current memories of this vault that its searches have read, by path.
        change_set: The changes made so far.
        delivery: The events in the result.
        budget: The maximum number of tokens of the result; 0 for no limit.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller = LOCAL,
        tool: str = "",
        read_only: bool = False,
        is_cancelled: Callable[[], bool] = not_cancelled,
        saved_search_filters: Filters | None = None,
    ) -> None:
        self.budget = 0
        self.workspace = workspace
        self.caller = caller
        self.read_only = read_only
        self.is_cancelled = is_cancelled
        self.saved_search_filters = saved_search_filters
        self.change_set = ChangeSet(tool, caller.agent, sees_all=caller.scope == "all")
        self._store: MemoryStore | None = None
        self._worktrees = _OtherWorktrees(workspace, caller)
        self.notes: list[str] = []
        self.memories_read: dict[str, Memory] = {}
        self.delivery = EventDelivery()

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.workspace.root

    @cached_property
    def hide_paths(self) -> Callable[[str], str]:
        """Return a function that hides this machine's paths unless the caller may see them."""
        if self.caller.may_see_paths:
            return str
        from memvault import path_redaction

        loaded = self.workspace.__dict__.get("settings")  # None unless they have been loaded
        return path_redaction.path_hider(self.root, loaded, self.caller.vaults)

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
    def citations(self) -> CodeCitations | None:
        """The code that memories cite; None if the caller may not learn about it."""
        return self.workspace.citations if self.caller.sees_repository else None

    def cited_code(
        self, metadata: Sequence[Mapping[str, Any]], root: Path | None = None
    ) -> list[list[CitedCode]]:
        """Return the state of the code that memories cite, by their headers.

        ``root`` is the folder of their vault if it is not this one.
        """
        is_cited = any("cites" in header for header in metadata)
        if not is_cited or not self.caller.sees_repository:
            return [[] for _ in metadata]
        workspace = self.workspace if root is None else self.workspace.open_other(root)
        citations = workspace.citations
        return (
            citations.check(metadata, self.caller.code_seconds)
            if citations is not None
            else [[] for _ in metadata]
        )

    @property
    def index(self) -> Index:
        """The index of the vault's folder."""
        return self.workspace.index

    @cached_property
    def engine(self) -> RecallEngine:
        """The recall engine, which uses the same snapshot of the index for the whole call."""
        from memvault.index.protocol import BEST_EFFORT, COMPLETE, EARLY
        from memvault.recall.recall_engine import RecallEngine

        patience = BEST_EFFORT if self.read_only else COMPLETE
        if self.read_only and self.caller.reads_early:
            patience = EARLY
        return RecallEngine(
            self.reader,
            self.workspace.search_index,
            patience,
            self.saved_search_filters,
            self.workspace.rerank_scores,
            self._worktrees.extend,
        )

    @property
    def unmerged(self) -> Unmerged | None:
        """The memories that exist only in other git worktrees; None without other worktrees.

        Callers over the network, and front ends that open files by path, do not see them.
        """
        return self._worktrees.unmerged

    def link_graph(self, view: View, records: Iterable[MemoryRecord] = ()) -> LinkGraph:
        """Return the vault's links in a view of its index.

        If ``records`` contains all records of the view, the index is not queried.
        """
        from memvault.memories.link_graph import LinkGraph

        by_uid = {record.uid: record for record in records}
        return LinkGraph(view.links(), by_uid.get if by_uid else view.record)

    def resolve(
        self, name: str, writes: bool | None = None, whole: bool = False, suggests: bool = True
    ) -> Memory:
        """Return the memory that a name refers to.

        For reading, a part of a title or any prefix of a memId is enough.
        For writing, the user at the terminal must confirm it; ``writes`` overrides whether the tool
        writes. With ``whole``, every prefix of a memId must be confirmed.

        Raises:
            NotFound: no memory has this name; if ``suggests`` is set, the closest are in its
            details as ``candidates``.
            Ambiguous: several memories have it.
            Refused: the user did not confirm the memory.
        """
        try:
            return self._resolve(name, writes, whole, suggests)
        except NotFound as error:
            self.require_merged(name, error)
            raise

    def require_merged(
        self, name: str, cause: MemvaultError | None = None, similar: Memory | None = None
    ) -> None:
        """Check that a name that was not found does not belong to another git worktree's memory.

        ``similar`` is the memory in this worktree that a search for the name found instead.

        Raises:
            NotFound: only another worktree has the memory.
        """
        item = self.find_unmerged(name)
        if item is not None and (similar is None or similar.mem_id != item.memory.mem_id):
            raise NotFound(
                f"{item.memory.title} is only on {item.worktree.checked_out}, which is not merged",
                f"run `memvault show {item.memory.mem_id}` to see it, or "
                f"`memvault restore {item.memory.mem_id}` to copy it to this worktree",
            ) from cause

    def find_unmerged(self, name: str) -> UnmergedMemory | None:
        """Resolve a name to a memory that exists only in another git worktree, or None."""
        if self.unmerged is None:
            return None
        return self.unmerged.find(name, self.engine.on_view(lambda view: [*view.records()]))

    def copy_unmerged(self, item: UnmergedMemory, discards: bool = False) -> Memory:
        """Copy a memory from another git worktree, replacing the older version here.

        With ``discards`` the copy then moves to the trash, or the older version becomes current
        again.

        Raises:
            Conflict: the version here changes at the same time.
            Refused: it contains secrets, which the settings do not allow.
            StorageError: it cannot be written.
        """
        from memvault.memories import unmerged

        try:
            own = self._resolve(item.memory.mem_id, False, True, False)
        except NotFound:
            own = None
        if own is not None and not discards:
            self.notes.append("the version here became a revision; `memvault diff` shows it")
        return unmerged.copy_here(self.store, item, own, discards)

    def _resolve(self, name: str, writes: bool | None, whole: bool, suggests: bool) -> Memory:
        from memvault.recall.resolve import is_exact, is_name_of

        confirm = self.caller.confirm if writes or (writes is None and not self.read_only) else None
        partial = confirm is not None or (self.read_only if writes is None else not writes)
        memory = self.engine.names.resolve_similar(name, partial, suggests)
        if confirm is None or (is_exact if whole else is_name_of)(name, memory):
            return memory
        masked = self.settings.detector.masking(memory.metadata)
        if not confirm((), f"Do you mean {masked(memory.title)!r} ({masked(memory.mem_id)})?"):
            raise Refused("Nothing was changed", "pass the memory's id instead")
        return memory

    def vaults(self, names: Sequence[str]) -> dict[str, Path]:
        """Return the folders of the vaults to search.

        Raises:
            VaultNotFound: the caller cannot access a vault with one of the names.
        """
        from memvault.settings.locate import select_vaults

        return select_vaults(names, self.root, self.caller.vaults)

    def federated_engine(self, vaults: Mapping[str, Path]) -> RecallEngine:
        """Return a recall engine over several named vaults; a missing vault only adds a note."""
        from memvault.index.federated import ExtendedIndex, FederatedIndex
        from memvault.index.protocol import BEST_EFFORT
        from memvault.recall.recall_engine import RecallEngine

        def opened(root: Path) -> SearchIndex[Any]:
            index = self.workspace.open_other(root).search_index
            if root != self.root or self.unmerged is None:
                return index
            return ExtendedIndex(index, self._worktrees.extend)

        index = FederatedIndex({name: partial(opened, root) for name, root in vaults.items()})
        return RecallEngine(
            self.reader, index, BEST_EFFORT, rerank_scores=self.workspace.rerank_scores
        )

    def all_notes(self) -> list[str]:
        """Return the notes, with warnings about changes first and the snapshot's notes last."""
        left_out: list[str] = []
        if "engine" in self.__dict__:
            with contextlib.suppress(OSError, MemoryError):  # The index has been deleted.
                left_out = self.engine.notes()
        skipped = self._worktrees.notes
        return [*self.change_set.warnings, *self.notes, *skipped, *left_out]

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

        # A read-only caller cannot deliver the events of due plans.
        if self.caller.scope == "read":
            return Inbox(self.root, self.address, only_reads=True)
        return PlannedInbox(self.plans)

    def sleep(self, seconds: float) -> None:
        """Wait at most ``seconds``; other threads can use the vault during the wait.

        Raises:
            TimedOut: the caller has canceled.
        """
        self.workspace.executor.let_next_run()
        if not self.is_cancelled():
            self.workspace.condition.wait(seconds)
        if self.is_cancelled():
            raise TimedOut("The call was canceled", "call again")
