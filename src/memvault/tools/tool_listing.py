"""Tools that list tools, register a vault's own tool, and call a tool by its name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.binding import read_input
from memvault.arguments.parameters import Arg, CommandLineForm, normal_name
from memvault.call import Call
from memvault.errors import MemvaultError, to_memvault_error
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool, ToolGroup, command_line_form
from memvault.tools.core.result_parts import paginate, without_none
from memvault.tools.core.shared_args import Offset
from memvault.vault_tools.definition import (
    ToolCommand,
    ToolDescription,
    ToolName,
    ToolParameters,
    ToolTimeout,
    tool_definition,
)

if TYPE_CHECKING:
    from memvault import results

group = ToolGroup("catalog", "Tools, including the vault's own", place=80)


@group.tool(
    "tools list",
    takes_long=True,  # It looks up the tools' programs in PATH.
    paged_keys=("tools",),
    read_only=True,
    works_without_files=True,
    examples=("memvault tools list", "memvault tools list memory_recall --schema"),
    view="""*tools
        {name}  {description:first}  {filePath}  {trusted:trusted|not trusted}
           {inputSchema:json}""",
)
def get_available_tools(
    call: Call,
    names: Annotated[
        list[str] | None,
        Arg("Only these tools", positional=True, metavar="NAME", json_aliases=("name", "tool")),
    ] = None,
    schemas: Annotated[
        bool | None,
        Arg(
            "Include the schemas of their arguments",
            key="schema",
            cli_override=CommandLineForm(default=False),
        ),
    ] = None,
    limit: Annotated[int | None, Arg("Maximum number; all by default", minimum=1)] = None,
    offset: Offset = 0,
) -> results.ToolListing:
    """List the tools in this vault: the built-in ones, and those registered in it.

    trusted is true if a registered tool may run on this machine. If the call has a token budget but
    neither names nor `--schema`, the list contains only names. If names are given, the schemas of
    these tools are included.
    """
    from memvault.tools.core import available, vault_tools
    from memvault.vault_tools import tool_files, trust

    registered = tool_files.read_all(call.root)
    call.notes += registered.broken.values()
    builtin = available.builtin_tools(call.workspace, call.caller)
    plugins = registered.tools.values()
    tools = [*builtin, *map(vault_tools.tool_from_plugin, plugins)]
    by_name = {normal_name(tool.name): tool for tool in tools}
    for name in names or ():
        if normal_name(name) not in by_name:
            raise registry.unknown(name, list(by_name))
    if names:
        tools = [by_name[name] for name in dict.fromkeys(map(normal_name, names))]
    shown, paging = paginate(tools, limit or len(tools), offset)
    if call.budget and not names and schemas is None:
        message = "These are names only; `memvault tools list NAME` describes a tool"
        return {"tools": [{"name": tool.name} for tool in shown], "message": message, **paging}
    trusted = {plugin.path for plugin in trust.trusted(call.root, plugins)}
    files = {plugin.definition.name: plugin.path for plugin in plugins}
    return {
        "tools": [_entry(tool, schemas is not False, files, trusted) for tool in shown],
        **paging,
    }


def _entry(
    tool: Tool, has_schema: bool, files: Mapping[str, str], trusted: Collection[str]
) -> results.ToolEntry:
    """Return the entry of a tool; ``files`` are those of the vault's tools, by name."""
    from memvault.tools.core import reference

    entry = reference.described(tool)
    if not has_schema:
        entry.pop("inputSchema")
        entry.pop("outputSchema", None)
    if tool.own_parameters is not None and (file := files.get(tool.name)):
        entry["filePath"], entry["trusted"] = file, file in trusted
    return entry


@group.tool(
    "tools register",
    takes_long=True,  # It looks up the program in PATH.
    destructive=True,
    own_scope="all",
    examples=(
        "memvault tools register word_count.json",
        "memvault tools register - < word_count.json",
    ),
    view="""Registered {name}  {filePath}
        Previous revision: {previousRevision}
        {trusted:Trusted already|To run it on this machine}: `memvault tools trust {name}`""",
)
def register_tool(
    call: Call,
    name: ToolName,
    description: ToolDescription,
    command: ToolCommand,
    parameters: ToolParameters = None,
    timeout: ToolTimeout = None,
    documentation: Annotated[str | None, Arg("Markdown for people; the body of the file")] = None,
) -> results.RegisteredTool:
    """Register a tool in the vault: a program, defined in tools/NAME.md.

    It replaces a registered tool with the same name, whose file is saved as a revision. The program
    reads its arguments from standard input as one JSON object and prints its result as a JSON
    object. It only runs after a person on this machine has run `memvault tools trust NAME`.
    """
    from memvault.vault_tools import tool_files, trust

    definition = tool_definition(name, description, command, parameters, timeout)
    path, revision = tool_files.put(call.store, definition, documentation)
    registered = tool_files.read_all(call.root).tools.get(normal_name(name))
    return {
        "name": definition.name,
        "filePath": path,
        "trusted": registered is not None and bool(trust.trusted(call.root, [registered])),
        **without_none(previousRevision=revision or None),
    }


@command_line_form("register_tool")
def _register_file(
    file: Annotated[
        str,
        Arg(
            "A markdown file in the format of tools/, or JSON; - reads standard input",
            positional=True,
        ),
    ],
) -> dict[str, Any]:
    from memvault.vault_tools import tool_files

    return tool_files.arguments(read_input(file, "pass a file, or - to read standard input"))


@group.tool(
    "call",
    takes_long=True,
    paged_keys=(),
    destructive=True,
    own_scope="read",
    flat_failures=True,
    examples=(
        """memvault call memory_recall '{"query": "database"}'""",
        "echo '{}' | memvault call memory_list -",
    ),
    reveals=True,
)
def call_tool(
    call: Call,
    tool_name: Annotated[
        str, Arg("The tool's exact name", positional=True, json_aliases=("name", "tool"))
    ],
    parameters: Annotated[
        dict[str, Any] | None,
        Arg(
            "Its arguments as one JSON object",
            positional=True,
            json_aliases=("arguments", "args", "params", "input"),
        ),
    ] = None,
) -> results.CalledTool:
    """Call any tool by its exact name; `result` contains the tool's result.

    If it fails or the arguments are invalid, `error` contains a message, and there may be a `code`
    and a `hint`.
    """
    from memvault.tools.core import invoke

    definition = registry.find("call_tool")
    arguments = parameters or {}
    while normal_name(tool_name) in ("call_tool", "call"):  # Unwrap nested calls of call_tool.
        ignored: list[str] | None = [] if call.caller.adds_arguments else None
        bound = definition.check(definition.by_name(arguments, ignored))
        tool_name, arguments = bound["tool_name"], bound.get("parameters") or {}
    try:
        return {"result": dict(invoke.call_nested(call, tool_name, arguments))}
    except MemvaultError:
        raise
    except Exception as error:  # The caller gets a failed result of the same form.
        raise to_memvault_error(error) from error
