"""A call looks at the folder once, however many names it resolves and memories it changes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from episodes import WEEK, put_all
from memvault import Vault

COUNTING = """
import os, sys
from memvault.__main__ import main
root, looks = os.path.realpath("."), 0
def count(event, arguments):
    global looks
    if event == "os.scandir" and arguments and isinstance(arguments[0], str):
        looks += os.path.realpath(arguments[0]) == root
sys.addaudithook(count)
code = main(sys.argv[1:])
sys.stdout.flush()
print(looks, code, file=sys.stderr)
"""


def looks(folder: Path, *arguments: str) -> int:
    """Run a command in a process of its own; return how often it listed the vault's folder."""
    command = [sys.executable, "-c", COUNTING, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    counted, code = done.stderr.splitlines()[-1].split()
    assert code == "0", done
    return int(counted)


@pytest.fixture
def notes(folder: Path, vault: Vault) -> list[str]:
    """Ten memories that are indexed; their memIds."""
    found = []
    for number in range(10):
        body = f"The wombat digs burrow {number}."
        made = vault.call("memory_remember", title=f"N{number}", content=body, memoryType="fact")
        found.append(made["memId"])
    time.sleep(1.1)  # what was edited within the last second is looked at twice
    assert vault.call("memory_recall", query="wombat")["count"] == 10
    return found


def test_a_question_looks_once(folder: Path, notes: list[str], subtests: pytest.Subtests) -> None:
    """A question and a name each cost one look at the folder."""
    for line in (
        ["recall", "wombat"],
        ["recall", "wombat", "--mode", "keyword"],
        ["list"],
        ["types"],
        ["show", "N1"],
        ["load", "N1"],
        ["context", "wombat"],
        ["experience", "A wombat"],
    ):
        with subtests.test(line=line):
            assert looks(folder, *line) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["remember", "New", "A bilby.", "--type", "fact"],
        ["remember", "New", "A bilby.", "--type", "fact", "--supersedes", "N1"],
        ["compound", "N1", "More."],
        ["compound", "the wombat digs which burrow 3", "More."],
    ],
    ids=" ".join,
)
def test_a_write_looks_once(folder: Path, notes: list[str], arguments: list[str]) -> None:
    """A write costs one look at the folder."""
    assert looks(folder, *arguments) == 1


def test_many_names_cost_one_look(folder: Path, notes: list[str]) -> None:
    """Ten names cost one look at the folder, unknown ones a second, however many they are."""
    preview = ["forget", ",".join(notes)]
    assert looks(folder, *preview) == 1
    assert looks(folder, *preview, "--confirm", "true") == 1
    assert looks(folder, "restore", notes[0]) <= 1
    assert looks(folder, "restore", notes[1]) <= 1
    assert looks(folder, "delete", *notes[:2]) == 1
    assert looks(folder, "delete", notes[2], *(f"gone-{number}abcde" for number in range(5))) == 2
    assert looks(folder, "status") == 3  # again for temporary files, and for folders not listed


def test_procedures_cost_one_look_under_their_lock(folder: Path, vault: Vault) -> None:
    """Counting an outcome looks once; writing what repeats looks once more, however much it is."""
    assert vault.call("store_procedure", procedureName="dig", procedurePrompt="Paws")["success"]
    assert looks(folder, "procedure", "outcome", "dig", "--success") == 1
    put_all(folder, WEEK)
    time.sleep(1.1)
    assert len(vault.call("consolidate_memories")["procedures"]) > 0
    assert looks(folder, "consolidate") == 1
    assert looks(folder, "consolidate", "--apply") == 2
