"""Which tools there are in a vault: the program's own, and those that the vault brings along."""

from __future__ import annotations

from memvault.errors import Refused
from memvault.tools import registry
from memvault.tools.registry import Tool
from memvault.workspace import Workspace

__all__ = ["WORLD", "all_in", "find_in", "offered_in", "own_in"]

WORLD = "world"
"""The group of the tools that ``memvault.toml`` has to switch on."""


def own_in(workspace: Workspace) -> list[Tool]:
    """Return the program's own tools that are switched on in a vault."""
    on = workspace.settings.world
    return [entry for entry in registry.all_tools() if on or entry.group != WORLD]


def all_in(workspace: Workspace) -> list[Tool]:
    """Return every tool that can be called in a vault: the program's own, then the vault's."""
    from memvault.tools import registered, toolfiles

    kept = toolfiles.read_all(workspace.root).tools.values()
    return [*own_in(workspace), *(registered.as_tool(entry) for entry in kept)]


def offered_in(workspace: Workspace) -> list[Tool]:
    """Return what a model is offered unasked: no tool of the vault's that nobody trusts here.

    What such a one says of itself may come from anyone.
    """
    from memvault.tools import registered, toolfiles, trust

    kept = toolfiles.read_all(workspace.root).tools.values()
    trusted = [entry for entry in kept if trust.is_trusted(workspace.root, entry)]
    return [*own_in(workspace), *map(registered.as_tool, trusted)]


def find_in(workspace: Workspace, name: str) -> Tool:
    """Return the tool of an exact name; one of the program's own comes before any other.

    Raises:
        UsageError: there is none.
        Refused: it is switched off, or its file is broken.
    """
    own = registry.known(name)
    if own is not None:
        if own.group == WORLD and not workspace.settings.world:
            raise Refused(
                f"The tool {own.name} is switched off in this vault",
                "write [world] and below it enabled = true into memvault.toml",
            )
        return own
    from memvault.tools import registered, toolfiles

    found = toolfiles.read_all(workspace.root)
    wanted = registry.normal(name)
    if wanted in found.tools:
        return registered.as_tool(found.tools[wanted])
    if wanted in found.broken:
        raise Refused(found.broken[wanted], "mend the file")
    names = [entry.name for entry in own_in(workspace)]
    raise registry.unknown(name, [*names, *found.tools])
