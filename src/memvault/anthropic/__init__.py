"""Anthropic's memory tool for a vault: files that Claude writes to ``/memories`` are memories.

``VaultMemoryTool`` and ``AsyncVaultMemoryTool`` are for the tool runners of the official SDK, which
the extra ``memvault[anthropic]`` installs. ``memory_tool`` implements the tool's six commands;
``adapter`` is the only module that imports the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memvault.anthropic.adapter import AsyncVaultMemoryTool, VaultMemoryTool

__all__ = ["AsyncVaultMemoryTool", "VaultMemoryTool"]


def __getattr__(name: str) -> Any:
    """Load the SDK on the first access to one of the two classes."""
    if name not in __all__:
        raise AttributeError(name)
    from memvault.anthropic import adapter

    return getattr(adapter, name)
