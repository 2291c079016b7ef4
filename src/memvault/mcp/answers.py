"""What the server answers: tools, results and memories in the SDK's types."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault import visible
from memvault.call import Call
from memvault.errors import MemvaultError, NotFound, as_error
from memvault.index.protocol import Record
from memvault.mcp import masks
from memvault.secrets_found import detect
from memvault.tools.core import available, reference
from memvault.upkeep import paths

SCHEME = "memvault://memory/"
_MARKDOWN = "text/markdown"
_PAGE = 100
_LONE = re.compile("[\ud800-\udfff]")


def tools(call: Call) -> types.ListToolsResult:
    """List the tools that may run in the vault now, with their schemas and annotations."""
    with _looking(call):
        found = [reference.described(tool) for tool in available.offered_in(call)]
    return types.ListToolsResult(tools=[types.Tool.model_validate(entry) for entry in found])


def result(call: Call, found: Mapping[str, Any]) -> types.CallToolResult:
    """Give a tool's result as structured content, and the same as text."""
    found = masks.masked(call, _without_paths(call, found))
    return types.CallToolResult(
        content=[types.TextContent(text=visible.as_json(found))],
        structured_content=_whole(found),
        is_error=found.get("success") is not True and "error" in found,
    )


def _without_paths(call: Call, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without this machine's paths in what the program says beside it."""
    out = dict(found)
    if "warnings" in found:
        out["warnings"] = [paths.without_paths(call, entry) for entry in found["warnings"]]
    if isinstance(found.get("error"), Mapping):
        entries = found["error"].items()
        out["error"] = {key: paths.without_paths(call, str(entry)) for key, entry in entries}
    return out


def resources(call: Call, cursor: str | None) -> types.ListResourcesResult:
    """List the memories in the order of their memIds, a page at a time.

    The cursor is the last memId of a page, so that no memory is left out or
    told twice where others come and go meanwhile. One whose memId holds a secret
    has no address that could be told.
    """
    from memvault.recall.filters import Filters

    with _looking(call):
        records = call.engine.listed(Filters())
    named = {record.mem_id: record for record in records if record.mem_id > (cursor or "")}
    page = [named[mem_id] for mem_id in sorted(named)[:_PAGE]]
    told = [record for record in page if detect.masked(record.mem_id) == record.mem_id]
    found = [
        types.Resource(
            uri=SCHEME + quote(record.mem_id, safe=""),
            name=_whole(record.mem_id),
            title=_whole(detect.masked(record.title)),
            description=_whole(_described(record)),
            mime_type=_MARKDOWN,
        )
        for record in told
    ]
    more = page[-1].mem_id if len(named) > len(page) else None
    return types.ListResourcesResult(resources=found, next_cursor=more)


def _described(record: Record) -> str:
    return detect.masked(" ".join([record.memory_type, *(f"#{tag}" for tag in record.tags)]))


def resource_templates() -> types.ListResourceTemplatesResult:
    """Say how a memory's address is made."""
    template = types.ResourceTemplate(
        uri_template=f"{SCHEME}{{memId}}",
        name="memory",
        title="A memory",
        description="The markdown file of a memory, by its memId",
        mime_type=_MARKDOWN,
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


def read_memory(call: Call, uri: str) -> types.ReadResourceResult:
    """Give a memory's file as it is, but for secrets.

    Raises:
        MCPError: there is no such memory, or it cannot be read.
    """
    from memvault.vault import codec

    with _looking(call, uri):
        if not uri.startswith(SCHEME):
            raise NotFound(f"{uri} is not a memory", f"addresses begin with {SCHEME}")
        memory = call.engine.resolve(unquote(uri.removeprefix(SCHEME)))
        data, _ = call.store.read_bytes(memory.path)
    text = _whole(masks.masked_file(memory, codec.decode(data).text))
    contents = types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=text)
    return types.ReadResourceResult(contents=[contents])


def unknown_tool(error: MemvaultError) -> MCPError:
    """Return the protocol's error for a tool that there is not."""
    return MCPError(types.INVALID_PARAMS, _whole(error.message), _whole({"hint": error.hint}))


@contextlib.contextmanager
def _looking(call: Call, uri: str = "") -> Iterator[None]:
    """Look at the vault for a request that is no call of a tool.

    Raises:
        MCPError: something failed.
    """
    call.only_reads = True
    with call.workspace.lock:
        try:
            call.workspace.look()
            yield
        except Exception as error:
            mapped = as_error(error)
            missing = isinstance(mapped, NotFound)
            code = types.INVALID_PARAMS if missing else types.INTERNAL_ERROR
            told = masks.masked(call, _without_paths(call, mapped.result()))
            data = {**told, **({"uri": uri} if uri else {})}
            raise MCPError(code, _whole(data["error"]["message"]), _whole(data)) from error


def _whole(value: Any) -> Any:
    """Return a value without lone surrogates, which no message can hold."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {_whole(key): _whole(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(entry) for entry in value]
    return value
