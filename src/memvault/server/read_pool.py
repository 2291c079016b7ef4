"""Processes that run read-only tool calls, in parallel with each other and with calls that write.

The server itself handles sessions, limits, the audit log, notifications, and calls that write or
wait. It sends the processes lines of JSON, the fields of a ``Read``. Each is answered by any number
of ``{"progress": [what, done, total]}``, and one ``{"result": [text, structured content, is
error]}`` or ``{"refused": [code, message, data]}``, which is a protocol error; both include the
call's processor ``seconds``, and ``first``, whether it had to open the vault.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections import deque
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault import process
from memvault.errors import MemvaultError
from memvault.mcp.calls import report_progress
from memvault.mcp.profiles import ToolSelection
from memvault.mcp.read_runner import Lane, Read, only_reads
from memvault.mcp.request_queue import QueueSlot
from memvault.tools.core import render

if TYPE_CHECKING:
    from asyncio.subprocess import Process

_MAX_LINE = 1 << 28
"""The maximum size in bytes of an answer; a result without a budget can be large."""
_ATTEMPTS = 3
"""Number of processes that a call may crash before it fails as the likely cause."""
_MAX_ENDED, _ENDED_WITHIN = 5, 60.0
"""If this many processes exit within this many seconds, the server stops using the pool for a
while.
"""
_EXIT_TIMEOUT = 2.0
"""Seconds for a process to exit after its input is closed."""
_IDLE_TIMEOUT = 60.0
"""Idle seconds after which a process started on demand exits."""
_NICENESS = 10
"""The niceness of low-priority processes."""


class _Ended(Exception):
    """Raised when a process exits before answering."""


class _Worker:
    """A running process."""

    def __init__(self, started: Process) -> None:
        self._process = started
        self.seconds = 0.0
        """The processor seconds of its last call."""
        self.is_first = False
        """Whether its last call had to open the vault."""

    @classmethod
    async def start(cls, tools: str, gives_way: bool) -> _Worker:
        """Start a process that offers these tools, optionally with a low priority."""
        command = [sys.executable, "-P", "-m", "memvault.server.read_worker", tools]
        environment = {"OPENBLAS_NUM_THREADS": "1", **process.environment()}
        worker = await process.start_async_worker(command, environment, _MAX_LINE)
        if gives_way and sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, worker.pid, _NICENESS)
        return cls(worker)

    @property
    def has_ended(self) -> bool:
        """Whether the process has exited."""
        return self._process.returncode is not None

    async def answer(self, read: Read) -> types.CallToolResult:
        """Send a call to the process, and return its answer.

        Raises:
            MCPError: there is no such tool.
            _Ended: the process has exited.
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
                self.seconds = message.get("seconds", 0.0)
                self.is_first = message.get("first", False)
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
        """End the process within ``seconds``; return its exit code, negative for a signal."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            return await asyncio.wait_for(self._process.wait(), seconds)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return await self._process.wait()


def _line(read: Read) -> bytes:
    # Prompts are not supported over the network.
    caller = read.caller._replace(confirm=None, confirm_suggestion=None)
    fields = {**read._asdict(), "root": str(read.root), "caller": caller._asdict()}
    return json.dumps(fields).encode() + b"\n"


class ReadPool:
    """One process for each concurrent read; processes that exit are replaced.

    With ``gives_way`` they have a lower priority, start on demand, and exit after an idle minute.
    """

    def __init__(
        self, count: int, offer: ToolSelection, lane: Lane, gives_way: bool = False
    ) -> None:
        self._tools = offer.named
        self._count = count
        self._lane = lane
        self._gives_way = gives_way
        self._idle: list[_Worker] = []
        self._ending: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[int | None]] = set()
        self._running: set[asyncio.Task[types.CallToolResult | MCPError]] = set()
        self._ended: deque[float] = deque(maxlen=_MAX_ENDED)

    async def start(self) -> None:
        """Start the processes, unless they start on demand."""
        for _ in range(0 if self._gives_way else self._count):
            self._idle.append(await _Worker.start(self._tools, self._gives_way))

    @property
    def is_failing(self) -> bool:
        """Whether too many of its processes have exited within a minute."""
        return len(self._ended) == _MAX_ENDED and time.monotonic() - self._ended[0] < _ENDED_WITHIN

    def accepts(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call is read-only; false while the processes are failing."""
        return only_reads(name, arguments) and not self.is_failing

    async def run(
        self, read: Read, key: Hashable, request: QueueSlot | None
    ) -> types.CallToolResult:
        """Run a tool in a process.

        Raises:
            MCPError: there is no such tool.
            TooHeavy: the call is heavy, and this lane is for other calls.
        """
        slots = await self._lane.enter(read, key, request)
        task = asyncio.get_running_loop().create_task(self._work(read, key, slots))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        answer = await asyncio.shield(task)
        if isinstance(answer, MCPError):
            raise answer
        return answer

    async def _work(
        self, read: Read, key: Hashable, slots: list[QueueSlot]
    ) -> types.CallToolResult | MCPError:
        """Return a process's answer, retrying in another process if the first exits too early."""
        answer: types.CallToolResult | MCPError
        try:
            for _ in range(_ATTEMPTS):
                worker = await self._take()
                try:
                    answer = await worker.answer(read)
                except _Ended:
                    await self._note_end(worker)
                    continue
                except MCPError as refusal:
                    answer = refusal
                except BaseException:
                    await worker.end(0)
                    raise
                self._lane.charge(read, key, worker.seconds, worker.is_first)
                self._idle.append(worker)
                return answer
            error = MemvaultError("The process reading the vault crashed", "call again")
        except OSError as reason:
            error = MemvaultError(f"Cannot start a process: {reason.strerror}", "call again")
        finally:
            for slot in slots:
                slot.leave()
            self._end_later()
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
        return await _Worker.start(self._tools, self._gives_way)

    def _end_later(self) -> None:
        """End the processes started on demand after a while, unless another call arrives."""
        if not self._gives_way:
            return
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(_IDLE_TIMEOUT, self._end_idle)

    def _end_idle(self) -> None:
        while self._idle:
            task = asyncio.get_running_loop().create_task(self._idle.pop().end())
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _note_end(self, worker: _Worker) -> None:
        code = await worker.end()
        self._ended.append(time.monotonic())
        print(f"note: a read process exited with code {code}", file=sys.stderr, flush=True)

    async def close(self) -> None:
        """End all processes; calls that still run are canceled."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, *self._background, return_exceptions=True)
        if self._ending is not None:
            self._ending.cancel()
        await asyncio.gather(*(worker.end() for worker in self._idle))
        self._idle.clear()
