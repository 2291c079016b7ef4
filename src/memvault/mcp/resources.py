"""Memories as resources: their list, their addresses, and what an address holds."""

from __future__ import annotations

from urllib.parse import quote, unquote

import mcp_types as types

from memvault import visible
from memvault.call import Call
from memvault.errors import NotFound
from memvault.index.protocol import MemoryRecord
from memvault.mcp import masks
from memvault.mcp.answers import read_request, replace_surrogates
from memvault.secrets_found import detect

MEMORY = "memvault://memory/"
TYPE = "memvault://type/"
TAG = "memvault://tag/"
_MARKDOWN = "text/markdown"
_PAGE = 100
_TEMPLATES = (
    (MEMORY, "memId", "memory", "A memory", "The markdown file of a memory, by its memId"),
    (TYPE, "memoryType", "type", "Memories of a type", "The memories of a type, newest first"),
    (TAG, "tag", "tag", "Memories with a tag", "The memories that have a tag, newest first"),
)


def listed(call: Call, cursor: str | None) -> types.ListResourcesResult:
    """List the memories in the order of their memIds, a page at a time.

    The cursor is the last memId of a page, so that no memory is left out or
    told twice where others come and go meanwhile. One whose memId holds a secret
    has no address that could be told.
    """
    from memvault.recall.filters import Filters

    with read_request(call):
        records = call.engine.list_records(Filters())
    named = {record.mem_id: record for record in records if record.mem_id > (cursor or "")}
    page = [named[mem_id] for mem_id in sorted(named)[:_PAGE]]
    told = [record for record in page if detect.masked(record.mem_id) == record.mem_id]
    found = [
        types.Resource(
            uri=uri_for(record.mem_id),
            name=replace_surrogates(record.mem_id),
            title=replace_surrogates(detect.masked(record.title)),
            description=replace_surrogates(_described(record)),
            mime_type=_MARKDOWN,
        )
        for record in told
    ]
    more = page[-1].mem_id if len(named) > len(page) else None
    return types.ListResourcesResult(resources=found, next_cursor=more)


def _described(record: MemoryRecord) -> str:
    return detect.masked(" ".join([record.memory_type, *(f"#{tag}" for tag in record.tags)]))


def templates() -> types.ListResourceTemplatesResult:
    """Say how the address of a memory is made, and of the lists of memories."""
    found = [
        types.ResourceTemplate(
            uri_template=f"{start}{{{argument}}}",
            name=name,
            title=title,
            description=description,
            mime_type=_MARKDOWN,
        )
        for start, argument, name, title, description in _TEMPLATES
    ]
    return types.ListResourceTemplatesResult(resource_templates=found)


def read(call: Call, uri: str) -> types.ReadResourceResult:
    """Give a memory's file as it is but for secrets, or the list that an address means.

    Raises:
        MCPError: there is no such resource, or it cannot be read.
    """
    with read_request(call, uri):
        text = _read(call, uri)
    contents = types.TextResourceContents(
        uri=uri, mime_type=_MARKDOWN, text=replace_surrogates(text)
    )
    return types.ReadResourceResult(contents=[contents])


def _read(call: Call, uri: str) -> str:
    from memvault.recall.filters import Filters
    from memvault.vault import codec

    start = next((entry for entry in (MEMORY, TYPE, TAG) if uri.startswith(entry)), None)
    if start is None:
        raise NotFound(f"{uri} is not a memory", f"addresses begin with {MEMORY}")
    name = unquote(uri.removeprefix(start))
    if start == MEMORY:
        memory = call.engine.resolve(name)
        data, _ = call.store.read_bytes(memory.path)
        return masks.masked_file(memory, codec.decode(data).text)
    filters = Filters(memory_type=name) if start == TYPE else Filters(tags=(name,))
    found = call.engine.list_records(filters) if name else []
    if not found:
        raise NotFound(f"No memory has the {start.split('/')[-2]} {name!r}", "list the memories")
    told = [entry for entry in found[:_PAGE] if detect.masked(entry.mem_id) == entry.mem_id]
    lines = [f"- [{visible.escape_line(entry.title)}]({uri_for(entry.mem_id)})" for entry in told]
    more = len(found) - _PAGE
    return detect.masked(
        "\n".join([*lines, *([f"- and {more:,} more"] if more > 0 else [])]) + "\n"
    )


def uri_for(name: str, start: str = MEMORY) -> str:
    """Return the address of a memory, or of the list of a type or tag."""
    return start + quote(name, safe="")


def accepts_argument(template: str, argument: str) -> bool:
    """Say whether the template of an address has an argument."""
    return any(
        (f"{start}{{{name}}}", name) == (template, argument) for start, name, *_ in _TEMPLATES
    )
