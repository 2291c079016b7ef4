"""While another process indexes: an answer now, from what is readable, and what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import Ran, Run, index_of, titles, write
from memvault import open_vault
from memvault.index.protocol import COMPLETE, WaitPolicy
from memvault.workspace import Workspace

HOLDER = """
import sys
from pathlib import Path
from memvault.files.lock import FileLock

with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

INDEXED, MORE, READ = 20, 600, 500
"""Memories in the index, memories written since, and those of them that are read directly."""
PATIENT = 20.0
"""Seconds within which what does not wait has answered, on any machine; waiting took 60."""


@contextmanager
def _held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another process hold the index's lock, until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(index_of(folder) / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.communicate()


@contextmanager
def _let_go(process: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Have the lock's holder let go after some seconds."""
    assert process.stdin
    timer = threading.Timer(seconds, process.stdin.close)
    timer.start()
    try:
        yield
    finally:
        timer.join()
        process.stdin = None


def _soon(run: Run, *arguments: str) -> Ran:
    began = time.monotonic()
    ran = run(*arguments)
    assert time.monotonic() - began < PATIENT
    return ran


@pytest.fixture
def unindexed(folder: Path) -> Path:
    """A vault that was never indexed."""
    for number in range(INDEXED):
        write(folder, f"old/{number}.md", f"# Old {number}\n\nwombat old{number}\n")
    return folder


@pytest.fixture
def behind(unindexed: Path, run: Run) -> Path:
    """A vault of which an index knows the first 20 memories; 600 more were written since.

    The very first of those 20 were changed before the others were written.
    """
    assert run("list").code == 0
    write(unindexed, "old/0.md", "# Old 0\n\nbilby\n")
    for number in range(MORE):
        if number in (1, MORE - READ):
            time.sleep(0.02)  # which file is newer can be told
        write(unindexed, f"new/{number}.md", f"# New {number}\n\nquokka new{number}\n")
    return unindexed


def test_a_path_needs_no_index(unindexed: Path, run: Run) -> None:
    """A memory named by its path is shown, compounded and forgotten though nothing is indexed."""
    with _held(unindexed):
        shown = _soon(run, "show", "old/1.md", "--json")
        assert (shown.code, shown.json["title"], shown.err) == (0, "Old 1", "")
        (note,) = shown.json["warnings"]
        assert note.startswith("what was replaced or has ended is not marked: Another process")
        added = _soon(run, "compound", "./old/2.md", "And it digs.", "--json")
        assert (added.code, added.json["filePath"], added.err) == (0, "old/2.md", "")
        assert "And it digs." in (unindexed / "old/2.md").read_text("utf-8")
        token = _soon(run, "forget", "old/3.md", "--json").json["confirmToken"]
        gone = _soon(run, "forget", "old/3.md", "--confirm", token, "--json")
        assert gone.json["files"] == ["old/3.md"]


@pytest.mark.parametrize("state", ["unindexed", "behind"])
def test_remembering_does_not_wait(state: str, request: pytest.FixtureRequest, run: Run) -> None:
    """A new memory is written though neighbours cannot be looked for; one note says so."""
    folder = request.getfixturevalue(state)
    with _held(folder):
        ran = _soon(run, "remember", "Late", "A wombat digs.", "--json")
    assert (ran.code, ran.json["similar"]) == (0, [])
    assert (folder / ran.json["filePath"]).is_file()
    (note,) = ran.json["warnings"]
    assert note.startswith("similar memories were not looked for: Another process is indexing")


def test_recall_answers_from_what_is_readable(behind: Path, run: Run) -> None:
    """Recall finds what is indexed and what was written last, and counts what it did not see."""
    note = f"{1 + MORE - READ} memories are not indexed yet; another process is indexing them"
    asked = f"old0 old5 new0 new{MORE - 1}"
    with _held(behind):
        words = _soon(run, "recall", asked, "--mode", "keyword", "--json").json
        assert set(titles(words)) == {"Old 5", f"New {MORE - 1}"}
        assert words["warnings"] == [note]
        assert f"note: {note}" in _soon(run, "recall", "old5").err
    whole = run("recall", "new0", "--mode", "keyword", "--json").json
    assert titles(whole) == ["New 0"]
    assert "warnings" not in whole


def test_lists_say_what_they_leave_out(behind: Path, run: Run) -> None:
    """List, types and status answer too, and say how many memories they leave out."""
    counted = INDEXED - 1 + READ
    note = f"{1 + MORE - READ} memories are not indexed yet; another process is indexing them"
    with _held(behind):
        listed = _soon(run, "list", "--json").json
        types = _soon(run, "types", "--json").json
        status = _soon(run, "status", "--json").json
    assert listed["total"] == counted
    assert sum(entry["count"] for entry in types["types"]) == counted
    assert (status["memories"], status["index"]["state"]) == (counted, "behind")
    assert [found["warnings"] for found in (listed, types, status)] == [[note]] * 3


def test_what_is_not_readable_yet_is_waited_for(behind: Path, run: Run) -> None:
    """A name that the readable part does not decide is looked up when the other has finished."""
    with _held(behind) as holder, _let_go(holder, 4.0):
        shown = run("show", "New 0", "--json")
    assert (shown.code, shown.json["filePath"]) == (0, "new/0.md")
    with _held(behind):  # by now all are known
        assert _soon(run, "show", "New 0").code == 0


def test_nothing_is_changed_on_half_a_look(behind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What depends on all memories is not done while some are unseen: it fails, with a hint."""
    short = WaitPolicy(1.0, 1.0, allow_partial=False)
    for module in ("recall.engine", "index.protocol"):  # imported in this order
        monkeypatch.setattr(f"memvault.{module}.COMPLETE", short)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_compound", {"query": "wombat old7 digs", "modifications": "more"}),
        ("memory_forget", {"query": "", "filter": "memoryType == 'context'"}),
        ("store_procedure", {"procedureName": "dig", "procedurePrompt": "Dig."}),
        ("update_success_rate", {"procedureName": "dig", "success": True}),
    ]
    before = sorted(path.name for path in behind.rglob("*.md"))
    with _held(behind), open_vault(behind) as vault:
        for name, arguments in calls:
            failed = vault.call(name, **arguments)
            assert failed["error"]["code"] == "timed_out", failed
            assert failed["error"]["hint"]
    assert sorted(path.name for path in behind.rglob("*.md")) == before


@pytest.mark.parametrize("state", ["unindexed", "behind"])
def test_who_waits_sleeps(
    state: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits for another process a call looks at the folder once a second at most."""
    folder = request.getfixturevalue(state)
    looks: list[float] = []
    scandir = os.scandir

    def counted(path: Any = ".") -> Any:
        if path == folder or path == str(folder):
            looks.append(time.monotonic())
        return scandir(path)

    with (
        closing(Workspace(folder)) as workspace,
        _held(folder) as holder,
        monkeypatch.context() as patched,
    ):
        index = workspace.index
        patched.setattr(os, "scandir", counted)
        with _let_go(holder, 4.0):
            used = time.process_time()
            view = index.refresh(True, COMPLETE)
            took = time.process_time() - used
        assert view.missing == 0
        assert len(list(view.records())) == INDEXED + (MORE if state == "behind" else 0)
    assert len(looks) <= 3 + (looks[-1] - looks[0]) / 0.9
    if state == "unindexed":
        assert took < 3.0


def test_a_first_call_of_its_own_is_whole(behind: Path, run: Run) -> None:
    """Without another process at it, a call indexes whatever is missing and leaves nothing out."""
    ran = run("list", "--json")
    assert json.loads(ran.out)["total"] == INDEXED + MORE
    assert ran.err == ""
