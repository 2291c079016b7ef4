"""Tools that list tools, register a vault's own tool, and call a tool by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.binding import read_input
from memvault.arguments.parameters import Arg, CommandLineForm, normal_name
from memvault.call import Call
from memvault.errors import MemvaultError, to_memvault_error
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
    from memvault.results import CalledTool, RegisteredTool, ToolEntry, ToolListing

group = ToolGroup("catalog", "Tools, including the vault's own", place=80)


@group.tool(
    "tools list",
    takes_long=True,  # it looks up their programs in PATH
    paged_keys=("tools",),
    read_only=True,
    works_without_files=True,
    examples=("memvault tools list", "memvault tools list --json"),
    view="""*tools
        {name}  {description:first}  {filePath}  {trusted:trusted|not trusted}
           {inputSchema:json}""",
)
def get_available_tools(
    call: Call,
    schemas: Annotated[
        bool,
        Arg(
            "Include the schemas of their arguments",
            key="schema",
            cli_override=CommandLineForm(default=False),
        ),
    ] = True,
    limit: Annotated[int | None, Arg("Maximum number; all by default", minimum=1)] = None,
    offset: Offset = 0,
) -> ToolListing:
    """List the tools of this vault: the built-in ones, and those registered in it.

    trusted is true if a registered tool may run on this machine.
    """
    from memvault.tools.core import available, reference, vault_tools
    from memvault.vault_tools import tool_files, trust

    def described(tool: Tool) -> ToolEntry:
        entry = reference.described(tool)
        if not schemas:
            entry.pop("inputSchema")
            entry.pop("outputSchema", None)
        return entry

    registered = tool_files.read_all(call.root)
    call.notes += registered.broken.values()
    tools = [described(entry) for entry in available.builtin_tools(call.workspace, call.caller)]
    trusted = {plugin.path for plugin in trust.trusted(call.root, registered.tools.values())}
    for plugin in registered.tools.values():
        file = {"filePath": plugin.path, "trusted": plugin.path in trusted}
        tools.append({**described(vault_tools.tool_from_plugin(plugin)), **without_none(**file)})
    shown, paging = paginate(tools, limit or len(tools), offset)
    return {"tools": list(shown), **paging}


@group.tool(
    "tools register",
    takes_long=True,  # it looks up the program in PATH
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
    documentation: Annotated[str | None, Arg("Markdown for people, the file's body")] = None,
) -> RegisteredTool:
    """Register a tool in the vault: a program, defined in tools/NAME.md.

    It replaces a registered tool of the same name, which is kept as a revision. The program
    reads its arguments from standard input as one JSON object and prints its result as another. It
    only runs after a person on this machine has run `memvault tools trust NAME`.
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
        str, Arg("A markdown file as in tools/, or JSON; - reads standard input", positional=True)
    ],
) -> dict[str, Any]:
    from memvault.vault_tools import tool_files

    return tool_files.arguments(read_input(file, "name a file, or - for standard input"))


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
) -> CalledTool:
    """Call any tool by its exact name; result is what that tool returns.

    If it fails or the arguments are invalid, the result has error, a sentence, and code and hint
    beside it. On the command line, the called tool's own result is printed.
    """
    from memvault.tools.core import invoke, registry

    definition = registry.find("call_tool")
    arguments = parameters or {}
    while normal_name(tool_name) in ("call_tool", "call"):  # unwrap nested calls of call_tool
        ignored: list[str] | None = [] if call.caller.adds_arguments else None
        bound = definition.check(definition.by_name(arguments, ignored))
        tool_name, arguments = bound["tool_name"], bound.get("parameters") or {}
    try:
        return {"result": dict(invoke.call_nested(call, tool_name, arguments))}
    except MemvaultError:
        raise
    except Exception as error:  # the caller gets a failed result of the same form
        raise to_memvault_error(error) from error
