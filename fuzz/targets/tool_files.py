"""Any file in a tools folder is a tool that reads back equal, or is reported as invalid."""

from __future__ import annotations

import json

from memvault.arguments import parameters
from memvault.errors import UsageError
from memvault.tools.core import registry
from memvault.vault import document
from memvault.vault_tools import tool_files
from memvault.vault_tools.definition import ToolDefinition, tool_definition
from targets.shapes import HEADER_TOKENS, file_in, folder

TOKENS = (
    *HEADER_TOKENS,
    "name: word_count\n",
    "description: Counts\n",
    "command: [python3, a.py]\n",
    "parameters:\n  - {name: path, type: string, description: Path}\n",
    "parameters: [{name: n, type: integer, default: 1, enum: [1, 2]}]\n",
    "type: array",
    "required: false",
    "timeout: 5\n",
    '{"name": "a", "description": "b", "command": "python3 a.py"}',
)


def check(data: bytes) -> None:
    """Read a tool file that contains the bytes, and register a tool with them."""
    file_in("tools/word_count.md")(data)
    found = tool_files.read_all(folder())
    assert len(found.tools) + len(found.broken) <= 1
    for kept in found.tools.values():
        definition = kept.definition
        given = parameters.input_schema(definition.parameters)
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
        again = document.encode_new(_header(definition), kept.text)
        file_in("tools/word_count.md")(again)
        (same,) = tool_files.read_all(folder()).tools.values()
        assert same.definition == definition
        assert same.text == kept.text
    try:
        bound = registry.find("register_tool").bind(tool_files.arguments(data))
        tool_definition(**{name: value for name, value in bound.items() if name != "documentation"})
    except UsageError as error:
        assert error.hint


def _header(definition: ToolDefinition) -> dict[str, object]:
    return {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.entries,
        "command": list(definition.command),
        "timeout": definition.timeout,
    }
