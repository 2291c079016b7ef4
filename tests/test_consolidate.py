"""Consolidation: repetitions become facts and procedures, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, called, refused, until, vault_files, write
from episodes import ERROR, RELEASE, UNRELATED, WEEK, put, put_all
from memvault import Vault
from memvault.call import Call
from memvault.consolidation import rules
from memvault.consolidation.apply import apply_proposals, load_input
from memvault.files.lock import FileLock
from memvault.index.text.analyzer import analyzer
from memvault.workspace import Workspace


def consolidated(vault: Vault, **arguments: Any) -> dict[str, Any]:
    """Consolidate and expect success."""
    return called(vault, "consolidate_memories", **arguments)


def texts(result: dict[str, Any]) -> list[str]:
    """The facts in a result, as strings."""
    return [entry["factText"] for entry in result["facts"]]


def fact(root: Path, name: str, text: str, header: str = "", confidence: float = 0.9) -> None:
    """Write a fact as a person would."""
    write(
        root,
        f"fact/{name}.md",
        f"---\nid: {name}-id\nmemory_type: fact\nconfidence: {confidence}\n{header}---\n\n{text}\n",
    )


def test_consolidate_proposes_repeated_statements_as_facts(vault: Vault, folder: Path) -> None:
    """A lesson stated in the same words in several episodes is found, with its episodes."""
    put_all(folder, WEEK)
    before = vault_files(folder)
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
    assert vault_files(folder) == before


def test_consolidate_proposes_repeated_actions(vault: Vault, folder: Path) -> None:
    """A mostly successful sequence is found completely, with its measured success rate."""
    put_all(folder, WEEK)
    release, debug = consolidated(vault)["procedures"]
    assert release["name"] == release["skillId"] == "git.release"
    assert release["prompt"].splitlines() == [f"{n}. {text}" for n, text in enumerate(RELEASE, 1)]
    assert release["successRate"] == pytest.approx(0.6667)
    assert release["episodes"] == ["release-one-id", "release-three-id", "release-two-id"]
    assert debug["name"] == "Reproduce the bug with a failing test, then Run the unit tests"
    assert debug["successRate"] == 1.0
    assert "skillId" not in debug


def test_consolidate_ignores_mostly_failed_sequence(vault: Vault, folder: Path) -> None:
    """A sequence of actions that failed twice is never proposed as a procedure."""
    for name in ("one", "two"):
        put(folder, name, actions=["Restart", "Hope"], outcomes=[ERROR])
    put(folder, "three", actions=["Restart", "Hope"])
    assert consolidated(vault)["procedures"] == []


def test_consolidate_proposes_nothing_for_unrelated_episodes(vault: Vault, folder: Path) -> None:
    """If nothing repeats, nothing is proposed."""
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
def test_consolidate_matches_statements_by_meaning(
    vault: Vault, folder: Path, is_one: bool, one: str, other: str
) -> None:
    """Sentences are equal if they differ only in filler words, inflection and synonyms."""
    put(folder, "one", reflection=one)
    put(folder, "other", reflection=other)
    found = [entry["episodes"] for entry in consolidated(vault)["facts"]]
    assert found == ([["one-id", "other-id"]] if is_one else [])


def test_consolidate_counts_repetition_in_one_episode_once(vault: Vault, folder: Path) -> None:
    """Repeating a statement within one episode does not count as two episodes."""
    said = "The queue drops messages over a megabyte."
    put(folder, "one", context=[said], reflection=f"{said} {said}", actions=["a", "b", "a", "b"])
    result = consolidated(vault)
    assert result["facts"] == result["procedures"] == []


def test_consolidate_considers_only_requested_days(vault: Vault, folder: Path) -> None:
    """Older episodes count only when requested."""
    put(folder, "new", reflection="The queue drops messages over a megabyte.")
    put(folder, "old", reflection="The queue drops messages over a megabyte.", days=20)
    assert texts(consolidated(vault)) == []
    assert len(texts(consolidated(vault, days=30))) == 1


def test_consolidate_writes_facts_with_source_links(vault: Vault, folder: Path) -> None:
    """Applied facts and procedures are ordinary memories that link to their sources."""
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


def test_consolidate_is_idempotent(vault: Vault, folder: Path) -> None:
    """Once applied, nothing is proposed or written again."""
    put_all(folder, WEEK)
    fact(folder, "a", "The wiki lies on the old server.")
    fact(folder, "b", "The wiki lies on the old server", confidence=0.5)
    put(folder, "forgettable", importance=0.1, days=200)
    assert consolidated(vault, apply=True)["merged"]
    before = vault_files(folder)
    for apply in (False, True):
        again = consolidated(vault, apply=apply)
        assert again["facts"] == again["procedures"] == again["forgotten"] == []
        assert "merged" not in again
    assert vault_files(folder) == before


def test_consolidate_does_not_repeat_corrected_fact(vault: Vault, folder: Path) -> None:
    """After a person has corrected a fact, its old text is not proposed again."""
    put_all(folder, WEEK[:2])
    (made,) = consolidated(vault, apply=True)["facts"]
    path = folder / made["filePath"]
    path.write_text(path.read_text("utf-8").replace("need the Docker daemon", "use Podman"))
    assert texts(consolidated(vault)) == []


@pytest.mark.parametrize("header", ["", "status: archived\n"])
def test_consolidate_does_not_propose_known_fact(vault: Vault, folder: Path, header: str) -> None:
    """Known or archived statements are not proposed, even if part of a longer fact."""
    put_all(folder, WEEK[:2])
    fact(folder, "ci", "About CI. Integration tests need the Docker daemon! Since 2024.", header)
    assert texts(consolidated(vault)) == []


def test_consolidate_merges_equal_facts_into_most_confident(vault: Vault, folder: Path) -> None:
    """The more confident fact stays; the other is archived with a link to it and stays readable."""
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


def test_consolidate_keeps_newer_of_equally_confident_facts(vault: Vault, folder: Path) -> None:
    """Of equally confident facts, the last changed one is kept."""
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
def test_consolidate_shows_contradictions_unchanged(
    vault: Vault, folder: Path, difference: str, one: str, other: str
) -> None:
    """Only facts that can't both be true are shown together, and none is changed."""
    fact(folder, "one", one)
    fact(folder, "other", other, confidence=0.2)
    before = vault_files(folder)
    shown = consolidated(vault, apply=True).get("contradictions", [])
    assert [entry["difference"] for entry in shown] == ([difference] if difference else [])
    for entry in shown:
        assert {statement["text"] for statement in entry["statements"]} == {one, other}
        assert [statement["memIds"] for statement in entry["statements"]] == [
            ["one-id"],
            ["other-id"],
        ]
    assert vault_files(folder) == before


def test_consolidate_shows_contradiction_of_new_fact(vault: Vault, folder: Path) -> None:
    """A person sees contradicting facts before anything is written."""
    put_all(folder, WEEK)
    (shown,) = consolidated(vault)["contradictions"]
    assert [entry["memIds"] for entry in shown["statements"]] == [
        ["login-bug-id", "release-three-id"],
        ["timeouts-id"],
    ]


def test_consolidate_archives_unimportant_old_unrecalled_memory(vault: Vault, folder: Path) -> None:
    """Only a memory that meets all three criteria is archived, and it stays a file."""
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


def test_consolidate_skips_concurrently_changed_memory(folder: Path) -> None:
    """A file edited between the analysis and the write keeps the edit."""
    put(folder, "gone", importance=0.1, days=120)
    put(folder, "kept", importance=0.1, days=120)
    workspace = Workspace(folder)
    call = Call(workspace)
    given = load_input(call.store, call.engine, 7, datetime.now(UTC))
    proposals = rules.propose(given, analyzer("english"), datetime.now(UTC))
    edited = write(folder, "episode/kept.md", "---\nid: kept-id\n---\n\nA person's words\n")
    writing = apply_proposals(call.store, call.engine, proposals, ())
    assert [memory.mem_id for memory in writing.written.values()] == ["gone-id"]
    assert "episode/kept.md has changed since it was read" in writing.skipped[0]
    assert edited.read_text("utf-8").endswith("A person's words\n")
    workspace.close()


def test_consolidate_reports_excluded_fact_folder(run: Run, folder: Path) -> None:
    """If exclusions prevent writing, the message gives the reason."""
    write(folder, "memvault.toml", 'version = 1\nignore = ["fact"]\n')
    put_all(folder, WEEK)
    assert "is excluded from the vault" in refused(run("consolidate", "--apply"), 1)


def test_consolidate_concurrent_runs_write_nothing_twice(run: Run, folder: Path) -> None:
    """Several agents can consolidate at the same time."""
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


def test_consolidate_command_previews_proposals(run: Run, folder: Path) -> None:
    """The output shows the proposals, their sources and how to apply them."""
    put_all(folder, WEEK[:2])
    told = run("consolidate")
    assert told.code == 0
    assert "The integration tests need the Docker daemon." in told.out
    assert "release-one-id, release-two-id" in told.out
    assert "`memvault consolidate --apply` writes them" in told.out
    assert "Nothing has been written yet" in told.out
    assert "Nothing has been written yet" not in run("consolidate", "--apply").out


def test_consolidate_groups_contradicting_values(vault: Vault, folder: Path) -> None:
    """The size of the result is linear in the number of facts that disagree."""
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
def test_consolidate_shows_contradicting_short_facts(vault: Vault, one: str, other: str) -> None:
    """Facts with only two significant words are also compared."""
    for text in (one, other):
        vault.call("store_fact", fact=text)
    assert len(vault.call("consolidate_memories")["contradictions"]) == 1


def twin(root: Path, name: str, text: str, confidence: float) -> None:
    """Write a fact whose memId also occurs in other files, as after copying a file."""
    header = f"id: same-id\nmemory_type: fact\nconfidence: {confidence}"
    write(root, f"fact/{name}.md", f"---\n{header}\n---\n\n{text}\n")


def test_consolidate_skips_facts_with_shared_id(vault: Vault, folder: Path) -> None:
    """If a memId is ambiguous, no facts are merged by it."""
    twin(folder, "a", "The build needs the Docker daemon", 0.9)
    twin(folder, "b", "The build needs the Docker daemon", 0.5)
    twin(folder, "c", "Zebras are in the zoo at noon", 0.2)
    before = vault_files(folder)
    assert "merged" not in consolidated(vault)
    assert "merged" not in consolidated(vault, apply=True)
    assert vault_files(folder) == before


def test_consolidate_skips_id_shared_with_other_type(vault: Vault, folder: Path) -> None:
    """Facts are not merged if superseded_by would refer to two files."""
    fact(folder, "sure", "The wiki lies on the old server", confidence=0.9)
    fact(folder, "unsure", "The wiki lies on the old server", confidence=0.4)
    write(folder, "learning/copy.md", "---\nid: sure-id\n---\n\nSomething else\n")
    assert "merged" not in consolidated(vault)


def test_consolidate_archives_each_file_with_shared_id(vault: Vault, folder: Path) -> None:
    """Exactly the files listed in the result are changed."""
    put(folder, "gone", importance=0.1, days=120)
    path = folder / "episode/gone.md"
    write(folder, "episode/copy.md", path.read_text("utf-8"))
    kept = write(folder, "episode/kept.md", path.read_text("utf-8").replace("0.1", "0.9"))
    found = consolidated(vault, apply=True)["forgotten"]
    assert [entry["filePath"] for entry in found] == ["episode/copy.md", "episode/gone.md"]
    assert len({entry["proposalId"] for entry in found}) == 2
    assert "archived" in path.read_text("utf-8")
    assert "archived" not in kept.read_text("utf-8")


def test_consolidate_counts_copied_episode_once(vault: Vault, folder: Path) -> None:
    """A copy of an episode's file does not count as a second experience."""
    put(folder, "one", actions=["Pull main", "Push the branch"], reflection="The queue is long.")
    write(folder, "episode/copy.md", (folder / "episode/one.md").read_text("utf-8"))
    result = consolidated(vault)
    assert result["facts"] == result["procedures"] == []


def test_consolidate_skips_concurrently_stored_name(folder: Path, vault: Vault) -> None:
    """Another writer's procedure keeps its name, and the skipped one is not reported as applied."""
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
    assert "A procedure 'git.release' already exists" in out
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
def test_consolidate_normalizes_skill_id(
    vault: Vault, folder: Path, skills: list[str], skill: str | None
) -> None:
    """A procedure's skillId is a valid ID, however it was spelled."""
    for place, name in enumerate(skills):
        put(folder, f"e{place}", actions=["Pull main", "Push the branch"], skills=[name])
    (made,) = consolidated(vault, apply=True)["procedures"]
    assert made.get("skillId") == skill
    assert made["name"] == (skill or "Pull main, then Push the branch")
    if skill:
        assert vault.call("use_skill", skillId="GIT.RELEASE", actionDescription="go")["success"]


def test_consolidate_does_not_reuse_skill_id(vault: Vault, folder: Path) -> None:
    """A skillId in different letter case counts as the same."""
    header = "memory_type: procedure\nskill_id: GIT.Release"
    write(folder, "procedure/p.md", f"---\n{header}\n---\n\n1. Something\n2. Other\n")
    for name in ("one", "two"):
        put(folder, name, actions=["Pull main", "Push the branch"], skills=["git.release"])
    (made,) = consolidated(vault)["procedures"]
    assert "skillId" not in made


def test_consolidate_accepts_procedure_with_blank_title(vault: Vault, folder: Path) -> None:
    """An invisible title blocks nothing; a name in another Unicode form counts as existing."""
    write(folder, "procedure/p.md", '---\ntitle: "\u200b"\n---\n\nSomething\n')
    write(folder, "procedure/q.md", "---\ntitle: Zu\u0308ge.Fahren\n---\n\nSomething\n")
    for name in ("one", "two"):
        put(folder, name, actions=["Pull main", "Push the branch"], skills=["z\u00fcge.fahren"])
    (made,) = consolidated(vault, apply=True)["procedures"]
    assert made["name"] == "Pull main, then Push the branch"
