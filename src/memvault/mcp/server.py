"""The MCP server: the SDK's low-level server with memvault's schemas and transport."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.subscriptions import ServerEvent

from memvault import __version__
from memvault.call import Call, Caller, not_cancelled
from memvault.errors import MemvaultError
from memvault.mcp import calls, prompts, resources, sdk_types, stdio
from memvault.mcp.calls import REPLIES, PendingCall, ReplyTracker
from memvault.mcp.fair_shares import FairShares
from memvault.mcp.notifications import ChangeDetector, ChangeNotifier
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import Read, ReadRunner
from memvault.mcp.request_queue import QUEUE_SLOT, QueueSlot, RequestQueue, run_with_slots, take_all
from memvault.process import claimed_stdio
from memvault.tools.core import agent_guide
from memvault.workspace import Workspace

_MAX_CONCURRENT = 2
"""Maximum concurrent calls of one vault: one running and one ready; waiting calls do not count."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Context = ServerRequestContext[Any, Any]
Answer = TypeVar("Answer")


def new_request_queue(shares: FairShares | None = None) -> RequestQueue:
    """Return the request queue of a vault, whose calls run one after the other.

    With ``shares`` it has several callers, none of which can take all of its slots.
    """
    each = _MAX_CONCURRENT // 2 if shares is not None else _MAX_CONCURRENT
    return RequestQueue(each, _MAX_CONCURRENT, shares=shares)


class SdkServer(Server[Any]):
    """The SDK's server, which announces its notifications over every transport."""

    def get_capabilities(self, *positional: Any, **named: Any) -> types.ServerCapabilities:
        """Return the server's capabilities, with notifications of changed tools and resources."""
        options = NotificationOptions(tools_changed=True, resources_changed=True)
        return super().get_capabilities(options, *positional[1:], **named)


def serve(root: Path, caller: Caller, offer: ToolSelection) -> int:
    """Serve a vault to one client over standard input and output; return the exit code.

    The server exits at the end of its input or on a signal. The client may choose programs and
    models to run only if ``caller.may_run_programs``.
    """
    workspace = Workspace(root, calls.report_progress, long_lived=True)
    # Every call reports the same error.
    with contextlib.suppress(MemvaultError):
        _ = workspace.settings  # Load now, to detect if the vault is deleted later.
    try:
        with claimed_stdio() as (read, written):
            return asyncio.run(McpServer(workspace, caller, offer).run(read, written))
    finally:
        with workspace.lock:
            workspace.close()


class McpServer:
    """An MCP server for one caller, whose tools run in threads.

    ``ending`` returns whether the server is shutting down (see ``PendingCall``). ``queue`` is the
    vault's request queue, shared with other callers, and ``client_key`` is this caller's key in it.
    ``reads`` runs read-only tools in parallel.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller,
        offer: ToolSelection,
        ending: Callable[[], bool] = not_cancelled,
        queue: RequestQueue | None = None,
        client_key: Hashable = "",
        reads: ReadRunner | None = None,
    ) -> None:
        self._reads = reads
        self._queue = queue or new_request_queue()
        self._queue_key = client_key
        self._workspace = workspace
        self._caller = caller
        self._selection = offer
        self._is_ending = ending
        self._replies = ReplyTracker()
        self._detector = ChangeDetector(offer)
        self._notifier = ChangeNotifier(self._find_known_changes)
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
            get_tool_input_schema=lambda _: None,  # Do not duplicate arguments in HTTP headers.
        )
        # The constructor would warn that newer protocol versions lack this method.
        self.server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._set_level
        )
        self.server.middleware.clear()  # Send no telemetry, not even traces.

    def end_streams(self) -> None:
        """End every open stream of notifications."""
        self._notifier.close()

    async def run(self, read: int, written: int) -> int:
        """Answer requests until the input ends or a signal arrives; return the exit code."""
        outgoing = stdio.StdioWriter(written, self._on_written)
        signals: list[int] = []
        with anyio.CancelScope() as scope, handle_signals(signals, scope.cancel):
            incoming = stdio.read_messages(read, outgoing.post)
            await self.server.run(incoming, outgoing, self.server.create_initialization_options())
        outgoing.close()
        self._replies.finish_all(is_sent=False)
        return 128 + signals[0] if signals else 0

    def _on_written(self, message: types.JSONRPCMessage, is_complete: bool) -> None:
        """Acknowledge a call's events if its answer was completely written, or else cancel it."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            is_result = isinstance(message, types.JSONRPCResponse)
            self._replies.finish(message.id, is_sent=is_complete and is_result)

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        started = time.monotonic()
        arguments = params.arguments or {}
        if self._reads is not None and self._reads.accepts(params.name, arguments):
            with self._reporting_progress(context):
                read = Read(self._workspace.root, self._caller, params.name, arguments)
                result = await self._reads.run(read, self._queue_key, _request_slot(context))
            return await self._finish(context, params.name, result, started)
        call = PendingCall(
            self._workspace,
            self._caller,
            params.name,
            arguments,
            self._selection.find,
            self._is_ending,
        )
        assert context.request_id is not None
        # Over HTTP, several clients use the same ids, so each request tracks its own answers.
        http = context.request
        replies: ReplyTracker = self._replies if http is None else http.scope[REPLIES]
        replies.register(context.request_id, call)

        def run() -> types.CallToolResult:
            result = call.run()
            return sdk_types.result(self._call(), result)

        try:
            with self._reporting_progress(context):
                result = await self._run_in_thread(run, context, call.note_wait)
        except BaseException:  # It was canceled, or the tool is unknown.
            replies.abandon(context.request_id, call)
            raise
        return await self._finish(context, params.name, result, started)

    async def _finish(
        self, context: Context, name: str, result: types.CallToolResult, started: float
    ) -> types.CallToolResult:
        """Send the log messages and notifications of a call, and return its result."""
        await self._log_notes(context, name, result, time.monotonic() - started)
        self._notifier.schedule_check()
        return result

    @contextlib.contextmanager
    def _reporting_progress(self, context: Context) -> Iterator[None]:
        """Send progress notifications during a call, if its caller asked for them."""
        if "progress_token" not in (context.meta or {}):
            yield
            return
        tracker = calls.ProgressTracker()
        context_token = calls.CURRENT.set(tracker)
        reporting = asyncio.get_running_loop().create_task(
            tracker.report_until_cancelled(context.session.report_progress)
        )
        try:
            yield
        finally:
            reporting.cancel()
            calls.CURRENT.reset(context_token)

    async def _log_notes(
        self, context: Context, name: str, result: types.CallToolResult, seconds: float
    ) -> None:
        for note in (result.structured_content or {}).get("warnings", ()):
            await self._notifier.log(context, "warning", {"tool": name, "message": note})
        timing = {"tool": name, "message": f"took {seconds:.3f} seconds"}
        await self._notifier.log(context, "debug", timing)

    async def _list_tools(self, context: Context, _: Any) -> types.ListToolsResult:
        self._notifier.register_client(context)
        with contextlib.suppress(MemvaultError, OSError):  # The answer reports the same error.
            await self._publish_changes(self._detector.tools)
        return await self._run_in_thread(
            lambda: sdk_types.tools(self._call(), self._selection), context
        )

    async def _list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        self._notifier.register_client(context)
        with contextlib.suppress(MemvaultError, OSError):
            await self._publish_changes(self._detector.memories)
        cursor = params.cursor if params else None
        return await self._run_in_thread(lambda: resources.listed(self._call(), cursor), context)

    async def _list_templates(self, _: Context, __: Any) -> types.ListResourceTemplatesResult:
        return resources.templates()

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._run_in_thread(lambda: resources.read(self._call(), params.uri), context)

    async def _list_prompts(self, _: Context, __: Any) -> types.ListPromptsResult:
        return prompts.prompt_list()

    async def _get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        return prompts.get(params.name, params.arguments or {})

    async def _complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        return await self._run_in_thread(lambda: resources.complete(self._call(), params), context)

    async def _subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        # Fails if the resource does not exist.
        await self._run_in_thread(lambda: resources.read(self._call(), params.uri), context)
        await self._publish_changes(self._detector.memories)
        self._notifier.subscribe(context, params.uri)
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._notifier.unsubscribe(context, params.uri)
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        requested = params.notifications
        with contextlib.suppress(MemvaultError, OSError):
            if requested.tools_list_changed:
                await self._publish_changes(self._detector.tools)
            if requested.resources_list_changed or requested.resource_subscriptions:
                await self._publish_changes(self._detector.memories)
        return await self._notifier.listen(context, params)

    async def _set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self._notifier.set_level(context, params.level)
        return types.EmptyResult()

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncIterator[None]:
        async with self._notifier.polling():
            yield

    async def _publish_changes(self, find: Callable[[Call], list[ServerEvent]]) -> None:
        await self._notifier.publish(await self._find_changes(find))

    async def _find_known_changes(self) -> list[ServerEvent]:
        return await self._find_changes(self._detector.known) if self._detector.are_known else []

    async def _find_changes(self, find: Callable[[Call], list[ServerEvent]]) -> list[ServerEvent]:
        """Call ``find`` in a thread that holds the vault's lock; return the changes."""

        def find_locked() -> list[ServerEvent]:
            with self._workspace.lock:
                self._workspace.refresh_settings()
                return find(self._call())

        return await self._run_in_thread(find_locked)

    def _call(self) -> Call:
        return Call(self._workspace, self._caller, read_only=True)

    async def _run_in_thread(
        self,
        work: Callable[[], Answer],
        context: Context | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> Answer:
        """Run work in a thread once it has a slot of the vault's queue; see ``run_with_slots``."""
        slots = await take_all(self._queue, self._queue_key, _request_slot(context))
        charge = partial(self._queue.charge, self._queue_key)
        return await run_with_slots(work, self._workspace.executor, slots, charge, on_wait)


def _request_slot(context: Context | None) -> QueueSlot | None:
    """Return the queue slot of a request over HTTP."""
    if context is None or context.request is None:
        return None
    slot: QueueSlot = context.request.scope[QUEUE_SLOT]
    return slot


@contextlib.contextmanager
def handle_signals(signals: list[int], end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` on SIGINT and SIGTERM, and append their numbers to ``signals``.

    If the event loop cannot handle signals, this does nothing.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        signals.append(number)
        end()

    try:
        for number in _SIGNALS:
            loop.add_signal_handler(number, on_signal, number)
    except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
        yield
        return
    try:
        yield
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
