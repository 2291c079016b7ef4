"""Convert tools, results and errors to the SDK's types."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault.call import Call
from memvault.errors import MemvaultError, NotFound
from memvault.mcp.profiles import ToolSelection
from memvault.settings.vault_settings import McpSettings
from memvault.tools.core import budget, invoke, messages, render

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def tools(call: Call, offer: ToolSelection) -> types.ListToolsResult:
    """Return the currently offered tools, with their schemas and annotations."""
    with read_request(call):
        definitions = offer.tools(call.workspace, call.caller)
    return types.ListToolsResult(tools=[types.Tool.model_validate(entry) for entry in definitions])


def result(call: Call, fields: Mapping[str, Any]) -> types.CallToolResult:
    """Return a tool's result as structured content and as a short text."""
    fields = replace_surrogates(fields)
    if "error" in fields and call.caller.has_token_budget:
        fields = budget.shortened(fields, _error_budget(call))
    return types.CallToolResult(
        content=[types.TextContent(text=render.text(fields))],
        structured_content=fields,
        is_error=fields.get("success") is not True and "error" in fields,
    )


def _error_budget(call: Call) -> int:
    """Return the budget of a failed result; the default if the settings cannot be read."""
    try:
        return call.settings.mcp.budget or McpSettings().budget
    except MemvaultError:
        return McpSettings().budget


def unknown_tool(error: MemvaultError) -> MCPError:
    """Return the protocol's error for an unknown tool."""
    return MCPError(
        types.INVALID_PARAMS,
        replace_surrogates(error.message),
        replace_surrogates({"hint": error.hint}),
    )


@contextlib.contextmanager
def read_request(call: Call, uri: str = "") -> Iterator[None]:
    """Hold the vault's lock for a request other than a tool call, and map errors.

    Raises:
        MCPError: something failed; the error's data contains the result and ``uri``, if given.
    """
    with call.workspace.lock:
        try:
            call.workspace.refresh_settings()
            yield
        except Exception as error:
            failed = invoke.failure(call.workspace, call.caller, error)
            code = types.INVALID_PARAMS if isinstance(failed, NotFound) else types.INTERNAL_ERROR
            content = messages.render_result(failed.result(), None, call.caller)
            data = {**content, **({"uri": uri} if uri else {})}
            raise MCPError(
                code, replace_surrogates(data["error"]["message"]), replace_surrogates(data)
            ) from error


def replace_surrogates(value: Any) -> Any:
    """Replace lone surrogates in a value with U+FFFD, because JSON messages cannot contain them."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {replace_surrogates(key): replace_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(entry) for entry in value]
    return value
