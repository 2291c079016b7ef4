"""A tool is the same by flags, as JSON and over MCP, and its schema says what it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jsonschema import Draft202012Validator

from conftest import examples
from copies import Copy
from memvault.arguments.binding import Leniency
from memvault.arguments.parameters import Arg, Parameter, bounds, input_schema
from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core import reference, registry
from memvault.tools.core.registry import Tool
from plain_arguments import exactly, named, plain_arguments, try_tool, try_tools
from tool_calls import normal, over_mcp, printed, sayable, words

TOOLS = registry.all_tools()

WORDS = ["zebra", "Alpha", "beta.md", "m2", "k", "main", "bob", "team", "7d", "2 hours", "b == 1"]
WORDS += ["life.dig.deep", "life.dig", "life", "wood", "memory_list_types", "m3"]
WORDS += ["builtin", "0 9 * * *", "a=b", "ä", "x, y", "-x y", "--all", "@@", "", " "]
TEXTS = st.sampled_from(WORDS) | st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=6
)
PLAIN = st.sampled_from(["zebra", "Alpha", "m2", "m3", "k", "g", "p", "x", "life.dig.deep"])
"""Texts that mean one thing in a list on a command line, where commas part them."""
NUMBERS: SearchStrategy[Any] = st.integers(-2, 12) | st.floats(-1, 2, width=16)


def drawn(parameter: Parameter) -> SearchStrategy[Any]:
    """Draw a value that fits a parameter, and that flags can give too."""
    kinds: list[SearchStrategy[Any]] = []
    for kind in parameter.types:
        if parameter.choices:
            kinds.append(st.sampled_from(parameter.choices))
        elif parameter.items:  # a command sets one
            kinds.append(st.lists(objects(parameter.items), min_size=1, max_size=1))
        elif kind is str:
            kinds.append(TEXTS.filter(lambda text: text != "-" and not text.startswith("@")))
        elif kind is list:
            kinds.append(st.lists(PLAIN, min_size=1, max_size=3))
        elif kind is bool:
            kinds.append(st.booleans())
        elif kind is dict:
            kinds.append(st.dictionaries(PLAIN, PLAIN | NUMBERS | st.booleans(), min_size=1))
        else:
            least = parameter.arg.minimum if parameter.arg.minimum is not None else -2
            most = parameter.arg.maximum if parameter.arg.maximum is not None else 12
            whole = st.integers(int(least), int(min(most, 12)))
            kinds.append(whole if kind is int else whole | st.floats(least, min(most, 12)))
    return st.one_of(kinds)


def objects(parameters: tuple[Parameter, ...]) -> SearchStrategy[dict[str, Any]]:
    """Draw the arguments of a tool: all that it needs, and some of the others."""
    needed = {entry.key: drawn(entry) for entry in parameters if entry.required}
    optional = {entry.key: drawn(entry) for entry in parameters if not entry.required}
    return st.fixed_dictionaries(needed, optional=optional)


class Thing(TypedDict):
    """An object in a list."""

    name: Annotated[str, Arg("A name")]
    size: NotRequired[Annotated[int | float, Arg("A size", maximum=9)]]


def anything(
    call: Call,
    number: Annotated[float, Arg("A number without bounds")],
    count: Annotated[int | None, Arg("A whole number", minimum=0)] = None,
    either: Annotated[bool | list[str] | None, Arg("One of two kinds")] = None,
    choice: Annotated[Literal["One", "two"], Arg("A choice")] = "One",
    things: Annotated[list[Thing] | None, Arg("Objects")] = None,
    data: Annotated[dict[str, Any] | None, Arg("Whatever")] = None,
) -> dict[str, Any]:
    """Take arguments of every kind, as a tool to come may."""
    return {}


KINDS = [*TOOLS, Tool("anything", "anything", "test", anything, False, False)]


def test_flags_json_and_mcp_give_the_same_result(
    filled: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    """Whatever a tool is given, each way to call it returns the same and writes the same files."""
    pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'memvault[mcp]'")
    copy = Copy(filled, tmp_path / "copy")
    root = copy.root

    def same(tool: Tool, data: st.DataObject) -> None:
        arguments = sayable(tool, data.draw(objects(tool.parameters)))
        ways: dict[str, Callable[[], Any]] = {
            "flags": lambda: printed(root, *words(tool, arguments)),
            "call": lambda: printed(root, "call", tool.name, json.dumps(arguments)),
            "mcp": lambda: over_mcp(root, tool.name, arguments),
        }
        found = {}
        for name, way in ways.items():
            copy.put_back()
            result = normal(root, way())
            files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.md"))
            found[name] = result, normal(root, [f for f in files if not f.startswith(".")])
        assert found["call"] == found["mcp"]
        assert found["flags"] == found["call"], words(tool, arguments)

    for tool in TOOLS:
        with subtests.test(tool=tool.name):
            try_tool(tool, examples(3), same)


def test_a_no_is_a_no_by_flag_too(filled: Path, tmp_path: Path) -> None:
    """A forget with --confirm false shows what would go, as false does in JSON."""
    root = tmp_path / "copy"
    shutil.copytree(filled, root)
    preview = printed(root, "forget", "zebra")
    assert printed(root, "forget", "zebra", "--confirm", "false") == preview
    assert printed(root, "call", "memory_forget", '{"query": "zebra", "confirm": false}') == preview
    assert preview["confirmRequired"]


ANY_NUMBER = st.sampled_from(
    [0, 1, -1, 0.0, -0.0, 1.0, 2.5, -0.5, 1e9, 1e9 + 1, 1e300, -1e300, 1e301, 10**300, 10**301]
)
OFTEN = ["a,b", "1", 0, "TRUE", '["a"]', "{}"]
ANY_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def attempted(parameters: tuple[Parameter, ...]) -> SearchStrategy[Any]:
    """Draw arguments that are right or nearly so: wrong types, too much, too little."""
    entries = {entry.key: near(entry) for entry in parameters}
    right = objects(parameters)
    loose = st.fixed_dictionaries({}, optional=entries)
    more = st.dictionaries(st.text(max_size=3), ANY_JSON, max_size=1)
    one_off = st.builds(lambda base, other: {**base, **other}, right, loose)
    return right | one_off | loose | st.builds(lambda base, other: {**other, **base}, right, more)


def near(parameter: Parameter) -> SearchStrategy[Any]:
    """Draw a value for a parameter that fits, fits if it is read kindly, or does not."""
    right = drawn(parameter)
    spelled = right.map(lambda value: value if isinstance(value, str) else json.dumps(value))
    respelled = spelled.map(str.swapcase) | spelled.map(lambda text: f" {text} ")
    loose = st.lists(st.text(max_size=3) | st.integers(-9, 9), max_size=3)
    kinds = [right, spelled, respelled, loose, ANY_JSON, ANY_NUMBER, st.sampled_from(OFTEN)]
    if parameter.items:
        kinds.append(st.lists(attempted(parameter.items), max_size=2))
        kinds.append(attempted(parameter.items))
    ends = [end for end in bounds(parameter) if end is not None]
    if ends:
        kinds.append(st.sampled_from([*ends, *(end + way for end in ends for way in (-1, 1, 0.5))]))
    return st.one_of(kinds)


def test_the_schema_accepts_exactly_what_the_tool_takes(subtests: pytest.Subtests) -> None:
    """Arguments that fit a tool's schema, by the table of leniencies, are taken, and no others."""

    def exact(tool: Tool, data: st.DataObject) -> None:
        allows = Draft202012Validator(input_schema(tool.parameters)).is_valid
        sent = data.draw(attempted(tool.parameters))
        used: set[Leniency] = set()
        plain = plain_arguments(tool.parameters, sent, used)
        if allows(sent):
            assert (plain, used) == (sent, set())
        if allows(plain):
            assert exactly(tool.bind(sent)) == exactly(named(tool.parameters, plain))
        else:
            with pytest.raises(UsageError):
                tool.bind(sent)

    try_tools(subtests, KINDS, 30, exact)


def test_a_listed_tool_is_one_by_the_protocols_own_schema(subtests: pytest.Subtests) -> None:
    """What is listed of a tool fits what the Model Context Protocol says of tools."""
    types = pytest.importorskip("mcp_types", reason="the MCP SDK is not installed")
    for tool in TOOLS:
        with subtests.test(tool=tool.name):
            listed = types.Tool.model_validate(reference.described(tool), by_name=False)
            shown = listed.model_dump(by_alias=True, exclude_none=True)
            assert shown == reference.described(tool)
            Draft202012Validator.check_schema(shown["inputSchema"])
            for entry in shown["inputSchema"]["properties"].values():
                assert entry["description"]
                if "default" in entry:
                    assert Draft202012Validator(entry).is_valid(entry["default"])
