"""Consolidation: what repeats becomes facts and procedures, and nothing is ever lost."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, refused, until, write
from episodes import ERROR, RELEASE, UNRELATED, WEEK, put, put_all
from memvault import Vault
from memvault.call import Call
from memvault.consolidation import rules
from memvault.consolidation.apply import apply_proposals, load_input
from memvault.files.lock import FileLock
from memvault.index.text.analyzer import analyser
from memvault.workspace import Workspace


def consolidated(vault: Vault, **arguments: Any) -> dict[str, Any]:
    """Consolidate and expect success."""
    result = vault.call("consolidate_memories", **arguments)
    assert result["success"], result
    return result


def texts(result: dict[str, Any]) -> list[str]:
    """The texts of the facts in a result."""
    return [entry["factText"] for entry in result["facts"]]


def contents(root: Path) -> dict[str, bytes]:
    """Every file of a vault that is not the program's own."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*.md")
        if ".memvault" not in path.parts
    }


def fact(root: Path, name: str, text: str, header: str = "", confidence: float = 0.9) -> None:
    """Write a fact as a person would."""
    write(
        root,
        f"fact/{name}.md",
        f"---\nid: {name}-id\nmemory_type: fact\nconfidence: {confidence}\n{header}---\n\n{text}\n",
    )


def test_what_an_agent_repeats_is_proposed_as_facts(vault: Vault, folder: Path) -> None:
    """A lesson that several episodes state in the same words is found, with its episodes."""
    put_all(folder, WEEK)
    before = contents(folder)
    result = consolidated(vault)
    found = {entry["factText"].rstrip(".!"): entry for entry in result["facts"]}
    assert found.keys() == {
        "The integration tests need the Docker daemon",
        "The staging database is PostgreSQL",
        "The API limit is 100 requests per minute",
        "Do not edit the lock file by hand",
    }
    docker = found["The integration tests need the Docker daemon"]
    assert docker["episodes"] == ["release-one-id", "release-two-id"]
    assert docker["confidence"] == 0.67
    assert [quote["text"] for quote in docker["quotes"]] == [
        "The integration tests need the Docker daemon.",
        "integration tests require the Docker daemon!",
    ]
    assert result["applied"] is False
    assert contents(folder) == before


def test_repeated_actions_are_proposed_as_procedures(vault: Vault, folder: Path) -> None:
    """A sequence that mostly went well is found whole, with its measured success rate."""
    put_all(folder, WEEK)
    release, debug = consolidated(vault)["procedures"]
    assert release["name"] == release["skillId"] == "git.release"
    assert release["prompt"].splitlines() == [f"{n}. {text}" for n, text in enumerate(RELEASE, 1)]
    assert release["successRate"] == pytest.approx(0.6667)
    assert release["episodes"] == ["release-one-id", "release-three-id", "release-two-id"]
    assert debug["name"] == "Reproduce the bug with a failing test, then Run the unit tests"
    assert debug["successRate"] == 1.0
    assert "skillId" not in debug


def test_a_sequence_that_mostly_failed_is_no_procedure(vault: Vault, folder: Path) -> None:
    """What did not help twice is never proposed as the way to do it."""
    for name in ("one", "two"):
        put(folder, name, actions=["Restart", "Hope"], outcomes=[ERROR])
    put(folder, "three", actions=["Restart", "Hope"])
    assert consolidated(vault)["procedures"] == []


def test_unrelated_episodes_propose_nothing(vault: Vault, folder: Path) -> None:
    """Where nothing repeats nothing is made up."""
    put_all(folder, UNRELATED)
    result = consolidated(vault)
    assert (result["facts"], result["procedures"], result["forgotten"]) == ([], [], [])
    assert "merged" not in result
    assert "contradictions" not in result
    assert result["message"].startswith("Nothing new to propose")


@pytest.mark.parametrize(
    ("is_one", "one", "other"),
    [
        (False, "The API limit is 100 per minute", "The API limit is 60 per minute"),
        (False, "The build works without the network", "The build works with the network"),
        (False, "Deploys to staging need the VPN", "Deploys to staging do not need the VPN"),
        (False, "Ana reviews the database changes", "Ben reviews the database changes"),
        (False, "The worker depends on the scheduler", "The scheduler depends on the worker"),
        (False, "The unit tests pass on Linux", "The unit tests fail on Linux"),
        (False, "The nightly build is slow on Windows", "The nightly build is slow"),
        (False, "The check x == 1 guards the loop", "The check x != 1 guards the loop"),
        (False, "Write the parser in C++ please", "Write the parser in C please"),
        (False, "Run the migrations before the tests", "Run the migrations after the tests"),
        (False, "Retry the upload to the mirror", "Retry the upload only to the mirror"),
        (True, "Never force-push to main.", "Lesson: do not force-push to main"),
        (True, "The tests require a running Redis server", "Tests need a running Redis server!"),
        (True, "**Always** clear the cache first", "- clear the cache first"),
        (False, "Deploys to staging need the VPN", "Deploys to staging need the VPN connection"),
        (
            True,
            "Don't trust the clock of the CI machine",
            "do not trust the clock of the CI\nmachine",
        ),
    ],
)
def test_statements_are_one_if_they_mean_the_same(
    vault: Vault, folder: Path, is_one: bool, one: str, other: str
) -> None:
    """Sentences are the same if they differ only in filler words, inflection and synonyms."""
    put(folder, "one", reflection=one)
    put(folder, "other", reflection=other)
    found = [entry["episodes"] for entry in consolidated(vault)["facts"]]
    assert found == ([["one-id", "other-id"]] if is_one else [])


def test_one_episode_that_repeats_itself_proves_nothing(vault: Vault, folder: Path) -> None:
    """Saying something twice in one episode is not saying it in two."""
    said = "The queue drops messages over a megabyte."
    put(folder, "one", context=[said], reflection=f"{said} {said}", actions=["a", "b", "a", "b"])
    result = consolidated(vault)
    assert result["facts"] == result["procedures"] == []


def test_only_the_days_asked_for_are_looked_at(vault: Vault, folder: Path) -> None:
    """Older episodes count when they are asked for."""
    put(folder, "new", reflection="The queue drops messages over a megabyte.")
    put(folder, "old", reflection="The queue drops messages over a megabyte.", days=20)
    assert texts(consolidated(vault)) == []
    assert len(texts(consolidated(vault, days=30))) == 1


def test_applied_facts_are_memories_with_links(vault: Vault, folder: Path) -> None:
    """What is written is a fact and a procedure like all others, and says where it is from."""
    put_all(folder, WEEK)
    result = consolidated(vault, apply=True)
    assert result["applied"] is True
    docker = next(entry for entry in result["facts"] if "Docker" in entry["factText"])
    shown = vault.call("memory_show", memId=docker["factId"])
    assert shown["memoryType"] == "fact"
    assert shown["metadata"]["episodes"] == docker["episodes"]
    assert shown["metadata"]["confidence"] == 0.67
    assert shown["content"].strip() == (
        "The integration tests need the Docker daemon.\n\nFrom [[release-one]], [[release-two]]"
    )
    procedure = vault.call("memory_show", memId=result["procedures"][0]["procedureId"])
    assert procedure["title"] == "git.release"
    assert procedure["metadata"]["success_rate"] == pytest.approx(0.6667)
    assert procedure["metadata"]["usage_count"] == 3
    assert procedure["metadata"]["skill_id"] == "git.release"
    assert procedure["content"].rstrip().endswith("[[release-three]], [[release-two]]")


def test_running_it_again_proposes_nothing_new(vault: Vault, folder: Path) -> None:
    """Once applied nothing is proposed again, and nothing is written again."""
    put_all(folder, WEEK)
    fact(folder, "a", "The wiki lies on the old server.")
    fact(folder, "b", "The wiki lies on the old server", confidence=0.5)
    put(folder, "forgettable", importance=0.1, days=200)
    assert consolidated(vault, apply=True)["merged"]
    before = contents(folder)
    for apply in (False, True):
        again = consolidated(vault, apply=apply)
        assert again["facts"] == again["procedures"] == again["forgotten"] == []
        assert "merged" not in again
    assert contents(folder) == before


def test_a_fact_that_a_person_rewrote_is_not_proposed_again(vault: Vault, folder: Path) -> None:
    """After a person has corrected a fact, its old text is not proposed again."""
    put_all(folder, WEEK[:2])
    (made,) = consolidated(vault, apply=True)["facts"]
    path = folder / made["filePath"]
    path.write_text(path.read_text("utf-8").replace("need the Docker daemon", "use Podman"))
    assert texts(consolidated(vault)) == []


@pytest.mark.parametrize("header", ["", "status: archived\n"])
def test_a_statement_of_a_fact_is_not_proposed(vault: Vault, folder: Path, header: str) -> None:
    """What is known, or was put away, is not proposed, also within a longer fact."""
    put_all(folder, WEEK[:2])
    fact(folder, "ci", "About CI. Integration tests need the Docker daemon! Since 2024.", header)
    assert texts(consolidated(vault)) == []


def test_facts_that_say_the_same_are_merged_into_the_surer_one(vault: Vault, folder: Path) -> None:
    """The surer fact stays, the other is put away, names it, and is still there to be read."""
    fact(folder, "sure", "The wiki lies on the old server", confidence=0.9)
    fact(folder, "unsure", "Wiki lies on the old server.", "# mine\n", 0.4)
    fact(folder, "other", "The wiki lies on the new server", confidence=0.4)
    (merge,) = consolidated(vault)["merged"]
    assert (merge["keptId"], merge["archivedId"]) == ("sure-id", "unsure-id")
    consolidated(vault, apply=True)
    shown = vault.call("memory_show", memId="unsure-id")
    assert shown["metadata"]["status"] == "archived"
    assert shown["metadata"]["superseded_by"] == "sure-id"
    assert len(shown["revisions"]) == 1
    assert "# mine\n" in (folder / "fact/unsure.md").read_text("utf-8")


def test_of_facts_as_sure_the_newer_stays(vault: Vault, folder: Path) -> None:
    """Between equals the one that was changed last is kept."""
    fact(folder, "a", "The wiki lies on the old server", "modified: 2026-01-01\n")
    fact(folder, "b", "The wiki lies on the old server", "modified: 2026-02-01\n")
    (merge,) = consolidated(vault)["merged"]
    assert (merge["keptId"], merge["archivedId"]) == ("b-id", "a-id")


@pytest.mark.parametrize(
    ("difference", "one", "other"),
    [
        ("number", "The API limit is 100 per minute", "The API limit is 60 per minute"),
        ("negation", "Deploys to staging need the VPN", "Deploys to staging don't need the VPN"),
        ("negation", "The unit tests pass on Linux", "The unit tests fail on Linux"),
        ("value", "The staging database is PostgreSQL", "The staging database is MySQL"),
        ("", "Ticket 12 was closed as a duplicate", "Ticket 13 was closed as a duplicate"),
        ("", "The login page is slow", "The login page is broken"),
        ("", "The tests do not pass on Linux", "The tests fail on Linux"),
        ("", "The service uses Redis for caching", "The service uses Postgres for storing"),
    ],
)
def test_contradictions_are_shown_and_left_alone(
    vault: Vault, folder: Path, difference: str, one: str, other: str
) -> None:
    """Only facts that cannot both hold are shown side by side; nothing chooses between them."""
    fact(folder, "one", one)
    fact(folder, "other", other, confidence=0.2)
    before = contents(folder)
    shown = consolidated(vault, apply=True).get("contradictions", [])
    assert [entry["difference"] for entry in shown] == ([difference] if difference else [])
    for entry in shown:
        assert {statement["text"] for statement in entry["statements"]} == {one, other}
        assert [statement["memIds"] for statement in entry["statements"]] == [
            ["one-id"],
            ["other-id"],
        ]
    assert contents(folder) == before


def test_a_new_fact_is_shown_beside_what_contradicts_it(vault: Vault, folder: Path) -> None:
    """A person sees who says otherwise before anything is written."""
    put_all(folder, WEEK)
    (shown,) = consolidated(vault)["contradictions"]
    assert [entry["memIds"] for entry in shown["statements"]] == [
        ["login-bug-id", "release-three-id"],
        ["timeouts-id"],
    ]


def test_what_is_unimportant_old_and_never_recalled_is_put_away(vault: Vault, folder: Path) -> None:
    """Only what fails on all three counts goes to the archive, and a file it stays."""
    put(folder, "gone", importance=0.1, days=120, reflection="Watered the plants at noon")
    put(folder, "important", importance=0.3, days=120)
    put(folder, "young", importance=0.1, days=80)
    put(folder, "recalled", importance=0.1, days=120)
    put(folder, "learned", importance=0.1, days=120, kind="learning")
    put(folder, "procedure", importance=0.1, days=120, kind="procedure")
    write(folder, ".memvault/access.json", '{"recalled-id": {"count": 1, "last": "x"}}')
    (entry,) = consolidated(vault)["forgotten"]
    assert (entry["memId"], entry["importance"]) == ("gone-id", 0.1)
    assert len(consolidated(vault, apply=True)["forgotten"]) == 1
    shown = vault.call("memory_show", memId="gone-id")
    assert shown["metadata"]["status"] == "archived"
    found = vault.call("memory_recall", query="watered plants noon")["memories"]
    assert found[0]["memId"] == "gone-id"


def test_concurrently_changed_memory_is_skipped(folder: Path) -> None:
    """A file that was edited between the look at it and the writing keeps the edit."""
    put(folder, "gone", importance=0.1, days=120)
    put(folder, "kept", importance=0.1, days=120)
    workspace = Workspace(folder)
    call = Call(workspace)
    given = load_input(call.store, call.engine, 7, datetime.now(UTC))
    proposals = rules.propose(given, analyser("english"), datetime.now(UTC))
    edited = write(folder, "episode/kept.md", "---\nid: kept-id\n---\n\nA person's words\n")
    writing = apply_proposals(call.store, call.engine, proposals, ())
    assert [memory.mem_id for memory in writing.written.values()] == ["gone-id"]
    assert "episode/kept.md was changed in the meantime" in writing.skipped[0]
    assert edited.read_text("utf-8").endswith("A person's words\n")
    workspace.close()


def test_a_vault_that_ignores_facts_says_so(run: Run, folder: Path) -> None:
    """Where nothing can be written because of exclusions, the message gives the reason."""
    write(folder, "memvault.toml", 'version = 1\nignore = ["fact"]\n')
    put_all(folder, WEEK)
    assert "is excluded from the vault" in refused(run("consolidate", "--apply"), 1)


def test_two_that_apply_at_once_write_nothing_twice(run: Run, folder: Path) -> None:
    """Several agents may consolidate at the same time."""
    put_all(folder, WEEK)
    command = [sys.executable, "-m", "memvault", "consolidate", "--apply", "--json"]
    started = [
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ended = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], ended
    assert len(list((folder / "fact").iterdir())) == 4
    assert len(list((folder / "procedure").iterdir())) == 2
    assert run("consolidate", "--json").json["facts"] == []


def test_the_command_shows_what_it_would_do(run: Run, folder: Path) -> None:
    """People read what is proposed, from where, and how to have it done."""
    put_all(folder, WEEK[:2])
    told = run("consolidate")
    assert told.code == 0
    assert "The integration tests need the Docker daemon." in told.out
    assert "release-one-id, release-two-id" in told.out
    assert "`memvault consolidate --apply` writes them" in told.out
    assert "--apply does it" not in run("consolidate", "--apply").out


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


def test_concurrently_stored_name_is_not_duplicated(folder: Path, vault: Vault) -> None:
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
    """A procedure's skillId is a valid id, however it was spelled."""
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
