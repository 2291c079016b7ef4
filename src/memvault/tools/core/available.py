"""Which tools there are in a vault: the program's own, and those that the vault brings along."""

from __future__ import annotations

from memvault.call import Call
from memvault.errors import Refused
from memvault.schema import normal_name
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool

WORLD = "world"
"""The group of the tools that ``memvault.toml`` has to switch on."""


def own_in(call: Call) -> list[Tool]:
    """Return the program's own tools that are switched on in a vault."""
    on = call.settings.world
    return [entry for entry in registry.all_tools() if on or entry.group != WORLD]


def all_in(call: Call) -> list[Tool]:
    """Return every tool that can be called in a vault: the program's own, then the vault's."""
    from memvault.plugins import tool_file
    from memvault.tools.core import vault_tools

    kept = tool_file.read_all(call.root).tools.values()
    return [*own_in(call), *(vault_tools.as_tool(entry) for entry in kept)]


def offered_in(call: Call) -> list[Tool]:
    """Return what a model is offered unasked: no tool of the vault's that nobody trusts here.

    What such a one says of itself may come from anyone.
    """
    from memvault.plugins import tool_file, trust
    from memvault.tools.core import vault_tools

    kept = tool_file.read_all(call.root).tools.values()
    return [*own_in(call), *map(vault_tools.as_tool, trust.trusted(call.root, kept))]


def find_in(call: Call, name: str) -> Tool:
    """Return the tool of an exact name; one of the program's own comes before any other.

    Raises:
        UsageError: there is none.
        Refused: it is switched off, or its file is broken.
    """
    own = registry.known(name)
    if own is not None:
        if own.group == WORLD and not call.settings.world:
            raise Refused(
                f"The tool {own.name} is switched off in this vault",
                "write [world] and below it enabled = true into memvault.toml",
            )
        return own
    from memvault.plugins import tool_file
    from memvault.tools.core import vault_tools

    found = tool_file.read_all(call.root)
    wanted = normal_name(name)
    if wanted in found.tools:
        return vault_tools.as_tool(found.tools[wanted])
    if wanted in found.broken:
        raise Refused(found.broken[wanted], "fix the file")
    names = [entry.name for entry in own_in(call)]
    raise registry.unknown(name, [*names, *found.tools])
