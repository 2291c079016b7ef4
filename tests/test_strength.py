"""How strong a memory is called is said first, cut by, and obeyed by all that search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Run, titles, write
from memvault import Vault

FERRY = "The ferry to Aldern leaves at nine from the northern pier."
TEXTS = {
    "Ferry": FERRY,
    "Bread": "Rye bread needs flour, water, salt and time.",
    "Crane": "The harbour crane was painted red in autumn.",
    "Choir": "The choir meets in the old school on Thursdays.",
}
STRONG = "when does the ferry to Aldern leave from the northern pier"
WEAK = "quarterly revenue of the company's shareholders in percent"


@pytest.fixture(autouse=True)
def harbour(folder: Path) -> None:
    """Write a few memories that have little to do with each other."""
    for title, text in TEXTS.items():
        write(folder, f"{title.lower()}.md", f"# {title}\n\n{text}\n")


def test_the_strongest_is_named_before_the_memories(vault: Vault, run: Run) -> None:
    """The first key says how well anything fits, and each memory says it of itself."""
    found = run("recall", STRONG, "--json").json
    assert [*found][:3] == ["success", "best", "memories"]
    assert found["best"] == found["memories"][0]["strength"] == "strong"
    assert run("recall", WEAK, "--json").json["best"] == "weak"
    assert vault.call("memory_recall", query=STRONG, tags=["none"])["best"] == "none"
    searched = vault.call("memory_search", query=STRONG)
    assert searched["best"] == searched["results"][0]["strength"] == "strong"
    assert "best" not in vault.call("memory_recall", isAll=True)


def test_people_read_first_that_nothing_fits(run: Run) -> None:
    """A word stands beside the score; where all are weak a line above says so, and only then."""
    first, *_ = run("recall", STRONG).out.splitlines()
    assert first.startswith("1. Ferry  ")
    assert "  strong  " in first
    above, first, *_ = run("recall", WEAK).out.splitlines()
    assert above == "Nothing fits well; these come nearest"
    assert "  weak  " in first
    assert run("search", WEAK).out.splitlines()[0] == above


def test_strict_leaves_out_what_is_weak(vault: Vault) -> None:
    """What is weak goes, what is not stays as it was, and an empty answer says what to do."""
    whole = vault.call("memory_recall", query=STRONG)["memories"]
    strict = vault.call("memory_recall", query=STRONG, strict=True)["memories"]
    assert strict == [entry for entry in whole if entry["strength"] != "weak"]
    assert strict
    nothing = vault.call("memory_recall", query=WEAK, strict=True)
    assert (nothing["best"], nothing["memories"]) == ("none", [])
    assert "strict" in nothing["message"]


def test_loading_gives_what_is_not_weak(vault: Vault) -> None:
    """Weak memories are not loaded unless a threshold lets them; what more would fit is counted."""
    (found,) = vault.call("memory_load", query=STRONG)["memories"]
    assert (found["text"], found["strength"]) == (f"# Ferry\n\n{FERRY}", "strong")
    nothing = vault.call("memory_load", query=WEAK)
    assert nothing["memories"] == []
    assert "memvault recall shows the nearest" in nothing["message"]
    assert vault.call("memory_load", query=WEAK, threshold=0)["memories"]
    for number in range(3):
        text = f"Ferry {number}: {FERRY}"
        assert vault.call("memory_save", text=text)["success"]
    found = vault.call("memory_load", query=STRONG, limit=2)
    assert len(found["memories"]) == 2
    assert "fit: 2; a larger limit" in found["warnings"][0]


def test_forgetting_shows_what_is_not_weak(vault: Vault) -> None:
    """A preview has what fits, and what only shares a word stays out of it."""
    found = vault.call("memory_forget", query=STRONG)
    (shown,) = found["candidates"]
    assert (shown["title"], shown["strength"]) == ("Ferry", "strong")
    nothing = vault.call("memory_forget", query=WEAK)
    assert (nothing["candidates"], nothing["confirmRequired"]) == ([], True)
    assert "nothing to forget" in nothing["message"]
    assert titles(vault.call("memory_list", limit=9)) != []


def test_the_context_holds_what_is_not_weak(vault: Vault) -> None:
    """The block has the memories that fit the task; how many were left out is said beside it."""
    found = vault.call("context", task=STRONG)
    assert "northern pier" in found["context"]
    assert "choir" not in found["context"]
    nothing = vault.call("context", task=WEAK)
    assert nothing["context"] == ""
    assert "memvault recall" in nothing["warnings"][0]


def test_a_strong_memory_alone_is_compounded(vault: Vault, folder: Path) -> None:
    """Words that hardly fit write into nothing and name the candidates with their strength."""
    refused = vault.call("memory_compound", query=WEAK, modifications="x")
    assert refused["error"]["code"] == "ambiguous"
    assert {entry["strength"] for entry in refused["candidates"]} == {"weak"}
    assert vault.call("memory_compound", query=STRONG, modifications="Also at ten.")["success"]
    assert "Also at ten." in (folder / "ferry.md").read_text("utf-8")


def test_facts_and_episodes_have_a_strength(vault: Vault, run: Run) -> None:
    """What was learned is found with the same word beside its distance."""
    vault.call("store_fact", fact="The bridge at Aldern is closed")
    vault.call("store_episode", actions=["Crossed the bridge at Aldern"])
    (fact,) = vault.call("recall_fact", query="is the bridge at Aldern closed")["facts"]
    assert fact["strength"] == "strong"
    similar = run("call", "recall_similar_experience", json.dumps({"query": "crossed a bridge"}))
    assert [entry["strength"] for entry in similar.json["episodes"]] == ["strong"]
