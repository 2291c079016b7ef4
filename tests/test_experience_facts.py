"""Facts and procedures are counted exactly by concurrent processes, and corrected without loss."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SOAK, Run, called, examples, indexed, refused, vault_files, write
from memvault import Vault, open_vault
from memvault.experience import facts, procedures
from memvault.files.lock import FileLock
from memvault.recall import recall_counts
from memvault.vault.private_folder import private_folder
from memvault.workspace import Workspace
from racing import Racing, raced


def recalled(vault: Vault, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """Recall facts."""
    return list(called(vault, "recall_fact", query=query, **arguments)["facts"])


def test_fact_keeps_all_its_fields(vault: Vault) -> None:
    """Text, category, confidence and source are returned as stored; the rest have defaults."""
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


def test_facts_are_filtered_by_category_and_limit(folder: Path, vault: Vault) -> None:
    """A category matches in any case, and a handwritten fact without one is general."""
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
def test_fact_and_confidence_round_trip(
    tmp_path_factory: pytest.TempPathFactory, text: str, confidence: float
) -> None:
    """A confidence is stored exactly, and a fact's text without surrounding line breaks."""
    root = tmp_path_factory.mktemp("vault")
    (root / "memvault.toml").write_text("version = 1\n")
    with open_vault(root) as vault:
        made = vault.call("store_fact", fact=f"a{text}z", confidence=confidence)
    read = facts.fact_of(Workspace(root).store.read(made["filePath"]))
    assert read.confidence == confidence
    assert read.text.replace("\n", "") == "".join(
        char for char in f"a{text}z" if char.isprintable() or char == "\t" or ord(char) >= 0xA0
    )


def test_fact_correction_keeps_old_text_in_history(folder: Path, vault: Vault) -> None:
    """The new text is recalled under a new title, and the old text is kept as a revision."""
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
    assert vault.call("update_fact", factId=made["factId"][:-2], newConfidence=0)["success"]


def test_fact_correction_keeps_handwritten_parts(folder: Path, vault: Vault) -> None:
    """A custom title, comments and the line that lists the episodes survive a correction."""
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


def test_invalid_fact_correction_changes_nothing(run: Run, folder: Path) -> None:
    """An unknown id, another type, empty content or an empty change is refused."""
    run("fact", "store", "The bridge is closed")
    run("remember", "A decision", "Text")
    before = vault_files(folder)
    refused(run("fact", "update", "nothing-a2b3c4", "--new-text", "x"), 1)
    refused(run("fact", "update", "A decision", "--new-text", "x"), 1)
    refused(run("fact", "update", "The bridge is closed"), 2)
    refused(run("fact", "update", "The bridge is closed", "--new-text", " "), 2)
    refused(run("fact", "update", "The bridge is closed", "--new-confidence", "2"), 2)
    refused(run("fact", "store", " "), 2)
    refused(run("fact", "store", "x", "--category", "c" * 300), 2)
    assert vault_files(folder) == before


def test_each_fact_recall_is_counted_once(vault: Vault) -> None:
    """A fact's count covers recalls by recall_fact, recall_memory and recall, once each."""
    known = vault.call("store_fact", fact="The wombat digs")["factId"]
    vault.call("store_fact", fact="Rye bread keeps for a week")
    assert [recalled(vault, "wombat")[0]["accessCount"] for _ in range(3)] == [1, 2, 3]
    assert vault.call("recall_memory", observations=["a wombat"])["sources"]["facts"] == [known]
    vault.call("memory_recall", query="wombat")
    assert recalled(vault, "wombat")[0]["accessCount"] == 6
    assert recalled(vault, "rye bread")[0]["accessCount"] == 1


COUNTING = """
from pathlib import Path
from memvault.recall import recall_counts

def work(*own):
    for _ in range(25):
        recall_counts.count(Path.cwd(), ["a-b2c3d4", *own])
"""


def test_concurrent_access_counts_are_exact(folder: Path, racing: Racing) -> None:
    """Access counts from eight concurrent processes add up exactly, even if folded often."""
    own = [[f"own-{number}-{place:090}" for place in range(20)] for number in range(8)]
    raced(racing.run(folder, COUNTING, own))
    assert recall_counts.counts(folder) == {
        "a-b2c3d4": 200, **{name: 25 for names in own for name in names}
    }  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"x": 3, "y": {"count": "many"}, "z": {}}', b"null"],
    ids=repr,
)
def test_damaged_access_counts_do_not_break_fact_recall(
    folder: Path, vault: Vault, damage: bytes
) -> None:
    """With any content of the counts file, facts are recalled and counting continues."""
    vault.call("store_fact", fact="The wombat digs")
    write(folder, ".memvault/access.json", damage)
    assert recalled(vault, "wombat")[0]["accessCount"] == 1
    assert recalled(vault, "wombat")[0]["accessCount"] == 2
    assert list(recall_counts.counts(folder).values()) == [2]
    write(folder, ".memvault/access.jsonl", damage * 30_000)
    number = recalled(vault, "wombat")[0]["accessCount"]
    assert recalled(vault, "wombat")[0]["accessCount"] == number + 1


def test_intact_access_counts_survive_damage(folder: Path) -> None:
    """Intact entries of a partly damaged counts file still count."""
    write(folder, ".memvault/access.json", '{"a-b2c3d4": {"count": 4}, "c": {"count": true}}')
    recall_counts.count(folder, ["a-b2c3d4"])
    assert recall_counts.counts(folder) == {"a-b2c3d4": 5}
    with (folder / ".memvault/access.jsonl").open("a") as file:
        file.write('{"x": 1}\n5\n["2026-11-22", 7, "a-b2c3d4"]\n["2026-11-22", "a-b2')
    recall_counts.count(folder, ["a-b2c3d4"])
    assert recall_counts.counts(folder) == {"a-b2c3d4": 7}, "a line cut off is one count"


def test_recall_appends_one_line_of_counts(vault: Vault, folder: Path) -> None:
    """A recall appends one line without rewriting files, even if many memories have counts."""
    vault.call("store_fact", fact="The wombat digs")
    entries = {f"some-{number}": {"count": 1, "last": "x"} for number in range(2_000)}
    file = write(folder, ".memvault/access.json", json.dumps(entries))
    before = file.stat().st_ino, file.stat().st_mtime_ns
    for number in range(1, 30):
        assert recalled(vault, "wombat")[0]["accessCount"] == number
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before
    assert (folder / ".memvault/access.jsonl").read_bytes().count(b"\n") == 29


def test_access_counts_file_stays_small(vault: Vault, folder: Path) -> None:
    """Lines are folded early, and for very many memories only the latest counts are kept."""
    entries = {f"gone-{number}": {"count": 1, "last": "2026"} for number in range(49_999)}
    write(folder, ".memvault/access.json", json.dumps({"first": {"count": 1}, **entries}))
    number = 0
    while not number or (folder / ".memvault/access.jsonl").exists():
        recall_counts.count(folder, ["a-b2c3d4"] * 3 + ["b" * 40])
        number += 1
    assert 100 < number < 2_000
    known = recall_counts.counts(folder)
    assert known["a-b2c3d4"] == known["b" * 40] == number
    assert "first" not in known
    assert len(known) == 50_000


def test_consolidation_drops_counts_of_deleted_memories(vault: Vault, folder: Path) -> None:
    """Counts of deleted memories not recalled for a season are dropped; the rest are kept."""
    fact = vault.call("store_fact", fact="The wombat digs")["factId"]
    long_ago = {"count": 3, "last": "2020-01-01T00:00:00.000Z"}
    write(folder, ".memvault/access.json", json.dumps({fact: long_ago, "gone": long_ago}))
    recall_counts.count(folder, ["in-the-trash"])
    assert vault.call("consolidate_memories", apply=False)["success"]
    assert recall_counts.counts(folder) == {fact: 3, "gone": 3, "in-the-trash": 1}
    assert vault.call("consolidate_memories", apply=True)["success"]
    assert recall_counts.counts(folder) == {fact: 3, "in-the-trash": 1}


def test_access_counts_are_not_written_through_symlink(
    folder: Path, vault: Vault, tmp_path: Path
) -> None:
    """A symlink in place of the counts file is replaced, and its target is unchanged."""
    vault.call("store_fact", fact="The wombat digs")
    aim = write(tmp_path, "elsewhere.json", '{"x": {"count": 1}}')
    (folder / ".memvault" / "access.json").symlink_to(aim)
    assert recalled(vault, "wombat")[0]["accessCount"] == 1
    assert aim.read_text() == '{"x": {"count": 1}}'


@pytest.mark.skipif(os.name == "nt", reason="POSIX links")
def test_facts_are_recalled_if_counting_fails(folder: Path, vault: Vault) -> None:
    """If the lock is a symlink, facts are recalled uncounted, with a note."""
    vault.call("store_fact", fact="The wombat digs")
    (folder / ".memvault" / "access.lock").symlink_to("/nowhere/at/all")
    result = vault.call("recall_fact", query="wombat")
    assert [entry["accessCount"] for entry in result["facts"]] == [0]
    assert "not counted" in result["warnings"][0]


def store(vault: Vault, name: str, prompt: str, rate: float = 0.9, **more: Any) -> dict[str, Any]:
    """Store a procedure."""
    return called(
        vault,
        "store_procedure",
        procedureName=name,
        procedurePrompt=prompt,
        initialSuccessRate=rate,
        **more,
    )


def names(vault: Vault, context: str, **more: Any) -> list[str]:
    """Return the names of procedures recalled for a context."""
    result = called(vault, "recall_procedure", context=context, **more)
    return [entry["name"] for entry in result["procedures"]]


def test_storing_procedure_again_updates_only_the_prompt(folder: Path, vault: Vault) -> None:
    """Rate, count and an omitted skill are kept, and the old prompt becomes a revision."""
    first = store(vault, "Greet  a café guest", "Smile.", 0.5, skillId="social.greet")
    vault.call("update_success_rate", procedureName="Greet a café guest", success=True)
    second = store(vault, "Greet a cafe\u0301 guest", "# Smile\n\nThen bow.", 0.1)
    assert (first["isUpdate"], second["isUpdate"]) == (False, True)
    assert second["procedureId"] == first["procedureId"]
    (found,) = vault.call("recall_procedure", context="greet", minSuccessRate=0)["procedures"]
    assert found["name"] == "Greet a café guest"
    assert found["prompt"] == "# Smile\n\nThen bow."
    assert (found["successRate"], found["usageCount"]) == (0.55, 1)
    before = vault.call(
        "memory_show", memId=first["procedureId"], revision=second["previousRevision"]
    )
    assert "Smile." in before["content"]
    skills = vault.call("list_skills", subcategoryId="social.greet")["skills"]
    assert [entry["procedureId"] for entry in skills] == [first["procedureId"]]
    assert "previousRevision" not in store(vault, "Greet a café guest", "# Smile\n\nThen bow.")
    assert len(list((folder / "procedure").iterdir())) == 1


def test_procedure_names_are_case_sensitive(vault: Vault) -> None:
    """Only the exact name is the same procedure, even if the file names would collide."""
    ids = {store(vault, name, "Look.")["procedureId"] for name in ("a b", "a_b", "A b", "a-b")}
    assert len(ids) == 4


def test_procedures_match_by_relevance_and_success_rate(folder: Path, vault: Vault) -> None:
    """A procedure matches by name, prompt or meaning, and the best success rate comes first."""
    store(vault, "greet_stranger", "Smile and name yourself.", 0.7)
    store(vault, "calm a dog", "Speak low to the stranger's animal, and wait.", 0.9)
    store(vault, "greet badly", "Shout.", 0.2)
    store(vault, "bake bread", "Mix flour and water.", 1.0)
    write(folder, "procedure/old.md", "---\nstatus: archived\nsuccess_rate: 1.0\n---\n# greet\n")
    assert names(vault, 'a "stranger" to greet') == ["calm a dog", "greet_stranger"]
    assert names(vault, "stranger", minSuccessRate=0.8) == ["calm a dog"]
    assert "greet badly" in names(vault, "greet", minSuccessRate=0.2)
    assert names(vault, "fly to the moon") == []
    assert vault.call("recall_procedure", context="  ")["error"]["code"] == "usage"


def test_relevant_procedure_is_recalled_by_meaning(vault: Vault) -> None:
    """A procedure that memory_recall considers relevant is recalled, even as a weak match."""
    store(vault, "bake bread", "Mix flour and water, knead, and let the dough rise.", 0.9)
    store(vault, "rotate keys", "Create a new credential, deploy it, revoke the former.", 0.9)
    (best, *_) = vault.recall("the loaf stayed flat", strict=True)["memories"]
    assert (best["title"], best["strength"]) == ("bake bread", "weak")
    assert names(vault, "the loaf stayed flat") == ["bake bread"]


def test_storing_archived_procedure_restores_it(folder: Path, vault: Vault) -> None:
    """Storing an archived procedure's name again restores it with its rate and count."""
    path = write(
        folder, "procedure/old.md",
        "---\ntitle: wave\nstatus: archived\nsuccess_rate: 0.75\nusage_count: 9\n---\n\nWave.\n",
    )  # fmt: skip
    assert names(vault, "wave") == []
    assert store(vault, "wave", "Wave.")["isUpdate"]
    assert names(vault, "wave") == ["wave"]
    assert path.read_text("utf-8") == (
        "---\ntitle: wave\nsuccess_rate: 0.75\nusage_count: 9\n---\n\nWave.\n"
    )


def test_invalid_procedures_are_refused(run: Run, folder: Path) -> None:
    """Empty names and prompts, out-of-range numbers, bad skill ids and unknown names fail."""
    refused(run("procedure", "store", " ", "Prompt"), 2)
    refused(run("procedure", "store", "name", " "), 2)
    refused(run("procedure", "store", "name", "Prompt", "--initial-success-rate", "1.1"), 2)
    refused(run("procedure", "store", "name", "Prompt", "--skill-id", "a..b"), 2)
    assert list(folder.rglob("*.md")) == []
    run("procedure", "store", "greet_stranger", "Smile.")
    refused(run("procedure", "outcome", "greet_stranger"), 2)
    done = run("procedure", "outcome", "greet_strangers", "--success")
    assert "no procedure" in refused(done, 1)
    assert "greet_stranger'" in done.err


@settings(max_examples=examples(15))
@given(st.floats(0, 1), st.lists(st.booleans(), max_size=8))
def test_success_rate_is_a_moving_average(
    tmp_path_factory: pytest.TempPathFactory, rate: float, told: list[bool]
) -> None:
    """Each outcome sets the rate to exactly 0.9 of the old rate plus 0.1 of the outcome."""
    root = tmp_path_factory.mktemp("vault")
    (root / "memvault.toml").write_text("version = 1\n")
    with open_vault(root) as vault:
        store(vault, "wave", "Wave.", rate)
        for count, success in enumerate(told, start=1):
            rate = 0.9 * rate + 0.1 * success
            done = vault.call("update_success_rate", procedureName="wave", success=success)
            assert (done["successRate"], done["usageCount"]) == (rate, count)
        (found,) = vault.call("recall_procedure", context="wave", minSuccessRate=0)["procedures"]
        assert (found["successRate"], found["usageCount"]) == (rate, len(told))


COUNTING_OUTCOMES = """
from memvault import open_vault

def work(success):
    with open_vault(".") as vault:
        for number in range(ROUNDS):
            done = vault.call("update_success_rate", procedureName="wave", success=success)
            assert done["success"], done
            print(repr(done["successRate"]), done["usageCount"])
"""


def test_concurrent_outcomes_are_counted_exactly_once(
    folder: Path, vault: Vault, racing: Racing
) -> None:
    """Outcomes from eight concurrent processes form one sequence, each counted exactly once."""
    rounds = 25 if SOAK else 10
    store(vault, "wave", "Wave.", 0.5)
    successes = [bool(number % 2) for number in range(8)]
    work = COUNTING_OUTCOMES.replace("ROUNDS", str(rounds))
    lines = raced(racing.run(folder, work, [[success] for success in successes]))
    rows = sorted(
        (int(line.split()[1]), float(line.split()[0]), success)
        for success, told in zip(successes, lines, strict=True)
        for line in told
    )
    assert [count for count, *_ in rows] == list(range(1, 8 * rounds + 1))
    rate = 0.5
    for _, reported, success in rows:
        rate = procedures.averaged(rate, success)
        assert reported == rate
    (found,) = vault.call("recall_procedure", context="wave", minSuccessRate=0)["procedures"]
    assert (found["successRate"], found["usageCount"]) == (rate, 8 * rounds)


STORING = """
import sys
from memvault import open_vault

def work(number):
    with open_vault(".") as vault:
        for name in NAMES:
            prompt = f"Wave {number}."
            done = vault.call("store_procedure", procedureName=name, procedurePrompt=prompt)
            assert done["success"], done
            print(done["procedureId"])

if __name__ == "__main__":
    work(0)
"""


def test_procedure_stored_concurrently_is_one_file(folder: Path, racing: Racing) -> None:
    """Processes that store the same new procedure concurrently create exactly one file."""
    names = ["wave", "bow", "nod", "wink"]
    work = STORING.replace("NAMES", repr(names))
    lines = raced(racing.run(folder, work, [[number] for number in range(6)]))
    assert len({tuple(told) for told in lines}) == 1
    assert len(set(lines[0])) == len(names)
    assert len(list((folder / "procedure").glob("*.md"))) == len(names)


@pytest.mark.promise("R32")
def test_procedure_recall_indexes_while_waiting_for_lock(folder: Path) -> None:
    """While another process holds the procedure lock, changed files are already indexed."""
    with FileLock(private_folder(folder) / "procedures.lock"):
        write(folder, "one.md", "One.\n")
        command = [sys.executable, "-c", STORING.replace("NAMES", '["wave"]')]
        storing = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        assert indexed(folder, "one.md")
        assert storing.poll() is None
    assert storing.wait(60) == 0


def test_invalid_procedure_numbers_read_as_unused(folder: Path, vault: Vault) -> None:
    """A procedure with invalid numbers in its file counts as never used."""
    for number, (rate, used) in enumerate(itertools.product(["high", "true", "[]"], ["-3", "2.5"])):
        write(
            folder, f"procedure/{number}.md",
            f"---\ntitle: wave {number}\nsuccess_rate: {rate}\nusage_count: {used}\n---\n\nWave.\n",
        )  # fmt: skip
        done = vault.call("update_success_rate", procedureName=f"wave {number}", success=True)
        assert (done["successRate"], done["usageCount"]) == (0.55, 1)


def test_recall_memory_returns_facts_episodes_procedures(run: Run, vault: Vault) -> None:
    """One call returns up to five facts, three experiences and the matching procedures."""
    for number in range(6):
        vault.call("store_fact", fact=f"Wombat number {number} digs burrows")
        vault.call("store_episode", actions=[f"Followed wombat number {number} into a burrow"])
    store(vault, "find a wombat", "Look for burrows.", 0.8)
    store(vault, "lose a wombat", "Look away.", 0.3)
    found = vault.call("recall_memory", observations=['A "wombat"', "and its burrow"])
    known = found["memoryContext"]
    assert [len(known[key]) for key in ("facts", "experiences", "procedures")] == [5, 3, 1]
    assert known["procedures"] == ["Look for burrows."]
    assert all("wombat" in text.lower() for text in known["facts"] + known["experiences"])
    assert [len(ids) for ids in found["sources"].values()] == [5, 3, 1]
    assert run("experience", "A wombat", "and its burrow").out.startswith("Facts:\n - Wombat")
    nothing = vault.call("recall_memory", observations=["quantum chromodynamics"])
    assert nothing["memoryContext"] == {"facts": [], "experiences": [], "procedures": []}
    assert nothing["message"]
    assert vault.call("recall_memory", observations=[])["error"]["code"] == "usage"


def test_store_fact_lists_similar_existing_fact(vault: Vault, run: Run) -> None:
    """Storing a fact again, in the same or other words, lists the existing one to update."""
    first = vault.call("store_fact", fact="The staging server has 20 GB of disk.")
    assert first["similar"] == []
    vault.call("memory_remember", title="Disk", content="The staging server has 20 GB of disk.")
    for text in ("The staging server has 20 GB of disk.", "The staging server has 30 GB of disk"):
        again = vault.call("store_fact", fact=text)
        listed = {entry["factId"]: entry for entry in again["similar"]}
        assert listed[first["factId"]]["factText"] == "The staging server has 20 GB of disk."
        assert 0.5 < listed[first["factId"]]["similarity"] <= 1
        assert again["factId"] not in listed
        assert all(entry["filePath"].startswith("fact/") for entry in again["similar"])
        vault.call("memory_delete", ids=again["factId"])
    assert vault.call("store_fact", fact="Ana likes tea.")["similar"] == []
    shown = run("fact", "store", "Ana likes green tea.").out
    assert "Similar facts; `memvault fact update` changes one:" in shown
    assert "> Ana likes tea." in shown
