"""The example calls of the manual of the memory subsystem, as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Run, write
from memvault import Vault

SAVED = "The user's project identifier is 'proj_X-7'."
OTHERS = (
    "The office plants are watered on Fridays by whoever is in first.",
    "Priya does not eat meat, and Tom is allergic to nuts.",
    "The staging server is restarted each night at 03:00 UTC.",
    "Project Apollo's budget for next year was approved by the board.",
)
TITAN = (
    "Project Titan was launched in March with a budget of 40,000 euros.",
    "Elena leads Project Titan; Marek writes its firmware.",
    "The Titan prototype failed its vibration test in week 32.",
)


def saved(vault: Vault, *texts: str) -> list[str]:
    """Save texts; return their ids."""
    return [str(vault.call("memory_save", text=text)["id"]) for text in texts]


def loaded(vault: Vault, **arguments: Any) -> list[str]:
    """Load by a query; return the texts."""
    found = vault.call("memory_load", **arguments)
    assert found["success"], found
    return [entry["text"] for entry in found["memories"]]


@pytest.mark.parametrize("query", ["user project identifier", "project ID"])
def test_what_was_saved_is_loaded(vault: Vault, query: str) -> None:
    """The saved identifier comes first for the example's query, and for the one it is saved for."""
    saved(vault, *OTHERS)
    made = vault.call("memory_save", text=SAVED)
    assert made["success"] is True
    assert made["id"]
    assert loaded(vault, query=query)[0] == SAVED


def test_the_command_line_takes_the_same_json(run: Run) -> None:
    """The examples' arguments are what memvault call takes."""
    made = run("call", "memory_save", f'{{"text": "{SAVED}"}}').json
    assert made["success"] is True
    found = run("call", "memory_load", '{"query": "user project identifier"}').json
    assert [entry["id"] for entry in found["memories"]] == [made["id"]]


def test_a_load_keeps_to_its_optional_parameters(vault: Vault) -> None:
    """Threshold, limit and the filter of the document narrow what is loaded."""
    for area in ("main", "solutions"):
        text = f"The {area} project identifier is 'proj_{area}'."
        assert vault.call("memory_save", text=text, area=area)["success"]
    query = "project identifier"
    assert len(loaded(vault, query=query)) == 2
    assert len(loaded(vault, query=query, limit=1)) == 1
    (only,) = loaded(vault, query=query, filter="area=='main'")
    assert "proj_main" in only
    assert loaded(vault, query="a recipe for sourdough bread", threshold=0.6) == []


def test_exactly_the_named_memory_is_deleted(vault: Vault, folder: Path) -> None:
    """The id of the example deletes the memory of that id and no other."""
    mem_id = "d1306e36-6a9c-4112-80e2-33b795548116"
    write(folder, "project.md", f"---\nid: {mem_id}\n---\n\n{SAVED}\n")
    saved(vault, *OTHERS)
    deleted = vault.call("memory_delete", ids=mem_id)
    assert (deleted["success"], deleted["deleted"]) == (True, [mem_id])
    assert vault.call("memory_list")["total"] == len(OTHERS)
    two = saved(vault, "One", "Two")
    assert vault.call("memory_delete", ids=", ".join(two))["deleted"] == two


def test_a_topic_is_forgotten_whole(vault: Vault) -> None:
    """All memories of the project are shown, nothing else, and confirming takes them away."""
    saved(vault, *OTHERS)
    titan = saved(vault, *TITAN)
    asked = {"query": "All information related to Project Titan"}
    shown = vault.call("memory_forget", **asked)
    assert shown["confirmRequired"] is True
    assert {entry["memId"] for entry in shown["candidates"]} == set(titan)
    assert vault.call("memory_list")["total"] == len(OTHERS) + len(TITAN)
    gone = vault.call("memory_forget", **asked, confirm=shown["confirmToken"])
    assert (gone["success"], gone["deletedFiles"]) == (True, 3)
    assert vault.call("memory_list")["total"] == len(OTHERS)


def test_a_threshold_narrows_what_is_forgotten(vault: Vault) -> None:
    """With the highest threshold no memory of the topic is similar enough."""
    saved(vault, *TITAN)
    query = "All information related to Project Titan"
    assert vault.call("memory_forget", query=query, threshold=1.0)["candidates"] == []
