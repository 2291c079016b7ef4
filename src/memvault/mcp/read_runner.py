"""Run read-only tool calls in parallel with each other and with calls that write.

Each call runs in its own workspace, which sees only complete states of the vault, like another
process. The results of such calls need no acknowledgment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import mcp_types as types

from memvault.call import Call, Caller
from memvault.errors import MemvaultError
from memvault.mcp import sdk_types
from memvault.mcp.calls import PendingCall, report_progress
from memvault.mcp.fair_shares import CallCosts, FairShares
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.request_queue import QueueSlot, RequestQueue, run_with_slots, take_all
from memvault.named_tuple import NamedTuple
from memvault.tools.core import registry
from memvault.workspace import Workspace

AT_ONCE = 2
"""Maximum concurrent reads of one vault in this process; more would only wait for the GIL."""


class Read(NamedTuple):
    """A call of a read-only tool."""

    root: Path
    caller: Caller
    tool: str
    arguments: Mapping[str, Any]

    def run(self, workspace: Workspace, offer: ToolSelection) -> types.CallToolResult:
        """Run the tool in a workspace that no other call uses; return the client's result.

        Raises:
            MCPError: there is no such tool.
        """
        call = PendingCall(workspace, self.caller, self.tool, self.arguments, offer.find)
        result = call.run()
        context = Call(workspace, self.caller, read_only=True)
        return sdk_types.result(context, result)


def only_reads(name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether a call runs a built-in tool and changes nothing."""
    tool = registry.lookup(name)
    if tool is None or tool.read_only or not tool.writes_if:
        return tool is not None and tool.read_only
    try:
        bound = tool.check(tool.by_name(arguments, ignored=[]))
    except MemvaultError:
        return False
    return not bound.get(tool.writes_if)


class TooHeavy(Exception):
    """Raised, instead of starting a call, if it turned out to be heavy while it waited."""


class ReadRunner(Protocol):
    """Runs read-only tools."""

    def accepts(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether this runner can run a call now."""

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Run a tool when it is ``key``'s turn; return the client's result.

        If the task is canceled, the slot of its request stays taken until the tool finishes.

        Raises:
            MCPError: there is no such tool.
        """


class HeavyReadRunner(ReadRunner, Protocol):
    """Runs heavy reads; it may be temporarily unavailable."""

    @property
    def is_failing(self) -> bool:
        """Whether this runner is temporarily unable to run calls."""


class Lane(NamedTuple):
    """A queue for slots, and the costs of past calls.

    Unless the lane ``is_for_all``, it rejects calls that are found to be heavy.
    """

    queue: RequestQueue
    costs: CallCosts
    is_for_all: Callable[[], bool] = lambda: True

    async def enter(self, read: Read, key: Hashable, request: QueueSlot | None) -> list[QueueSlot]:
        """Wait for a call's turn; return its slots.

        Raises:
            TooHeavy: the call is heavy, and this lane is for other calls.
        """
        is_cheap = self.costs.is_cheap(key, read.tool)
        slots = await take_all(self.queue, key, request, is_cheap)
        if not self.is_for_all() and self.costs.is_heavy(key, read.tool):
            for slot in slots:
                slot.leave()
            raise TooHeavy
        return slots

    def charge(self, read: Read, key: Hashable, seconds: float, is_first: bool) -> None:
        """Charge a call's CPU time in seconds.

        The costs of the first call in a workspace are not noted, because it also opens the vault.
        """
        self.queue.charge(key, self.costs.weighted(key, read.tool, seconds))
        if not is_first:
            self.costs.note(key, read.tool, seconds)


def shared_lane(slots: int, shares: FairShares, costs: CallCosts, heavy: HeavyReadRunner) -> Lane:
    """Return a lane that gives a key at most half of its slots.

    It rejects heavy calls, unless ``heavy`` is failing.
    """
    queue = RequestQueue(max(1, slots // 2), slots, shares=shares)
    return Lane(queue, costs, lambda: heavy.is_failing)


class LocalReadRunner:
    """Runs reads of one vault in threads of this process."""

    def __init__(self, root: Path, offer: ToolSelection, lane: Lane) -> None:
        self._offer = offer
        self._lane = lane
        self._workspaces = [
            Workspace(root, report_progress, long_lived=True) for _ in range(AT_ONCE)
        ]
        self._idle = [*self._workspaces]
        self._opened: set[Workspace] = set()

    def accepts(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call is read-only."""
        return only_reads(name, arguments)

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Run a tool in a thread.

        Raises:
            MCPError: there is no such tool.
            TooHeavy: the call is heavy, and this lane is for other calls.
        """
        slots = await self._lane.enter(read, key, request)
        workspace = self._idle.pop()  # the lane has no more slots than there are workspaces
        slots.insert(0, QueueSlot(partial(self._idle.append, workspace)))

        def charge(seconds: float) -> None:
            self._lane.charge(read, key, seconds, workspace not in self._opened)
            self._opened.add(workspace)

        work = partial(read.run, workspace, self._offer)
        return await run_with_slots(work, workspace.executor, slots, charge)

    def close(self) -> None:
        """Close the workspaces after their calls have finished."""
        for workspace in self._workspaces:
            with workspace.lock:
                workspace.close()


class FairReadRunner:
    """Runs heavy reads separately, so other reads do not wait for them."""

    def __init__(self, cheap: ReadRunner, heavy: HeavyReadRunner, costs: CallCosts) -> None:
        self._cheap = cheap
        self._heavy = heavy
        self._costs = costs

    def accepts(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether either runner can run a call now."""
        return self._cheap.accepts(name, arguments)

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Run a tool in the cheap or the heavy lane.

        Raises:
            MCPError: there is no such tool.
        """
        if self._heavy.is_failing or not self._costs.is_heavy(key, read.tool):
            try:
                return await self._cheap.run(read, key, request)
            except TooHeavy:
                pass
        return await self._heavy.run(read, key, request)
