"""The base class of ``memvault.Vault``, an open vault that runs tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memvault.call import LOCAL, Caller, not_cancelled
from memvault.errors import UsageError, to_memvault_error
from memvault.settings.locate import find_vault
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.tools.core.invoke import ToolOutcome

CallTool = Callable[..., "ToolOutcome"]


class OpenVault:
    """An open vault in this process; after ``close``, calls fail with ``UsageError``."""

    def __init__(self, path: str | PathLike[str] | None = None, agent: str | None = None) -> None:
        named = agent or os.environ.get("MEMVAULT_AGENT")
        self._caller = Caller(named or LOCAL.agent, secrets="asked", message_style="tools")
        self._workspace = Workspace(
            find_vault(os.fspath(path) if path is not None else None), long_lived=True
        )
        self._is_closed = False

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Run a tool and return the same dict as ``memvault call``, including failures."""
        from memvault.tools.core.invoke import call_result

        with self._workspace.lock:
            if self._is_closed:
                return _closed().result()
            return call_result(self._workspace, tool, arguments, self._caller)

    def _run(self, tool: str, values: Mapping[str, Any]) -> Any:
        """Run a tool with values for its function's parameters, and acknowledge its events.

        Raises:
            MemvaultError: the tool failed.
        """
        from memvault.tools.core import invoke

        with self._workspace.lock:
            return invoke.acknowledged_result(
                self._outcome(invoke.call, tool, own_arguments(values))
            )

    def _outcome(
        self,
        call: CallTool,
        tool: str,
        arguments: Mapping[str, Any],
        is_cancelled: Callable[[], bool] = not_cancelled,
    ) -> ToolOutcome:
        """Run a tool with ``invoke.call`` or ``call_json``, without acknowledging its events.

        Raises:
            MemvaultError: the tool failed.
        """
        try:
            with self._workspace.lock:
                if self._is_closed:
                    raise _closed()
                return call(self._workspace, tool, arguments, self._caller, is_cancelled)
        except OSError as error:
            raise to_memvault_error(error) from error

    def close(self) -> None:
        """Close the vault's open files once no call is running; waiting calls do not delay this."""
        with self._workspace.lock:
            self._is_closed = True
            self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _closed() -> UsageError:
    return UsageError("The vault is closed", "open it again with memvault.open_vault")


def own_arguments(local_variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a method of ``Vault`` from its local variables."""
    return {
        name: _as_json(value)
        for name, value in local_variables.items()
        if name != "self" and value is not None
    }


def _as_json(value: Any) -> Any:
    """Return a value as JSON would represent it: sequences as lists and mappings as dicts."""
    if isinstance(value, Mapping):
        return {key: _as_json(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_as_json(entry) for entry in value]
    return value
