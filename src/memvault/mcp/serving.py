"""The server itself: the SDK's low-level one, with our schemas and our transport."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from memvault import __version__, visible
from memvault.call import Call, Caller
from memvault.errors import MemvaultError
from memvault.mcp import answers, wire
from memvault.mcp.calls import PendingCall
from memvault.tools.core import skill
from memvault.workspace import Workspace

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Context = ServerRequestContext[Any, Any]
Answer = TypeVar("Answer")


def serve(workspace: Workspace, caller: Caller) -> int:
    """Serve one client until its input ends or the process is asked to; return the exit code.

    Only with ``programs`` may the client name programs and models to run.
    """
    with contextlib.suppress(MemvaultError):  # each call says so, until it is mended
        _ = workspace.settings  # from here on a vault that vanishes is noticed
    try:
        with wire.diverted() as (read, written):
            return asyncio.run(Serving(workspace, caller).run(read, written))
    finally:
        with workspace.lock:
            workspace.close()


class Serving:
    """The requests of one client, for whom tools run in threads."""

    def __init__(self, workspace: Workspace, caller: Caller) -> None:
        self._workspace = workspace
        self._caller = caller
        self._calls: dict[types.RequestId, PendingCall] = {}
        self._threads = anyio.CapacityLimiter(math.inf)  # waits must not keep others from running
        self.server = Server[Any](
            "memvault",
            version=__version__,
            title="memvault",
            instructions=skill.over_mcp(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self.server.middleware.clear()  # nothing is told to anyone, not even traces

    async def run(self, read: int, written: int) -> int:
        """Answer requests until there are no more; return the exit code."""
        outgoing = wire.Outgoing(written, self._answered)
        options = self.server.create_initialization_options()
        asked: list[int] = []
        with anyio.CancelScope() as scope, _signals(asked, scope.cancel):
            await self.server.run(wire.incoming(read), outgoing, options)
        outgoing.close()
        for call in list(self._calls.values()):  # their answers were never written
            call.give_up()
        return 128 + asked[0] if asked else 0

    def _answered(self, message: types.JSONRPCMessage, whole: bool) -> None:
        """Settle what a call handed out, once its answer was written."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return
        call = self._calls.pop(message.id, None) if message.id is not None else None
        if call is None:
            return
        if not whole or isinstance(message, types.JSONRPCError):
            call.give_up()
            return
        for note in call.settle():
            print(visible.line(f"note: {note}"), file=sys.stderr)

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        call = PendingCall(self._workspace, self._caller, params.name, params.arguments or {})
        assert context.request_id is not None
        earlier = self._calls.get(context.request_id)
        if earlier is not None:  # an id that is used twice gets one answer at most
            earlier.give_up()
        self._calls[context.request_id] = call
        try:
            return await self._threaded(lambda: answers.result(self._call(), call.run()))
        except BaseException:  # cancelled, or there is no such tool
            if self._calls.get(context.request_id) is call:
                del self._calls[context.request_id]
            call.give_up()
            raise

    async def _list_tools(self, _: Context, __: Any) -> types.ListToolsResult:
        return await self._threaded(lambda: answers.tools(self._call()))

    async def _list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params else None
        return await self._threaded(lambda: answers.resources(self._call(), cursor))

    async def _list_templates(self, _: Context, __: Any) -> types.ListResourceTemplatesResult:
        return answers.resource_templates()

    async def _read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._threaded(lambda: answers.read_memory(self._call(), params.uri))

    def _call(self) -> Call:
        return Call(self._workspace, self._caller)

    async def _threaded(self, work: Callable[[], Answer]) -> Answer:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)


@contextlib.contextmanager
def _signals(asked: list[int], end: Callable[[], None]) -> Iterator[None]:
    """Let a signal end the server in order, where the system can tell a loop of signals."""
    loop = asyncio.get_running_loop()

    def note(number: int) -> None:
        asked.append(number)
        end()

    try:
        for number in _SIGNALS:
            loop.add_signal_handler(number, note, number)
    except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
