"""Clients for tests of the MCP server: the SDK's client, or raw messages."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import math
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp import Client, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

import launcher
from memvault.tools.core import render

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
LIMIT = 60.0
"""Seconds after which a test fails instead of waiting forever."""
LOADED = (
    "memvault.server.http_server",
    "memvault.mcp.server",
    "anyio._backends._asyncio",
)
"""Modules that a forked server starts with, because loading them takes half a second."""


def session(
    folder: Path,
    talk: Callable[[Client], Awaitable[None]],
    *options: str,
    mode: Any = "auto",
    prefix: Sequence[str] = (),
    fresh: bool = False,
    tools: str = "all",
    **wishes: Any,
) -> None:
    """Start the server as a process, and connect with the SDK's client.

    With a ``prefix``, or ``fresh``, the SDK starts the server. ``wishes`` are additional arguments
    for the client.
    """
    words = ["mcp", "--vault", str(folder), *(["--tools", tools] if tools else []), *options]
    line = [*prefix, sys.executable, "-m", "memvault", *words]
    server: Any = StdioServerParameters(command=line[0], args=line[1:], env=dict(os.environ))

    async def talking() -> None:
        through = (
            server
            if fresh or prefix
            else _piped(launcher.start(words, others=LOADED, errors=False))
        )
        async with asyncio.timeout(LIMIT), Client(through, mode=mode, **wishes) as client:
            await talk(client)

    try:
        asyncio.run(talking())
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None  # The client's own exception groups add nothing.


def in_session(**wishes: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run a test, whose first parameter is a client, against a server of the vault ``folder``."""

    def decorate(talk: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(talk)
        def test(folder: Path, **fixtures: Any) -> None:
            session(folder, lambda client: talk(client, folder=folder, **fixtures), **wishes)

        _, *others = inspect.signature(talk).parameters.values()
        test.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return test

    return decorate


_Streams = tuple[ObjectReceiveStream[SessionMessage], ObjectSendStream[SessionMessage]]


@asynccontextmanager
async def _piped(process: launcher.Process) -> AsyncGenerator[_Streams]:
    """Pass messages to and from a started server; stop it at the end."""
    assert process.stdin
    assert process.stdout
    lines, feed = process.stdout, process.stdin
    heard, incoming = anyio.create_memory_object_stream[SessionMessage](math.inf)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](math.inf)

    async def read() -> None:
        async with heard:
            while line := await asyncio.to_thread(lines.readline):
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                with suppress(anyio.BrokenResourceError):  # the client has exited
                    await heard.send(SessionMessage(message))

    async def write() -> None:
        async with said:
            async for item in said:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await asyncio.to_thread(feed.write, f"{text}\n".encode())
                feed.flush()
        feed.close()

    async with asyncio.TaskGroup() as carried:
        for work in (read, write):
            carried.create_task(work())
        try:
            yield incoming, outgoing
        finally:
            outgoing.close()
            incoming.close()
            try:
                await asyncio.to_thread(process.wait, LIMIT / 4)
            finally:
                process.kill()
    lines.close()


async def structured(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; return its structured result, which must equal its text."""
    answer = await client.call_tool(tool, arguments)
    found: dict[str, Any] = answer.structured_content
    assert answer.content[0].text == render.text(found)  # type: ignore[union-attr]
    assert answer.is_error is not found["success"], (tool, found)
    return found


class Raw:
    """A server that a test talks to line by line."""

    def __init__(self, folder: Path, prefix: Sequence[str] = (), fresh: bool = False) -> None:
        words = ["mcp", "--tools", "all"]
        self.process = launcher.start(words, folder, others=LOADED, prefix=prefix, fresh=fresh)
        self.send("initialize", HELLO, 0)
        assert self.receive()["result"]["serverInfo"]["name"] == "memvault"
        self.send("notifications/initialized", {})

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        """Send a request, or a notification if there is no number."""
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
        """Close the pipes, wait for the server to exit, and return exit code, output and errors."""
        out, err = self.process.communicate(timeout=LIMIT)
        return self.process.wait(), out, err

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
