"""The only way a tool ever runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memvault.errors import MemvaultError
from memvault.tools import available, schema
from memvault.tools.registry import Tool
from memvault.workspace import Workspace, never

__all__ = ["call", "result_of", "within"]


def call(
    workspace: Workspace,
    name: str,
    arguments: Mapping[str, Any],
    stopped: Callable[[], bool] = never,
    find: Callable[[Workspace, str], Tool] = available.find_in,
) -> dict[str, Any]:
    """Run a tool with arguments named as in its schema; return its result.

    What the caller should be told besides is under ``warnings``. The caller
    settles the workspace once it has the result. A tool that waits lets go of
    the workspace's lock meanwhile, as a condition's ``wait`` does; it ends soon
    after ``stopped`` says that the caller has gone and the workspace is woken.
    ``find`` finds the tool.

    Raises:
        MemvaultError: it failed; ``error.result()`` is the failed result.
    """
    with workspace.lock:
        workspace.look()
        tool = find(workspace, name)
        bound = schema.bind(tool, arguments)
        workspace.notes = []  # a new list, as a call that waits keeps its own
        workspace.abandon()
        workspace.stopped = stopped
        try:
            found = tool.function(workspace, **bound)
        except BaseException:
            workspace.abandon()
            raise
        notes = [*workspace.settings.warnings, *workspace.notes]
    result: dict[str, Any] = {"success": True, **found}
    if notes:
        result["warnings"] = list(dict.fromkeys(notes))
    return result


def within(workspace: Workspace, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run another tool as a part of the call that is under way, and given up with it.

    Raises:
        MemvaultError: it failed.
    """
    tool = available.find_in(workspace, name)
    return tool.function(workspace, **schema.bind(tool, arguments))


def result_of(workspace: Workspace, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run a tool; return its result, or the failed result where it failed.

    What the tool hands out counts as handed out from here on.
    """
    with workspace.lock:
        try:
            found = call(workspace, name, arguments)
        except MemvaultError as error:
            return error.result()
        notes = workspace.settle()
        return {**found, "warnings": [*found.get("warnings", ()), *notes]} if notes else found
