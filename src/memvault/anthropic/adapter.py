"""Adapt the memory tool's SDK types to ``memory_tool``, for the SDK's tool runners."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import Any

import anyio.to_thread
from anthropic.lib.tools import (
    BetaAbstractMemoryTool,
    BetaAsyncAbstractMemoryTool,
    ToolError,
)
from anthropic.types.beta import BetaCacheControlEphemeralParam
from pydantic import BaseModel

from memvault.anthropic.memory_tool import FOLDER, MemoryFiles
from memvault.errors import MemvaultError


class _VaultFiles:
    """The files of a vault behind a memory tool of the SDK."""

    def __init__(
        self,
        vault: str | PathLike[str] | None = None,
        *,
        folder: str = FOLDER,
        agent: str = "claude",
        memory_type: str = "",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]  # of the next base, the SDK's class
        self._files = MemoryFiles(vault, folder, agent, memory_type)

    def close(self) -> None:
        """Close open files."""
        self._files.close()


class VaultMemoryTool(_VaultFiles, BetaAbstractMemoryTool):
    """Anthropic's memory tool, type ``memory_20250818``, for a vault.

    ``vault`` is the vault's folder, by default the one that the command line finds. ``/memories``
    maps to ``folder`` in the vault; an empty string means the entire vault. ``agent`` is the author
    of changes in the log, and ``memory_type`` is the type of new memories. Each command is one
    change set, which ``memvault undo`` reverts.

    Raises:
        memvault.errors.VaultNotFound: there is no vault.
        memvault.errors.UsageError: the folder, agent or type is invalid.
    """

    def _run(self, command: BaseModel) -> str:
        """Run one command of the tool and return its answer."""
        return _run(self._files, command)

    view = create = str_replace = insert = delete = rename = _run


class AsyncVaultMemoryTool(_VaultFiles, BetaAsyncAbstractMemoryTool):
    """``VaultMemoryTool`` for the asynchronous client; it accesses the vault in a thread."""

    async def _run(self, command: BaseModel) -> str:
        """Run one command of the tool and return its answer."""
        return await anyio.to_thread.run_sync(partial(_run, self._files, command))

    view = create = str_replace = insert = delete = rename = _run


def _run(files: MemoryFiles, command: BaseModel) -> str:
    arguments: dict[str, Any] = command.model_dump(exclude_none=True)
    name = str(arguments.pop("command"))
    try:
        return files.run(name, arguments)
    except MemvaultError as error:
        raise ToolError(". ".join(filter(None, (error.message, error.hint)))) from error
