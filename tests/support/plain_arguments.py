"""A reference implementation of lenient argument parsing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conftest import examples
from memvault.arguments.binding import COERCIONS, NO_MATCH, Coercion
from memvault.arguments.parameters import Parameter, normal_key, property_schema
from memvault.errors import UsageError
from memvault.tools.core.registry import Tool


def plain_arguments(
    expected: Iterable[Parameter], sent: Mapping[str, Any], used: set[Coercion], more: bool = False
) -> dict[str, Any]:
    """Return arguments in schema form, using the table of lenient forms.

    ``used`` collects the applied entries of the table.
    """
    parameters = list(expected)
    known = {normal_key(parameter.key): parameter for parameter in parameters}
    if not more:
        other = [(name, entry) for entry in parameters for name in entry.arg.json_aliases]
        known = {**{normal_key(name): entry for name, entry in reversed(other)}, **known}
    found: dict[str, Any] = {}
    for key, value in sent.items():
        parameter = known.get(key if more else normal_key(key))
        if parameter is None:
            found[key] = value
            continue
        meant = _meant(parameter, value, used)
        if meant is not None:  # A duplicate argument is as invalid as an unknown key.
            found[f"{key} again" if parameter.key in found else parameter.key] = meant
    return found


def _meant(parameter: Parameter, value: Any, used: set[Coercion]) -> Any:
    """Return one argument in schema form, or unchanged if the table has no entry."""
    shallow = property_schema(parameter)
    if parameter.items:
        shallow = {**shallow, "items": {"type": "object"}}
    while not Draft202012Validator(shallow).is_valid(value):
        read = ((entry, entry.convert(parameter, value)) for entry in COERCIONS)
        try:
            entry, value_read = next(pair for pair in read if pair[1] is not NO_MATCH)
        except (StopIteration, UsageError):  # No form applies, or the text is invalid.
            return value
        used.add(entry)
        value = value_read
        if value is None:
            return None
    if parameter.items and isinstance(value, list):
        more = parameter.arg.extra_keys
        return [plain_arguments(parameter.items, entry, used, more) for entry in value]
    return value


def named(expected: Iterable[Parameter], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a function receives for arguments in schema form."""
    known = {parameter.key: parameter for parameter in expected}
    return {
        known[key].name if key in known else key: _got(known[key], value) if key in known else value
        for key, value in plain.items()
    }


def _got(parameter: Parameter, value: Any) -> Any:
    """Return one argument, converting whole numbers and synonyms."""
    if parameter.items and isinstance(value, list):
        return [named(parameter.items, entry) for entry in value]
    if isinstance(value, str):
        return parameter.arg.synonyms.get(value.strip().lower(), value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if int in parameter.types and value == int(value):
        return int(value)
    return float(value) if float in parameter.types else value


def exactly(value: Any) -> Any:
    """Return a value with the type of each part, since 3 == 3.0 and 1 == True in Python."""
    if isinstance(value, Mapping):
        return {key: exactly(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [exactly(entry) for entry in value]
    return type(value), value


def shape(parameters: Iterable[Parameter]) -> tuple[Any, ...]:
    """Return everything that affects binding, so no names and no help."""
    return tuple(
        (
            *(entry.types, entry.choices, entry.required, entry.anything, shape(entry.items)),
            *(
                entry.arg.minimum,
                entry.arg.maximum,
                entry.arg.extra_keys,
                len(entry.entries("a,b")),
            ),
        )
        for entry in parameters
    )


def try_tools(
    subtests: pytest.Subtests,
    tools: Iterable[Tool],
    number: int,
    check: Callable[[Tool, st.DataObject], None],
) -> None:
    """Check a property of each tool with examples.

    Fewer examples are used if another tool has equal parameters.
    """
    known = set()
    for tool in tools:
        new = shape(tool.parameters) not in known
        known.add(shape(tool.parameters))
        with subtests.test(tool=tool.name):
            try_tool(tool, examples(number if new else 2), check)


def try_tool(tool: Tool, most: int, check: Callable[[Tool, st.DataObject], None]) -> None:
    """Check a property of one tool with a number of examples."""

    @settings(max_examples=most)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        check(tool, data)

    holds()
