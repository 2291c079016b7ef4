"""Generate the reference of all tools as a markdown page and as a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from memvault.arguments.binding import COERCIONS
from memvault.arguments.parameters import Parameter, input_schema, property_schema
from memvault.arguments.result_schema import result_schema
from memvault.command_table import Command
from memvault.tools.core import messages, registry
from memvault.tools.core.registry import Tool
from memvault.tools.core.result_parts import without_none

if TYPE_CHECKING:
    from memvault.results import ToolEntry

_SHARED_KEYS = ("success", "warnings", "vault")
"""The keys that any result may have, described at the beginning of the reference."""
SCHEMA_VERSION = 3
"""Version of the schema; incremented if a key or tool is renamed or removed, not if added."""


def described(tool: Tool) -> ToolEntry:
    """Return a tool as listed over MCP: name, description, schemas and annotations.

    Descriptions mention tools and arguments instead of commands and options. A vault's own tool has
    its own description and no result schema.
    """
    worded = str if tool.own_parameters is not None else partial(messages.describe, name=tool.name)
    result_type = tool.result_type
    output = {} if result_type is None else {"outputSchema": result_schema(result_type)}
    return {
        "name": tool.name,
        "title": tool.title,
        "description": worded(tool.doc),
        "inputSchema": _worded_schema(input_schema(tool.parameters), worded),
        **without_none(**output),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        },
    }


def _worded_schema(schema: Mapping[str, Any], worded: Callable[[str], str]) -> dict[str, Any]:
    """Return a schema with a function applied to its descriptions."""
    changed = dict(schema)
    for key, entry in schema.items():
        if isinstance(entry, Mapping):
            changed[key] = _worded_schema(entry, worded)
        elif key == "description":
            changed[key] = worded(entry)
    return changed


def schema_document() -> dict[str, Any]:
    """Return the schemas of all tools, the common error result and ``call_tool``'s error result."""
    text = {"type": "string"}
    error = {
        "type": "object",
        "properties": {"code": text, "message": text, "hint": text},
        "required": ["code", "message"],
    }
    failed = {"success": {"const": False}}
    return {
        "version": SCHEMA_VERSION,
        "failure": {
            "type": "object",
            "properties": {**failed, "error": error},
            "required": ["success", "error"],
        },
        "callToolFailure": {
            "type": "object",
            "properties": {**failed, "error": text, "code": text, "hint": text},
            "required": ["success", "error", "code"],
        },
        "tools": [described(tool) for tool in registry.all_tools()],
    }


class ShellForm(Protocol):
    """A command: the parameters and the examples of a tool in a shell."""

    @property
    def shell_parameters(self) -> tuple[Parameter, ...]:
        """The command's parameters."""

    @property
    def examples(self) -> tuple[str, ...]:
        """The example command lines shown in the help."""


def markdown(find_command: Callable[[str], ShellForm | None] = registry.lookup) -> str:
    """Return the reference page of all tools.

    ``find_command`` returns the command with the given words, which may replace the tool's own.
    """
    lines = [
        "# Tools",
        "",
        "Generated from the program by `make docs`; do not edit.",
        "",
        "Every tool is a subcommand, an exact tool name, and a name for `memvault call NAME JSON`.",
        "The options `--vault DIR`, `--agent NAME`, `--json` and `--quiet` apply to all of them.",
        "",
        "On the command line, a query needs no quotes. `-n`, `-t` and `-T` are",
        "`--limit`, `--type` and `--tags`. Every argument can also be passed as an option;",
        "case, `-` and `_` in its name are ignored, so `--memory-type` and `--memoryType` both",
        "work. Required content that is omitted is read from a pipe. Commands and groups may be",
        "typed in the plural or singular.",
        "",
        "A result has `success`, the keys listed for its tool (those with `?` are optional),",
        "and optionally `warnings`, a list of strings, and `vault`, the vault's name if",
        "a memory was specified as `NAME:MEMORY`. A failure has `success: false` and `error` with",
        "`code`, `message` and `hint`; for `call_tool`, `error` is the message, with `code` and",
        "`hint` next to it. [The schema](tools.schema.json) describes them.",
        "",
    ]
    lines += _coercions()
    for tool in registry.all_tools():
        command = find_command(tool.command) or tool
        lines += [*_section(tool, command), *_result_table(tool)]
        lines += ["```console", *(f"$ {line}" for line in command.examples), "```", ""]
    return "\n".join(lines)


def _coercions() -> list[str]:
    """Return the section about lenient argument parsing, generated from the parser's table."""
    rows = [f"| {entry.accepts} | {entry.becomes} |" for entry in COERCIONS]
    return [
        "## Accepted beyond the schemas",
        "",
        "Keys are case-insensitive and may be written with or without `_` and `-`. An argument is",
        "also accepted under the other names in its row, unless the tool has an argument of that",
        "name. Values that a schema does not allow are accepted if they are unambiguous, inside",
        "objects too:",
        "",
        "| accepted | as |",
        "|---|---|",
        *rows,
        "",
    ]


def _section(tool: Tool, command: ShellForm) -> list[str]:
    lines = [f"## `memvault {tool.command}` · `{tool.name}`", "", tool.doc, ""]
    parameters = tool.parameters
    if command.shell_parameters not in (parameters, (*parameters, registry.OPEN)):
        return [*lines, *_in_json(parameters), *_on_the_command_line(command)]
    if parameters:
        lines += ["| argument | on the command line | type | |", "|---|---|---|---|"]
        for parameter in parameters:
            required = "Required" + (" in JSON" if parameter.arg.cli_optional else "")
            type_name, notes = _describe(parameter, required)
            lines.append(
                f"| `{parameter.key}` | `{_spelling(parameter)}` | {type_name} | {notes} |"
            )
        if tool.openable_list:
            lines.append(f"| | `{registry.OPEN.flag}` | | {registry.OPEN.arg.help} |")
        lines.append("")
    return lines


def _result_table(tool: Tool) -> list[str]:
    """Return the table of a tool's result keys, except those common to all results."""
    schema = result_schema(tool.result_type)
    rows = [
        f"| `{key}{_optional(key, schema)}` | {_type_in_words(entry)} |"
        for key, entry in schema["properties"].items()
        if key not in _SHARED_KEYS or key in schema["required"][1:]
    ]
    return ["| result | |", "|---|---|", *rows, ""] if rows else []


def _optional(key: str, schema: Mapping[str, Any]) -> str:
    return "" if key in schema.get("required", ()) else "?"


def _type_in_words(schema: Mapping[str, Any]) -> str:
    """Return a type as text; an object is the list of its keys."""
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(map(_type_in_words, schema["anyOf"]))
    if schema["type"] == "array":
        return f"array of {_type_in_words(schema['items'])}"
    if "properties" in schema:
        keys = (f"{key}{_optional(key, schema)}" for key in schema["properties"])
        return f"`{{{', '.join(keys)}}}`"
    return str(schema["type"])


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


def _on_the_command_line(command: ShellForm) -> list[str]:
    """Return the table of command-line arguments that differ from the JSON arguments."""
    lines = ["| on the command line | |", "|---|---|"]
    for parameter in command.shell_parameters:
        _, notes = _describe(parameter, "Required")
        lines.append(f"| `{_spelling(parameter)}` | {notes} |")
    return [*lines, ""]


def _spelling(parameter: Parameter) -> str:
    return parameter.metavar if parameter.arg.positional else parameter.flag


def _describe(parameter: Parameter, required: str) -> tuple[str, str]:
    """Return the type and the description of a parameter."""
    entry = property_schema(parameter)
    type_name = entry["type"] if isinstance(entry["type"], str) else " or ".join(entry["type"])
    notes = [parameter.arg.help]
    if parameter.choices:
        notes.append("One of " + ", ".join(parameter.choices))
    aliases = [f"`{alias}`" for alias in parameter.arg.json_aliases if alias != parameter.key]
    if aliases:
        notes.append(f"Also accepted as {', '.join(aliases)}")
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
            "core" * (tool.core_args is not None),
            tool.summary,
        )
        for _, tool in loaded
    ]
