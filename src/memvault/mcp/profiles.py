"""Tool profiles: the tools offered to an MCP client, and the tokens that their schemas use.

A profile is a group of the registry, ``core`` or ``all``. It saves tokens and is not a security
boundary: ``call_tool``, in the profile ``catalog``, runs every tool.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from functools import cache
from typing import Any

from memvault.arguments.parameters import LARGEST, normal_name
from memvault.call import Caller
from memvault.command_table import GROUPS, TOOLS
from memvault.errors import UsageError, suggestion
from memvault.files.user_folders import SETTINGS_FILE
from memvault.named_tuple import NamedTuple
from memvault.settings import user_settings
from memvault.settings.vault_settings import Settings
from memvault.tools.core import available, reference, registry
from memvault.tools.core.registry import Tool
from memvault.tools.core.vault_tools import GROUP as VAULTS_OWN
from memvault.workspace import Workspace

_ALL = "all"
_DEFAULT = "core"
_CHARACTERS_PER_TOKEN = 4
"""Characters per token for estimates; actual tokenizers differ by about a fifth."""
_MODEL_FIELDS = ("name", "description", "inputSchema")
"""The fields of a tool that the model reads; titles and hints are for the client."""
_MAX_PARAGRAPHS = 2
"""Number of paragraphs of a tool's docstring in its description; the rest is in the reference."""
_SHORT_KEYWORDS = ("type", "anyOf", "items", "enum")
"""The schema keywords of an argument in a short definition, in addition to its description."""


class ToolProfile(NamedTuple):
    """A named set of tools."""

    name: str
    heading: str
    tools: tuple[str, ...]


@cache
def profiles() -> dict[str, ToolProfile]:
    """Return every profile by its name: ``core``, one for each group of tools, and ``all``."""
    core = tuple(command.tool for command in TOOLS if command.core)
    result = {_DEFAULT: ToolProfile(_DEFAULT, "Recall and write memories; the default", core)}
    for name, heading in GROUPS.items():
        tools = tuple(command.tool for command in TOOLS if command.group == name)
        result[name] = ToolProfile(name, heading, tools)
    return {**result, _ALL: ToolProfile(_ALL, "Every tool", tuple(entry.tool for entry in TOOLS))}


def parse_selection(text: str) -> dict[str, bool]:
    """Parse a comma-separated list of profiles and tools.

    The result maps each tool to whether its definition is short. It is short if only the core
    profile selects the tool.

    Raises:
        UsageError: the list is empty, or a word in it is neither a profile nor a tool.
    """
    selection: dict[str, bool] = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        profile = profiles().get(word.lower().replace("_", "-"))
        if profile is not None and profile.name == _DEFAULT:
            selection = {**dict.fromkeys(profile.tools, True), **selection}
        elif profile is not None:
            selection.update(dict.fromkeys(profile.tools, False))
        else:
            selection[_tool_name(word)] = False
    if not selection:
        raise UsageError(
            "No tools are given", "run `memvault mcp --list-profiles` to list the profiles"
        )
    return selection


def _tool_name(word: str) -> str:
    tool = registry.lookup(word)
    if tool is not None:
        return tool.name
    names = [*profiles(), *(command.tool for command in TOOLS)]
    hint = suggestion(
        normal_name(word), names, "run `memvault mcp --list-profiles` to list the profiles"
    )
    raise UsageError(f"There is no profile or tool {word!r}", hint)


def smallest_profile(name: str) -> str:
    """Return the name of the smallest profile that contains a tool."""
    candidates = [entry for entry in profiles().values() if name in entry.tools]
    return min(candidates, key=lambda entry: len(entry.tools)).name


class ToolSelection:
    """The tools offered by a server: ``named`` on its command line, or else from the settings.

    The vault's settings take precedence over the user's.

    Raises:
        UsageError: the command line or the user's settings contain an unknown profile or tool.
    """

    def __init__(self, named: str = "") -> None:
        self.named = named
        self._configured = named or user_settings.load().mcp.tools or _DEFAULT
        parse_selection(self._configured)

    def words(self, settings: Settings) -> str:
        """Return the selected list of profiles and tools in its original form."""
        return self.named or settings.mcp.tools or self._configured

    def selected(self, settings: Settings) -> dict[str, bool]:
        """Return the built-in tools to offer, mapped to whether their definitions are short.

        Raises:
            UsageError: the vault's settings contain an unknown profile or tool.
        """
        try:
            return parse_selection(self.words(settings))
        except UsageError as error:
            raise UsageError(f"{SETTINGS_FILE}: mcp.tools: {error.message}", error.hint) from error

    def tools(self, workspace: Workspace, caller: Caller) -> list[dict[str, Any]]:
        """Return the definitions of the tools to list, without untrusted tools in the vault.

        Raises:
            UsageError: the vault's settings contain an unknown profile or tool.
        """
        selection = self.selected(workspace.settings)
        return [
            tool_definition(tool, selection.get(tool.name, False))
            for tool in available.advertised_tools(workspace, caller)
            if _is_selected(selection, tool)
        ]

    def find(self, workspace: Workspace, caller: Caller, name: str) -> Tool:
        """Return the offered tool with exactly this name.

        Raises:
            UsageError: there is no such tool, or the tool is not offered.
            Refused: the tool is switched off, or its file is broken.
        """
        selected = self.selected(workspace.settings)
        try:
            tool = available.find_tool(workspace, caller, name)
        except UsageError as error:
            if error.hint == registry.LIST_TOOLS and "get_available_tools" not in selected:
                error.hint = "send `tools/list` to list the tools of this server"
            raise
        if _is_selected(selected, tool):
            return tool
        selection = f"{self.words(workspace.settings)},{smallest_profile(tool.name)}"
        raise UsageError(
            f"The tool {tool.name} is not offered by this server",
            f"start the server with `--tools {selection}`",
        )


def _is_selected(names: Container[str], tool: Tool) -> bool:
    """Return whether a selection includes a tool; it includes all of a vault's own tools."""
    return tool.group == VAULTS_OWN or tool.name in names


def tool_definition(tool: Tool, is_short: bool = False) -> dict[str, Any]:
    """Return a tool's definition for a client: a shortened entry of the reference.

    A short definition has the first paragraph of the description and the arguments in
    ``core_args``.
    """
    entry = reference.described(tool)
    hints = dict(entry["annotations"])
    del hints["title"]  # It duplicates the tool's title.
    if tool.read_only:
        del hints["destructiveHint"], hints["idempotentHint"]  # Meaningful only if a tool writes.
    paragraphs = entry["description"].split("\n\n")[: 1 if is_short else _MAX_PARAGRAPHS]
    schema = _simplified(entry["inputSchema"])
    if is_short:
        schema["properties"] = _short_properties(schema["properties"], tool.core_args or {})
    elif tool.group == VAULTS_OWN:
        for parameter in tool.page_parameters:
            del schema["properties"][parameter.key]
    if is_short or tool.group == VAULTS_OWN:
        del schema["additionalProperties"]  # The other arguments are accepted too.
    definition = {
        **entry,
        "description": "\n\n".join(paragraphs),
        "inputSchema": schema,
        "annotations": hints,
    }
    if "outputSchema" in entry:
        definition["outputSchema"] = _with_failures(entry["outputSchema"])
    return definition


def _short_properties(
    properties: Mapping[str, Mapping[str, Any]], descriptions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the described arguments of a schema, with these descriptions and without limits."""
    result: dict[str, Any] = {}
    for key, text in descriptions.items():
        entry = properties[key]
        result[key] = {name: entry[name] for name in _SHORT_KEYWORDS if name in entry}
        if text:
            result[key]["description"] = text
    return result


def _with_failures(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result schema that also accepts failures, which some clients validate too."""
    forms = [{"required": schema["required"]}, {"required": ["success", "error"]}]
    return {**{key: part for key, part in schema.items() if key != "required"}, "anyOf": forms}


def _simplified(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an equivalent JSON schema without redundant entries."""
    result: dict[str, Any] = {}
    for key, value in schema.items():
        is_empty = (key == "required" and not value) or (key == "default" and not value)
        is_unbounded = key in ("minimum", "maximum") and abs(value) >= LARGEST
        if is_empty or is_unbounded or (key == "additionalProperties" and value is True):
            continue
        if key == "type" and isinstance(value, list):
            # Some clients support only a single type, so each type becomes a branch of anyOf.
            result["anyOf"] = [_branch(name, schema) for name in value]
        elif key == "items" and "anyOf" in result:
            continue
        elif key == "properties":
            result[key] = {name: _simplified(part) for name, part in value.items()}
        else:
            result[key] = _simplified(value) if key == "items" else value
    return result


def _branch(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    items = {"items": _simplified(schema["items"])} if name == "array" and "items" in schema else {}
    return {"type": name, **items}


def profile_json(name: str) -> str:
    """Return the JSON that a model reads for the tools of a profile."""
    tools = [
        tool_definition(registry.find(tool), is_short)
        for tool, is_short in parse_selection(name).items()
    ]
    fields = [{key: entry[key] for key in _MODEL_FIELDS} for entry in tools]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def table() -> dict[str, Any]:
    """Return every profile with its tools and its estimated number of tokens."""
    entries = [
        {
            "name": entry.name,
            "heading": entry.heading,
            "count": len(entry.tools),
            "tokens": round(len(profile_json(entry.name)) / _CHARACTERS_PER_TOKEN),
            "tools": list(entry.tools),
        }
        for entry in profiles().values()
    ]
    return {"profiles": entries}
