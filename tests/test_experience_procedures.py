"""Procedures: one a name, with numbers that are exact however many processes count at once."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import SOAK, Run, examples, indexed, refused, write
from memvault import Vault, open_vault
from memvault.files.lock import FileLock
from memvault.memories import procedures
from memvault.vault.paths import private_folder
from racing import Racing, raced


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
    """Empty names and prompts, numbers out of range, odd skill ids and unknown names are told."""
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


COUNTING = """
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
    work = COUNTING.replace("ROUNDS", str(rounds))
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


def test_whoever_waits_for_procedures_indexes_meanwhile(folder: Path) -> None:
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
