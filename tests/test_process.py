"""A program that memvault runs is held to its limits, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import all_gone, is_alive, until, write
from growth import Steps, check_growth
from memvault.errors import UsageError
from memvault.process import run

PYTHON = sys.executable
CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".tmp", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
if len(sys.argv) > 2:
    sys.exit(0)
time.sleep(600)
"""


def test_a_program_gets_the_text_and_gives_its_output() -> None:
    """Standard input, output, error and exit code all arrive, of any size below the limit."""
    code = "import sys; t = sys.stdin.read(); print(len(t)); print('ä', file=sys.stderr); exit(3)"
    ran = run([PYTHON, "-c", code], "x" * 300_000, 60, 1_000)
    assert (ran.code, ran.output, ran.stderr) == (3, "300000\n", "ä\n")
    assert (ran.timed_out, ran.truncated) == (False, False)
    assert run(["true"], "x" * 300_000, 60, 0).code == 0
    assert run([PYTHON, "-c", "print('x' * 99)"], "", 60, 100).output == "x" * 99 + "\n"


def test_a_program_that_prints_too_much_is_killed() -> None:
    """One byte above the limit ends a program, however much it goes on to say."""
    for text in ("print('x' * 100)", "while True: print('x' * 100)"):
        ran = run([PYTHON, "-c", text], "", 60, 100)
        assert (ran.truncated, ran.timed_out, ran.output) == (True, False, "x" * 100)


class GivenUp(Exception):
    """Nobody waits for the program any more."""


def test_nothing_of_a_program_is_left(tmp_path: Path) -> None:
    """What a program has started ends with it, or when it is given up."""
    file, other = tmp_path / "left", tmp_path / "waits"
    assert not run([PYTHON, "-c", CHILD, str(file), "leave"], "", 60, 100).timed_out
    until(lambda: all_gone(file))

    def pause(seconds: float) -> None:
        if other.exists():
            raise GivenUp
        time.sleep(seconds)

    with pytest.raises(GivenUp):
        run([PYTHON, "-c", CHILD, str(other)], "", 60, 100, pause=pause)
    until(lambda: all_gone(other))


def test_a_program_is_out_of_time() -> None:
    """However long a program would go on, its time ends it."""
    assert run(
        [PYTHON, "-c", "import time; print(flush=True); time.sleep(600)"], "", 2, 9
    ).timed_out


@pytest.mark.parametrize("ending", ["sys.exit()", "time.sleep(600)"], ids=["ends", "goes on"])
def test_whoever_keeps_the_pipes_keeps_nobody(tmp_path: Path, ending: str) -> None:
    """A child that left the group and holds the pipes leaves no thread and no open file here."""
    file = tmp_path / "pid"
    code = f"""
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
with open({str(file)!r}, "w") as pid:
    pid.write(str(child.pid))
print("said", flush=True)
{ending}
"""
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    try:
        ran = run([PYTHON, "-c", code], "x" * 300_000, 5, 100)
        assert (ran.output, ran.timed_out) == ("said\n", "sleep" in ending)
        assert threading.active_count() == threads
        assert len(os.listdir("/proc/self/fd")) == files
        assert is_alive(int(file.read_text("utf-8")))
    finally:
        os.kill(int(file.read_text("utf-8")), signal.SIGKILL)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_too(folder: Path, tmp_path: Path, sent: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end memvault, the tool that it runs, and what that has started."""
    file = tmp_path / "pids"
    header = f"description: x\ncommand: [python3, tools/child.py, {file}]"
    write(folder, "tools/child.md", f"---\n{header}\n---\n")
    write(folder, "tools/child.py", CHILD)
    command = [PYTHON, "-m", "memvault"]
    subprocess.run([*command, "tools", "trust", "child", "--yes"], cwd=folder, check=True)
    process = subprocess.Popen([*command, "call", "child"], cwd=folder, stdout=subprocess.PIPE)
    until(file.exists)
    process.send_signal(sent)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + sent, b"")
    until(lambda: all_gone(file))


def test_only_folders_of_path_are_looked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the working folder never stands for a program that is named without a slash."""
    write(tmp_path, "mine", "#!/bin/sh\necho ran\n").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(UsageError):
        run(["mine"], "", 60, 100, tmp_path)
    assert run(["./mine"], "", 60, 100, tmp_path).output == "ran\n"


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    """What is missing or is no program ends with a sentence."""
    write(tmp_path, "text", "no program")
    for command in (["no-such-program"], ["./none"], ["./text"], ["true", "\0"]):
        with pytest.raises(UsageError):
            run(command, "", 60, 100, tmp_path)


def test_other_threads_go_on_while_a_program_writes_without_end() -> None:
    """However much a program writes, whoever waits for the same lock gets its turn."""
    turn = threading.Condition()
    turns = 0

    def other() -> None:
        nonlocal turns
        while not over.is_set():
            with turn:
                turns += 1
            time.sleep(0.001)

    over = threading.Event()
    thread = threading.Thread(target=other)
    with turn:
        thread.start()
        code = "import os\nwhile True: os.write(2, b'x' * 65536)"
        ran = run([PYTHON, "-c", code], "", 1, 100, pause=turn.wait)
    over.set()
    thread.join()
    assert (ran.timed_out, len(ran.stderr)) == (True, 64 * 1024)
    assert turns > 20


def test_a_large_exchange_is_quick_and_whole() -> None:
    """A program that echoes 30 MB while it reads gives every byte back; a byte costs the same."""
    code = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"

    def exchanged(text: str) -> None:
        assert run([PYTHON, "-c", code], text, 60, 40_000_000).output == text

    def work(size: int) -> Steps:
        yield lambda: exchanged("0123456789abcdef" * (size // 16))

    check_growth(work, 8_000_000)


def test_closed_pipes_are_not_the_end() -> None:
    """A program may close what it reads and writes, and go on until its exit code."""
    code = "import os, time; [os.close(n) for n in (0, 1, 2)]; time.sleep(0.5); os._exit(7)"
    ran = run([PYTHON, "-c", code], "x" * 300_000, 60, 100)
    assert (ran.code, ran.timed_out, ran.output) == (7, False, "")


def test_what_outlives_a_program_may_still_say_something() -> None:
    """A child in the program's group has a moment to write after its parent has ended."""
    code = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.3); print('late')"])
"""
    ran = run([PYTHON, "-c", code], "", 60, 100)
    assert (ran.output, ran.timed_out) == ("late\n", False)
