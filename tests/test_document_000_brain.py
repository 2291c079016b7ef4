"""The calls of the document on brain tools, as it writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import write
from memvault import Vault, open_vault


def done(result: dict[str, Any]) -> dict[str, Any]:
    """Check that a call succeeded; return its result."""
    assert result["success"] is True, result
    return result


def created(vault: Vault, name: str, value: str) -> str:
    """Create a memory; return its MemId."""
    return str(done(vault.call("memory_create", name=name, value=value))["memId"])


def test_a_memory_is_created_searched_loaded_mutated_and_evicted(vault: Vault) -> None:
    """Each memory tool takes the arguments of the document and returns what it names."""
    text = "The harbour master keeps the keys of both cranes."
    mem_id = created(vault, "Crane keys", text)
    assert mem_id.startswith("crane-keys")
    created(vault, "Bread", "Flour, water and salt.")
    for kind in ("Vector", "Keyword"):
        search = {"query": "who has the crane keys", "type": kind, "limit": 1}
        (found,) = done(vault.call("memory_search", **search))["results"]
        assert found["memId"] == mem_id
        assert found["snippet"]
    done(vault.call("memory_evict", MemId=mem_id))
    assert vault.call("memory_evict", MemId=mem_id)["success"] is False
    assert vault.call("memory_mutate", MemId=mem_id, value="x")["success"] is False
    part = done(vault.call("memory_load", MemId=mem_id, Offset=4, Length=7))
    assert (part["length"], part["content"]) == (7, text[4:11])
    whole = done(vault.call("memory_load", MemId=mem_id, Offset=0, Length=0))
    assert (whole["length"], whole["content"]) == (len(text), text)
    changed = done(vault.call("memory_mutate", MemId=mem_id, value="Ana keeps them."))
    assert changed["memId"] == mem_id
    assert done(vault.call("memory_load", MemId=mem_id))["content"] == "Ana keeps them."
    assert vault.call("memory_load", MemId="no-such-memory")["success"] is False


def test_a_tag_finds_what_carries_it(folder: Path, vault: Vault) -> None:
    """The third type of search finds by tag."""
    write(folder, "a.md", "---\nid: crane-1\ntags: [harbour]\n---\n\nThe crane.\n")
    found = done(vault.call("memory_search", query="harbour", type="Tag", limit=5))["results"]
    assert [entry["memId"] for entry in found] == ["crane-1"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("talk_user", {"User": "", "Message": "May I start?"}),
        ("talk_agent", {"Agent": "designer", "Message": "Is the mockup ready?"}),
        ("talk_brain", {"subbrain": "primary", "Message": "Plan the day"}),
        ("talk_log", {"Severity": "warning", "Message": "The disk is full"}),
    ],
)
def test_every_talk_returns_a_talk_id(
    folder: Path, vault: Vault, tool: str, arguments: dict[str, str]
) -> None:
    """Each destination is talked to without waiting; the TalkId rises and is never 0."""
    with open_vault(folder, "main/night") as night:
        caller = night if tool == "talk_brain" else vault
        ids = [done(caller.call(tool, **arguments))["talkId"] for _ in range(3)]
    assert ids == sorted(set(ids))
    assert ids[0] > 0


def test_a_wait_needs_a_talk_and_returns_its_event_once(folder: Path, vault: Vault) -> None:
    """A wait without an earlier talk is refused; the answer to a TalkId ends it and is cleared."""
    unasked = {"EventType": "Agent", "Parameter": "bob", "TalkId": 0}
    assert vault.call("wait_for", Events=[unasked])["success"] is False
    talk = done(vault.call("talk_agent", Agent="bob", Message="Which port?"))["talkId"]
    with open_vault(folder, "bob") as bob:
        done(bob.call("reply", talkId=talk, message="8081"))
    events = [
        {"EventType": "Agent", "Parameter": "bob", "TalkId": talk},
        {"EventType": "Time", "Parameter": "5.0", "TalkId": 0},
    ]
    (pair,) = done(vault.call("wait_for", Events=events))["events"]
    assert pair["event"]["eventType"] == "Agent"
    assert pair["result"]["data"]["message"] == "8081"
    asked = done(vault.call("talk_user", User="", Message="May I?"))["talkId"]
    again = [
        {"EventType": "User", "Parameter": "", "TalkId": asked},
        {"EventType": "Time", "Parameter": "0.05", "TalkId": 0},
    ]
    (first,) = done(vault.call("wait_for", Events=again))["events"]
    assert first["event"]["eventType"] == "Time"
