"""Calls of tools: each in a thread, and with a caller that may have gone when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import anyio
from mcp.shared.exceptions import MCPError

from memvault.call import Call, Caller, EventDelivery, not_cancelled
from memvault.errors import TimedOut, UsageError, to_memvault_error
from memvault.mcp.results import unknown_tool
from memvault.tools.core import available, invoke
from memvault.tools.core.registry import Tool
from memvault.workspace import WAITS, Workspace

_OFTEN = 0.25
"""Seconds between two looks at how far a call is."""
SILENCE = 5.0
"""Seconds after which a call that says nothing is said to go on."""


class ProgressUpdate(NamedTuple):
    """What is told: how much is done, of how much if that is known, and of what."""

    progress: float
    total: float | None
    message: str


class ProgressTracker:
    """How far one call is."""

    def __init__(self) -> None:
        self._what = ""
        self._before = 0.0
        self._step = ProgressUpdate(0, None, "")

    def note(self, what: str, done: int, total: int) -> None:
        """Take down how far a piece of work is."""
        if what != self._what:
            self._before = self._step.progress
            self._what = what
        before = self._before
        told = f"{what.capitalize()}: {done:,} of {total:,}"
        self._step = ProgressUpdate(max(self._step.progress, before + done), before + total, told)

    async def tell(self, report: Callable[[float, float | None, str], Awaitable[None]]) -> None:
        """Report each step until cancelled, and in between that the call goes on."""
        begun = told_at = time.monotonic()
        told = self._step
        while True:
            await asyncio.sleep(_OFTEN)
            now = time.monotonic()
            if self._step.progress <= told.progress and now - told_at >= SILENCE:
                self._go_on(round(now - begun))
            if self._step.progress > told.progress:
                told, told_at = self._step, now
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await report(*told)

    def _go_on(self, seconds: int) -> None:
        """Count a moment in which nothing was noted as a step too."""
        self._before += 1
        step = self._step
        total = None if step.total is None else step.total + 1
        self._step = ProgressUpdate(step.progress + 1, total, f"At work for {seconds} s")


CURRENT: ContextVar[ProgressTracker | None] = ContextVar("steps", default=None)
"""The steps of the call that a thread is at work for."""


def report_progress(what: str, done: int, total: int) -> None:
    """Take down how far a piece of work is, for the call that it is done for."""
    steps = CURRENT.get()
    if steps is not None:
        steps.note(what, done, total)


OPEN_CALLS = "memvault.calls"
"""Where the scope of an HTTP request keeps the calls whose answers it carries."""


class PendingCall:
    """One call of a tool.

    What its result hands out, such as events, is the caller's once ``settle``
    was called, and goes back at ``give_up``, at whatever moment that is. When the
    server is ``ending``, a tool that waits ends and any other goes on.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any],
        find: Callable[[Call, str], Tool] = available.find_tool,
        ending: Callable[[], bool] = not_cancelled,
    ) -> None:
        self._workspace = workspace
        self._state = threading.Lock()
        self._gone = threading.Event()
        self._delivery: EventDelivery | None = None
        self._has_waited = False
        self.waits: Callable[[], None] = lambda: None
        """Called by the tool's thread when it begins to wait and lets other calls go on."""
        self._call = partial(
            invoke.call,
            workspace,
            name,
            arguments,
            caller._replace(masks=True),
            lambda: self._gone.is_set() or ending(),
            partial(_found, find),
        )

    def _begin_to_wait(self) -> bool:
        """Let the next call have its turn; return whether the caller has gone."""
        with self._state:
            self._has_waited = True
        self.waits()
        return self._gone.is_set()

    def run(self) -> dict[str, Any]:
        """Run the tool and return its result, also where it failed.

        Raises:
            MCPError: there is no such tool.
        """
        WAITS.begin = self._begin_to_wait
        try:
            with self._workspace.lock:
                if self._gone.is_set():
                    raise TimedOut("The call was cancelled before it started", "call again")
                found, delivery = self._call()
        except MCPError:
            raise
        except Exception as error:
            return to_memvault_error(error).result()
        finally:
            del WAITS.begin
        with self._state:
            if not self._gone.is_set():
                self._delivery = delivery
                return found
        delivery.requeue()
        return found

    def settle(self) -> list[str]:
        """The caller has the result; return what is to be said of the events in it."""
        delivery = self._take_delivery()
        return delivery.acknowledge() if delivery is not None else []

    def cancel(self) -> None:
        """The caller will not have the result; a tool that waits for something ends."""
        with self._state:
            self._gone.set()
            has_ended = self._delivery is not None
            if not self._has_waited and not has_ended:  # ``run`` will see it
                return
            if self._delivery is not None and self._delivery.is_empty:
                return
        # A thread, because the lock that is needed may be held by a tool that is at work.
        threading.Thread(target=self._undo, name="memvault gives up a call").start()

    def _undo(self) -> None:
        self._workspace.notify_waiters()
        delivery = self._take_delivery()
        if delivery is not None:
            delivery.requeue()

    def _take_delivery(self) -> EventDelivery | None:
        with self._state:
            delivery, self._delivery = self._delivery, None
        return delivery


def _found(find: Callable[[Call, str], Tool], call: Call, name: str) -> Tool:
    """Return the tool of a name.

    Raises:
        MCPError: there is none.
        Refused: it is switched off, or its file is broken.
    """
    try:
        return find(call, name)
    except UsageError as error:
        raise unknown_tool(error) from error
