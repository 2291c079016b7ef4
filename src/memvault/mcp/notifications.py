"""Notify clients of changes to tools, lists and memories, and send log messages."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterator
from typing import Any, get_args
from urllib.parse import unquote

import anyio
import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import (
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.index.protocol import MemoryRecord
from memvault.mcp import resources
from memvault.mcp.profiles import ToolSelection
from memvault.named_tuple import NamedTuple


class MemoryFingerprint(NamedTuple):
    """The parts of a memory that are compared to detect changes.

    ``etag`` represents the text; ``listed`` is its title, type and tags, as shown in lists.
    """

    etag: str
    listed: tuple[str, str, tuple[str, ...]]

    @classmethod
    def of(cls, record: MemoryRecord) -> MemoryFingerprint:
        """Return a record's fingerprint."""
        return cls(record.etag, (record.title, record.memory_type, record.tags))


class ChangeDetector:
    """Compares a vault's tools and memories with their previous state.

    Changes to a list are not reported until it was first read, because no client has it yet.
    """

    def __init__(self, offer: ToolSelection) -> None:
        self._offer = offer
        self._tools: list[dict[str, Any]] | None = None
        self._state: Hashable = None
        self._memories: dict[str, MemoryFingerprint] | None = None

    def tools(self, call: Call) -> list[ServerEvent]:
        """Read the tools; return the changes since they were last read."""
        tools = self._offer.tools(call.workspace, call.caller)
        before, self._tools = self._tools, tools
        return [ToolsListChanged()] if before not in (None, self._tools) else []

    def memories(self, call: Call) -> list[ServerEvent]:
        """Read the memories; return the changes since they were last read."""
        state = call.reader.state()
        if self._memories is not None and state == self._state:
            return []
        current = call.engine.visit_records(
            lambda records: {record.mem_id: MemoryFingerprint.of(record) for record in records}
        )
        if call.engine.notes():  # The list is incomplete; the next check compares again.
            return []
        self._state = state
        before, self._memories = self._memories, current
        return [] if before is None else list(_changes_between(before, current))

    @property
    def are_known(self) -> bool:
        """Whether tools or memories were read before, so changes can be detected."""
        return self._tools is not None or self._memories is not None

    def known(self, call: Call) -> list[ServerEvent]:
        """Reread everything that was read before, and return the changes."""
        out = [] if self._tools is None else self.tools(call)
        return out if self._memories is None else [*out, *self.memories(call)]


def _changes_between(
    before: dict[str, MemoryFingerprint], after: dict[str, MemoryFingerprint]
) -> Iterator[ServerEvent]:
    names = before.keys() | after.keys()
    changed = sorted(name for name in names if before.get(name) != after.get(name))
    lists: set[str] = set()
    for name in changed:
        sides = [entry for entry in (before.get(name), after.get(name)) if entry is not None]
        yield ResourceUpdated(resources.uri_for(name))
        if len(sides) == 1 or sides[0].listed != sides[1].listed:
            for _, memory_type, tags in (entry.listed for entry in sides):
                lists.add(resources.uri_for(memory_type, resources.TYPE))
                lists.update(resources.uri_for(tag, resources.TAG) for tag in tags)
    yield from (ResourceUpdated(uri) for uri in sorted(lists))
    if lists:
        yield ResourcesListChanged()


Context = ServerRequestContext[Any, Any]
_LEVELS = get_args(types.LoggingLevel)
SESSION = "mcp-session-id"
_MAX_CLIENTS = 1_000
"""The maximum number of clients to remember; the oldest is dropped first."""
_CHECK_INTERVAL = 1.0
"""The minimum number of seconds between two checks for changes while a client is subscribed."""
_REST_FACTOR = 20
"""The minimum pause after a check, as a multiple of the time that the check took."""


class LegacyClient:
    """A client with an older protocol version: its session, subscriptions and log level.

    ``subscribed`` maps an unquoted resource URI to the URI in the client's spelling.
    """

    def __init__(self) -> None:
        self.session: ServerSession | None = None
        self.subscribed: dict[str, str] = {}
        self.level: types.LoggingLevel | None = None


class ChangeNotifier:
    """Sends notifications to the clients of one server.

    ``find_changes`` returns the changes since its last call.

    Clients with older protocol versions subscribe to single resources, and are notified of changes
    to lists that they have read. Newer ones open a stream for selected changes.
    """

    def __init__(self, find_changes: Callable[[], Coroutine[Any, Any, list[ServerEvent]]]) -> None:
        self._find_changes = find_changes
        self._bus = InMemorySubscriptionBus()
        self._handler = ListenHandler(self._bus)
        self._open_streams = 0
        self._clients: dict[str, LegacyClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._check_lock = asyncio.Lock()
        self._is_scheduled = False

    @contextlib.asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        """Check for changes regularly while any client is subscribed, until the context ends."""
        self._start_task(self._poll())
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Send changes to a client over a stream until the stream ends."""
        self._open_streams += 1
        try:
            return await self._handler(context, params)
        finally:
            self._open_streams -= 1

    def close(self) -> None:
        """End every open stream."""
        self._handler.close()

    def subscribe(self, context: Context, uri: str) -> None:
        """Notify this client of changes to a resource."""
        self.register_client(context)
        self._client(context).subscribed[unquote(uri)] = uri

    def unsubscribe(self, context: Context, uri: str) -> None:
        """Stop notifying this client of changes to a resource."""
        self._client(context).subscribed.pop(unquote(uri), None)

    def register_client(self, context: Context) -> None:
        """Remember a client's session to notify, unless its protocol uses streams."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._client(context).session = context.session

    def _client(self, context: Context) -> LegacyClient:
        """Return the client of a request: the client of its HTTP session, or else the only one."""
        name = "" if context.request is None else context.request.headers.get(SESSION, "")
        while len(self._clients) >= _MAX_CLIENTS and name not in self._clients:
            del self._clients[next(iter(self._clients))]  # Disconnects are not reported.
        return self._clients.setdefault(name, LegacyClient())

    def schedule_check(self) -> None:
        """Check for changes in the background after a call; one check serves several calls."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._start_task(self._run_scheduled())

    async def _run_scheduled(self) -> None:
        async with self._check_lock:
            self._is_scheduled = False
            await self._check_once()

    def set_level(self, context: Context, level: types.LoggingLevel) -> None:
        """Set the minimum level of log messages for a client."""
        self._client(context).level = level

    async def log(self, context: Context, level: types.LoggingLevel, data: Any) -> None:
        """Send a log message, if the client asked for messages of its level."""
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            is_wanted = level in allowed_log_levels(context.protocol_version, context.meta)
        else:
            min_level = self._client(context).level
            is_wanted = min_level is not None and _LEVELS.index(level) >= _LEVELS.index(min_level)
        if is_wanted:
            params = types.LoggingMessageNotificationParams(
                level=level, logger="memvault", data=data
            )
            message = types.LoggingMessageNotification(params=params)
            await context.session.send_notification(message, context.request_id)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _poll(self) -> None:
        while True:
            started = time.monotonic()
            if self._open_streams or any(client.subscribed for client in self._clients.values()):
                try:
                    await self._check_once()
                except Exception as error:  # The next check may succeed, so the task continues.
                    print(f"note: checking for changes failed: {error!r}", file=sys.stderr)
            await asyncio.sleep(max(_CHECK_INTERVAL, _REST_FACTOR * (time.monotonic() - started)))

    async def _check_once(self) -> None:
        with contextlib.suppress(MemvaultError, OSError):  # Every call reports the same error.
            await self.publish(await self._find_changes())

    async def publish(self, events: list[ServerEvent]) -> None:
        """Send changes to the streams and clients that want them; ignore closed sessions."""
        for event in events:
            await self._bus.publish(event)
            for client in list(self._clients.values()):
                if client.session is not None:
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await self._notify(client.session, client.subscribed, event)

    async def _notify(
        self, session: ServerSession, subscribed: dict[str, str], event: ServerEvent
    ) -> None:
        if isinstance(event, ResourceUpdated):
            uri = subscribed.get(unquote(event.uri))
            if uri is not None:
                await session.send_resource_updated(uri)
        elif isinstance(event, ResourcesListChanged):
            await session.send_resource_list_changed()
        else:
            await session.send_tool_list_changed()
