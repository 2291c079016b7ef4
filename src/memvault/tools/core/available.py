"""Find the tools available to a caller: built-in ones, and those registered in the vault.

All code that runs a tool looks it up here, so the caller's scope is always enforced. The vault's
own tools, which are programs on this machine, are only available with the scope ``all``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from memvault.arguments.parameters import normal_name
from memvault.call import Caller, Scope
from memvault.errors import Refused
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from memvault.vault_tools.tool_files import ToolFiles

WORLD = "world"
"""The group of tools that is disabled unless ``memvault.toml`` enables it."""
_SCOPES: tuple[Scope, ...] = get_args(Scope)


def builtin_tools(workspace: Workspace, caller: Caller) -> list[Tool]:
    """Return the built-in tools that the vault enables and the caller's scope allows."""
    is_world_enabled = workspace.settings.world.enabled
    return [
        entry
        for entry in registry.all_tools()
        if (is_world_enabled or entry.group != WORLD) and scope_allows(entry, caller)
    ]


def scope_allows(tool: Tool, caller: Caller) -> bool:
    """Return whether the caller's scope allows a tool."""
    return _SCOPES.index(tool.scope) <= _SCOPES.index(caller.scope)


def advertised_tools(workspace: Workspace, caller: Caller) -> list[Tool]:
    """Return the tools to list for a model, with the vault's own tools only if trusted here.

    The description of an untrusted tool is untrusted too.
    """
    from memvault.tools.core import vault_tools
    from memvault.vault_tools import trust

    files = _plugin_files(workspace, caller).tools.values()
    return [
        *builtin_tools(workspace, caller),
        *map(vault_tools.tool_from_plugin, trust.trusted(workspace.root, files)),
    ]


def _plugin_files(workspace: Workspace, caller: Caller) -> ToolFiles:
    """Return the vault's registered tools; none unless the caller's scope is ``all``."""
    from memvault.vault_tools.tool_files import ToolFiles, read_all

    return read_all(workspace.root) if caller.scope == "all" else ToolFiles({}, {})


def find_tool(workspace: Workspace, caller: Caller, name: str) -> Tool:
    """Return the tool with an exact name; built-in tools take precedence.

    Raises:
        UsageError: there is no such tool.
        Refused: the tool is disabled, its file is invalid, or the caller's scope is insufficient.
    """
    builtin = registry.lookup(name)
    if builtin is not None:
        if not scope_allows(builtin, caller):
            raise Refused(
                f"{builtin.name} needs scope {builtin.scope}",
                "run it on the server's machine; tokens cannot have this scope"
                if builtin.scope == "all"
                else "ask the administrator for a token with that scope",
            )
        if builtin.group == WORLD and not workspace.settings.world.enabled:
            raise Refused(
                f"{builtin.name} is disabled", "set enabled = true under [world] in memvault.toml"
            )
        return builtin
    from memvault.tools.core import vault_tools

    plugins = _plugin_files(workspace, caller)
    normalized = normal_name(name)
    if normalized in plugins.tools:
        return vault_tools.tool_from_plugin(plugins.tools[normalized])
    if normalized in plugins.broken:
        raise Refused(plugins.broken[normalized], "fix the file")
    names = [entry.name for entry in builtin_tools(workspace, caller)]
    raise registry.unknown(name, [*names, *plugins.tools])
