"""Consolidation beside others: shared memIds, other writers, what was recalled, odd names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import write
from episodes import WEEK, put, put_all
from memvault import Vault
from memvault.memories import recall_counts
from memvault.vault.lock import FileLock
from test_consolidate import consolidated, contents, fact
from test_running import until


def twin(root: Path, name: str, text: str, confidence: float) -> None:
    """Write a fact whose memId others have too, as a copied file does."""
    header = f"id: same-id\nmemory_type: fact\nconfidence: {confidence}"
    write(root, f"fact/{name}.md", f"---\n{header}\n---\n\n{text}\n")


def test_facts_that_share_a_mem_id_are_left_alone(vault: Vault, folder: Path) -> None:
    """Where a memId does not say which file is meant, nothing is merged by it."""
    twin(folder, "a", "The build needs the Docker daemon", 0.9)
    twin(folder, "b", "The build needs the Docker daemon", 0.5)
    twin(folder, "c", "Zebras are in the zoo at noon", 0.2)
    before = contents(folder)
    assert "merged" not in consolidated(vault)
    assert "merged" not in consolidated(vault, apply=True)
    assert contents(folder) == before


def test_a_mem_id_that_another_kind_of_memory_has_is_shared_too(vault: Vault, folder: Path) -> None:
    """superseded_by never names two files."""
    fact(folder, "sure", "The wiki lies on the old server", confidence=0.9)
    fact(folder, "unsure", "The wiki lies on the old server", confidence=0.4)
    write(folder, "learning/copy.md", "---\nid: sure-id\n---\n\nSomething else\n")
    assert "merged" not in consolidated(vault)


def test_forgotten_files_that_share_a_mem_id_are_each_put_away(vault: Vault, folder: Path) -> None:
    """Each file that is named in the result was changed, and no other."""
    put(folder, "gone", importance=0.1, days=120)
    path = folder / "episode/gone.md"
    write(folder, "episode/copy.md", path.read_text("utf-8"))
    kept = write(folder, "episode/kept.md", path.read_text("utf-8").replace("0.1", "0.9"))
    found = consolidated(vault, apply=True)["forgotten"]
    assert [entry["filePath"] for entry in found] == ["episode/copy.md", "episode/gone.md"]
    assert len({entry["proposalId"] for entry in found}) == 2
    assert "archived" in path.read_text("utf-8")
    assert "archived" not in kept.read_text("utf-8")


def test_a_copied_episode_proves_nothing(vault: Vault, folder: Path) -> None:
    """An episode whose file was copied is still one experience."""
    put(folder, "one", actions=["Pull main", "Push the branch"], reflection="The queue is long.")
    write(folder, "episode/copy.md", (folder / "episode/one.md").read_text("utf-8"))
    result = consolidated(vault)
    assert result["facts"] == result["procedures"] == []


def test_a_name_that_was_stored_meanwhile_does_not_come_twice(folder: Path, vault: Vault) -> None:
    """A procedure of another writer keeps its name; what was passed over is not called applied."""
    put_all(folder, WEEK)
    with FileLock(folder / ".memvault/procedures.lock"):
        process = subprocess.Popen(
            [sys.executable, "-m", "memvault", "consolidate", "--apply", "--json"],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        until(lambda: len(list(folder.glob("fact/[!.]*.md"))) == 4)
        mine = write(folder, "procedure/mine.md", "---\ntitle: git.release\n---\n\nMine\n")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Reproduce the bug" in out
    assert '"git.release"' not in out
    assert "There is a procedure 'git.release' by now" in out
    assert mine.read_text("utf-8").endswith("Mine\n")
    assert len(list(folder.glob("procedure/*.md"))) == 2
    (again,) = consolidated(vault)["procedures"]
    assert again["name"] == "Run the unit tests, then Push the tag"


@pytest.mark.parametrize(
    ("skills", "skill"),
    [
        (["Git release", "Git release"], None),
        (["Git.Release", "git.release"], "Git.Release"),
        (["x" * 150, "x" * 150], None),
    ],
)
def test_only_an_id_becomes_the_id_of_a_skill(
    vault: Vault, folder: Path, skills: list[str], skill: str | None
) -> None:
    """What a procedure carries as its skillId can be used as one, whoever spelled it how."""
    for place, name in enumerate(skills):
        put(folder, f"e{place}", actions=["Pull main", "Push the branch"], skills=[name])
    (made,) = consolidated(vault, apply=True)["procedures"]
    assert made.get("skillId") == skill
    assert made["name"] == (skill or "Pull main, then Push the branch")
    if skill:
        assert vault.call("use_skill", skillId="GIT.RELEASE", actionDescription="go")["success"]


def test_a_skill_that_a_procedure_has_is_not_given_again(vault: Vault, folder: Path) -> None:
    """A skillId in other letters is the same one."""
    header = "memory_type: procedure\nskill_id: GIT.Release"
    write(folder, "procedure/p.md", f"---\n{header}\n---\n\n1. Something\n2. Other\n")
    for name in ("one", "two"):
        put(folder, name, actions=["Pull main", "Push the branch"], skills=["git.release"])
    (made,) = consolidated(vault)["procedures"]
    assert "skillId" not in made


def test_a_procedure_whose_title_says_nothing_is_no_obstacle(vault: Vault, folder: Path) -> None:
    """A title of unseen characters stops nothing; a name in another spelling is taken."""
    write(folder, "procedure/p.md", '---\ntitle: "\u200b"\n---\n\nSomething\n')
    write(folder, "procedure/q.md", "---\ntitle: Zu\u0308ge.Fahren\n---\n\nSomething\n")
    for name in ("one", "two"):
        put(folder, name, actions=["Pull main", "Push the branch"], skills=["z\u00fcge.fahren"])
    (made,) = consolidated(vault, apply=True)["procedures"]
    assert made["name"] == "Pull main, then Push the branch"


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
    counts = recall_counts.counts(folder)
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


@pytest.mark.parametrize(
    ("said", "proposed"),
    [
        ("Never deploy on Friday.", True),
        ("All good. Tests passed.", False),
        ("TODO: check the staging logs later.", False),
        ("See https://example.org/a/b for more.", False),
    ],
)
def test_a_rule_is_a_fact_and_a_remark_is_none(vault: Vault, said: str, proposed: bool) -> None:
    """A short rule that repeats is proposed; tasks, links, remarks and situations are not."""
    for number in range(3):
        vault.call(
            "store_episode",
            context=["Meeting room 3 downstairs"],
            actions=[f"Did {number}"],
            reflection=said,
        )
    facts = vault.call("consolidate_memories")["facts"]
    assert [fact["factText"] for fact in facts] == ([said] if proposed else [])


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
