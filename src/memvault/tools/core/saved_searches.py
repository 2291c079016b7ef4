"""Expand saved searches: the query ``@NAME`` is replaced by the search with its filters.

Further filters may follow the name: ``@blockers tag:work -draft``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memvault.errors import UsageError, did_you_mean
from memvault.named_tuple import NamedTuple
from memvault.recall import query_filters
from memvault.recall.filters import Filters
from memvault.settings.vault_settings import SEARCH_KEYS
from memvault.tools.core.registry import Tool, find

if TYPE_CHECKING:
    from memvault.arguments.parameters import Parameter

QUERY = "query"
_KINDS = ("search", QUERY)
"""Kinds of arguments that accept a saved search; a ``QUERY`` may also contain filters."""
SIGN = "@"
"""The prefix of a saved search's name in a query."""


class ExpandedArguments(NamedTuple):
    """A tool's bound arguments, and the saved search's filters without a matching argument.

    ``note`` reports a name that is close to a saved search's.
    """

    bound: dict[str, Any]
    within: Filters | None = None
    note: str = ""


def expanded(
    tool: Tool, bound: Mapping[str, Any], searches: Mapping[str, Mapping[str, Any]]
) -> ExpandedArguments:
    """Return bound arguments with the name of a saved search replaced by the search.

    Filters given by the caller replace the search's.

    Raises:
        UsageError: a value of the search is invalid, or it has no words and the tool requires some.
    """
    for parameter in tool.parameters:
        value = bound.get(parameter.name)
        if parameter.arg.completes in _KINDS and isinstance(value, str) and SIGN in value:
            name, others = value.strip(), ""
            if parameter.arg.completes == QUERY and name[:1] == SIGN:
                name, _, others = name.partition(" ")
            search = searches.get(name[1:]) if name[:1] == SIGN else None
            if search is not None and not query_filters.parse(others).words.strip():
                return _expanded(tool, {**bound, parameter.name: name}, parameter, search, others)
            near = did_you_mean(name[1:], searches) if name[:1] == SIGN and not search else ""
            if near:
                note = f"there is no saved search {name[1:]!r}{near}"
                return ExpandedArguments(dict(bound), note=note)
    return ExpandedArguments(dict(bound))


def words_of(line: str, searches: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the words in a query without its filters, replacing the name of a saved search."""
    name, _, others = line.strip().partition(" ")
    search = searches.get(name[1:]) if name[:1] == SIGN else None
    if search is not None and not query_filters.parse(others).words.strip():
        line = search.get(QUERY, "")
    return query_filters.parse(line).words.strip()


def _expanded(
    tool: Tool,
    bound: Mapping[str, Any],
    parameter: Parameter,
    search: Mapping[str, Any],
    added: str,
) -> ExpandedArguments:
    """Return the arguments with a search and the filters ``added`` after its name."""
    from memvault.tools.core.shared_args import filters

    keys = {entry.key for entry in tool.parameters}
    query, within = search.get("query", ""), None
    if parameter.arg.completes == QUERY:
        query = f"{query} {added}".strip()
    else:
        line = query_filters.parse(query)
        query, within = line.words, line.filters
    if not query and not keys >= SEARCH_KEYS:
        name = bound[parameter.name]
        raise UsageError(
            f"{name} has filters but no search words",
            f"run `memvault recall {name}` to list its memories",
        )
    search_arguments = {key: entry for key, entry in search.items() if key in keys - {"query"}}
    saved = tool.bind({**search_arguments, parameter.key: query})
    other_arguments = {name: entry for name, entry in bound.items() if name != parameter.name}
    others = {key: search[key] for key in search.keys() - keys - {"query"}}
    if not others:
        return ExpandedArguments({**saved, **other_arguments}, within)
    values = find("memory_recall").bind(others)
    names = ("memory_type", "tags", "since", "until", "expression")
    chosen = filters(*map(values.get, names))
    return ExpandedArguments({**saved, **other_arguments}, chosen.both(within or Filters()))
