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
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from pydantic import BaseModel

from memvault.anthropic.memory_tool import FOLDER, MemoryFiles
from memvault.errors import MemvaultError


class VaultMemoryTool(BetaAbstractMemoryTool):
    """Anthropic's memory tool, type ``memory_20250818``, for a vault.

    ``vault`` is the vault's folder, by default the one that the command line finds. ``/memories``
    is ``folder`` in the vault; an empty string means the whole vault. ``agent`` is the author of
    changes in the log, ``memory_type`` the type of new memories. Each command is one change set,
    which ``memvault undo`` reverts.

    Raises:
        memvault.errors.VaultNotFound: there is no vault.
        memvault.errors.UsageError: the folder, agent or type is invalid.
    """

    def __init__(
        self,
        vault: str | PathLike[str] | None = None,
        *,
        folder: str = FOLDER,
        agent: str = "claude",
        memory_type: str = "",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(vault, folder, agent, memory_type)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the numbered lines of a file, or the listing of a folder."""
        return _run(self._files, command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a memory."""
        return _run(self._files, command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once in a memory."""
        return _run(self._files, command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line of a memory."""
        return _run(self._files, command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a memory, or all memories in a folder, to the trash."""
        return _run(self._files, command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a memory or a folder to another path."""
        return _run(self._files, command)

    def close(self) -> None:
        """Close open files."""
        self._files.close()


class AsyncVaultMemoryTool(BetaAsyncAbstractMemoryTool):
    """``VaultMemoryTool`` for the asynchronous client, which accesses the vault in a thread."""

    def __init__(
        self,
        vault: str | PathLike[str] | None = None,
        *,
        folder: str = FOLDER,
        agent: str = "claude",
        memory_type: str = "",
        cache_control: BetaCacheControlEphemeralParam | None = None,
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._files = MemoryFiles(vault, folder, agent, memory_type)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Return the numbered lines of a file, or the listing of a folder."""
        return await self._run(command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a memory."""
        return await self._run(command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs exactly once in a memory."""
        return await self._run(command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line of a memory."""
        return await self._run(command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a memory, or all memories in a folder, to the trash."""
        return await self._run(command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a memory or a folder to another path."""
        return await self._run(command)

    def close(self) -> None:
        """Close open files."""
        self._files.close()

    async def _run(self, command: BaseModel) -> str:
        return await anyio.to_thread.run_sync(partial(_run, self._files, command))


def _run(files: MemoryFiles, command: BaseModel) -> str:
    arguments: dict[str, Any] = command.model_dump(exclude_none=True)
    name = str(arguments.pop("command"))
    try:
        return files.run(name, arguments)
    except MemvaultError as error:
        raise ToolError(". ".join(filter(None, (error.message, error.hint)))) from error
