"""How the tests of the MCP server talk to it: with the SDK's own client, or by hand."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from memvault.mcp import texts

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
LIMIT = 60.0
"""Seconds after which a test of something that never ends fails."""


def session(
    folder: Path,
    talk: Callable[[Client], Awaitable[None]],
    *options: str,
    mode: Any = "auto",
    prefix: Sequence[str] = (),
    tools: str = "all",
    **wishes: Any,
) -> None:
    """Start the server as a process, and talk with it through the SDK's client.

    ``wishes`` are what else the client is made with.
    """
    line = [*prefix, sys.executable, "-m", "memvault", "mcp"]
    server = StdioServerParameters(
        command=line[0],
        args=[*line[1:], "--vault", str(folder), *(["--tools", tools] if tools else []), *options],
        env=dict(os.environ),
    )

    async def talking() -> None:
        async with asyncio.timeout(LIMIT), Client(server, mode=mode, **wishes) as client:
            await talk(client)

    try:
        asyncio.run(talking())
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None  # the groups of the client's own tasks say nothing


async def structured(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; return its structured result, which its text tells too."""
    answer = await client.call_tool(tool, arguments)
    found: dict[str, Any] = answer.structured_content
    assert answer.content[0].text == texts.text(found)  # type: ignore[union-attr]
    assert answer.is_error is not found["success"], (tool, found)
    return found


class Raw:
    """A server that is spoken to line by line."""

    def __init__(self, folder: Path, prefix: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "memvault", "mcp", "--tools", "all"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.send("initialize", HELLO, 0)
        assert self.receive()["result"]["serverInfo"]["name"] == "memvault"
        self.send("notifications/initialized", {})

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        """Send a request, or without a number a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        """Send a call of a tool."""
        self.send("tools/call", {"name": tool, "arguments": arguments}, number)

    def receive(self) -> Any:
        """Wait for the next message."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def ended(self) -> tuple[int, bytes, bytes]:
        """Close what is open, wait for the end, and return code, output and errors."""
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.returncode, out, err

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
