"""Offer memories as MCP resources: list and read them, and complete arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault import sanitize
from memvault.call import Call
from memvault.errors import NotFound
from memvault.index.protocol import MemoryRecord
from memvault.mcp import prompts
from memvault.mcp.sdk_types import read_request, replace_surrogates

_MAX_VALUES = 100
"""The protocol's maximum number of values in a completion."""


def complete(call: Call, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Return completions for an argument of a prompt or a resource template.

    Values that contain a secret are left out.

    Raises:
        MCPError: there is no such prompt, template or argument.
    """
    ref, name, prefix = params.ref, params.argument.name, params.argument.value
    if isinstance(ref, types.PromptReference):
        is_known = prompts.has(ref.name, name)
    else:
        is_known = accepts_argument(ref.uri, name)
    if not is_known:
        raise MCPError(
            types.INVALID_PARAMS, f"There is no argument {replace_surrogates(name)!r} to complete"
        )
    with read_request(call):
        values = list(dict.fromkeys(_matches(call, name, prefix.strip().casefold())))
    short = [value for value in values if len(value) <= _MAX_LINE]
    visible = [value for value in short if call.settings.detector.masked(value) == value]
    return types.CompleteResult(
        completion=types.Completion(
            values=replace_surrogates(visible[:_MAX_VALUES]),
            total=len(visible),
            has_more=len(visible) > _MAX_VALUES,
        )
    )


def _matches(call: Call, name: str, prefix: str) -> Iterable[str]:
    """Return the values that start with the typed text, then the values that contain it.

    A memId also matches by its memory's title.
    """
    from memvault.recall.filters import Filters

    if name not in ("memId", "memoryType", "tag"):
        return []
    if name == "memId":
        offered = Filters(
            passes=lambda record: (
                record.mem_id.casefold().startswith(prefix) or prefix in record.title.casefold()
            )
        )
        mem_ids = dict.fromkeys(record.mem_id for record in call.engine.list_records(offered))
        return sorted(mem_ids, key=lambda mem_id: not mem_id.casefold().startswith(prefix))
    counts = call.engine.visit_records(
        lambda records: Counter(
            value
            for entry in records
            for value in ((entry.memory_type,) if name == "memoryType" else entry.tags)
        )
    )
    values = sorted(counts, key=lambda value: (-counts[value], value))
    if name == "memoryType":
        values += [entry.name for entry in call.settings.types]
    starting = [value for value in values if value.casefold().startswith(prefix)]
    return [*starting, *(value for value in values if prefix in value.casefold())]


MEMORY = "memvault://memory/"
TYPE = "memvault://type/"
TAG = "memvault://tag/"
_MARKDOWN = "text/markdown"
_PAGE_SIZE = 100
_MAX_LINE = 200
"""Maximum number of characters of a title or a description in a list."""
_TEMPLATES = (
    (MEMORY, "memId", "memory", "A memory", "The markdown file of a memory, by its memId"),
    (TYPE, "memoryType", "type", "Memories of a type", "The memories of a type, newest first"),
    (TAG, "tag", "tag", "Memories with a tag", "The memories that have a tag, newest first"),
)


def listed(call: Call, cursor: str | None) -> types.ListResourcesResult:
    """Return one page of the memories, in the order of their memIds.

    The cursor is the last memId of the previous page, so no memory is left out or repeated when
    others are added or removed. A memory whose memId contains a secret is left out, because its
    URI would reveal it.
    """
    from memvault.recall.filters import Filters

    with read_request(call):
        later = call.engine.visit_records(
            lambda records: {entry.mem_id for entry in records if entry.mem_id > (cursor or "")}
        )
        page = sorted(later)[:_PAGE_SIZE]
        wanted = frozenset(page)
        shown = Filters(passes=lambda record: record.mem_id in wanted)
        by_id = {record.mem_id: record for record in call.engine.list_records(shown)}
    masked = call.settings.detector.masked
    visible = [by_id[mem_id] for mem_id in page if mem_id in by_id and masked(mem_id) == mem_id]
    listing = [
        types.Resource(
            uri=uri_for(record.mem_id),
            name=replace_surrogates(record.mem_id),
            title=sanitize.shorten(replace_surrogates(masked(record.title)), _MAX_LINE),
            description=sanitize.shorten(
                replace_surrogates(masked(_description(record))), _MAX_LINE
            ),
            mime_type=_MARKDOWN,
            size=record.size,
        )
        for record in visible
    ]
    next_cursor = page[-1] if len(later) > len(page) else None
    return types.ListResourcesResult(resources=listing, next_cursor=next_cursor)


def _description(record: MemoryRecord) -> str:
    return " ".join([record.memory_type, *(f"#{tag}" for tag in record.tags)])


def templates() -> types.ListResourceTemplatesResult:
    """Return the URI templates of memories and of lists of memories."""
    listing = [
        types.ResourceTemplate(
            uri_template=f"{start}{{{argument}}}",
            name=name,
            title=title,
            description=description,
            mime_type=_MARKDOWN,
        )
        for start, argument, name, title, description in _TEMPLATES
    ]
    return types.ListResourceTemplatesResult(resource_templates=listing)


def read(call: Call, uri: str) -> types.ReadResourceResult:
    """Return a memory's file with its secrets masked, or the list of memories at a URI.

    Raises:
        MCPError: there is no such resource, or the resource cannot be read.
    """
    with read_request(call, uri):
        text = _read(call, uri)
    contents = types.TextResourceContents(
        uri=uri, mime_type=_MARKDOWN, text=replace_surrogates(text)
    )
    return types.ReadResourceResult(contents=[contents])


def _read(call: Call, uri: str) -> str:
    from memvault.recall.filters import Filters
    from memvault.vault import decoding

    start = next((entry for entry in (MEMORY, TYPE, TAG) if uri.startswith(entry)), None)
    if start is None:
        raise NotFound(f"{uri} is not a memory", f"use an address that begins with {MEMORY}")
    name = unquote(uri.removeprefix(start))
    if start == MEMORY:
        memory = call.engine.names.resolve(name)
        data, _ = call.reader.read_bytes(memory.path)
        text = decoding.decode(data, call.settings.encoding).text
        return call.settings.detector.masking(memory.metadata)(text)
    filters = Filters(memory_type=name) if start == TYPE else Filters(tags=(name,))
    records, total = call.engine.latest_records(_PAGE_SIZE, 0, filters) if name else ([], 0)
    if not records:
        raise NotFound(
            f"No memory has the {start.split('/')[-2]} {name!r}",
            "list the resources to see the memories",
        )
    masked = call.settings.detector.masked
    visible = [entry for entry in records if masked(entry.mem_id) == entry.mem_id]
    lines = [
        f"- [{sanitize.shorten(sanitize.escape_line(masked(entry.title)), _MAX_LINE)}]"
        f"({uri_for(entry.mem_id)})"
        for entry in visible
    ]
    omitted_count = total - _PAGE_SIZE
    return masked(
        "\n".join([*lines, *([f"- and {omitted_count:,} more"] if omitted_count > 0 else [])])
        + "\n"
    )


def uri_for(name: str, start: str = MEMORY) -> str:
    """Return the URI of a memory, or of the memories with a type or tag."""
    return start + quote(name, safe="")


def accepts_argument(template: str, argument: str) -> bool:
    """Return whether a resource template accepts an argument."""
    return any(
        (f"{start}{{{name}}}", name) == (template, argument) for start, name, *_ in _TEMPLATES
    )
