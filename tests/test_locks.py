"""One process at a time holds a lock, on file systems without locks too, and no dead one does."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import ROOT
from memvault.errors import TimedOut
from memvault.files.lock import FileLock

pytest.importorskip("fcntl", reason="there is flock only on Unix")

SHIM = str(ROOT / "tests" / "without_locks.py")
REFUSALS = ["ENOLCK", "EOPNOTSUPP", "ENOSYS"]
COUNTING = """
import sys, time
from pathlib import Path
from memvault.files.lock import FileLock
file = Path(sys.argv[1], "count")
for _ in range(25):
    with FileLock(Path(sys.argv[1], "lock")):
        number = int(file.read_text())
        time.sleep(0.001)
        file.write_text(str(number + 1))
"""
HOLDING = """
import sys
from pathlib import Path
from memvault.files.lock import FileLock
with FileLock(Path(sys.argv[1], "lock")):
    print("held", flush=True)
    sys.stdin.read()
"""


def _started(tmp_path: Path, program: str, error: str) -> subprocess.Popen[str]:
    command = [sys.executable, SHIM, error, "-c", program, str(tmp_path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process find no locks in the file system."""

    def refused(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refused)


@pytest.mark.parametrize("error", REFUSALS)
def test_without_locks_only_one_holds_it(tmp_path: Path, error: str) -> None:
    """Six processes that count together on a file system without locks lose no count."""
    (tmp_path / "count").write_text("0")
    processes = [_started(tmp_path, COUNTING, error) for _ in range(6)]
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert (tmp_path / "count").read_text() == "150"
    assert {path.name for path in tmp_path.iterdir()} == {"count", "lock"}


@pytest.mark.usefixtures("without_locks")
def test_a_killed_holder_keeps_nobody_waiting(tmp_path: Path) -> None:
    """While its holder lives a lock is taken; killed, it is free for the next who asks."""
    process = _started(tmp_path, HOLDING, "ENOLCK")
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    assert not FileLock(tmp_path / "lock").acquire(0.05)
    with pytest.raises(TimedOut), FileLock(tmp_path / "lock", 0.05):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire(0)
    assert lock.is_valid
    lock.release()
    assert not list(tmp_path.glob("*.held"))


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize("minutes", [1, 30])
def test_a_holder_on_another_machine_has_ten_minutes(tmp_path: Path, minutes: int) -> None:
    """Of another machine's process nothing is known: its lock counts for ten minutes."""
    held = tmp_path / "lock.held"
    held.write_text("1 abcd another.machine")
    then = time.time() - 60 * minutes
    os.utime(held, (then, then))
    assert FileLock(tmp_path / "lock").acquire(0) is (minutes > 10)


BUSY = """
import platform, sys
from memvault.files import lock
platform.node = lambda: "another.machine"
lock._BEAT = 0.05
"""
"""Makes a process one of another machine, of which is heard often."""


@pytest.mark.usefixtures("without_locks")
def test_a_holder_on_another_machine_may_take_longer(tmp_path: Path) -> None:
    """As long as the holder lives it says so; killed, its lock is free after ten minutes."""
    process = _started(tmp_path, BUSY + HOLDING, "ENOLCK")
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    held = tmp_path / "lock.held"
    assert held.read_text().endswith("another.machine")
    then = time.time() - 3_600
    os.utime(held, (then, then))
    until = time.monotonic() + 30
    while held.stat().st_mtime < then + 1_800 and time.monotonic() < until:
        time.sleep(0.01)
    assert not FileLock(tmp_path / "lock").acquire(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not FileLock(tmp_path / "lock").acquire(0)
    os.utime(held, (then, then))
    assert FileLock(tmp_path / "lock").acquire(0)


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize("text", ["", "x", f"999999999 a {platform.node()}", "\0" * 9_000])
def test_a_file_that_names_no_holder_is_taken_away(tmp_path: Path, text: str) -> None:
    """Whatever stands where a holder is named, nobody waits for it for ever."""
    held = tmp_path / "lock.held"
    held.write_text(text)
    checked = tmp_path / "lock.held.checked"  # by a process that was killed just then
    checked.touch()
    then = time.time() - 3_600
    for file in (held, checked):
        os.utime(file, (then, then))
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire(1.0)
    lock.release()
    assert {path.name for path in tmp_path.iterdir()} == {"lock"}


def test_another_refusal_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no lack of locks is said, and leaves no file open."""

    def refused(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("fcntl.flock", refused)
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match="Input/output error"):
        FileLock(tmp_path / "lock").acquire(0)
    assert len(os.listdir("/dev/fd")) == before
