"""Run tool calls in threads: track progress, cancel calls, and deliver results."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault import sanitize
from memvault.call import Caller, not_cancelled
from memvault.errors import TimedOut, UsageError
from memvault.mcp.sdk_types import unknown_tool
from memvault.named_tuple import NamedTuple
from memvault.tools.core import available, invoke, messages
from memvault.tools.core.invoke import FindTool, ToolOutcome
from memvault.tools.core.registry import Tool
from memvault.workspace import IN_BYTES, Workspace

_REPORT_INTERVAL = 0.25
"""Seconds between checks for progress to report."""
SILENCE = 5.0
"""Seconds without progress after which a heartbeat is sent to the client."""


class ProgressUpdate(NamedTuple):
    """A progress notification: the amount done, the total if known, and a message."""

    progress: float
    total: float | None
    message: str


class ProgressTracker:
    """The progress of one call, over all of its pieces of work.

    ``note`` is called by the call's thread, ``report_until_cancelled`` runs on the event loop.
    """

    def __init__(self) -> None:
        self._work = ""
        self._offset = 0.0
        self._latest = ProgressUpdate(0, None, "")

    def note(self, what: str, done: int, total: int) -> None:
        """Record that ``done`` of ``total`` steps of the piece of work ``what`` are finished."""
        if what != self._work:
            self._offset = self._latest.progress
            self._work = what
        offset = self._offset
        message = f"{what.capitalize()}: {done:,} of {total:,}{' bytes' * (what == IN_BYTES)}"
        self._latest = ProgressUpdate(
            max(self._latest.progress, offset + done), offset + total, message
        )

    async def report_until_cancelled(
        self, report: Callable[[float, float | None, str], Awaitable[None]]
    ) -> None:
        """Report progress until canceled; send a heartbeat if there is no progress for a while."""
        started = reported_at = time.monotonic()
        reported = self._latest
        while True:
            await asyncio.sleep(_REPORT_INTERVAL)
            now = time.monotonic()
            if self._latest.progress <= reported.progress and now - reported_at >= SILENCE:
                self._add_heartbeat(round(now - started))
            if self._latest.progress > reported.progress:
                reported, reported_at = self._latest, now
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await report(*reported)

    def _add_heartbeat(self, seconds: int) -> None:
        """Add a step after a period without progress, because reported progress must increase."""
        self._offset += 1
        latest = self._latest
        total = None if latest.total is None else latest.total + 1
        self._latest = ProgressUpdate(latest.progress + 1, total, f"Working for {seconds} s")


CURRENT: ContextVar[ProgressTracker | None] = ContextVar("progress", default=None)
"""The progress tracker of the call in the current thread or task."""


def report_progress(what: str, done: int, total: int) -> None:
    """Record progress for the current call, if its client asked for it."""
    steps = CURRENT.get()
    if steps is not None:
        steps.note(what, done, total)


class PendingCall:
    """A tool call whose client may disconnect before receiving the result.

    It is pending, running, waiting, done or canceled. ``cancel`` wakes a waiting tool, or requeues
    the events of a finished one, in a thread, because the vault's lock may be held.

    Delivered events are confirmed by ``acknowledge`` and returned to their queue by ``cancel``,
    which may be called at any time. ``find`` looks up the tool. When ``ending`` returns true, a
    waiting tool ends; any other runs to completion.
    """

    def __init__(
        self,
        workspace: Workspace,
        caller: Caller,
        name: str,
        arguments: Mapping[str, Any],
        find: FindTool = available.find_tool,
        ending: Callable[[], bool] = not_cancelled,
    ) -> None:
        self._workspace = workspace
        self._caller = caller._replace(message_style="tools", adds_arguments=True)
        self._state = threading.Lock()
        # A reference to ``self`` would form a cycle, and keep the index view alive until a garbage
        # collection.
        self._cancelled = cancelled = threading.Event()
        self._outcome: ToolOutcome | None = None
        self._has_waited = False
        self._call = partial(
            invoke.call_json,
            workspace,
            name,
            arguments,
            self._caller,
            lambda: cancelled.is_set() or ending(),
            partial(_find_tool, find),
        )

    def note_wait(self) -> None:
        """Record that the tool begins to wait, so ``cancel`` can wake it."""
        with self._state:
            self._has_waited = True

    def run(self) -> dict[str, Any]:
        """Run the tool and return its result, or the error as a result if it failed.

        Raises:
            MCPError: there is no such tool.
        """
        try:
            with self._workspace.lock:
                if self._cancelled.is_set():
                    raise TimedOut("The call was canceled before it started", "call again")
                outcome = self._call()
        except MCPError:
            raise
        except Exception as error:
            return invoke.failure(self._workspace, self._caller, error).result()
        with self._state:
            if not self._cancelled.is_set():
                self._outcome = outcome
                return outcome.result
        with outcome:  # Exiting requeues its events.
            return outcome.result

    def acknowledge(self) -> list[str]:
        """Acknowledge the delivered events, and return notes about failures."""
        outcome = self._take_outcome()
        return outcome.acknowledge() if outcome is not None else []

    def cancel(self) -> None:
        """Cancel the call: end a waiting tool, and return delivered events to their queue."""
        with self._state:
            self._cancelled.set()
            if self._outcome is None and not self._has_waited:  # ``run`` notices the cancellation.
                return
            if self._outcome is not None and self._outcome.delivery.is_empty:
                return
        # In a thread, because a running tool may hold the lock that this needs.
        threading.Thread(target=self._undo, name="memvault gives up a call").start()

    def _undo(self) -> None:
        self._workspace.notify_waiters()
        outcome = self._take_outcome()
        if outcome is not None:
            outcome.delivery.requeue()

    def _take_outcome(self) -> ToolOutcome | None:
        with self._state:
            outcome, self._outcome = self._outcome, None
        return outcome


REPLIES = "memvault.replies"
"""The key of the ASGI scope for the tracker of a request's answers."""


class ReplyTracker:
    """The calls whose answers have not been sent yet, by request id.

    The events of a call are acknowledged once its complete answer was sent, and requeued otherwise.
    """

    def __init__(self) -> None:
        self._calls: dict[types.RequestId, PendingCall] = {}

    @property
    def has_pending(self) -> bool:
        """Whether an answer is still to be sent."""
        return bool(self._calls)

    def register(self, request_id: types.RequestId, call: PendingCall) -> None:
        """Add a call, and cancel an earlier call with its id: each id gets at most one answer."""
        self.finish(request_id, is_sent=False)
        self._calls[request_id] = call

    def abandon(self, request_id: types.RequestId, call: PendingCall) -> None:
        """Cancel a call that will get no answer."""
        if self._calls.get(request_id) is call:
            del self._calls[request_id]
        call.cancel()

    def finish(self, request_id: types.RequestId | None, is_sent: bool) -> None:
        """Remove the call of a request whose answer was either fully sent or lost."""
        call = None if request_id is None else self._calls.pop(request_id, None)
        if call is None:
            return
        if not is_sent:
            call.cancel()
            return
        for note in call.acknowledge():
            print(sanitize.escape_line(f"note: {note}"), file=sys.stderr)

    def finish_all(self, is_sent: bool) -> None:
        """Call ``finish`` for every pending call."""
        for request_id in list(self._calls):
            self.finish(request_id, is_sent)


def _find_tool(find: FindTool, workspace: Workspace, caller: Caller, name: str) -> Tool:
    """Return the tool with a name, or raise the protocol's error.

    Raises:
        MCPError: there is no such tool.
        Refused: the tool is switched off, or its file is broken.
    """
    try:
        return find(workspace, caller, name)
    except UsageError as error:
        error.hint = messages.render(error.hint, None, caller)
        raise unknown_tool(error) from error
