"""The reference of all tools, generated as a markdown page and as a JSON schema."""

from __future__ import annotations

from typing import Any

from memvault.arguments.binding import LENIENCIES
from memvault.arguments.parameters import Parameter, input_schema, property_schema
from memvault.command_table import Command
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool

SCHEMA_VERSION = 3
"""Version of the schema; incremented if a key or tool is renamed or removed, not if added."""


def described(tool: Tool) -> dict[str, Any]:
    """Return a tool as listed over MCP: name, description, input schema and annotations."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.doc,
        "inputSchema": input_schema(tool.parameters),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        },
    }


def schema_document() -> dict[str, Any]:
    """Return the schemas of all tools, and the schema of failures, which they share."""
    failure = {
        "type": "object",
        "properties": {
            "success": {"const": False},
            "error": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "hint": {"type": "string"},
                },
                "required": ["code", "message"],
            },
        },
        "required": ["success", "error"],
    }
    return {
        "version": SCHEMA_VERSION,
        "failure": failure,
        "tools": [described(tool) for tool in registry.all_tools()],
    }


def markdown() -> str:
    """Return the reference page of all tools."""
    lines = [
        "# Tools",
        "",
        "Written from the program by `make docs`; do not edit.",
        "",
        "Every tool is a subcommand, an exact tool name, and a name for `memvault call NAME JSON`.",
        "The options `--vault DIR`, `--agent NAME`, `--json` and `--quiet` go with each of them.",
        "",
        "On the command line the words of a query need no quotes. `-n`, `-t` and `-T` are",
        "`--limit`, `--type` and `--tags`. Every argument is an option too, under its name in any",
        "spelling, such as `--memoryType`. A text that is required and left out is what is piped",
        "in. Commands and groups may be typed in the plural or singular.",
        "",
    ]
    lines += _leniencies()
    for tool in registry.all_tools():
        lines += _section(tool)
        lines += ["```console", *(f"$ {line}" for line in tool.examples), "```", ""]
    return "\n".join(lines)


def _leniencies() -> list[str]:
    """Return the section on lenient argument parsing, from the table that the parser uses."""
    rows = [f"| {entry.taken} | {entry.meaning} |" for entry in LENIENCIES]
    return [
        "## What is taken beyond the schemas",
        "",
        "Keys may be written in any case, with or without `_` and `-`.",
        "Values that a schema does not allow are taken where they mean one thing only, inside",
        "objects too:",
        "",
        "| taken | as |",
        "|---|---|",
        *rows,
        "",
    ]


def _section(tool: Tool) -> list[str]:
    lines = [f"## `memvault {tool.command}` · `{tool.name}`", "", tool.doc, ""]
    parameters = tool.parameters
    if tool.shell_parameters != parameters:
        return [*lines, *_in_json(parameters), *_on_the_command_line(tool)]
    if parameters:
        lines += ["| argument | on the command line | type | |", "|---|---|---|---|"]
        for parameter in parameters:
            required = "Required" + (" in JSON" if parameter.arg.cli_optional else "")
            type_name, notes = _describe(parameter, required)
            lines.append(
                f"| `{parameter.key}` | `{_spelling(parameter)}` | {type_name} | {notes} |"
            )
        lines.append("")
    return lines


def _in_json(parameters: tuple[Parameter, ...]) -> list[str]:
    """Return the table of the arguments in JSON, including the keys of nested objects."""
    lines = ["| argument in JSON | type | |", "|---|---|---|"]
    for parameter in parameters:
        type_name, notes = _describe(parameter, "Required")
        lines.append(f"| `{parameter.key}` | {type_name} | {notes} |")
        for item in parameter.items:
            type_name, notes = _describe(item, "Required")
            lines.append(f"| `{parameter.key}[].{item.key}` | {type_name} | {notes} |")
    return [*lines, ""]


def _on_the_command_line(tool: Tool) -> list[str]:
    """Return the table of command-line arguments, where these differ from those in JSON."""
    lines = ["| on the command line | |", "|---|---|"]
    for parameter in tool.shell_parameters:
        _, notes = _describe(parameter, "Required")
        lines.append(f"| `{_spelling(parameter)}` | {notes} |")
    return [*lines, ""]


def _spelling(parameter: Parameter) -> str:
    return parameter.key.upper() if parameter.arg.positional else parameter.flag


def _describe(parameter: Parameter, required: str) -> tuple[str, str]:
    """Return the type and the description of a parameter."""
    entry = property_schema(parameter)
    type_name = entry["type"] if isinstance(entry["type"], str) else " or ".join(entry["type"])
    notes = [parameter.arg.help]
    if parameter.choices:
        notes.append("One of " + ", ".join(parameter.choices))
    if parameter.required:
        notes.append(required)
    if entry.get("default") not in (None, False, ""):
        notes.append(f"Default {entry['default']}")
    return type_name, ". ".join(notes).replace("|", "\\|")


def command_table() -> list[Command]:
    """Return the rows of ``memvault.command_table`` for all tools."""
    loaded = registry.load_all()
    headings: dict[str, str] = {}
    for group, _ in loaded:
        headings.setdefault(group.name, group.heading or group.name.capitalize())
    return [
        Command(
            tool.name,
            tool.command,
            tool.function.__module__.removeprefix("memvault."),
            tool.group,
            headings[tool.group],
            "core" * tool.core,
            tool.summary,
        )
        for _, tool in loaded
    ]
