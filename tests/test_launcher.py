"""What the tests launch is a process as a shell starts it."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from conftest import Ran, Run, child, until
from launcher import Launcher, Process, start


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["list", "--json"], b""),
        (["recall", "wombats", "--explain"], b""),
        (["remember"], b""),
        (["remember", "Piped", "-", "--dry-run"], b"caf\xe9"),
        (["show", "no such memory"], b""),
        (["--help"], b""),
        (["recall", "x" * 100_000], b""),
        (["call", "memory_recall", '{"query": "\udcff"}'], b""),
    ],
)
def test_a_command_cannot_tell_that_it_was_launched(
    folder: Path, launcher: Launcher, arguments: list[str], stdin: bytes
) -> None:
    """Its exit code, its output and its errors are those of a process of Python's own."""
    (folder / "fact").mkdir()
    (folder / "fact/a.md").write_text("# A\n\nWombats dig.\n", "utf-8")
    for _ in range(2):  # the first one makes the index
        launched = launcher.run(arguments, stdin, folder, 60)
        assert launched is not None
        code, out, err = launched
        started = child(folder, *arguments, stdin=stdin)
    assert Ran(code, out.decode(), err.decode()) == started


def test_its_environment_and_folder_are_the_tests(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that a test sets and takes away, and its folder, count for the next command."""
    assert run("list").code == 0
    monkeypatch.setenv("MEMVAULT_VAULT", str(folder / "none"))
    assert run("list").code == 3
    monkeypatch.delenv("MEMVAULT_VAULT")
    assert run("list", cwd=Path("/")).code == 3


@pytest.mark.parametrize(("name", "value"), [("PYTHONUTF8", "0"), ("LC_ALL", "C")])
def test_what_counts_from_a_start_is_started(
    folder: Path, launcher: Launcher, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """Nothing is forked where a variable or a limit is read when Python starts."""
    assert launcher.run(["--version"], b"", folder, 60) is not None
    monkeypatch.setenv(name, value)
    assert launcher.run(["--version"], b"", folder, 60) is None


def test_a_command_that_takes_too_long_is_ended(folder: Path) -> None:
    """It fails the test that runs it, and the next command is launched anew."""
    launcher = Launcher()
    with pytest.raises(subprocess.TimeoutExpired):
        launcher.run(["wait", "for", "time:60"], b"", folder, 0.5)
    assert launcher.run(["--version"], b"", folder, 60) is not None
    launcher.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_processes_run_at_once_and_share_nothing(folder: Path, run: Run) -> None:
    """Others run while one waits; it has no more open files than a fresh one, and its own end."""
    words = ["wait", "for", "hook:never", "--timeout", "60"]
    begun = [start(words, folder), start(words, folder), start(words, folder, fresh=True)]

    def opened(process: Process) -> list[str]:
        with suppress(FileNotFoundError):  # one was closed meanwhile
            links = Path(f"/proc/{process.pid}/fd").iterdir()
            return sorted(str(link.readlink()).partition("[")[0] for link in links)
        return []

    assert run("list").code == 0
    until(lambda: all("anon_inode:inotify" in opened(process) for process in begun))
    until(lambda: opened(begun[0]) == opened(begun[1]) == opened(begun[2]))
    assert [process.poll() for process in begun] == [None] * 3
    for process in begun:
        process.kill()
        assert process.communicate(timeout=60) == (b"", b"")
    assert [process.returncode for process in begun] == [-signal.SIGKILL] * 3


@pytest.mark.parametrize("fresh", [True, False])
def test_a_process_is_talked_to(folder: Path, fresh: bool) -> None:
    """What is written to it, what it says and its exit code are those of a process of Python's."""
    process = start(["remember", "Piped", "-"], folder, fresh=fresh)
    assert process.stdin
    process.stdin.write(b"Wombats dig.")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, b"piped" in out, err) == (0, True, b"")
    process = start(["show", "nothing"], folder, fresh=fresh)
    assert process.wait(60) == 1
    assert b"There is no memory" in process.communicate()[1]
