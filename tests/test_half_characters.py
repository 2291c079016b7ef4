"""Half a character in an argument is kept, replaced or refused, and is never a bug."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from copies import Copy
from memvault.arguments.parameters import Parameter
from memvault.tools.core import registry
from memvault.tools.core.registry import Tool
from plain_arguments import plain_arguments
from tool_calls import call_of, over_mcp, printed, sayable, words

BYTE, HALF = "\udcff", "\ud800"
"""A byte that is no UTF-8, as a command line gives it; half of a pair, as JSON may."""
Place = tuple[str | int, ...]


def usual(parameter: Parameter) -> Any:
    """Return a value that fits a parameter."""
    if list in parameter.types:
        return [whole(parameter.items, {})] if parameter.items else ["x"]
    if dict in parameter.types:
        return {"x": "x"}
    if str in parameter.types:
        return parameter.choices[0] if parameter.choices else "x"
    return 1 if int in parameter.types or float in parameter.types else True


def whole(parameters: tuple[Parameter, ...], given: dict[str, Any]) -> dict[str, Any]:
    """Return the given arguments, and whatever else of texts can be given."""
    texts = (str, list, dict)
    more = [entry for entry in parameters if entry.required or set(texts) & set(entry.types)]
    return {
        **{entry.key: usual(entry) for entry in more},
        **plain_arguments(parameters, given, set()),
    }


def places(value: Any, way: Place = ()) -> Iterator[Place]:
    """Yield the way to every text in arguments, and to every object."""
    if isinstance(value, str | dict):
        yield way
    if isinstance(value, dict | list):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(entry, (*way, key))


def broken(value: Any, way: Place, half: str) -> Any:
    """Return arguments with half a character in the text, or as a key of the object, there."""
    if not way:
        return {**value, f"x{half}": "x"} if isinstance(value, dict) else f"{value}{half}"
    key, *rest = way
    if isinstance(value, list):
        return [broken(e, tuple(rest), half) if n == key else e for n, e in enumerate(value)]
    return {**value, key: broken(value[key], tuple(rest), half)}


def _part(value: Any, key: str | int) -> Any:
    return value[key]


def code(root: Path, *line: str) -> str:
    """Run a command line; return its error's code, or nothing."""
    return error(printed(root, *line))


def error(found: Any) -> str:
    """Return the code of a result's error, or nothing."""
    return str(found.get("error", {}).get("code", ""))


def test_half_a_character_is_no_bug(
    filled: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """In every text, list, object and key that a tool takes, by flags, JSON and MCP."""
    copy = Copy(filled, tmp_path / "copy")
    for tool in registry.all_tools():
        with subtests.test(tool=tool.name):
            copy.put_back()
            _halves_are_no_bug(tool, copy.root)


def _halves_are_no_bug(tool: Tool, root: Path) -> None:
    parameters = tool.parameters
    arguments = sayable(tool, whole(parameters, call_of(tool)))
    objects = [entry.key for entry in parameters if entry.types == (dict,)]
    for way in places(arguments):
        for half in (BYTE, HALF):
            bad = broken(arguments, way, half)
            where = f"{way} {half!r}"
            assert error(over_mcp(root, tool.name, bad, halves=True)) != "bug", where
            assert code(root, "call", tool.name, json.dumps(bad)) != "bug", where
        text = isinstance(reduce(_part, way, arguments), str)
        if text or (way and way[0] in objects):  # no flag is called as a key that is unknown
            assert code(root, *words(tool, broken(arguments, way, BYTE))) != "bug", f"{way} flags"


LINES = [
    ("list", "--agent", BYTE),
    ("inbox", "peek", "--agent", f"x{BYTE}"),
    ("call", BYTE),
    ("call", "memory_list", BYTE),
    (BYTE,),
    ("list", f"--{BYTE}"),
    ("tools", "trust", BYTE),
    ("tools", "untrust", BYTE),
    ("tools", "register", BYTE),
    ("list", "--vault", f"x{BYTE}"),
    ("remember", "x", f"@{BYTE}"),
]


def test_a_byte_that_is_no_text_is_no_bug(filled: Path, tmp_path: Path) -> None:
    """Wherever it stands on a command line, a byte that is no UTF-8 is kept or refused."""
    copy = Copy(filled, tmp_path / "copy")
    for line in LINES:
        copy.put_back()
        assert code(copy.root, *line) != "bug", line
