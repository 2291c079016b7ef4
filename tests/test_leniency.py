"""What models really send is taken where it can mean one thing only, and one table says what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conftest import Run, examples
from memvault import Vault, schema
from memvault.cli.examples import EXAMPLES
from memvault.errors import UsageError
from memvault.leniency import LENIENCIES, Leniency
from memvault.tools.core import reference, registry
from memvault.tools.core.registry import Tool
from plain_arguments import plain_arguments

TOOLS = [pytest.param(tool, id=tool.name) for tool in registry.all_tools()]

SENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("memory_recall", {"query": "a", "limit": None, "tags": None, "full": None}, {"query": "a"}),
    ("memory_recall", {"query": "a", "type": "Vector"}, {"query": "a", "mode": "vector"}),
    ("memory_recall", {"query": "a", "limit": "3"}, {"query": "a", "limit": 3}),
    ("memory_recall", {"query": "a", "threshold": "0.5"}, {"query": "a", "threshold": 0.5}),
    ("memory_recall", {"query": "a", "isAll": "False"}, {"query": "a", "is_all": False}),
    ("memory_recall", {"query": "a", "full": 1}, {"query": "a", "full": True}),
    ("memory_recall", {"query": "a", "tags": "x, y"}, {"query": "a", "tags": ["x", "y"]}),
    ("memory_recall", {"query": "a", "tags": "x"}, {"query": "a", "tags": ["x"]}),
    ("memory_recall", {"query": "a", "tags": ""}, {"query": "a", "tags": []}),
    ("memory_recall", {"query": "a", "tags": '["x,y"]'}, {"query": "a", "tags": ["x,y"]}),
    ("memory_recall", {"query": "a", "tags": [2026]}, {"query": "a", "tags": ["2026"]}),
    ("recall_memory", {"observations": "rain, wind"}, {"observations": ["rain, wind"]}),
    ("recall_memory", {"observations": "[1] see below"}, {"observations": ["[1] see below"]}),
    ("store_episode", {"actions": "dug, slept"}, {"actions": ["dug, slept"]}),
    ("store_episode", {"skillsUsed": "a.b,c"}, {"skills_used": ["a.b", "c"]}),
    ("store_episode", {"outcomes": {"type": "x", "n": 1}}, {"outcomes": [{"type": "x", "n": 1}]}),
    ("memory_save", {"text": "a", "metadata": '{"n": 1}'}, {"text": "a", "metadata": {"n": 1}}),
    (
        "set_memories",
        {"memories": {"Key": "port", "value": 5432}},
        {"memories": [{"key": "port", "value": "5432"}]},
    ),
    (
        "set_plans",
        {"plans": '[{"name": "p", "instruction": "i", "run_after": "1 day", "cron": null}]'},
        {"plans": [{"name": "p", "instruction": "i", "run_after": "1 day"}]},
    ),
    (
        "wait_for",
        {"events": {"eventType": "agent", "parameter": "bob", "talkId": "7"}},
        {"events": [{"event_type": "Agent", "parameter": "bob", "talk_id": 7}]},
    ),
    ("call_tool", {"toolName": "t", "parameters": "{}"}, {"tool_name": "t", "parameters": {}}),
]
"""Calls as models make them, and what the functions get."""

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("memory_remember", {"title": "a", "content": None}),
    ("memory_remember", {"title": "a", "content": 1.10}),
    ("memory_remember", {"title": "a", "content": True}),
    ("memory_recall", {"query": "a", "limit": "3 or 4"}),
    ("memory_recall", {"query": "a", "limit": "2.5"}),
    ("memory_recall", {"query": "a", "limit": True}),
    ("memory_recall", {"query": "a", "full": "maybe"}),
    ("memory_recall", {"query": "a", "full": 2}),
    ("memory_recall", {"query": "a", "type": 1}),
    ("memory_recall", {"query": "a", "tags": {"x": 1}}),
    ("memory_recall", {"query": "a", "tags": ["x", None]}),
    ("memory_recall", {"query": "a", "tags": "[1.5]"}),
    ("set_memories", {"memories": "port=5432"}),
    ("set_memories", {"memories": [{"key": "port", "value": None}]}),
    ("memory_save", {"text": "a", "metadata": "[1]"}),
]
"""What could mean several things, or nothing."""


@pytest.mark.parametrize(("name", "sent", "meant"), SENT, ids=str)
def test_what_models_send_is_taken(name: str, sent: dict[str, Any], meant: dict[str, Any]) -> None:
    """A value in another form than the schema's means what anyone would say that it means."""
    assert registry.find(name).bind(sent) == meant


@pytest.mark.parametrize(("name", "sent"), REFUSED, ids=str)
def test_what_is_ambiguous_is_refused(name: str, sent: dict[str, Any]) -> None:
    """Nothing is guessed: what has no one meaning is an error that names the argument."""
    with pytest.raises(UsageError):
        registry.find(name).bind(sent)


def test_a_memory_without_a_type_gets_the_fallback(vault: Vault, run: Run) -> None:
    """The type may be missing, null or empty, over JSON as on the command line."""
    for more in ({}, {"memoryType": None}, {"memoryType": ""}):
        made = vault.call("memory_remember", title="T", content="x", **more)
        assert made["memoryType"] == "context", made
    ran = run("call", "memory_remember", '{"title": "T", "content": "x"}')
    assert ran.json["memoryType"] == "context"
    kept = vault.call("memory_remember", title="F", content="x", memoryType="fact")["filePath"]
    update = vault.call("memory_remember", title="F", content="y", filePath=kept)
    assert update["memoryType"] == "fact"


def test_an_argument_of_another_name_is_named() -> None:
    """A key that there is not is refused with the one that is meant."""
    for sent, meant in (("mode", "type"), ("q", "query"), ("quary", "query"), ("tag", "tags")):
        with pytest.raises(UsageError) as caught:
            registry.find("memory_recall").bind({sent: "a"})
        assert caught.value.hint == f"did you mean {meant}?"


def test_a_near_choice_is_named() -> None:
    """A choice that is misspelt or someone else's word is refused with the one that is meant."""
    for name, sent, meant in (
        ("talk_log", {"severity": "warn", "message": "x"}, "warning"),
        ("memory_recall", {"query": "a", "type": "vectors"}, "vector"),
    ):
        with pytest.raises(UsageError) as caught:
            registry.find(name).bind(sent)
        assert caught.value.hint == f"did you mean {meant}?"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**60) | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)
"""Any JSON."""


def _sent(entry: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that somebody may send for a property of a schema, right ones among them."""
    right = _right(entry)
    spelled = right.map(lambda value: value if isinstance(value, str) else json.dumps(value))
    respelled = spelled.map(str.swapcase) | spelled.map(lambda text: f" {text} ")
    whole = st.lists(st.text(max_size=3) | st.integers(-9, 9), max_size=3)
    inner = _sent(entry["items"]) if "items" in entry else st.sampled_from(["a,b", "1", 0, "TRUE"])
    return right | spelled | respelled | whole | inner | JSON


def _right(entry: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a property of a schema allows, and objects of what may be sent."""
    if "enum" in entry:
        return st.sampled_from(entry["enum"])
    least, most = entry.get("minimum", -9), min(entry.get("maximum", 9), 9)
    known: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        "string": lambda: st.text(max_size=5),
        "integer": lambda: st.integers(int(least), int(max(least, most))),
        "number": lambda: st.floats(max(least, -9), max(least, most, -9)),
        "boolean": st.booleans,
        "object": lambda: _calls(entry),
        "array": lambda: st.lists(_right(entry.get("items", {"type": "string"})), max_size=2),
    }
    kinds = [entry["type"]] if isinstance(entry["type"], str) else entry["type"]
    return st.one_of(*(known[kind]() for kind in kinds))


def _calls(whole: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of values that somebody may send, the required ones mostly there."""
    properties = whole.get("properties", {})
    values = {key: _right(entry) | _sent(entry) for key, entry in properties.items()}
    must = {key: values.pop(key) for key in whole.get("required", ())}
    return st.fixed_dictionaries(must, optional=values)


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_what_is_taken_beyond_the_schema_is_in_the_table(tool: Tool, data: st.DataObject) -> None:
    """A call is taken just if the schema allows it, or what the table makes of it."""
    whole = schema.input_schema(tool.parameters)
    allows = Draft202012Validator(whole).is_valid
    sent = data.draw(_calls(whole))
    used: set[Leniency] = set()
    plain = plain_arguments(tool.parameters, sent, used)
    if allows(sent):
        assert (plain, used) == (sent, set())
    if allows(plain):
        assert tool.bind(sent) == tool.bind(plain)
        assert used or allows(sent)
    else:
        with pytest.raises(UsageError):
            tool.bind(sent)


def test_every_leniency_is_in_the_reference_and_has_an_example() -> None:
    """The reference prints the whole table, and no entry is there that nothing shows."""
    page = reference.markdown(EXAMPLES)
    used: set[Leniency] = set()
    for name, sent, _ in SENT:
        plain_arguments(registry.find(name).parameters, sent, used)
    for entry in LENIENCIES:
        assert f"| {entry.taken} | {entry.meaning} |" in page
    assert used == set(LENIENCIES)
