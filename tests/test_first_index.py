"""The first index of a large vault: its progress, and an early answer at a terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from conftest import Run, succeeded, titles, write
from memvault.cli import output
from terminal import TerminalStream, at_terminal

EARLY = """
import sys
from memvault.__main__ import main
from memvault.cli import output
from memvault.index import protocol
protocol.EARLY = protocol.EARLY._replace(index_seconds=0.0)
output._LONG = 0
sys.exit(main(sys.argv[1:]))
"""
"""A program that answers after the first batch, and shows progress from the first byte."""
COUNT, FIRST = 450, 200
STEP = re.compile(r"Indexing [━╸╺ ]+ +([\d.]+)/([\d.]+) [kM]B")


@pytest.fixture
def unindexed(folder: Path) -> Path:
    """A vault that was never indexed, and is read in three batches."""
    for number in range(COUNT):
        write(folder, f"n{number}.md", f"# Note {number}\n\nThe wombat digs burrow {number}.\n")
    return folder


def recall(folder: Path, *words: str) -> tuple[int, str]:
    """Recall at a terminal; return the exit code and the text without control sequences."""
    variables = {"MEMVAULT_DEEP": "off", "PAGER": "cat", "NO_COLOR": "1"}
    program = ("-c", EARLY)
    code, shown = at_terminal(folder, "recall", *words, environment=variables, program=program)
    return code, re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown)


@pytest.mark.promise("R110")
def test_recall_at_a_terminal_answers_while_indexing(unindexed: Path) -> None:
    """The answer uses the latest files and says so; the next call is complete."""
    code, shown = recall(unindexed, "wombat", "-n", "1")
    assert code == 0, shown
    note = f"Indexing: answered from {FIRST} of {COUNT} memories"
    assert shown.index("1. Note") < shown.index(note)
    code, shown = recall(unindexed, "burrow", "0", "-n", "1")
    assert code == 0, shown
    assert "answered from" not in shown
    assert "1. Note 0 " in shown


@pytest.mark.promise("R110")
def test_first_index_progress_uses_one_bar(unindexed: Path) -> None:
    """Before and after the answer, the same progress bar only moves forward."""
    _, shown = recall(unindexed, "wombat", "-n", "1")
    steps = [(float(done), float(total)) for done, total in STEP.findall(shown)]
    assert steps
    assert len({total for _, total in steps}) == 1
    assert steps == sorted(steps)
    assert "Embedding" not in shown


@pytest.mark.promise("R110")
def test_first_index_is_complete_for_pipes_and_json(unindexed: Path, run: Run) -> None:
    """A pipe, or --json on a terminal, waits until every memory is indexed."""
    _, shown = recall(unindexed, "burrow", "0", "-n", "1", "--json")
    assert "answered from" not in shown
    assert '"title": "Note 0"' in shown
    write(unindexed, "late.md", "# Late\n\nA quokka.\n")
    found = succeeded(run("recall", "quokka", "-n", "1", "--json")).json
    assert titles(found) == ["Late"]
    assert "warnings" not in found


@pytest.mark.promise("R110")
def test_first_index_early_answer_omits_outdated_text(unindexed: Path, run: Run) -> None:
    """A changed memory that is not indexed yet is omitted instead of shown with its old text."""
    succeeded(run("list"))
    for number in range(COUNT):
        write(unindexed, f"n{number}.md", f"# Note {number}\n\nThe quokka eats leaf {number}.\n")
    (unindexed / "n7.md").unlink()
    code, shown = recall(unindexed, "wombat", "burrow", "-n", "3")
    assert code == 0, shown
    assert f"answered from {FIRST} of {COUNT - 1} memories" in shown
    assert "The wombat digs" not in shown


def test_progress_bar_of_large_vault_appears_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress bar is shown for sizes that take longer than a second, and not for small ones."""
    monkeypatch.setattr(sys, "stderr", TerminalStream())
    bar = output.ProgressBar(quiet=False)
    shown = []
    for total in (output._LONG, output._LONG + 1):
        bar("indexing", 0, total)
        shown.append(output.ProgressBar.shown is bar)
    bar.end()
    assert shown == [False, True]
