"""What an agent keeps beside memories is found by recall when it asks, and by nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from conftest import Run, write
from made_secrets import MADE
from mcp_client import session, structured
from memvault import Vault, open_vault

QUERY = "when do we rotate the deploy keys"


@pytest.fixture
def kept(vault: Vault, folder: Path) -> Vault:
    """A vault in which an agent has something of each kind about one thing, and others too."""
    write(folder, "lunch.md", "# Lunch\n\nSoup, on Mondays.\n")
    values = [
        {"key": "rotation", "value": "Deploy keys: rotated by Ana."},
        {"key": "tea", "value": "x"},
    ]
    vault.call("set_memories", memories=values)
    vault.call("set_goals", goals=[{"id": "keys", "description": "Rotating each deploy key"}])
    plan = {"name": "Keys", "instruction": "Rotate deploy keys", "cron": "0 9 * * 1"}
    vault.call("set_plans", plans=[plan])
    with open_vault(folder, "ana") as ana:
        ana.call("set_memories", memories=[{"key": "mine", "value": "Deploy keys rotate at noon."}])
        ana.call("enter_space", spaceId="Secret")
        ana.call("send_message", text="I rotate the deploy keys at night.")
        ana.call("enter_space", spaceId="Team")
        vault.call("enter_space", spaceId="Team")
        ana.call("send_message", text="I rotate the deploy keys at dawn.")
    vault.call("push_service", name="ci", message="The deploy keys were rotated.")
    return vault


def others(vault: Vault, query: str = QUERY, **more: Any) -> list[dict[str, Any]]:
    """Return what is listed beside the memories."""
    found = vault.call("memory_recall", query=query, **more)
    assert found["success"], found
    return list(found["others"])


def test_an_agents_own_is_found_by_words(kept: Vault) -> None:
    """Values, goals, plans, spaces and inbox, each once, in any form of the words."""
    found = others(kept, include=["state", "messages"])
    assert {(entry["kind"], entry["name"]) for entry in found} == {
        ("key-value", "rotation"),
        ("goal", "keys"),
        ("plan", "Keys"),
        ("space message", "Team, ana"),
        ("inbox event", "service ci"),
    }
    assert {entry["score"] for entry in found} == {1.0}
    assert {entry["kind"] for entry in others(kept, include=["State"])} == {
        "key-value",
        "goal",
        "plan",
    }


def test_each_file_that_is_named_is_there(kept: Vault, folder: Path) -> None:
    """Its text is the passage that fits, and with full all of it."""
    for entry in others(kept, include=["state", "messages"], full=True):
        assert entry["content"] in (folder / entry["filePath"]).read_text("utf-8")
        assert entry["snippet"] in entry["content"]


def test_nothing_of_another_agent_is_found(kept: Vault, folder: Path) -> None:
    """Neither what is private to it, nor a space that one is no member of."""
    found = others(kept, include=["state", "messages"])
    told = " ".join(entry["snippet"] for entry in found)
    assert "noon" not in told
    assert "night" not in told
    with open_vault(folder, "ana") as ana:
        found = others(ana, include=["state", "messages"])
    assert {entry["name"] for entry in found} == {"mine", "Secret, ana", "Team, ana"}


def test_words_that_an_entry_mostly_lacks_do_not_find_it(kept: Vault) -> None:
    """Half of the words are needed, a phrase as it is, and more words come first."""
    assert others(kept, "keys of the piano in the parlour", include=["state"]) == []
    assert others(kept, '"each deploy key"', include=["state"])[0]["name"] == "keys"
    first, *rest = others(kept, "Ana rotates deploy keys", include=["state"])
    assert first["name"] == "rotation"
    assert all(entry["score"] < first["score"] for entry in rest)
    assert len(others(kept, include=["state"], limit=2)) == 2


def test_chinese_is_found_by_pairs(vault: Vault) -> None:
    """Words of scripts without spaces are found as in memories."""
    vault.call(
        "set_memories", memories=[{"key": "数据库", "value": "我们使用数据库来存储客户订单。"}]
    )
    assert others(vault, "客户订单", include=["state"])


def test_nothing_is_changed_by_looking(kept: Vault, folder: Path) -> None:
    """No event is taken, and no plan is fired, by a search."""
    before = {path: path.read_bytes() for path in folder.rglob("*.md")}
    others(kept, include=["state", "messages"])
    assert {path: path.read_bytes() for path in folder.rglob("*.md")} == before


def test_where_no_memory_fits_a_note_says_what_would(kept: Vault, run: Run) -> None:
    """It counts what of the agent's own fits, and says how to see it; else nothing is said."""
    notes = kept.call("memory_recall", query=QUERY)["warnings"]
    assert (
        "no memory fits well, but 3 in your state and 2 in your messages; "
        "recall --include state,messages shows it" in notes
    )
    assert "your" not in " ".join(kept.call("memory_recall", query="zebra").get("warnings", []))
    assert "others" not in kept.call("memory_recall", query=QUERY)
    shown = run("recall", *QUERY.split(), "--include", "state,messages").out
    assert "Of your own:" in shown
    assert "> Deploy keys: rotated by Ana." in shown


@pytest.mark.parametrize("more", [{"include": ["stuff"]}, {"include": ["state"], "query": ""}])
def test_what_cannot_be_included_is_refused(vault: Vault, more: dict[str, Any]) -> None:
    """One sentence names what can be."""
    error = vault.call("memory_recall", **{"query": "x", **more})["error"]
    assert error["code"] == "usage"
    assert error["hint"]


def test_over_mcp_secrets_are_masked_there_too(vault: Vault, folder: Path) -> None:
    """What is found of an agent's own is told as everything is."""
    token = MADE["GitHub token"][1]()
    vault.call("set_memories", memories=[{"key": "deploy", "value": f"The token is {token}"}])

    async def talk(client: Client) -> None:
        found = await structured(client, "memory_recall", query="deploy token", include=["state"])
        (entry,) = found["others"]
        assert entry["snippet"] == "The token is [masked: GitHub token]"

    session(folder, talk)
