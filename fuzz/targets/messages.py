"""Any lines sent to the MCP server on standard input: one answer each, and no failure."""

from __future__ import annotations

import asyncio
import json
import os
import select
import threading
import time
from functools import cache
from typing import Any

from memvault.call import Caller
from memvault.mcp.calls import report_progress
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.server import McpServer
from memvault.tools.core import registry
from memvault.workspace import Workspace
from targets import door, gateway
from targets.arguments import JSON_TOKENS, KEYS, object_of
from targets.connections import own_environment, own_folders
from targets.shapes import SETTINGS

_PATIENCE = 20.0
"""The maximum seconds until a message is answered."""
_SETTLED = 0.5
"""After this many seconds no answer is expected, if messages may cancel others."""
_LEFT_OUT = ("git_", "model_", "wait_for", "vault_reindex", "call_tool", "consolidate_memories")
"""Name prefixes of tools that run programs, use a network, wait, or take long."""
_TOOLS = tuple(tool.name for tool in registry.all_tools() if not tool.name.startswith(_LEFT_OUT))
TOKENS = (
    *JSON_TOKENS,
    *KEYS,
    '{"jsonrpc":"2.0","id":1,"method":"',
    '","params":{"name":"memory_recall","arguments":{"query":"zebra"}}}',
    *(f'"{name}"' for name in gateway.METHODS),
    *(f"{name}\n" for name in (*gateway.METHODS, *_TOOLS)),
)


def check(data: bytes) -> None:
    """Send the bytes as lines; those after a method or a tool are its parameters."""
    with own_environment():
        _Client.get().check(_as_lines(data))


def _as_lines(data: bytes) -> bytes:
    first, _, rest = data.partition(b"\n")
    named = first.decode("latin-1")
    params = rest.replace(b"\n", b" ").replace(b"\r", b" ").strip() or b"{}"
    method = named
    if named in _TOOLS:
        params = json.dumps({"name": named, "arguments": object_of(rest)}).encode()
        method = "tools/call"
    elif named not in gateway.METHODS:
        return data
    return b'{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}' % (method.encode(), params)


class _Client:
    """A client of a server that runs in a thread, over two pipes."""

    def __init__(self) -> None:
        root = (
            own_folders() / "vault"
        )  # calls that write must not change the vault of other targets
        door.fill(root)
        (root / "memvault.toml").write_text(SETTINGS, "utf-8")
        self._count = 0
        read, self._out = os.pipe()
        self._in, written = os.pipe()
        caller = Caller(
            may_run_programs=False,
            may_see_paths=False,
            has_token_budget=True,
            vaults=(),
            scope="all",
        )
        workspace = Workspace(root, report_progress, long_lived=True)
        server = McpServer(workspace, caller, ToolSelection(",".join(_TOOLS)))
        threading.Thread(target=lambda: asyncio.run(server.run(read, written)), daemon=True).start()
        self._buffer = b""
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "fuzz", "version": "1"},
        }
        self._send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello})
        assert self._next()["result"]["serverInfo"]["name"] == "memvault"
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @staticmethod
    @cache
    def get() -> _Client:
        """Return the cached client and its server."""
        return _Client()

    def check(self, data: bytes) -> None:
        """Send lines, and read the answer to each; then the server must answer a ping."""
        lines = [line for line in data.split(b"\n") if line.strip()][:10]
        wanted = [_wanted(line) for line in lines]
        # A message that ends or renames a running call has no answer of its own.
        certain = len(lines) == 1 and b"cancelled" not in data
        os.write(self._out, b"".join(line + b"\n" for line in lines))
        self._count += 1
        ping = f"ping {self._count}"
        answers: list[dict[str, Any]] = []
        if certain and wanted[0] is not _NOTHING:
            answers.append(self._answer())
            assert answers[0].get("id") == wanted[0], (data, answers)
        self._send({"jsonrpc": "2.0", "id": ping, "method": "ping"})
        while not answers or answers[-1].get("id") != ping:
            answers.append(self._answer())
        assert answers[-1]["result"] == {}, answers[-1]
        # Calls continue during a ping: their answers must not be mistaken for answers to the next
        # input.
        expected = sum(request_id is not _NOTHING for request_id in wanted)
        while len(answers) <= expected and self._is_readable(_SETTLED):
            answers.append(self._answer())

    def _answer(self) -> dict[str, Any]:
        """Return the next message that is an answer."""
        while True:
            message = self._next()
            gateway.assert_message(message, message)
            text = json.dumps(message)
            assert str(own_folders()) not in text
            assert "Traceback" not in text
            if "method" not in message:
                return message

    def _is_readable(self, seconds: float) -> bool:
        return b"\n" in self._buffer or bool(select.select([self._in], [], [], seconds)[0])

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE
        while b"\n" not in self._buffer:
            left = end - time.monotonic()
            assert left > 0, "no answer"
            assert self._is_readable(left), "no answer"
            self._buffer += os.read(self._in, 1 << 16)
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _send(self, message: dict[str, Any]) -> None:
        os.write(self._out, json.dumps(message).encode() + b"\n")


_NOTHING = object()


def _wanted(line: bytes) -> object:
    """Return the id that the answer to a line must have, or ``_NOTHING`` if none is expected."""
    try:
        message = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    if "id" not in message and isinstance(message.get("method"), str):
        return _NOTHING
    is_answer = "method" not in message and message.keys() & {"result", "error"}
    request_id = message.get("id")
    is_id = isinstance(request_id, int | str) and not isinstance(request_id, bool)
    if is_answer and is_id:
        return _NOTHING if message.get("jsonrpc") == "2.0" else request_id
    return request_id if is_id else None
