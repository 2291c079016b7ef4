"""Saved searches: a query ``@NAME`` stands for one, with its filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memvault.tools.core.registry import Tool

SIGN = "@"
"""What the name of a saved search begins with where it stands for a query."""


def expanded(
    tool: Tool, bound: Mapping[str, Any], searches: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return bound arguments with a saved search in place of its name.

    Filters of the search apply where the tool has them and the caller gave no other.

    Raises:
        UsageError: If a value of the search is invalid.
    """
    for parameter in tool.parameters:
        value = bound.get(parameter.name)
        if parameter.arg.names == "search" and isinstance(value, str) and value[:1] == SIGN:
            search = searches.get(value[1:].strip())
            if search is not None:
                keys = {entry.key for entry in tool.parameters}
                own = {key: entry for key, entry in search.items() if key in keys - {"query"}}
                saved = tool.bind({**own, parameter.key: search.get("query", "")})
                given = {name: entry for name, entry in bound.items() if name != parameter.name}
                return {**saved, **given}
    return dict(bound)
