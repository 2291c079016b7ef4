"""memvault: a memory shared by people and their agents.

``open_vault`` is the whole library: the same tools as the command line, with the same arguments and
results, in a process that stays warm.
"""

from __future__ import annotations

from os import PathLike
from types import TracebackType
from typing import Any

__all__ = ["Vault", "__version__", "open_vault"]

__version__ = "0.1.0"


class Vault:
    """An open vault. Safe to share between threads: calls run one at a time."""

    def __init__(self, path: str | PathLike[str] | None = None, agent: str | None = None) -> None:
        import os

        from memvault.call import Caller
        from memvault.settings.locate import find_vault
        from memvault.workspace import Workspace

        named = agent or os.environ.get("MEMVAULT_AGENT")
        self._caller = Caller(named) if named else Caller()
        self._workspace = Workspace(find_vault(os.fspath(path) if path is not None else None))

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Run a tool and return the same dict as ``memvault call``, including failures."""
        from memvault.tools.core.invoke import call_result

        return call_result(self._workspace, tool, arguments, self._caller)

    def close(self) -> None:
        """Close the vault's open files."""
        self._workspace.close()

    def __enter__(self) -> Vault:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_vault(path: str | PathLike[str] | None = None, agent: str | None = None) -> Vault:
    """Open a vault by its folder, or as the command line finds it.

    Raises:
        memvault.errors.VaultNotFound: there is none.
    """
    return Vault(path, agent)
