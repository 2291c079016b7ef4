"""What was recalled is not forgotten, and counting that stands in nobody's way."""

from __future__ import annotations

from pathlib import Path

from conftest import write
from episodes import put
from memvault import Vault
from memvault.memories import experience_search
from test_consolidate import consolidated


def test_what_was_recalled_in_any_way_is_not_forgotten(vault: Vault, folder: Path) -> None:
    """Plain recall, show, load and the context for a task count as recalling too."""
    said = {
        "recalled": "Zebras sleep standing in the afternoon",
        "shown": "Whales sing below the ice",
        "loaded": "Owls turn their heads far round",
        "queried": "Bees dance to tell of flowers",
        "told": "Crabs walk sideways on the beach",
    }
    for name, text in said.items():
        put(folder, name, importance=0.1, days=120, reflection=text)
    assert len(consolidated(vault)["forgotten"]) == 5
    vault.call("memory_recall", query=said["recalled"], limit=1)
    vault.call("memory_show", memId="shown-id")
    vault.call("memory_load", memId="loaded-id")
    vault.call("memory_load", query=said["queried"], limit=1)
    vault.call("context", task=said["told"])
    counts = experience_search.counts(folder)
    assert counts.keys() >= {f"{name}-id" for name in said}
    assert consolidated(vault)["forgotten"] == []


def test_recalling_what_consolidation_never_forgets_writes_nothing(
    vault: Vault, folder: Path
) -> None:
    """Lists, and memories of other types, are read without a write."""
    write(folder, "learning/a.md", "---\nid: a-id\n---\n\nCats purr at night\n")
    put(folder, "e", reflection="Dogs bark at noon")
    vault.call("memory_recall", query="cats purr", type="keyword")
    vault.call("memory_recall", isAll=True)
    vault.call("memory_show", memId="a-id")
    vault.call("memory_load", memId="a-id")
    assert not list(folder.glob(".memvault/access.*"))


def test_a_recall_that_cannot_be_counted_is_a_recall(vault: Vault, folder: Path) -> None:
    """Nobody asked for the count, so nothing is said where it cannot be written."""
    put(folder, "e", reflection="Dogs bark at noon")
    (folder / ".memvault").mkdir(exist_ok=True)
    (folder / ".memvault/access.jsonl").mkdir()
    found = vault.call("memory_recall", query="dogs bark")
    assert [entry["memId"] for entry in found["memories"]] == ["e-id"]
    assert "warnings" not in found
