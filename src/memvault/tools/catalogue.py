"""The tools about tools: list them, register one of the vault's own, call one by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from memvault.errors import UsageError
from memvault.tools.registry import Arg, normal, shell, tool
from memvault.workspace import Workspace

__all__ = ["call_tool", "get_available_tools", "register_tool"]


_SCHEMAS = "Give the schemas of their arguments too"


class ToolParameter(TypedDict):
    """One parameter of a registered tool."""

    name: Annotated[str, Arg("Letters, digits, underscores and hyphens")]
    type: Annotated[
        Literal["string", "number", "integer", "boolean", "array", "object"], Arg("Its JSON type")
    ]
    description: NotRequired[Annotated[str, Arg("What it means")]]
    required: NotRequired[Annotated[bool, Arg("Else true, unless there is a default")]]
    default: NotRequired[
        Annotated[
            str | int | float | bool | list[Any] | dict[str, Any],
            Arg("What the tool gets where it is not given"),
        ]
    ]
    enum: NotRequired[Annotated[list[Any], Arg("The values that it may have")]]


@tool("get_available_tools", "tools list", "catalogue", read_only=True)
def get_available_tools(
    workspace: Workspace,
    schemas: Annotated[bool, Arg(_SCHEMAS, key="schema")] = True,
) -> dict[str, Any]:
    """List the tools of this vault: the program's own, and those that are registered in it.

    Of a registered one it says whether it may run on this machine.
    """
    from memvault.tools import available, registered, toolfiles, trust
    from memvault.tools.reference import described

    found = toolfiles.read_all(workspace.root)
    workspace.notes += found.broken.values()
    tools = [described(entry) for entry in available.own_in(workspace)]
    for kept in found.tools.values():
        said = {"filePath": kept.path, "trusted": trust.is_trusted(workspace.root, kept)}
        tools.append({**described(registered.as_tool(kept)), **said})
    if not schemas:
        for entry in tools:
            del entry["inputSchema"]
    return {"tools": tools}


@shell("get_available_tools")
def _list_tools(
    schemas: Annotated[
        bool, Arg("Give the schemas of their arguments too", flag="--schema")
    ] = False,
) -> dict[str, Any]:
    return {"schema": schemas}


@tool("register_tool", "tools register", "catalogue", destructive=True)
def register_tool(
    workspace: Workspace,
    name: Annotated[str, Arg("What it is called by: letters, digits, underscores, hyphens")],
    description: Annotated[str, Arg("What it does, for those who choose a tool")],
    command: Annotated[
        str | list[str], Arg("The program and its arguments; one text is split as a shell does")
    ],
    parameters: Annotated[list[ToolParameter] | None, Arg("What it takes")] = None,
    timeout: Annotated[
        float | None, Arg("Seconds that it may run", least=0.1, most=3_600, assumed=60)
    ] = None,
    documentation: Annotated[str | None, Arg("Markdown for people, the file's body")] = None,
) -> dict[str, Any]:
    """Register a tool of the vault's own: a program, kept as tools/NAME.md.

    A registered one of the same name is changed; what it said before is kept
    as a revision. The program gets its arguments as one JSON object on
    standard input and prints its result as another. It runs only after
    memvault tools trust NAME, said by a person on the machine.
    """
    from memvault.tools import toolfiles, trust

    given = {
        "name": name,
        "description": description,
        "command": command,
        "parameters": parameters,
        "timeout": timeout,
    }
    definition = toolfiles.defined(
        {key: value for key, value in given.items() if value is not None}
    )
    path, revision = toolfiles.put(workspace.store, definition, documentation)
    kept = toolfiles.read_all(workspace.root).tools.get(normal(name))
    result = {
        "name": definition.name,
        "filePath": path,
        "trusted": kept is not None and trust.is_trusted(workspace.root, kept),
    }
    return {**result, "previousRevision": revision} if revision else result


@shell("register_tool")
def _register_file(
    file: Annotated[
        str, Arg("A markdown file as in tools/, or JSON; - reads standard input", positional=True)
    ],
) -> dict[str, Any]:
    import sys
    from pathlib import Path

    from memvault.tools import toolfiles

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{file} cannot be read: {said}", "name a file, or - for standard input"
        ) from error
    return toolfiles.arguments(data)


@tool("call_tool", "call", "catalogue", destructive=True)
def call_tool(
    workspace: Workspace,
    tool_name: Annotated[str, Arg("The tool's exact name", positional=True)],
    parameters: Annotated[
        dict[str, Any] | None, Arg("Its arguments as one JSON object", positional=True)
    ] = None,
) -> Mapping[str, Any]:
    """Call any tool by its exact name; the result is that tool's own."""
    from memvault.tools import invoke, registry, schema

    own = registry.find("call_tool")
    given = parameters or {}
    while normal(tool_name) in ("call_tool", "call"):  # a call of a call is that call
        bound = schema.bind(own, given)
        tool_name, given = bound["tool_name"], bound.get("parameters") or {}
    return invoke.within(workspace, tool_name, given)
