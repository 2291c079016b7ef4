"""The reference, written from the program: a page for people, a schema for machines."""

from __future__ import annotations

from typing import Any

from memvault.tools import registry, schema
from memvault.tools.registry import Tool

__all__ = ["SCHEMA_VERSION", "described", "markdown", "schema_document"]

SCHEMA_VERSION = 1
"""Raised when a key or tool is renamed or goes; new ones do not raise it."""


def described(tool: Tool) -> dict[str, Any]:
    """Return a tool as an MCP client lists it: name, description, input schema."""
    return {
        "name": tool.name,
        "description": tool.doc,
        "inputSchema": schema.input_schema(tool),
        "annotations": {
            "readOnlyHint": tool.read_only,
            "destructiveHint": tool.destructive,
        },
    }


def schema_document() -> dict[str, Any]:
    """Return every tool's schema, with the shape of failures that all of them share."""
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
    ]
    for tool in registry.all_tools():
        lines += _section(tool)
    return "\n".join(lines)


def _section(tool: Tool) -> list[str]:
    lines = [f"## `memvault {tool.command}` · `{tool.name}`", "", tool.doc, ""]
    parameters = schema.parameters(tool)
    if parameters:
        lines += ["| argument | on the command line | type | |", "|---|---|---|---|"]
    for parameter in parameters:
        entry = schema.input_schema(tool)["properties"][parameter.key]
        line = parameter.key.upper() if parameter.arg.positional else parameter.flag
        kind = entry["type"] if isinstance(entry["type"], str) else " or ".join(entry["type"])
        notes = [parameter.arg.help]
        if parameter.choices:
            notes.append("One of " + ", ".join(parameter.choices))
        if parameter.required:
            notes.append("Required" + (" in JSON" if parameter.arg.cli_optional else ""))
        if entry.get("default") not in (None, False, ""):
            notes.append(f"Default {entry['default']}")
        shown = ". ".join(notes).replace("|", "\\|")
        lines.append(f"| `{parameter.key}` | `{line}` | {kind} | {shown} |")
    return [*lines, ""] if parameters else lines
