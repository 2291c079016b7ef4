"""A tool takes what its schema says, and nothing else but what ``test_leniency`` has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from memvault.arguments import parameters
from memvault.arguments.binding import NO_MATCH, coerce
from memvault.errors import UsageError
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from plain_arguments import exactly, named, try_tools

JSON: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20),
    "integer": st.integers(-(2**70), 2**70),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    "boolean": st.booleans(),
    "array": st.lists(st.text(max_size=5), max_size=3),
    "object": st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
}


def _kinds(entry: dict[str, Any]) -> list[str]:
    return [entry["type"]] if isinstance(entry["type"], str) else list(entry["type"])


def _fitting(entry: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a property of a schema allows."""
    if "enum" in entry:
        return st.sampled_from(entry["enum"])
    if entry.get("items", {}).get("type") == "object":
        return st.lists(_object(entry["items"]), max_size=2)
    least, most = entry.get("minimum"), entry.get("maximum")
    number = st.floats(least, most, allow_nan=False, allow_infinity=False)
    whole = st.integers(least, most)
    exact = st.integers(max(least or 0, -(2**53)), min(most or 2**53, 2**53)).map(float)
    bounded = {"integer": whole | exact, "number": number}
    return st.one_of(*(bounded.get(kind, JSON[kind]) for kind in _kinds(entry)))


def _object(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that a schema allows."""
    fitting = {key: _fitting(entry) for key, entry in whole["properties"].items()}
    must = {key: fitting.pop(key) for key in whole["required"]}
    return st.fixed_dictionaries(must, optional=fitting)


def _arguments(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    return _object(parameters.input_schema(tool.parameters))


def test_a_tool_takes_what_its_schema_says(subtests: pytest.Subtests) -> None:
    """Arguments that fit a tool's schema are taken as they are, however their keys are spelled."""

    def takes(tool: Tool, data: st.DataObject) -> None:
        given_values = data.draw(_arguments(tool))
        expected = exactly(named(tool.parameters, given_values))
        assert exactly(tool.bind(given_values)) == expected
        for spell in (str.upper, str.lower, "_".join, "-{}_".format, parameters.kebab):
            respelled = {spell(key): value for key, value in given_values.items()}
            assert exactly(tool.bind(respelled)) == expected

    try_tools(subtests, registry.all_tools(), 60, takes)


def _wrong(draw: Any, entry: dict[str, Any]) -> Iterator[object]:
    """Yield values that a property of a schema does not allow."""
    kinds = set(_kinds(entry))
    numeric = kinds & {"integer", "number"}
    for kind in JSON.keys() - kinds - ({"integer", "number"} if numeric else set()):
        yield draw(JSON[kind])
    if numeric:
        yield from (float("nan"), float("inf"), -float("inf"))
    if kinds == {"integer"}:
        yield 1.5
    if "array" in kinds:
        yield ["x", 1.5]
    if "enum" in entry:
        yield "nothing of the kind"
    if "minimum" in entry:
        yield entry["minimum"] - 1
    if "maximum" in entry:
        yield entry["maximum"] + 1


def test_a_tool_refuses_what_its_schema_does_not_say(subtests: pytest.Subtests) -> None:
    """A wrong type, a number out of range, an unknown, missing or doubled key is a usage error."""

    def refuses(tool: Tool, data: st.DataObject) -> None:
        fitting = data.draw(_arguments(tool))
        whole = parameters.input_schema(tool.parameters)
        wrong: list[dict[str, Any]] = [{**fitting, "noSuchKey": 1}]
        wrong += ({**fitting, f"{key}_": value} for key, value in fitting.items())
        wrong += ({k: v for k, v in fitting.items() if k != key} for key in whole["required"])
        wrong += ({**fitting, key: None} for key in whole["required"])
        for parameter in tool.parameters:
            values = _wrong(data.draw, whole["properties"][parameter.key])
            unread = (value for value in values if coerce(parameter, value) is NO_MATCH)
            wrong += ({**fitting, parameter.key: value} for value in unread)
        for arguments in wrong:
            with pytest.raises(UsageError):
                tool.bind(arguments)

    try_tools(subtests, registry.all_tools(), 15, refuses)


@pytest.mark.parametrize("digits", [400, 5_000])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_absurd_number_is_a_usage_error(digits: int, sign: int) -> None:
    """However large a number is, a tool takes it or says in a sentence why not."""
    for key in ("threshold", "query", "limit")[: 2 if sign > 0 else 3]:
        with pytest.raises(UsageError):
            registry.find("memory_recall").bind({key: sign * 10**digits})
