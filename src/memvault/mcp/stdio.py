"""Standard input and output as streams of messages.

The SDK's own transport neither says when an answer was written nor ends while
its standard input stays open. Here both are read and written by threads that
the end of the process need not wait for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator
from types import TracebackType

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from memvault import sanitize
from memvault.errors import UsageError

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
_LAST_WORDS = 2.0
"""Seconds that the end waits for a client to read what it was told."""


@contextlib.contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Hand out standard input and output, and keep everything else away from them.

    Meanwhile 0 is empty and 1 is standard error, for whatever a library or a
    program that a tool starts may print.

    Raises:
        UsageError: the process was started without them.
    """
    try:
        read, written = os.dup(0), os.dup(1)
    except OSError as error:
        raise UsageError(
            "Standard input or output is closed", "an MCP client starts memvault mcp with both"
        ) from error
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a standard error
        os.dup2(empty, 1)
    os.close(empty)
    try:
        yield read, written
    finally:
        os.dup2(read, 0)
        os.dup2(written, 1)


def read_messages(descriptor: int) -> Incoming:
    """Return the messages that are read, until the input ends."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody listens
            with contextlib.suppress(OSError):
                for line in os.fdopen(descriptor, "rb", closefd=False):
                    if line.strip():
                        loop.call_soon_threadsafe(_hand_on, send, _message(line))
            loop.call_soon_threadsafe(send.close)

    threading.Thread(target=read, name="memvault reads", daemon=True).start()
    return receive


def _hand_on(
    stream: MemoryObjectSendStream[SessionMessage | Exception], item: SessionMessage | Exception
) -> None:
    with contextlib.suppress(anyio.BrokenResourceError):  # the server has ended
        stream.send_nowait(item)


def _message(line: bytes) -> SessionMessage | Exception:
    text = line.decode("utf-8", "replace")
    adapter = types.jsonrpc_message_adapter
    try:
        try:
            return SessionMessage(adapter.validate_json(text, by_name=False))
        except ValueError:  # half of a surrogate pair, which the strict reader refuses
            return SessionMessage(adapter.validate_python(json.loads(text), by_name=False))
    except (ValueError, RecursionError) as error:
        return error


class StdioWriter:
    """The messages that are written, one after the other, each whole.

    ``written`` is told of each, from the writing thread, and whether it went out.
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
            BrokenResourceError: nobody reads any more.
        """
        done: asyncio.Future[bool] = self._loop.create_future()
        self._queue.put((item, done))
        if not await done:
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Nothing more will be sent; what was goes out all the same."""
        self._queue.put(None)

    def close(self) -> None:
        """Wait until everything is out, or the client does not read it."""
        self._queue.put(None)
        self._thread.join(_LAST_WORDS)

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
            whole = True
            try:
                _write_whole(self._descriptor, _line(item.message))
            except OSError:
                whole = False
            self._written(item.message, whole)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_finish, done, whole)


def _finish(done: asyncio.Future[bool], whole: bool) -> None:
    if not done.done():
        done.set_result(whole)


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        return f"{sanitize.escaped(text)}\n".encode()
    except ValueError:  # a name with half of a surrogate pair, told back to who gave it
        return f"{json.dumps(message.model_dump(by_alias=True, exclude_unset=True))}\n".encode()


def _write_whole(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
