"""Calls of tools: each in a thread, and with a caller that may have gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcp.shared.exceptions import MCPError

from memvault.call import Call, Caller, EventDelivery, not_cancelled
from memvault.errors import TimedOut, UsageError, to_memvault_error
from memvault.mcp.answers import unknown_tool
from memvault.tools.core import available, invoke
from memvault.tools.core.registry import Tool
from memvault.workspace import WAITS, Workspace

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
