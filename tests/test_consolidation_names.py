"""Consolidation takes no memId, name or skill for its own that another memory has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import until, write
from episodes import WEEK, put, put_all
from memvault import Vault
from memvault.files.lock import FileLock
from test_consolidate import consolidated, contents, fact


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
    assert "A procedure 'git.release' exists now" in out
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
