"""Which tools there are in a vault: the program's own."""

from __future__ import annotations

from memvault.tools import registry
from memvault.tools.registry import Tool
from memvault.workspace import Workspace

__all__ = ["all_in", "find_in"]


def all_in(workspace: Workspace) -> list[Tool]:  # noqa: ARG001  # what a vault adds comes here
    """Return every tool that can be called in a vault, in the order of the reference."""
    return registry.all_tools()


def find_in(workspace: Workspace, name: str) -> Tool:  # noqa: ARG001
    """Return the tool of an exact name.

    Raises:
        UsageError: there is none.
    """
    return registry.find(name)
