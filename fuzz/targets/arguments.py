"""Any JSON is bound or refused in one sentence, and valid arguments are always bound."""

from __future__ import annotations

import contextlib
import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from memvault.arguments.parameters import input_schema
from memvault.errors import UsageError
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from targets.shapes import first_line, text_of, value_of

JSON_TOKENS = tuple(
    '{|}|[|]|,|:|"|\\u0000|\\ud800|\\udc00|null|true|false|0|-1|1.0|1e400|1e5|NaN|Infinity|'
    "9223372036854775808|"
    '{"query": "zebra"}|"query"|"limit"|"tags"|"type"|"memId"|"filter"|"agent"|"data"|"since"|'
    '"threshold"|'
    '"asOf"|"mode"|"max_results"|"Query"|"last week"|"m1"|"a"|["a"]|{"a": 1}|é'.split("|")
)
KEYS = tuple(
    "query=tzebra\n|limit=i4\n|tags=ltx|memId=tm1\n|filter=tb == 1\n|since=tlast week\n|"
    "type=tkeyword\n|"
    "explain=b1\n|threshold=f0.5\n|plans=ldname~tx|data=dx~t1\n|agent=tbob\n|limit=n\n".split("|")
)
"""Argument lines for bytes that are not JSON."""
TOKENS = (
    *JSON_TOKENS,
    "memory_recall\n",
    "set_plans\n",
    "register_tool\n",
    "store_episode\n",
    *KEYS,
)


def check(data: bytes) -> None:
    """Bind the JSON to the arguments of the tool in the first line."""
    name, rest = first_line(data)
    tool = _tool(name)
    given = object_of(rest)
    try:
        bound = tool.bind(given)
    except UsageError as error:
        assert len(error.message) < 1_500
        assert not _allowed(tool, given), error.message
        return
    declared = {parameter.name for parameter in tool.parameters}
    assert bound.keys() <= declared
    keys = {parameter.name: parameter.key for parameter in tool.parameters}
    assert tool.bind({keys[key]: value for key, value in bound.items()}) == bound


def object_of(data: bytes) -> dict[str, Any]:
    """Return the bytes parsed as a JSON object, or an object with a key for each line."""
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(given := json.loads(data), dict):
            return given
    lines = (line.partition("=") for line in text_of(data).split("\n") if line)
    return {key: value_of(told) for key, _, told in lines}


def _tool(name: str) -> Tool:
    """Return the tool with a name, or deterministically any other."""
    tools = _tools()
    return tools.get(name) or list(tools.values())[sum(map(ord, name)) % len(tools)]


@cache
def _tools() -> dict[str, Tool]:
    return {tool.name: tool for tool in registry.all_tools()}


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(input_schema(_tools()[name].parameters))


def _allowed(tool: Tool, given: dict[str, Any]) -> bool:
    return bool(_validator(tool.name).is_valid(given))
