"""Facts and procedures are exact however many processes count, and are corrected without loss."""

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

from conftest import SOAK, Run, examples, indexed, refused, write
from memvault import Vault, open_vault
from memvault.experience import facts, procedures, recall_counts
from memvault.files.lock import FileLock
from memvault.vault.private_folder import private_folder
from memvault.workspace import Workspace
from racing import Racing, raced


def recalled(vault: Vault, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """Recall facts."""
    result = vault.call("recall_fact", query=query, **arguments)
    assert result["success"], result
    found: list[dict[str, Any]] = result["facts"]
    return found


def test_fact_keeps_all_its_fields(vault: Vault) -> None:
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
    assert vault.call("update_fact", factId=made["factId"][:-2], newConfidence=0)["success"]


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
from memvault.experience import recall_counts

def work(*own):
    for _ in range(25):
        recall_counts.count(Path.cwd(), ["a-b2c3d4", *own])
"""


def test_no_access_of_many_processes_is_lost(folder: Path, racing: Racing) -> None:
    """Eight processes that count at once come to the exact sums, however often these are folded."""
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
def test_a_damaged_count_costs_only_counts(folder: Path, vault: Vault, damage: bytes) -> None:
    """Whatever the file of counts holds, facts are recalled, and counting goes on."""
    vault.call("store_fact", fact="The wombat digs")
    write(folder, ".memvault/access.json", damage)
    assert recalled(vault, "wombat")[0]["accessCount"] == 1
    assert recalled(vault, "wombat")[0]["accessCount"] == 2
    assert list(recall_counts.counts(folder).values()) == [2]
    write(folder, ".memvault/access.jsonl", damage * 30_000)
    number = recalled(vault, "wombat")[0]["accessCount"]
    assert recalled(vault, "wombat")[0]["accessCount"] == number + 1


def test_what_of_the_counts_is_whole_stays(folder: Path) -> None:
    """Of a file that is partly damaged the whole entries go on counting."""
    write(folder, ".memvault/access.json", '{"a-b2c3d4": {"count": 4}, "c": {"count": true}}')
    recall_counts.count(folder, ["a-b2c3d4"])
    assert recall_counts.counts(folder) == {"a-b2c3d4": 5}
    with (folder / ".memvault/access.jsonl").open("a") as file:
        file.write('{"x": 1}\n5\n["2026-11-22", 7, "a-b2c3d4"]\n["2026-11-22", "a-b2')
    recall_counts.count(folder, ["a-b2c3d4"])
    assert recall_counts.counts(folder) == {"a-b2c3d4": 7}, "a line cut off is one count"


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
        recall_counts.count(folder, ["a-b2c3d4"] * 3 + ["b" * 40])
        number += 1
    assert 100 < number < 2_000
    known = recall_counts.counts(folder)
    assert known["a-b2c3d4"] == known["b" * 40] == number
    assert "first" not in known
    assert len(known) == 50_000


def test_consolidation_forgets_counts_of_memories_long_gone(vault: Vault, folder: Path) -> None:
    """What is gone and was not recalled for a season is no longer counted; the rest is."""
    fact = vault.call("store_fact", fact="The wombat digs")["factId"]
    long_ago = {"count": 3, "last": "2020-01-01T00:00:00.000Z"}
    write(folder, ".memvault/access.json", json.dumps({fact: long_ago, "gone": long_ago}))
    recall_counts.count(folder, ["in-the-trash"])
    assert vault.call("consolidate_memories", apply=False)["success"]
    assert recall_counts.counts(folder) == {fact: 3, "gone": 3, "in-the-trash": 1}
    assert vault.call("consolidate_memories", apply=True)["success"]
    assert recall_counts.counts(folder) == {fact: 3, "in-the-trash": 1}


def test_counts_are_not_written_through_a_link(folder: Path, vault: Vault, tmp_path: Path) -> None:
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


def store(vault: Vault, name: str, prompt: str, rate: float = 0.9, **more: Any) -> dict[str, Any]:
    """Store a procedure."""
    result: dict[str, Any] = vault.call(
        "store_procedure",
        procedureName=name,
        procedurePrompt=prompt,
        initialSuccessRate=rate,
        **more,
    )
    assert result["success"], result
    return result


def names(vault: Vault, context: str, **more: Any) -> list[str]:
    """Name the procedures that are recalled for a context."""
    result = vault.call("recall_procedure", context=context, **more)
    assert result["success"], result
    return [entry["name"] for entry in result["procedures"]]


def test_the_same_name_updates_the_prompt_and_nothing_else(folder: Path, vault: Vault) -> None:
    """Rate and count stay, the old prompt is a revision, and the skill stays unless it is given."""
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


def test_names_differ_by_case_and_letter(vault: Vault) -> None:
    """Only the exact name is the same procedure, also where the file names would be alike."""
    ids = {store(vault, name, "Look.")["procedureId"] for name in ("a b", "a_b", "A b", "a-b")}
    assert len(ids) == 4


def test_recalled_are_those_that_fit_and_succeed_often_enough(folder: Path, vault: Vault) -> None:
    """Words of the name, words of the prompt or the meaning fit; the best rate comes first."""
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
    """A procedure that memory_recall would count as relevant is recalled, even as a weak match."""
    store(vault, "bake bread", "Mix flour and water, knead, and let the dough rise.", 0.9)
    store(vault, "rotate keys", "Create a new credential, deploy it, revoke the former.", 0.9)
    (best, *_) = vault.recall("the loaf stayed flat", strict=True)["memories"]
    assert (best["title"], best["strength"]) == ("bake bread", "weak")
    assert names(vault, "the loaf stayed flat") == ["bake bread"]


def test_a_procedure_that_is_stored_again_leaves_the_archive(folder: Path, vault: Vault) -> None:
    """An archived name is not taken twice: storing it brings it back with its numbers."""
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


def test_wrong_procedures_are_refused(run: Run, folder: Path) -> None:
    """Empty names and prompts, numbers out of range, invalid skill ids and unknown names fail."""
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
def test_the_numbers_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, rate: float, told: list[bool]
) -> None:
    """Each outcome gives exactly nine tenths of the old rate and one tenth of the new outcome."""
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


@given(st.floats(0, 1), st.booleans())
def test_a_rate_stays_a_rate(rate: float, success: bool) -> None:
    """No outcome moves a rate out of 0 to 1, nor the wrong way."""
    after = procedures.averaged(rate, success)
    assert 0 <= after <= 1
    assert after >= rate - 1e-15 if success else after <= rate


COUNTING_OUTCOMES = """
from memvault import open_vault

def work(success):
    with open_vault(".") as vault:
        for number in range(ROUNDS):
            done = vault.call("update_success_rate", procedureName="wave", success=success)
            assert done["success"], done
            print(repr(done["successRate"]), done["usageCount"])
"""


def test_no_outcome_of_many_processes_is_lost(folder: Path, vault: Vault, racing: Racing) -> None:
    """Eight processes that count at once make one row of outcomes, each counted exactly once."""
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


def test_a_name_stored_by_many_at_once_is_one_procedure(folder: Path, racing: Racing) -> None:
    """However many processes store a new name in the same moment, one file has it."""
    names = ["wave", "bow", "nod", "wink"]
    work = STORING.replace("NAMES", repr(names))
    lines = raced(racing.run(folder, work, [[number] for number in range(6)]))
    assert len({tuple(told) for told in lines}) == 1
    assert len(set(lines[0])) == len(names)
    assert len(list((folder / "procedure").glob("*.md"))) == len(names)


@pytest.mark.promise("R32")
def test_reader_indexes_while_it_waits_for_procedures(folder: Path) -> None:
    """While another process holds their lock, what was changed is indexed, not afterwards."""
    with FileLock(private_folder(folder) / "procedures.lock"):
        write(folder, "one.md", "One.\n")
        command = [sys.executable, "-c", STORING.replace("NAMES", '["wave"]')]
        storing = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        assert indexed(folder, "one.md")
        assert storing.poll() is None
    assert storing.wait(60) == 0


def test_odd_numbers_in_a_persons_file_count_as_new(folder: Path, vault: Vault) -> None:
    """What is no number, or none of its kind, is read as for a procedure that was never used."""
    for number, (rate, used) in enumerate(itertools.product(["high", "true", "[]"], ["-3", "2.5"])):
        write(
            folder, f"procedure/{number}.md",
            f"---\ntitle: wave {number}\nsuccess_rate: {rate}\nusage_count: {used}\n---\n\nWave.\n",
        )  # fmt: skip
        done = vault.call("update_success_rate", procedureName=f"wave {number}", success=True)
        assert (done["successRate"], done["usageCount"]) == (0.55, 1)


def test_what_is_known_of_a_situation_comes_in_one_call(run: Run, vault: Vault) -> None:
    """At most five facts, three experiences and the procedures that fit, as texts with memIds."""
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


def test_a_fact_that_is_known_already_is_named(vault: Vault, run: Run) -> None:
    """Storing a fact again, in the same or other words, lists the one that can be updated."""
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
