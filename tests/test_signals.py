"""A process that is asked to end does so, at whatever moment, and says nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memvault.agents.address import Address, agent_lock
from memvault.agents.messages.inbox import Inbox

SWALLOWING = """
import os, sys, time
from memvault.cli.shutdown import run_guarded
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.01)
def run():
    Dropped()
    time.sleep(60)
    return 0
sys.exit(run_guarded(run))
"""
BOTH = pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)


@BOTH
def test_a_signal_that_python_drops_is_not_lost(sent: signal.Signals, code: int) -> None:
    """Python drops an exception that a finalizer raises; the process ends all the same."""
    command = [sys.executable, "-c", SWALLOWING, str(int(sent))]
    process = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (code, b"", b"")


STARTING = """
import os, runpy, sys
sent, last, seen = int(sys.argv[1]), int(sys.argv[2]), 0
def hook(event, arguments):
    global seen
    if event == "import":
        seen += 1
        if seen == last:
            os.kill(os.getpid(), sent)
sys.argv = ["memvault", *sys.argv[3:]]
sys.addaudithook(hook)
try:
    runpy.run_module("memvault", run_name="__main__", alter_sys=True)
finally:
    if not last:
        print(seen)
"""


@BOTH
def test_a_signal_ends_a_process_that_is_starting(
    folder: Path, sent: signal.Signals, code: int
) -> None:
    """Sent at any import of the start a signal ends a wait, and silently from the first ones on.

    Before that at most Python itself is heard.
    """

    def started(number: int, *words: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-c", STARTING, str(int(sent)), str(number), *words]
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=60, check=False)

    total = int(started(0, "wait", "for", "time:0").stdout.split()[-1])
    handled = 0
    for number in [*range(2, total, total // 10), total - 1]:
        process = started(number, "wait", "for", "hook:never")
        if handled or process.returncode == code:
            assert (process.returncode, process.stdout, process.stderr) == (code, b"", b""), number
            handled += 1
        assert process.returncode in (code, -sent, 1)
    assert handled >= 8


def test_a_wait_can_be_ended_again_and_again(folder: Path) -> None:
    """Many signals at once end a process once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "wait", "for", "hook:never"], cwd=folder
    )
    time.sleep(0.5)
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) in (143, -signal.SIGTERM)


LEAVING = """
import contextlib, sys, time
from memvault.cli.shutdown import run_guarded
def tidy():
    print("tidying", flush=True)
    for _ in range(50):
        with contextlib.suppress(ZeroDivisionError):
            try:
                1 / 0
            finally:
                time.sleep(0.03)
    print("tidy", flush=True)
@contextlib.contextmanager
def tidied():
    try:
        yield
    finally:
        tidy()
class Tidied:
    def __enter__(self):
        pass
    def __exit__(self, *_):
        tidy()
def finally_():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        tidy()
def caught():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except BaseException:
        tidy()
        raise
def generator():
    with tidied():
        print("ready", flush=True)
        time.sleep(60)
def manager():
    with Tidied():
        print("ready", flush=True)
        time.sleep(60)
def endless():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("tidying", flush=True)
        time.sleep(600)
sys.exit(run_guarded(lambda: globals()[sys.argv[1]]() or 0))
"""


@pytest.mark.parametrize("way", ["finally_", "caught", "generator", "manager"])
@BOTH
def test_a_second_signal_cuts_no_tidying_short(way: str, sent: signal.Signals, code: int) -> None:
    """What a process puts in order once it was asked to end is done, however often it is asked."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVING, way], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(sent)
    assert process.stdout.readline() == "tidying\n"
    for again in (signal.SIGINT, signal.SIGTERM, sent):  # it tidies for 1.5 seconds
        process.send_signal(again)
        time.sleep(0.3)
        assert process.poll() is None
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("tidy\n", code)


def test_tidying_without_end_is_ended() -> None:
    """A process that never gets done with putting things in order ends all the same."""
    process = subprocess.Popen(
        [sys.executable, "-c", LEAVING, "endless"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for line in ("tidying\n", ""):
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == line
    assert process.wait(timeout=30) == 143
    process.stdout.close()


@pytest.mark.parametrize("seconds", [0.0, 0.1, 1.0])
def test_events_come_back_however_often_the_taker_is_asked_to_end(
    folder: Path, seconds: float
) -> None:
    """Events of a caller that ends before it has them are back at once after a second signal."""
    inbox = Inbox(folder, Address("main"))
    for number in range(3):
        inbox.deliver("service", {"name": "n", "message": "x" * 200_000}, f"event-{number}")
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "inbox", "peek", "--count", "3", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"{", "it writes, and nobody reads on"
    claims = folder / ".memvault/agents/main/claims"
    with agent_lock(folder, Address("main")):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)  # it gives the events back, for which it waits for the lock
        process.send_signal(signal.SIGTERM)
        time.sleep(seconds)
        assert process.poll() is None
        assert len(list(claims.glob("*/*.md"))) == 3
    assert process.wait(timeout=30) == 143
    process.stdout.close()
    assert not list(claims.glob("*/*.md"))
    assert len(list(inbox.folder.glob("*.md"))) == 3
