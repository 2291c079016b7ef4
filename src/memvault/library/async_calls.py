"""The base class of ``memvault.AsyncVault``, an open vault for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from memvault.errors import MemvaultError
from memvault.library.calls import CallTool, OpenVault, own_arguments
from memvault.tools.core import invoke

if TYPE_CHECKING:
    from memvault.library.vault import Vault
    from memvault.tools.core.invoke import ToolOutcome

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class AsyncOpenVault:
    """An open vault whose tools run in threads of this process.

    Canceling a call ends a tool that waits, and puts back the events that it would have returned;
    any other tool runs to its end. Closing the vault ends all waits with ``TimedOut``; later calls
    fail with ``UsageError``.
    """

    def __init__(self, path: str | PathLike[str] | None = None, agent: str | None = None) -> None:
        self._vault = OpenVault(path, agent)
        self._executor = self._vault._workspace.executor
        self._closed = threading.Event()

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Run a tool and return the same dict as ``memvault call``, including failures."""
        try:
            return await self._result(invoke.call_json, tool, arguments)
        except MemvaultError as error:
            return error.result()

    async def _result(
        self, call: CallTool, tool: str, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        cancelled = threading.Event()

        def ends() -> bool:
            return cancelled.is_set() or self._closed.is_set()

        future = self._executor.submit(lambda: self._vault._outcome(call, tool, arguments, ends))
        try:
            outcome = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            cancelled.set()
            # In a separate thread, because another call may hold the lock.
            threading.Thread(target=self._abandon, args=[future]).start()
            raise
        return invoke.acknowledged_result(outcome)

    def _abandon(self, future: Future[ToolOutcome]) -> None:
        """Wake a waiting tool, and put back the events of a call whose caller has canceled."""
        self._vault._workspace.notify_waiters()
        with contextlib.suppress(Exception):
            outcome = future.exception() or future.result()
            if not isinstance(outcome, BaseException):
                outcome.delivery.requeue()

    async def aclose(self) -> None:
        """Close the vault's open files after the running calls have finished."""
        self._closed.set()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._vault._workspace.notify_waiters()
        self._executor.wait()
        self._vault.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


def in_thread(
    method: Callable[Concatenate[Vault, _Parameters], _Result],
) -> Callable[Concatenate[AsyncOpenVault, _Parameters], Coroutine[Any, Any, _Result]]:
    """Return a coroutine method that runs the tool of a method of ``Vault`` in a thread."""

    @functools.wraps(method)
    async def run(
        self: AsyncOpenVault, /, *args: _Parameters.args, **keywords: _Parameters.kwargs
    ) -> _Result:
        tool, values = cast("Any", method(cast("Vault", _ToolRun), *args, **keywords))
        result = await self._result(invoke.call, tool, own_arguments(values))
        return cast("_Result", result)

    return run


class _ToolRun:
    """The ``self`` of a method of ``Vault`` that returns its tool's name and arguments."""

    @staticmethod
    def _run(tool: str, values: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        return tool, values
