"""Processes that answer tool calls which only read, beside each other and beside what writes.

The server itself keeps sessions, limits, the audit log, notifications, everything that writes and
whatever waits, so each of them is as without the processes. It sends them lines of JSON, the fields
of a ``Read``. Each is answered by any number of ``{"progress": [what, done, total]}``, and one
``{"result": [text, structured content, is error]}`` or ``{"refused": [code, message, data]}``,
which is an error of the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault import process
from memvault.errors import MemvaultError
from memvault.mcp.calls import report_progress
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.reads import Read, only_reads
from memvault.mcp.request_queue import QueueSlot, RequestQueue, take_all
from memvault.tools.core import render

if TYPE_CHECKING:
    from asyncio.subprocess import Process

_MAX_LINE = 1 << 28
"""The maximum number of bytes of an answer; a result without a budget may have many."""
_ATTEMPTS = 3
"""How many processes may end with a call before it fails: it may be what ends them."""
_MAX_ENDED, _ENDED_WITHIN = 5, 60.0
"""How many processes may end within so many seconds before the server does without them."""
_EXIT_TIMEOUT = 2.0
"""Seconds that a process has to end after its input did."""


class _Ended(Exception):
    """Raised when a process ends before it has answered."""


class _Worker:
    """A running process."""

    def __init__(self, started: Process) -> None:
        self._process = started

    @classmethod
    async def start(cls, tools: str) -> _Worker:
        """Start a process that offers these tools."""
        command = [sys.executable, "-P", "-m", "memvault.server.read_worker", tools]
        environment = {"OPENBLAS_NUM_THREADS": "1", **process.environment()}
        return cls(await process.start_async_worker(command, environment, _MAX_LINE))

    @property
    def has_ended(self) -> bool:
        """Whether it can answer nothing any more."""
        return self._process.returncode is not None

    async def answer(self, read: Read) -> types.CallToolResult:
        """Let it answer a call.

        Raises:
            MCPError: there is no such tool.
            _Ended: it has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(_line(read))
            await self._process.stdin.drain()
            while line := await self._process.stdout.readline():
                if not line.endswith(b"\n"):
                    break
                message = json.loads(line)
                if "progress" in message:
                    report_progress(*message["progress"])
                elif "refused" in message:
                    raise MCPError(*message["refused"])
                else:
                    text, structured, is_error = message["result"]
                    return types.CallToolResult(
                        content=[types.TextContent(text=text)],
                        structured_content=structured,
                        is_error=is_error,
                    )
        except (OSError, ValueError) as error:
            raise _Ended from error
        raise _Ended

    async def end(self, seconds: float = _EXIT_TIMEOUT) -> int | None:
        """End the process within some seconds; return its code, or a signal's with a minus."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._process.wait(), seconds)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return await self._process.wait()


def _line(read: Read) -> bytes:
    caller = read.caller._replace(asks=None, prefers=None)  # nobody is asked over the network
    fields = {**read._asdict(), "root": str(read.root), "caller": caller._asdict()}
    return json.dumps(fields).encode() + b"\n"


class ReadPool:
    """As many processes as calls may be read at once; those that end are replaced."""

    def __init__(self, count: int, offer: ToolSelection) -> None:
        self._tools = offer.named
        self._count = count
        self._queue = RequestQueue(total=count)
        self._idle: list[_Worker] = []
        self._running: set[asyncio.Task[types.CallToolResult | MCPError]] = set()
        self._ended: deque[float] = deque(maxlen=_MAX_ENDED)

    async def start(self) -> None:
        """Start the processes."""
        for _ in range(self._count):
            self._idle.append(await _Worker.start(self._tools))

    def takes(self, name: str) -> bool:
        """Return whether a tool only reads; false for a time if processes end again and again."""
        is_failing = (
            len(self._ended) == _MAX_ENDED and time.monotonic() - self._ended[0] < _ENDED_WITHIN
        )
        return only_reads(name) and not is_failing

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Let a process run a tool; raises as ``Read.run``."""
        slots = await take_all(self._queue, key, request)
        task = asyncio.get_running_loop().create_task(self._work(read, slots))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        found = await asyncio.shield(task)
        if isinstance(found, MCPError):
            raise found
        return found

    async def _work(self, read: Read, slots: list[QueueSlot]) -> types.CallToolResult | MCPError:
        """Return what a process answers, from another one if it ends meanwhile."""
        try:
            for _ in range(_ATTEMPTS):
                worker = await self._take()
                try:
                    found = await worker.answer(read)
                except _Ended:
                    await self._note_end(worker)
                except MCPError as refusal:
                    self._idle.append(worker)
                    return refusal
                except BaseException:
                    await worker.end(0)
                    raise
                else:
                    self._idle.append(worker)
                    return found
            error = MemvaultError("The process that read the vault has ended", "call again")
        except OSError as reason:
            error = MemvaultError(f"No process can be started: {reason.strerror}", "call again")
        finally:
            for slot in slots:
                slot.leave()
        failed = error.result()
        return types.CallToolResult(
            content=[types.TextContent(text=render.text(failed))],
            structured_content=failed,
            is_error=True,
        )

    async def _take(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if not worker.has_ended:
                return worker
            await self._note_end(worker)
        return await _Worker.start(self._tools)

    async def _note_end(self, worker: _Worker) -> None:
        code = await worker.end()
        self._ended.append(time.monotonic())
        print(f"note: a process that reads has ended with {code}", file=sys.stderr, flush=True)

    async def close(self) -> None:
        """End all processes; calls that still run are cancelled."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await asyncio.gather(*(worker.end() for worker in self._idle))
        self._idle.clear()
