"""The transport over standard input and output.

The SDK's own transport does not report when an answer was written, and does not end while its
standard input stays open. This one reads and writes in daemon threads, which do not delay the end
of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import queue
import sys
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
_FLUSH_TIMEOUT = 2.0
"""Seconds to wait at the end for the client to read the remaining messages."""


@contextlib.contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Yield private descriptors of standard input and output, for the protocol only.

    Meanwhile descriptor 0 is empty and descriptor 1 is standard error, so that nothing that a
    library or a program started by a tool reads or prints disturbs the protocol.

    Raises:
        UsageError: the process was started without standard input or output.
    """
    if sys.stdin is None or sys.stdout is None:
        raise UsageError(
            "Standard input or output is closed", "an MCP client starts memvault mcp with both"
        )
    read, written = os.dup(0), os.dup(1)
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
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()  # what a library has printed goes to standard error, too
        os.dup2(read, 0)
        os.dup2(written, 1)


def read_messages(descriptor: int) -> Incoming:
    """Start a thread that reads messages until the input ends; return them as a stream."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            with contextlib.suppress(OSError):
                for line in os.fdopen(descriptor, "rb", closefd=False):
                    if line.strip():
                        loop.call_soon_threadsafe(_deliver, send, _message(line))
            loop.call_soon_threadsafe(send.close)

    threading.Thread(target=read, name="memvault reads", daemon=True).start()
    return receive


def _deliver(
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
        except ValueError:  # perhaps a lone surrogate, which the strict parser refuses
            return SessionMessage(adapter.validate_python(json.loads(text), by_name=False))
    except (ValueError, RecursionError) as error:
        return error


class StdioWriter:
    """A stream that writes messages completely and in order, in a thread of its own.

    The thread calls ``written`` for each message, with whether all of it was written.
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
        done: asyncio.Future[bool] = self._loop.create_future()
        self._queue.put((item, done))
        if not await done:
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Close the stream; messages sent before are still written."""
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
                _write_whole(self._descriptor, _line(item.message))
            except OSError:
                is_complete = False
            self._written(item.message, is_complete)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(_finish, done, is_complete)


def _finish(done: asyncio.Future[bool], is_complete: bool) -> None:
    if not done.done():
        done.set_result(is_complete)


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        text = message.model_dump_json(by_alias=True, exclude_unset=True)
        return f"{sanitize.escaped(text)}\n".encode()
    except ValueError:  # a lone surrogate, in a name that the client sent and gets back
        return f"{json.dumps(message.model_dump(by_alias=True, exclude_unset=True))}\n".encode()


def _write_whole(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
