"""Arbitrary bytes sent to the HTTP server: valid answers, no failure, no file change, no leak."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.transport_security import TransportSecuritySettings

from memvault import named_vaults
from memvault.mcp.fair_shares import CallCosts, FairShares
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import Read
from memvault.mcp.request_queue import QueueSlot
from memvault.server import tokens
from memvault.server.audit import AuditLog
from memvault.server.gateway import HttpGateway, RequestLimits
from memvault.server.tenants import TenantServers
from memvault.tools.core import registry
from targets import door
from targets.arguments import JSON_TOKENS, KEYS, object_of
from targets.connections import HTTP_TOKENS, Connections, Reply, messages, own_environment
from targets.shapes import folder

_TOKEN_MARK = b"@token@"
_OK = frozenset((200, 202, 204, 400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 421, 429))
"""The allowed status codes."""
_EACH = 10
"""The number of inputs after which the server must answer a valid request."""
_META = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)
METHODS = tuple(
    "initialize tools/list tools/call resources/list resources/read resources/templates/list "
    "prompts/list prompts/get completion/complete ping logging/setLevel resources/subscribe "
    "resources/unsubscribe subscriptions/listen server/discover notifications/initialized "
    "notifications/cancelled notifications/progress no/such".split()
)
TOKENS = (
    *HTTP_TOKENS,
    *JSON_TOKENS,
    *KEYS,
    "/mcp",
    "/mcp/fuzzed",
    "/mcp/other",
    "/healthz",
    f"Authorization: Bearer {_TOKEN_MARK.decode()}\r\n",
    "Authorization: Basic YTpi\r\n",
    "Authorization: Bearer mvt_x\r\n",
    "MCP-Protocol-Version: 2026-07-28\r\n",
    "MCP-Protocol-Version: 2025-06-18\r\n",
    "Mcp-Method: tools/call\r\n",
    "Mcp-Name: memory_recall\r\n",
    "Mcp-Session-Id: 0\r\n",
    "Last-Event-ID: 1\r\n",
    '{"jsonrpc":"2.0","id":1,"method":"',
    '","params":{"name":"memory_recall","arguments":{"query":"zebra"}}}',
    _META.decode(),
    '"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}',
    *(f'"{name}"' for name in METHODS),
    *(f"{name}\n" for name in (*METHODS, *(tool.name for tool in registry.all_tools()))),
)


def check(data: bytes) -> None:
    """Send the bytes over a connection, or as the body of a request if they are not a request."""
    with own_environment():
        _Server.get().check(_as_request(data))


def _as_request(data: bytes) -> bytes:
    """Return the bytes as a request: those without an HTTP version are a body for ``/mcp``.

    If the first line is a method or a tool, the other lines are its parameters; those of a tool may
    also be lines of ``arguments.KEYS``.
    """
    if b" HTTP/" in data:
        return data
    first, _, rest = data.partition(b"\n")
    named = first.decode("latin-1")
    if named in METHODS:
        return post(named, rest, _name_in(rest))
    if registry.lookup(named) is not None:
        given = json.dumps({"name": named, "arguments": object_of(rest)})
        return post("tools/call", given.encode(), named)
    return _request(data, b"MCP-Protocol-Version: 2025-06-18\r\n")


def _name_in(params: bytes) -> str:
    """Return the name or URI in parameters, which a header repeats, if it is valid in a header."""
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        given = json.loads(params)
        name = str(given.get("name") or given.get("uri") or "")
        return name if name.isascii() and name.isprintable() else ""
    return ""


def post(method: str, params: bytes, name: str = "") -> bytes:
    """Return a request of the newest protocol with a valid token."""
    given = params.strip()
    if given.startswith(b"{") and given.endswith(b"}"):
        rest = given[1:].lstrip()
        given = b"{%s%s%s" % (_META, b"" if rest == b"}" else b",", rest)
    body = b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (method.encode(), given)
    more = f"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"
    more += f"Mcp-Name: {name}\r\n" if name else ""
    return _request(body, more.encode())


def _request(body: bytes, more: bytes) -> bytes:
    head = (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + _TOKEN_MARK + b"\r\n"
        b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    )
    return head + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


class _NoProcesses:
    """A reader pool in which no process can be started."""

    is_failing = True

    def accepts(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return False."""
        del name, arguments
        return False

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Raise an error: nothing is sent here."""
        raise AssertionError((read, key, request))


class _Server:
    """A gateway with a vault and a read-only token, on a separate event loop."""

    def __init__(self) -> None:
        door.vault()
        named_vaults.add_vault("fuzzed", str(folder()))
        _, self._token = tokens.add("reader", ["fuzzed"], "read", "", 0)
        self._count = 0
        self._loop = asyncio.new_event_loop()
        entered: asyncio.Future[Any] = self._loop.create_future()
        self._group = self._loop.create_task(_task_group(entered))
        tasks = self._loop.run_until_complete(entered)
        tenants = TenantServers(
            tasks,
            None,
            ToolSelection("all"),
            AuditLog("/dev/null"),
            bool,
            1 << 16,
            _NoProcesses(),
            CallCosts(),
            FairShares(),
        )
        limits = RequestLimits(body=1 << 16, rate=1e9)
        security = TransportSecuritySettings(allowed_hosts=["127.0.0.1"], allowed_origins=[])
        gateway = HttpGateway(tokens.TokenStore(), tenants, security, limits, AuditLog("/dev/null"))
        self._connections = Connections(gateway)

    @staticmethod
    @cache
    def get() -> _Server:
        """Return the cached server."""
        return _Server()

    def check(self, data: bytes) -> None:
        """Send bytes, then a valid request."""
        before = files(folder())  # other targets in this process write to it
        for reply in self._sent(data):
            assert reply.status in _OK, reply
            assert str(folder()).encode() not in reply.body
            assert b"Traceback" not in reply.body
            for message in messages(reply):
                assert_message(message, reply)
        assert files(folder()) == before
        self._count += 1
        if self._count % _EACH == 0:
            good = post("tools/call", b'{"name":"memory_list_types"}', "memory_list_types")
            (reply,) = self._sent(good)
            (message,) = messages(reply)
            assert message["result"]["structuredContent"]["success"] is True, reply

    def _sent(self, data: bytes) -> list[Reply]:
        whole = data.replace(_TOKEN_MARK, self._token.encode())
        return self._loop.run_until_complete(self._connections.sent(whole))


async def _task_group(entered: asyncio.Future[Any]) -> None:
    """Keep a task group open as long as the process lasts."""
    async with anyio.create_task_group() as tasks:
        entered.set_result(tasks)
        await anyio.sleep_forever()


def files(root: Path) -> dict[str, bytes]:
    """Return the files of a vault by path, without internal ones."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".memvault" not in path.parts
    }


def assert_message(message: Any, reply: object) -> None:
    """Check that an answer is a JSON-RPC message, or a refusal of the gateway."""
    assert isinstance(message, dict), reply
    if "jsonrpc" not in message:
        assert message.keys() <= {"error", "hint", "status", "version"}, reply
        return
    assert message["jsonrpc"] == "2.0"
    assert len(message.keys() & {"result", "error", "method"}) == 1, reply
    if "error" in message:
        assert isinstance(message["error"]["code"], int)
        assert message["error"]["code"] != -32603, reply
        assert isinstance(message["error"]["message"], str)
