"""The memory tool for the SDK's tool runners: its types on one side, ``files`` on the other."""

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
    """Anthropic's memory tool, type ``memory_20250818``, over a vault.

    ``vault`` is its folder, found as the command line finds it if not given.
    ``/memories`` is ``folder`` in it, or with an empty one the whole vault.
    ``agent`` is who the log says has written, ``memory_type`` the type of new
    memories. Each command is one change, which ``memvault undo`` takes back.

    Raises:
        memvault.errors.VaultNotFound: there is no vault.
        memvault.errors.UsageError: the folder, agent or type cannot be one.
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
        """Return a file's lines, or what a folder holds."""
        return _run(self._files, command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new memory."""
        return _run(self._files, command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that a memory has once."""
        return _run(self._files, command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text behind a line of a memory."""
        return _run(self._files, command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a memory, or all in a folder, to the trash."""
        return _run(self._files, command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a memory, or a folder, another path."""
        return _run(self._files, command)

    def close(self) -> None:
        """Let go of open files."""
        self._files.close()


class AsyncVaultMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the asynchronous client; the vault is read and written in a thread."""

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
        """Return a file's lines, or what a folder holds."""
        return await self._run(command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Write a new memory."""
        return await self._run(command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that a memory has once."""
        return await self._run(command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text behind a line of a memory."""
        return await self._run(command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Move a memory, or all in a folder, to the trash."""
        return await self._run(command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Give a memory, or a folder, another path."""
        return await self._run(command)

    def close(self) -> None:
        """Let go of open files."""
        self._files.close()

    async def _run(self, command: BaseModel) -> str:
        return await anyio.to_thread.run_sync(partial(_run, self._files, command))


def _run(files: MemoryFiles, command: BaseModel) -> str:
    given: dict[str, Any] = command.model_dump(exclude_none=True)
    name = str(given.pop("command"))
    try:
        return files.run(name, given)
    except MemvaultError as error:
        raise ToolError(". ".join(filter(None, (error.message, error.hint)))) from error
