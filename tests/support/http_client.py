"""HTTP clients for tests of a served vault: raw requests, or the SDK's client."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

import launcher
from conftest import Run, succeeded, until
from mcp_client import HELLO, LOADED

LIMIT = 60.0
LATEST = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": LATEST,
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
NOTE = "---\nid: {0}-7k2m9q\ntitle: {0}\nmemory_type: fact\n---\n\n{1}\n"
"""A memory with a title and a body."""
_ADDRESS = re.compile(rb"Serving at (https?://\S+)/mcp")


class Answer(NamedTuple):
    """The response to a raw HTTP request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON, or the last event of the stream that a slow server sends instead."""
        events = re.findall(rb"(?m)^data: (.*?)\r?$", self.body)
        return json.loads(events[-1] if events else self.body)


class Served:
    """A process that serves vaults until the block ends."""

    def __init__(
        self,
        *options: str,
        address: str = "127.0.0.1:0",
        prefix: Sequence[str] = (),
        fresh: bool = False,
    ) -> None:
        words = ["serve", "--http", address, *options]
        self.process = launcher.start(words, others=LOADED, prefix=prefix, fresh=fresh)
        self.said = b""
        self.url = self._read_address()
        self.port = int(self.url.rpartition(":")[2])

    def _read_address(self) -> str:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if found := _ADDRESS.search(line):
                return found[1].decode()
        raise AssertionError(self.said)

    def send(
        self,
        token: str | None,
        message: Any = None,
        path: str = "/mcp",
        method: str = "POST",
        **headers: str,
    ) -> Answer:
        """Send a raw request; ``_`` in a header's name means ``-``."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **({"Authorization": f"Bearer {token}"} if token else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        with contextlib.closing(connection):
            connection.request(method, path, None if message is None else data, sent)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())

    def call(self, token: str, tool: str, **arguments: Any) -> Answer:
        """Call a tool with a raw request of the newest protocol."""
        data, headers = _tool_call(tool, arguments)
        return self.send(token, data, **headers)

    def result(self, token: str, tool: str, **arguments: Any) -> Any:
        """Call a tool; return its structured result."""
        answer = self.call(token, tool, **arguments)
        assert answer.status == 200, answer
        return answer.json["result"]["structuredContent"]

    def begin(self, token: str, tool: str, **arguments: Any) -> socket.socket:
        """Send a tool call, and leave its response unread."""
        data, headers = _tool_call(tool, arguments)
        lines = {
            "Host": "localhost",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(data)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        opened = socket.create_connection(("127.0.0.1", self.port))
        opened.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + data)
        return opened

    def talk(
        self,
        token: str,
        talk: Callable[[Client], Awaitable[None]],
        path: str = "/mcp",
        mode: Any = "auto",
        **wishes: Any,
    ) -> None:
        """Connect to the server with the SDK's client, and run ``talk``."""

        async def talking() -> None:
            async with asyncio.timeout(LIMIT):
                await self.talking(token, talk, path, mode, **wishes)

        asyncio.run(talking())

    async def talking(
        self,
        token: str,
        talk: Callable[[Client], Awaitable[None]],
        path: str = "/mcp",
        mode: Any = "auto",
        **wishes: Any,
    ) -> None:
        """Run ``talk`` with one of several SDK clients."""
        headers = {"Authorization": f"Bearer {token}"}
        async with create_mcp_http_client(headers) as sender:
            transport = streamable_http_client(f"{self.url}{path}", http_client=sender)
            async with Client(transport, mode=mode, **wishes) as client:
                await talk(client)

    def says(self, words: bytes) -> None:
        """Wait until the server's output contains these words."""
        assert self.process.stderr is not None
        late = threading.Timer(LIMIT, self.process.kill)
        late.start()
        while words not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        late.cancel()

    def opened(self) -> list[str]:
        """Return the server's open file descriptors, as reported by Linux."""
        found = []
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it has been closed since
                found.append(str(link.readlink()))
        return found

    def waits(self, name: str = "anon_inode:inotify", is_open: bool = True) -> None:
        """Wait until the server opens, or closes, a descriptor: by default its event watcher."""
        if Path("/proc/self/fd").is_dir():
            until(lambda: (name in self.opened()) is is_open)
        else:
            time.sleep(1.5)

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop the server; return its exit code and all of its output."""
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=LIMIT)
        self.said += rest
        return self.process.wait(), self.said.decode()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def _tool_call(tool: str, arguments: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of a request that calls a tool."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"MCP_Protocol_Version": LATEST, "Mcp_Method": "tools/call", "Mcp_Name": tool}
    return json.dumps(message).encode(), headers


def token(run: Run, name: str, vaults: str, scope: str = "read", *more: str) -> str:
    """Create a token."""
    line = ["tokens", "add", name, "--vaults", vaults, "--scope", scope, *more, "--json"]
    made: str = succeeded(run(*line)).json["token"]
    return made


def named(run: Run, name: str, folder: Path) -> Path:
    """Create a named vault in a folder."""
    succeeded(run("init", str(folder), "--bare"))
    succeeded(run("vaults", "add", name, str(folder)))
    return folder
