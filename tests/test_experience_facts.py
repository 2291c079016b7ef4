"""Facts are corrected without loss, and every access to them is counted on this machine only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run, refused, write
from memvault import Vault, open_vault
from memvault.memories import experience_search, facts
from memvault.workspace import Workspace
from racing import Racing, raced


def recalled(vault: Vault, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """Recall facts."""
    result = vault.call("recall_fact", query=query, **arguments)
    assert result["success"], result
    found: list[dict[str, Any]] = result["facts"]
    return found


def test_a_fact_comes_back_with_all_that_was_said_of_it(vault: Vault) -> None:
    """Text, category, confidence and source are those that were stored; the rest has defaults."""
    known = vault.call(
        "store_fact", fact="The bridge at Aldern is closed.", category="places",
        confidence=0.1 + 0.2, source="Kai, at noon",
    )["factId"]  # fmt: skip
    vault.call("store_fact", fact="Rye bread keeps for a week")
    (found,) = recalled(vault, "which bridge is closed")
    distance = found.pop("distance")
    assert 0 <= distance < 0.8
    assert found == {
        "factId": known,
        "factText": "The bridge at Aldern is closed.",
        "category": "places",
        "confidence": 0.1 + 0.2,
        "source": "Kai, at noon",
        "accessCount": 1,
        "strength": "strong",
    }
    bread = recalled(vault, "rye bread")[0]
    assert (bread["category"], bread["confidence"], bread["source"]) == (
        "general", 1.0, "experience",
    )  # fmt: skip
    assert recalled(vault, "The bridge at Aldern is closed.")[0]["distance"] < distance


def test_facts_are_narrowed_by_category_and_limit(folder: Path, vault: Vault) -> None:
    """A category is meant in any case; what a person wrote without one is general."""
    for number in range(3):
        vault.call("store_fact", fact=f"Wombat number {number} digs", category="Wild Life")
    write(folder, "fact/by-hand.md", "# The wombat digs\n\nAt night.\n")
    write(folder, "fact/old.md", "---\nstatus: Archived\n---\n# The wombat dug\n")
    write(folder, "context/no-fact.md", "# A wombat digs\n")
    assert len(recalled(vault, "wombat", category="wild  life")) == 3
    (general,) = recalled(vault, "wombat", category="general")
    assert general["factText"] == "# The wombat digs\n\nAt night."
    assert len(recalled(vault, "wombat")) == 4
    assert len(recalled(vault, "wombat", limit=2)) == 2
    assert recalled(vault, "wombat", category="other") == []


@given(st.text(min_size=1, max_size=60), st.floats(0, 1))
def test_any_fact_and_any_number_reads_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, confidence: float
) -> None:
    """A confidence is kept exactly, and a fact's text without the line ends around it."""
    root = tmp_path_factory.mktemp("vault")
    (root / "memvault.toml").write_text("version = 1\n")
    with open_vault(root) as vault:
        made = vault.call("store_fact", fact=f"a{text}z", confidence=confidence)
    read = facts.fact_of(Workspace(root).store.read(made["filePath"]))
    assert read.confidence == confidence
    assert read.text.replace("\n", "") == "".join(
        char for char in f"a{text}z" if char.isprintable() or char == "\t" or ord(char) >= 0xA0
    )


def test_a_correction_keeps_the_old_text_in_the_history(folder: Path, vault: Vault) -> None:
    """The new text is recalled under a title of its own, and the old one is a revision."""
    made = vault.call("store_fact", fact="The bridge is closed", confidence=0.4)
    done = vault.call(
        "update_fact", factId="The bridge is closed", newText="The bridge is open again"
    )
    assert done["factId"] == made["factId"]
    (found,) = recalled(vault, "bridge")
    assert (found["factText"], found["confidence"]) == ("The bridge is open again", 0.4)
    now = vault.call("memory_show", memId=made["factId"])
    assert now["title"] == "The bridge is open again"
    before = vault.call("memory_show", memId=made["factId"], revision=done["previousRevision"])
    assert "The bridge is closed" in before["content"]
    vault.call("update_fact", factId=made["filePath"], newConfidence=1)
    (found,) = recalled(vault, "bridge")
    assert (found["factText"], found["confidence"]) == ("The bridge is open again", 1.0)
    assert vault.call("update_fact", factId=made["factId"][:12], newConfidence=0)["success"]


def test_a_correction_keeps_what_a_person_wrote_around_it(folder: Path, vault: Vault) -> None:
    """A title of the person's own, comments, and the line that names the episodes stay."""
    path = write(
        folder, "fact/b.md",
        "---\ntitle: Bridges  # mine\nepisodes: [a-b2c3d4]\n---\n\nClosed.\n\nFrom [[a]], [[b]]\n",
    )  # fmt: skip
    (found,) = recalled(vault, "bridges closed")
    assert found["factText"] == "Closed."
    assert vault.call("update_fact", factId="Bridges", newText="Open.")["success"]
    assert path.read_text("utf-8") == (
        "---\ntitle: Bridges  # mine\nepisodes: [a-b2c3d4]\n---\n\nOpen.\n\nFrom [[a]], [[b]]\n"
    )


def test_wrong_corrections_change_nothing(run: Run, folder: Path) -> None:
    """An unknown id, another type, an empty text and nothing to change are refused."""
    run("fact", "store", "The bridge is closed")
    run("remember", "A decision", "Text")
    before = {path: path.read_bytes() for path in folder.rglob("*.md")}
    refused(run("fact", "update", "nothing-a2b3c4", "--new-text", "x"), 1)
    refused(run("fact", "update", "A decision", "--new-text", "x"), 1)
    refused(run("fact", "update", "The bridge is closed"), 2)
    refused(run("fact", "update", "The bridge is closed", "--new-text", " "), 2)
    refused(run("fact", "update", "The bridge is closed", "--new-confidence", "2"), 2)
    refused(run("fact", "store", " "), 2)
    refused(run("fact", "store", "x", "--category", "c" * 300), 2)
    assert {
        path: path.read_bytes() for path in folder.rglob("*.md") if ".memvault" not in path.parts
    } == before


def test_each_recall_counts_once(vault: Vault) -> None:
    """A fact's count says how often it was recalled, by recall_fact, recall_memory and recall."""
    known = vault.call("store_fact", fact="The wombat digs")["factId"]
    vault.call("store_fact", fact="Rye bread keeps for a week")
    assert [recalled(vault, "wombat")[0]["accessCount"] for _ in range(3)] == [1, 2, 3]
    assert vault.call("recall_memory", observations=["a wombat"])["sources"]["facts"] == [known]
    vault.call("memory_recall", query="wombat")
    assert recalled(vault, "wombat")[0]["accessCount"] == 6
    assert recalled(vault, "rye bread")[0]["accessCount"] == 1


COUNTING = """
from pathlib import Path
from memvault.memories import experience_search

def work(*own):
    for _ in range(25):
        experience_search.count(Path.cwd(), ["a-b2c3d4", *own])
"""


def test_no_access_of_many_processes_is_lost(folder: Path, racing: Racing) -> None:
    """Eight processes that count at once come to the exact sums, however often these are folded."""
    own = [[f"own-{number}-{place:090}" for place in range(20)] for number in range(8)]
    raced(racing.run(folder, COUNTING, own))
    assert experience_search.counts(folder) == {
        "a-b2c3d4": 200, **{name: 25 for names in own for name in names}
    }  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"x": 3, "y": {"count": "many"}, "z": {}}', b"null"],
    ids=repr,
)
def test_a_damaged_count_costs_only_counts(folder: Path, vault: Vault, damage: bytes) -> None:
    """Whatever the file of counts holds, facts are recalled, and counting goes on."""
    vault.call("store_fact", fact="The wombat digs")
    write(folder, ".memvault/access.json", damage)
    assert recalled(vault, "wombat")[0]["accessCount"] == 1
    assert recalled(vault, "wombat")[0]["accessCount"] == 2
    assert list(experience_search.counts(folder).values()) == [2]
    write(folder, ".memvault/access.jsonl", damage * 30_000)
    number = recalled(vault, "wombat")[0]["accessCount"]
    assert recalled(vault, "wombat")[0]["accessCount"] == number + 1


def test_what_of_the_counts_is_whole_stays(folder: Path) -> None:
    """Of a file that is partly damaged the whole entries go on counting."""
    write(folder, ".memvault/access.json", '{"a-b2c3d4": {"count": 4}, "c": {"count": true}}')
    experience_search.count(folder, ["a-b2c3d4"])
    assert experience_search.counts(folder) == {"a-b2c3d4": 5}
    with (folder / ".memvault/access.jsonl").open("a") as file:
        file.write('{"x": 1}\n5\n["2026-11-22", 7, "a-b2c3d4"]\n["2026-11-22", "a-b2')
    experience_search.count(folder, ["a-b2c3d4"])
    assert experience_search.counts(folder) == {"a-b2c3d4": 7}, "a line cut off is one count"


def test_a_recall_is_counted_with_one_line(vault: Vault, folder: Path) -> None:
    """However many memories have counts, a recall adds a line, and no file is written anew."""
    vault.call("store_fact", fact="The wombat digs")
    entries = {f"some-{number}": {"count": 1, "last": "x"} for number in range(2_000)}
    file = write(folder, ".memvault/access.json", json.dumps(entries))
    before = file.stat().st_ino, file.stat().st_mtime_ns
    for number in range(1, 30):
        assert recalled(vault, "wombat")[0]["accessCount"] == number
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before
    assert (folder / ".memvault/access.jsonl").read_bytes().count(b"\n") == 29


def test_the_counts_stay_small(vault: Vault, folder: Path) -> None:
    """Lines are folded in before they are many, and of very many memories the latest count."""
    entries = {f"gone-{number}": {"count": 1, "last": "2026"} for number in range(49_999)}
    write(folder, ".memvault/access.json", json.dumps({"first": {"count": 1}, **entries}))
    number = 0
    while not number or (folder / ".memvault/access.jsonl").exists():
        experience_search.count(folder, ["a-b2c3d4"] * 3 + ["b" * 40])
        number += 1
    assert 100 < number < 2_000
    known = experience_search.counts(folder)
    assert known["a-b2c3d4"] == known["b" * 40] == number
    assert "first" not in known
    assert len(known) == 50_000


def test_consolidation_forgets_counts_of_memories_long_gone(vault: Vault, folder: Path) -> None:
    """What is gone and was not recalled for a season is no longer counted; the rest is."""
    fact = vault.call("store_fact", fact="The wombat digs")["factId"]
    long_ago = {"count": 3, "last": "2020-01-01T00:00:00.000Z"}
    write(folder, ".memvault/access.json", json.dumps({fact: long_ago, "gone": long_ago}))
    experience_search.count(folder, ["in-the-trash"])
    assert vault.call("consolidate_memories", apply=False)["success"]
    assert experience_search.counts(folder) == {fact: 3, "gone": 3, "in-the-trash": 1}
    assert vault.call("consolidate_memories", apply=True)["success"]
    assert experience_search.counts(folder) == {fact: 3, "in-the-trash": 1}


def test_counts_are_never_written_through_a_link(
    folder: Path, vault: Vault, tmp_path: Path
) -> None:
    """A link in the place of the counts is replaced, and what it leads to stays as it was."""
    vault.call("store_fact", fact="The wombat digs")
    aim = write(tmp_path, "elsewhere.json", '{"x": {"count": 1}}')
    (folder / ".memvault" / "access.json").symlink_to(aim)
    assert recalled(vault, "wombat")[0]["accessCount"] == 1
    assert aim.read_text() == '{"x": {"count": 1}}'


@pytest.mark.skipif(os.name == "nt", reason="POSIX links")
def test_facts_are_recalled_where_counting_is_impossible(folder: Path, vault: Vault) -> None:
    """A lock that leads elsewhere costs the count, with a note, and not the answer."""
    vault.call("store_fact", fact="The wombat digs")
    (folder / ".memvault" / "access.lock").symlink_to("/nowhere/at/all")
    result = vault.call("recall_fact", query="wombat")
    assert [entry["accessCount"] for entry in result["facts"]] == [0]
    assert "not counted" in result["warnings"][0]
