"""The server itself: the SDK's low-level one, with our schemas and our transport."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.subscriptions import ServerEvent

from memvault import __version__, sanitize
from memvault.call import Call, Caller, not_cancelled
from memvault.errors import MemvaultError
from memvault.mcp import calls, prompts, resources, results, stdio
from memvault.mcp.calls import OPEN_CALLS, PendingCall
from memvault.mcp.notifications import ChangeDetector, ChangeNotifier
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.request_queue import QUEUE_SLOT, QueueSlot, RequestQueue, in_thread
from memvault.tools.core import agent_guide
from memvault.workspace import Workspace

_AT_ONCE = 2
"""Calls of one vault in threads at once, but for those that wait: one works, one is ready to."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Context = ServerRequestContext[Any, Any]
Answer = TypeVar("Answer")


def new_turns() -> RequestQueue:
    """Return the turns of a vault, in which calls run one after the other."""
    return RequestQueue(total=_AT_ONCE)


class SdkServer(Server[Any]):
    """The SDK's server, which says over every transport which changes it tells of."""

    def get_capabilities(self, *given: Any, **named: Any) -> types.ServerCapabilities:
        """Return what this server can do."""
        told = NotificationOptions(tools_changed=True, resources_changed=True)
        return super().get_capabilities(told, *given[1:], **named)


def serve(workspace: Workspace, caller: Caller, offer: ToolSelection) -> int:
    """Serve one client until its input ends or the process is asked to; return the exit code.

    Only with ``programs`` may the client name programs and models to run.
    """
    with contextlib.suppress(MemvaultError):  # each call says so, until it is mended
        _ = workspace.settings  # from here on a vault that vanishes is noticed
    try:
        with stdio.claimed_stdio() as (read, written):
            return asyncio.run(McpServer(workspace, caller, offer).run(read, written))
    finally:
        with workspace.lock:
            workspace.close()


class McpServer:
    """The requests of one caller, for whom tools run in threads; ``ending`` as for a call.

    ``turns`` are the vault's, in which other callers take theirs too, each as ``who`` it is.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller,
        offer: ToolSelection,
        ending: Callable[[], bool] = not_cancelled,
        turns: RequestQueue | None = None,
        who: Hashable = "",
    ) -> None:
        self._turns = turns or new_turns()
        self._who = who
        self._workspace = workspace
        self._caller = caller
        self._offer = offer
        self._ending = ending
        self._calls: dict[types.RequestId, PendingCall] = {}
        self._changes = ChangeDetector(offer)
        self._telling = ChangeNotifier(self._look_at_known)
        workspace.progress = calls.report_progress
        self._threads = anyio.CapacityLimiter(math.inf)  # waits must not keep others from running
        self.server = SdkServer(
            "memvault",
            version=__version__,
            title="memvault",
            instructions=agent_guide.mcp_instructions(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            lifespan=self._lifespan,
            get_tool_input_schema=lambda _: None,  # no argument of ours goes in a header too
        )
        # Given to the constructor, it would warn that newer clients do without.
        self.server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._set_level
        )
        self.server.middleware.clear()  # nothing is told to anyone, not even traces

    def end_streams(self) -> None:
        """End every stream of changes that stands open."""
        self._telling.close()

    async def run(self, read: int, written: int) -> int:
        """Answer requests until there are no more; return the exit code."""
        outgoing = stdio.StdioWriter(written, self._answered)
        asked: list[int] = []
        with anyio.CancelScope() as scope, handle_signals(asked, scope.cancel):
            await self.server.run(
                stdio.read_messages(read), outgoing, self.server.create_initialization_options()
            )
        outgoing.close()
        for call in list(self._calls.values()):  # their answers were never written
            call.cancel()
        return 128 + asked[0] if asked else 0

    def _answered(self, message: types.JSONRPCMessage, whole: bool) -> None:
        """Settle what a call handed out, once its answer was written."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return
        call = self._calls.pop(message.id, None) if message.id is not None else None
        if call is None:
            return
        if not whole or isinstance(message, types.JSONRPCError):
            call.cancel()
            return
        for note in call.settle():
            print(sanitize.escape_line(f"note: {note}"), file=sys.stderr)

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        begun = time.monotonic()
        call = PendingCall(
            self._workspace,
            self._caller,
            params.name,
            params.arguments or {},
            self._offer.find,
            self._ending,
        )
        assert context.request_id is not None
        # Over HTTP each request carries its own answer, and clients count their requests alike.
        calls = self._calls if context.request is None else context.request.scope[OPEN_CALLS]
        earlier = calls.get(context.request_id)
        if earlier is not None:  # an id that is used twice gets one answer at most
            earlier.cancel()
        calls[context.request_id] = call
        try:
            with self._telling_steps(context):
                answer = await self._threaded(
                    lambda: results.result(self._call(), call.run()), context, call
                )
        except BaseException:  # cancelled, or there is no such tool
            if calls.get(context.request_id) is call:
                del calls[context.request_id]
            call.cancel()
            raise
        await self._tell_notes(context, params.name, answer, time.monotonic() - begun)
        self._telling.schedule_check()
        return answer

    @contextlib.contextmanager
    def _telling_steps(self, context: Context) -> Iterator[None]:
        """Tell how far a call is, where its caller asked for it."""
        if "progress_token" not in (context.meta or {}):
            yield
            return
        steps = calls.ProgressTracker()
        here = calls.CURRENT.set(steps)
        telling = asyncio.get_running_loop().create_task(
            steps.tell(context.session.report_progress)
        )
        try:
            yield
        finally:
            telling.cancel()
            calls.CURRENT.reset(here)

    async def _tell_notes(
        self, context: Context, name: str, answer: types.CallToolResult, seconds: float
    ) -> None:
        for note in (answer.structured_content or {}).get("warnings", ()):
            await self._telling.log(context, "warning", {"tool": name, "message": note})
        took = {"tool": name, "message": f"took {seconds:.3f} seconds"}
        await self._telling.log(context, "debug", took)

    async def _list_tools(self, context: Context, _: Any) -> types.ListToolsResult:
        self._telling.register_client(context)
        with contextlib.suppress(MemvaultError, OSError):  # the answer says so itself
            await self._look(self._changes.tools)
        return await self._threaded(lambda: results.tools(self._call(), self._offer), context)

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._telling.register_client(context)
        with contextlib.suppress(MemvaultError, OSError):
            await self._look(self._changes.memories)
        cursor = params.cursor if params else None
        return await self._threaded(lambda: resources.listed(self._call(), cursor), context)

    async def _list_templates(self, _: Context, __: Any) -> types.ListResourceTemplatesResult:
        return resources.templates()

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._threaded(lambda: resources.read(self._call(), params.uri), context)

    async def _list_prompts(self, _: Context, __: Any) -> types.ListPromptsResult:
        return prompts.prompt_list()

    async def _get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        return prompts.get(params.name, params.arguments or {})

    async def _complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        return await self._threaded(lambda: resources.complete(self._call(), params), context)

    async def _subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        # It is there.
        await self._threaded(lambda: resources.read(self._call(), params.uri), context)
        await self._look(self._changes.memories)
        self._telling.subscribe(context, params.uri)
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._telling.unsubscribe(context, params.uri)
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        wanted = params.notifications
        with contextlib.suppress(MemvaultError, OSError):
            if wanted.tools_list_changed:
                await self._look(self._changes.tools)
            if wanted.resources_list_changed or wanted.resource_subscriptions:
                await self._look(self._changes.memories)
        return await self._telling.listen(context, params)

    async def _set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._telling.set_level(context, params.level)
        return types.EmptyResult()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        async with self._telling.polling():
            yield

    async def _look(self, look: Callable[[Call], list[ServerEvent]]) -> None:
        await self._telling.publish(await self._looked(look))

    async def _look_at_known(self) -> list[ServerEvent]:
        return await self._looked(self._changes.known) if self._changes.are_known else []

    async def _looked(self, look: Callable[[Call], list[ServerEvent]]) -> list[ServerEvent]:
        """Look at what changed, in a thread and with the vault to itself."""

        def looked() -> list[ServerEvent]:
            with self._workspace.lock:
                self._workspace.refresh_settings()
                return look(self._call())

        return await self._threaded(looked)

    def _call(self) -> Call:
        return Call(self._workspace, self._caller)

    async def _threaded(
        self,
        work: Callable[[], Answer],
        context: Context | None = None,
        call: PendingCall | None = None,
    ) -> Answer:
        """Run work in a thread when its turn has come; a call that waits gives its turn on."""
        places: list[QueueSlot] = []
        if context is not None and context.request is not None:
            place: QueueSlot = context.request.scope[QUEUE_SLOT]
            if place.hold():  # a request counts until its threads have ended
                places.append(place)
        try:
            turn = await self._turns.take(self._who)
        except BaseException:
            for place in places:
                place.leave()
            raise
        places.append(turn)
        if call is not None:
            loop = asyncio.get_running_loop()

            def give_on() -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(turn.free)

            call.waits = give_on
        return await in_thread(work, self._threads, *places)


@contextlib.contextmanager
def handle_signals(asked: list[int], end: Callable[[], None]) -> Iterator[None]:
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
