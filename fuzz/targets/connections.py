"""Bytes sent to an HTTP server in this process, as over a connection, and its answers."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, NamedTuple, cast

import h11
import uvicorn
from uvicorn.server import ServerState

from memvault.server.http_server import IdleTimeoutProtocol

App = Callable[..., Awaitable[None]]
HTTP_TOKENS = tuple(
    "GET |POST |PUT |DELETE |HEAD |OPTIONS | HTTP/1.1\r\n| HTTP/1.0\r\n| HTTP/2\r\n|"
    "\r\n\r\n|\r\n|"
    "Host: 127.0.0.1\r\n|Host: evil.example\r\n|Content-Length: 5\r\n|Content-Length: -1\r\n|"
    "Content-Length: 99999999999\r\n|Transfer-Encoding: chunked\r\n|Transfer-Encoding: gzip\r\n|"
    "5\r\nhello\r\n|0\r\n\r\n|ffffffffffffffff\r\n|Connection: close\r\n|Connection: upgrade\r\n|"
    "Upgrade: websocket\r\n|Expect: 100-continue\r\n|Origin: http://evil.example\r\n|"
    "Content-Type: application/json\r\n|Content-Type: text/plain\r\n|Cookie: a=b\r\n|"
    "Accept: application/json, text/event-stream\r\n|Accept: */*\r\n|X: \xff\r\n|\0|%00|%2e%2e/|"
    "..%2f|%ff|//|?a=b&a|#".split("|")
)
"""Pieces of requests over HTTP."""
for _name in ("uvicorn", "mcp"):  # their logs are only about the input
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
_PATIENCE = 20.0
"""The maximum seconds until a complete request is answered."""
_STREAM = 0.1
"""The seconds to listen to an event stream."""


class Reply(NamedTuple):
    """An answer on a connection; ``is_whole`` is whether the body is complete.

    ``headers`` have names in lower case.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    is_whole: bool

    @property
    def content_type(self) -> str:
        """The media type of the body."""
        return self.headers.get("content-type", "")


class _Transport(asyncio.Transport):
    """The server's side of a connection, which records what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self._is_closing = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 80), "peername": ("127.0.0.1", 5)}.get(name, default)

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_protocol(self, protocol: Any) -> None:
        pass

    def get_protocol(self) -> Any:
        return None


class Connections:
    """Consecutive connections to an application, on a separate event loop."""

    def __init__(self, app: App) -> None:
        self._methods: list[str] = []
        self._app = app
        self._config = uvicorn.Config(
            cast("Any", self._noted),
            http=IdleTimeoutProtocol,
            ws="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
        )
        self._config.load()

    async def _noted(self, scope: Any, receive: Any, send: Any) -> None:
        self._methods.append(scope.get("method", ""))
        await self._app(scope, receive, send)

    async def sent(self, data: bytes) -> list[Reply]:
        """Send the bytes over a connection, which then ends; return the answers.

        Raises:
            AssertionError: if a complete request was not answered in time, or an answer is not
            HTTP.
        """
        self._methods.clear()
        state, transport = ServerState(), _Transport()
        protocol = IdleTimeoutProtocol(self._config, state, {}, asyncio.get_running_loop())
        protocol.connection_made(transport)
        protocol.data_received(data)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._finish(protocol, state, transport)
        except TimeoutError:
            raise AssertionError(f"no answer to {data!r}") from None
        protocol.connection_lost(None)
        async with asyncio.timeout(_PATIENCE):
            while state.tasks:
                await asyncio.sleep(0.001)
        return [*self._answers(bytes(transport.sent))]

    async def _finish(
        self, protocol: IdleTimeoutProtocol, state: ServerState, transport: _Transport
    ) -> None:
        """Wait until all is answered, more of a request is needed, or a stream continues."""
        while state.tasks and not transport.is_closing():
            if protocol.conn.their_state is h11.SEND_BODY:
                return
            begun = b"text/event-stream" in transport.sent
            await asyncio.sleep(_STREAM if begun else 0.0005)
            if begun and not transport.sent.endswith(b"\r\n0\r\n\r\n"):
                return

    def _answers(self, sent: bytes) -> Iterator[Reply]:
        stream, methods = io.BufferedReader(io.BytesIO(sent)), iter(self._methods)
        while stream.peek(1):
            response = HTTPResponse(cast("Any", _Socket(stream)), method=next(methods, "GET"))
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            try:
                yield Reply(response.status, headers, response.read(), True)
            except IncompleteRead as error:
                yield Reply(response.status, headers, error.partial, False)
                return


class _Socket:
    """The socket from which ``HTTPResponse`` reads an answer."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def makefile(self, _: str) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def close(self) -> None:
        """Leave the stream open, because more answers follow."""


def messages(reply: Reply) -> list[Any]:
    """Return the JSON of an answer's body, or of each event of a stream."""
    if reply.content_type.startswith("text/event-stream"):
        lines = reply.body.split(b"\n")
        data = [line[5:].strip() for line in lines if line.startswith(b"data:")]
        return [json.loads(part) for part in data if part]
    if not reply.content_type.startswith("application/json") or not reply.is_whole:
        return []
    return [json.loads(reply.body)] if reply.body else []


@cache
def own_folders() -> Path:
    """Return folders for settings, cache and state that exist as long as the process."""
    made = Path(tempfile.mkdtemp(prefix="memvault-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@contextlib.contextmanager
def own_environment() -> Iterator[None]:
    """Use separate folders for settings, cache and state during the block."""
    before = dict(os.environ)
    for kind in ("CONFIG", "CACHE", "STATE"):
        os.environ[f"MEMVAULT_{kind}"] = str(own_folders() / kind.lower())
    os.environ |= {"MEMVAULT_DEEP": "off", "HF_HUB_OFFLINE": "1"}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
