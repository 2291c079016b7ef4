"""Anthropic's memory tool over a vault: what Claude writes below ``/memories`` are memories.

``VaultMemoryTool`` and ``AsyncVaultMemoryTool`` are for the tool runners of the
official SDK, which the extra ``memvault[anthropic]`` installs. ``files`` does what
the tool's six commands say; ``adapter`` is the only home of the SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memvault.anthropic.adapter import AsyncVaultMemoryTool, VaultMemoryTool

__all__ = ["AsyncVaultMemoryTool", "VaultMemoryTool"]


def __getattr__(name: str) -> Any:
    """Load the SDK when one of the two classes is asked for."""
    if name not in __all__:
        raise AttributeError(name)
    from memvault.anthropic import adapter

    return getattr(adapter, name)
