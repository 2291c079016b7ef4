"""Completion: the types, tags and memIds that may be meant by what was typed so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memvault.call import Call
from memvault.mcp import prompts, resources
from memvault.mcp.answers import read_request, replace_surrogates
from memvault.secrets_found import detect

_MOST = 100
"""Values that the protocol lets an answer hold."""


def complete(call: Call, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Complete an argument of a prompt, or of an address.

    Raises:
        MCPError: there is no such prompt, address or argument.
    """
    ref, name, typed = params.ref, params.argument.name, params.argument.value
    if isinstance(ref, types.PromptReference):
        known = prompts.has(ref.name, name)
    else:
        known = resources.accepts_argument(ref.uri, name)
    if not known:
        raise MCPError(
            types.INVALID_PARAMS, f"There is no argument {replace_surrogates(name)!r} to complete"
        )
    with read_request(call):
        found = list(dict.fromkeys(_matches(call, name, typed.strip().casefold())))
    told = [value for value in found if detect.masked(value) == value]
    return types.CompleteResult(
        completion=types.Completion(
            values=replace_surrogates(told[:_MOST]), total=len(told), has_more=len(told) > _MOST
        )
    )


def _matches(call: Call, name: str, typed: str) -> Iterable[str]:
    """Return the values that begin with what was typed, then those that hold it somewhere."""
    from memvault.recall.filters import Filters

    if name not in ("memId", "memoryType", "tag"):
        return []
    records = call.engine.list_records(Filters())
    if name == "memId":
        named = {entry.mem_id: entry.title for entry in records}
        begin = [key for key in named if key.casefold().startswith(typed)]
        return [*begin, *(key for key, title in named.items() if typed in title.casefold())]
    counts = Counter(
        value
        for entry in records
        for value in ((entry.memory_type,) if name == "memoryType" else entry.tags)
    )
    values = [value for value, _ in counts.most_common()]
    if name == "memoryType":
        values += [entry.name for entry in call.settings.types]
    begin = [value for value in values if value.casefold().startswith(typed)]
    return [*begin, *(value for value in values if typed in value.casefold())]
