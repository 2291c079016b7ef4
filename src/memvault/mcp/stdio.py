"""The transport over standard input and output.

The SDK's own transport does not report when an answer was written, and does not end while its
standard input stays open. This transport reads and writes in daemon threads, which do not delay the
process's exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from memvault import sanitize
from memvault.process import write_whole

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
_MAX_LINE = 1 << 27
"""The maximum size in bytes of a message; a memory of 64 MB with escapes fits in it."""
_FLUSH_TIMEOUT = 2.0
"""Seconds to wait at the end for the client to read the remaining messages."""


def read_messages(descriptor: int, refuse: Callable[[types.JSONRPCError], None]) -> Incoming:
    """Start a thread that reads messages until the input ends; return them as a stream.

    ``refuse`` is called on the event loop with the answer to a line that is not a message.
    """
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # The loop has ended.
            with contextlib.suppress(OSError):
                for line in _lines(descriptor):
                    message = _message(line)
                    if isinstance(message, types.JSONRPCError):
                        loop.call_soon_threadsafe(refuse, message)
                    elif message is not None:
                        loop.call_soon_threadsafe(_deliver, send, message)
            loop.call_soon_threadsafe(send.close)

    threading.Thread(target=read, name="memvault reads", daemon=True).start()
    return receive


def _lines(descriptor: int) -> Iterator[bytes]:
    """Yield the lines of the input, truncated to ``_MAX_LINE + 1`` bytes."""
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        while line := file.readline(_MAX_LINE + 1):
            yield line
            while len(line) > _MAX_LINE and not line.endswith(b"\n"):
                line = file.readline(_MAX_LINE + 1) or b"\n"


def _deliver(
    stream: MemoryObjectSendStream[SessionMessage | Exception], item: SessionMessage
) -> None:
    with contextlib.suppress(anyio.BrokenResourceError):  # The server has shut down.
        stream.send_nowait(item)


def _message(line: bytes) -> SessionMessage | types.JSONRPCError | None:
    """Return the message in a line, the answer to an invalid line, or None for no answer."""
    if not line.strip():
        return None
    if len(line) > _MAX_LINE:
        return _refusal(types.INVALID_REQUEST, f"The message is larger than {_MAX_LINE:,} bytes")
    text = line.decode("utf-8", "replace")
    with contextlib.suppress(ValueError):
        message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
        if not isinstance(message, types.JSONRPCNotification):
            return SessionMessage(message)
    # Either a notification, possibly a request whose id has the wrong type, or a line that the
    # strict parser rejects, such as one with a lone surrogate, which is valid JSON.
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _refusal(types.PARSE_ERROR, "The line is not JSON")
    if isinstance(value, list):
        return _refusal(
            types.INVALID_REQUEST, "Batches are not supported: send one message per line"
        )
    fields = value if isinstance(value, dict) else {}
    is_notification = isinstance(fields.get("method"), str) and "id" not in fields
    if is_notification or has_valid_id(fields):
        with contextlib.suppress(ValueError):
            return SessionMessage(
                types.jsonrpc_message_adapter.validate_python(value, by_name=False)
            )
    if is_notification:  # Notifications get no response.
        return None
    return _refusal(
        types.INVALID_REQUEST,
        "The line is not a JSON-RPC message",
        fields["id"] if has_valid_id(fields) else None,
    )


def has_valid_id(fields: Mapping[str, Any]) -> bool:
    """Return whether a JSON-RPC message has a valid id: a string or an integer."""
    value = fields.get("id")
    return isinstance(value, int | str) and not isinstance(value, bool)


def _refusal(
    code: int, message: str, request_id: types.RequestId | None = None
) -> types.JSONRPCError:
    error = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


class StdioWriter:
    """A stream that writes messages completely and in order, in a separate thread.

    The thread calls ``written`` with each message and whether it was completely written.
    """

    def __init__(
        self, descriptor: int, written: Callable[[types.JSONRPCMessage, bool], None]
    ) -> None:
        self._descriptor = descriptor
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._queue = queue.SimpleQueue[tuple[SessionMessage, asyncio.Future[bool]] | None]()
        self._thread = threading.Thread(target=self._write, name="memvault writes", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage) -> None:
        """Write a message; return when it is written.

        Raises:
            BrokenResourceError: the output is closed.
        """
        if not await self._put(item):
            raise anyio.BrokenResourceError

    def post(self, message: types.JSONRPCMessage) -> None:
        """Queue a message for writing, without waiting."""
        self._put(SessionMessage(message))

    def _put(self, item: SessionMessage) -> asyncio.Future[bool]:
        done: asyncio.Future[bool] = self._loop.create_future()
        self._queue.put((item, done))
        return done

    async def aclose(self) -> None:
        """Close the stream; queued messages are still written."""
        self._queue.put(None)

    def close(self) -> None:
        """Wait until every message is written, or the client has not read them for 2 seconds."""
        self._queue.put(None)
        self._thread.join(_FLUSH_TIMEOUT)

    async def __aenter__(self) -> StdioWriter:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _write(self) -> None:
        while (entry := self._queue.get()) is not None:
            item, done = entry
            is_complete = True
            try:
                write_whole(self._descriptor, _line(item.message))
            except OSError:
                is_complete = False
            self._written(item.message, is_complete)
            with contextlib.suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(_finish, done, is_complete)


def _finish(done: asyncio.Future[bool], is_complete: bool) -> None:
    if not done.done():
        done.set_result(is_complete)


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        return f"{sanitize.escaped(text)}\n".encode()
    except ValueError:  # The answer repeats a client-supplied name with a lone surrogate.
        return f"{json.dumps(message.model_dump(by_alias=True, exclude_unset=True))}\n".encode()
