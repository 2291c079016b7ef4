"""Standard output and error: their order, and behavior if they are closed or full."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import sampled, write

COMMAND = [sys.executable, "-m", "memvault"]
NOTE = "---\nid: wombats-are-nocturnal-abc123\ntags: [animal]\n---\n\n# Wombats\n\nThey dig.\n"


@pytest.fixture
def notes(folder: Path) -> Path:
    """A vault with two memories, in which each command prints a note."""
    write(folder, "fact/wombats.md", NOTE)
    write(folder, "issue/crows.md", "# Crows\n\nThey fly over the harbour.\n")
    write(folder, "memvault.toml", "version = 1\nfuture = true\n")
    return folder


def _merged(folder: Path, *command: str) -> tuple[int, str]:
    """Return a command's exit code, and its standard output and error as read by one reader."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode()


NOTED = [
    "list",
    "list --tag x",  # parsed by Typer
    "recall wombats --limit 1",
    "list --format {memId}",
    "remember Badgers 'They dig.'",
    "remember Stoats 'They hunt.' --format {unknown}",
]
"""Commands that print notes after a result."""


@pytest.mark.parametrize("line", NOTED)
def test_notes_are_printed_after_their_result(notes: Path, line: str) -> None:
    """If both streams go to one place, a note comes after the result it refers to."""
    code, text = _merged(notes, *COMMAND, *shlex.split(line))
    assert code == 0
    lines = text.splitlines()
    noted = [shown.startswith(("note: ", "warning: ")) for shown in lines]
    assert any(noted)
    assert not noted[0]
    assert noted == sorted(noted), text


WRITERS = """
import logging, sys, warnings
from memvault.cli.shutdown import run_guarded

def run():
    print("1")
    print("2", file=sys.stderr)
    print("3", end="")
    sys.stderr.writelines([" 4", " 5\\n"])
    print("6")
    logging.warning("7")
    print("8")
    warnings.warn("9")
    print("10")
    raise ValueError("11")

run_guarded(run)
"""


def test_stderr_writers_flush_stdout_first(tmp_path: Path) -> None:
    """Library messages, warnings and tracebacks come after previously printed output."""
    code, text = _merged(tmp_path, sys.executable, "-c", WRITERS)
    assert code == 1
    parts = [
        "1\n2\n3 4 5\n6\nWARNING:root:7\n8\n",
        "UserWarning: 9",
        "10\nTraceback",
        "Error: 11\n",
    ]
    places = [text.index(part) for part in parts]
    assert places[0] == 0
    assert places == sorted(places), text


@pytest.mark.parametrize("target", ["/dev/full", "closed pipe"])
def test_notes_survive_unwritable_stdout(notes: Path, target: str) -> None:
    """A full disk is reported after the notes; a closed pipe is silent and keeps the notes."""
    reader, output = os.pipe()
    os.close(reader)
    if target == "/dev/full":
        os.dup2(os.open(target, os.O_WRONLY), output)
    done = subprocess.run(
        [*COMMAND, "list"], cwd=notes, stdout=output, stderr=subprocess.PIPE, check=False
    )
    os.close(output)
    note, *rest = done.stderr.decode().splitlines()
    assert "future" in note
    if target == "closed pipe":
        assert (done.returncode, rest) == (0, [])
    else:
        assert done.returncode == 1
        assert rest[0].startswith("error: Cannot write the output: ")
        assert rest[1].startswith("hint: ")


@sampled(5)
@pytest.mark.parametrize("target", ["/dev/full", "closed pipe"])
@pytest.mark.parametrize("has_note", [True, False])
@pytest.mark.parametrize(
    "line", ["remember Badgers 'They dig.'", "remember Stoats They-hunt --json", "import {} --yes"]
)
def test_unwritable_stdout_reports_the_change(
    notes: Path, tmp_path: Path, target: str, has_note: bool, line: str
) -> None:
    """If the result of a change cannot be written, a note shows the command to undo it."""
    if not has_note:
        write(notes, "memvault.toml", "version = 1\n")
    write(tmp_path / "source", "otters.md", "# Otters\n\nThey swim.\n")
    files = {path for path in notes.rglob("*.md") if ".memvault" not in path.parts}
    reader, output = os.pipe()
    os.close(reader)
    if target == "/dev/full":
        os.dup2(os.open(target, os.O_WRONLY), output)
    command = [*COMMAND, *shlex.split(line.format(tmp_path / "source"))]
    done = subprocess.run(command, cwd=notes, stdout=output, stderr=subprocess.PIPE, check=False)
    os.close(output)
    error = done.stderr.decode()
    assert ("Cannot write the output" in error) == (target == "/dev/full"), error
    assert done.returncode == (1 if target == "/dev/full" else 0)
    undo_of = re.compile(
        r"(?m)^note: .*; (?:to revert it, run )?`memvault (undo \S+)`(?: reverts that)?$"
    )
    (undo,) = undo_of.findall(error)
    subprocess.run([*COMMAND, *undo.split()], cwd=notes, capture_output=True, check=True)
    assert {path for path in notes.rglob("*.md") if ".memvault" not in path.parts} == files


@pytest.mark.parametrize(
    ("closed", "expected"), [("2>&-", 0), ("<&- 2>&-", 0), ("<&- >&- 2>&-", 1)]
)
def test_commands_work_without_standard_streams(notes: Path, closed: str, expected: int) -> None:
    """A command started without standard streams, as by some schedulers, still works."""
    line = f"exec {sys.executable} -m memvault remember Badgers 'They dig.' {closed}"
    code, text = _merged(notes, "sh", "-c", line)
    assert code == expected, text
    assert "They dig." in (notes / "context/badgers.md").read_text("utf-8")


def test_closed_stdin_is_reported(notes: Path) -> None:
    """A command that needs text from a closed standard input reports it."""
    for line in ("remember Badgers -", "compound wombats -", "call memory_list -"):
        code, text = _merged(notes, "sh", "-c", f"exec {sys.executable} -m memvault {line} <&-")
        assert code == 2, text
        assert "Standard input is closed" in text


def test_closed_streams_are_replaced_by_null_device(notes: Path, tmp_path: Path) -> None:
    """Output to a closed stream never goes into a file that reuses its descriptor."""
    editor = write(tmp_path, "editor", '#!/bin/sh\nls -l /proc/$PPID/fd > "$SEEN"\n')
    editor.chmod(0o755)
    line = f"exec {sys.executable} -m memvault edit wombats <&- >&- 2>&-"
    seen = tmp_path / "seen"
    environment = {**os.environ, "EDITOR": str(editor), "SEEN": str(seen)}
    subprocess.run(["sh", "-c", line], cwd=notes, env=environment, check=False)
    targets = re.findall(r" ([012]) -> (.*)", seen.read_text("utf-8"))
    assert targets == [(number, "/dev/null") for number in "012"]


def test_interactive_programs_write_after_buffered_output(notes: Path, tmp_path: Path) -> None:
    """A program on the same terminal or pipe prints its text after earlier output."""
    code = (
        "import os\nfrom memvault.process import run_interactive\n"
        "print('before')\nrun_interactive(['echo', 'between'], os.environ)\nprint('after')\n"
    )
    assert _merged(notes, sys.executable, "-c", code) == (0, "before\nbetween\nafter\n")


PROGRESS = """
import sys
import time
from memvault.__main__ import main
from memvault.cli import output
output._PROGRESS_DELAY = 0
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("option", ["", "--json", "--csv"])
def test_progress_bar_is_not_written_to_redirected_output(notes: Path, option: str) -> None:
    """A progress bar on the terminal does not change redirected output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRESS, "list", *option.split()],
        cwd=notes,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    output, _ = process.communicate(timeout=60)
    shown = b""
    with suppress(OSError):
        while data := os.read(ours, 65_536):
            shown += data
    os.close(ours)
    assert process.returncode == 0
    assert b"Indexing" in shown
    assert b"wombats-are-nocturnal-abc123" in output
    assert b"Wombats" not in shown


FROZEN = """
import os, signal, sys, threading, time
from memvault.cli.shutdown import exit_process, run_guarded
def run():
    fill = threading.Thread(target=lambda: sys.__stderr__.write("x" * 10_000_000), daemon=True)
    fill.start()
    time.sleep(0.5)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        print("Task exception was never retrieved", file=sys.stderr)
    return 0
exit_process(run_guarded(run))
"""
"""A program that reports an error while a thread waits for a terminal that nobody reads."""


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX-only")
def test_termination_stops_process_with_frozen_terminal() -> None:
    """A terminated process exits even if its terminal accepts no more messages."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", FROZEN])
    began = time.monotonic()
    ended, status = os.waitpid(child, 0)
    seconds = time.monotonic() - began
    os.close(terminal)
    assert (ended, os.waitstatus_to_exitcode(status)) == (child, 143)
    assert seconds < 8  # cleanup may take 10 seconds
