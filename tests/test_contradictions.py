"""Facts that contradict each other are shown, each thing once."""

from __future__ import annotations

from pathlib import Path

import pytest

from memvault import Vault
from test_consolidate import consolidated, fact


def test_many_values_of_one_thing_are_one_contradiction(vault: Vault, folder: Path) -> None:
    """However many facts disagree about a thing, the result grows with their number only."""
    for place in range(60):
        fact(folder, f"f{place:02}", f"The API limit is {place // 2} per minute")
    fact(folder, "name", "The API host is Alpha")
    fact(folder, "other", "The API host is Beta")
    host, limit = consolidated(vault)["contradictions"]
    assert len(host["statements"]) == 2
    assert limit["difference"] == "number"
    assert len(limit["statements"]) == 30
    assert limit["statements"][7] == {
        "text": "The API limit is 7 per minute",
        "memIds": ["f14-id", "f15-id"],
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The bridge is open.", "The bridge is closed."),
        ("Always deploy on Friday.", "Never deploy on Friday."),
        ("Alice likes tea.", "Alice hates tea."),
    ],
)
def test_short_facts_that_contradict_are_shown(vault: Vault, one: str, other: str) -> None:
    """Facts of two telling words are held against each other too."""
    for text in (one, other):
        vault.call("store_fact", fact=text)
    assert len(vault.call("consolidate_memories")["contradictions"]) == 1
