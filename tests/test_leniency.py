"""What models really send is taken where it can mean one thing only, and one table says what."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import Run
from memvault import Vault
from memvault.arguments.binding import LENIENCIES, Leniency
from memvault.errors import UsageError
from memvault.tools.core import reference, registry
from plain_arguments import plain_arguments

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


def test_every_leniency_is_in_the_reference_and_has_an_example() -> None:
    """The reference prints the whole table, and no entry is there that nothing shows."""
    page = reference.markdown()
    used: set[Leniency] = set()
    for name, sent, _ in SENT:
        plain_arguments(registry.find(name).parameters, sent, used)
    for entry in LENIENCIES:
        assert f"| {entry.taken} | {entry.meaning} |" in page
    assert used == set(LENIENCIES)
