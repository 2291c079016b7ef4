"""Tool calls that only read, which run beside each other and beside what writes.

Each runs in a workspace of its own, which sees complete states of the vault only, as another
process does. Nothing that such a call returns has to be acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyio
import mcp_types as types

from memvault.call import Call, Caller
from memvault.mcp import results
from memvault.mcp.calls import PendingCall, report_progress
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.request_queue import QueueSlot, RequestQueue, in_thread, take_all
from memvault.tools.core import registry
from memvault.workspace import Workspace

_AT_ONCE = 2
"""Reads of one vault in this process at once; more would only wait for the interpreter."""


class Read(NamedTuple):
    """A call of a tool that only reads."""

    root: Path
    caller: Caller
    tool: str
    arguments: Mapping[str, Any]

    def run(self, workspace: Workspace, offer: ToolSelection) -> types.CallToolResult:
        """Run the tool in a workspace that nobody else uses; return the result for its client.

        Raises:
            MCPError: there is no such tool.
        """
        call = PendingCall(workspace, self.caller, self.tool, self.arguments, offer.find)
        found = call.run()
        context = Call(workspace, self.caller, read_only=True)
        return results.result(context, found, call.is_presented)


def only_reads(name: str) -> bool:
    """Return whether a tool is one of memvault's own that changes nothing."""
    tool = registry.lookup(name)
    return tool is not None and tool.read_only


class Reads(Protocol):
    """A way to run tools that only read."""

    def takes(self, name: str) -> bool:
        """Return whether it runs a tool now."""

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Run a tool in the turn of ``key``; return the result for its client.

        If the task is cancelled, the slot of its request stays taken until the tool has ended.

        Raises:
            MCPError: there is no such tool.
        """


class LocalReads:
    """Reads of one vault in threads of this process."""

    def __init__(self, root: Path, offer: ToolSelection) -> None:
        self._offer = offer
        self._queue = RequestQueue(total=_AT_ONCE)
        self._workspaces = [Workspace(root, report_progress, stays=True) for _ in range(_AT_ONCE)]
        self._idle = [*self._workspaces]
        self._threads = anyio.CapacityLimiter(math.inf)  # the queue limits them

    def takes(self, name: str) -> bool:
        """Return whether a tool only reads."""
        return only_reads(name)

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Run a tool in a thread; raises as ``Read.run``."""
        slots = await take_all(self._queue, key, request)
        return await in_thread(partial(self._run, read), self._threads, *slots)

    def _run(self, read: Read) -> types.CallToolResult:
        with self._workspace() as workspace:
            return read.run(workspace, self._offer)

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        workspace = self._idle.pop()
        try:
            yield workspace
        finally:
            self._idle.append(workspace)

    def close(self) -> None:
        """Close the workspaces, when their calls have ended."""
        for workspace in self._workspaces:
            with workspace.lock:
                workspace.close()
