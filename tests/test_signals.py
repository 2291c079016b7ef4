"""A process that is asked to end does so, at whatever moment, and says nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SWALLOWING = """
import os, sys, time
from memvault.cli.streams import guarded
class Dropped:
    def __del__(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        time.sleep(0.01)
def run():
    Dropped()
    time.sleep(60)
    return 0
sys.exit(guarded(run))
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


@BOTH
def test_a_signal_ends_a_process_that_is_starting(
    folder: Path, sent: signal.Signals, code: int
) -> None:
    """Sent at any moment of the start, a signal ends a wait; at most Python itself is heard.

    Python may lose a Ctrl-C while it starts itself, and then takes the next one.
    """
    handled = 0
    for number in range(100):
        process = subprocess.Popen(
            [sys.executable, "-m", "memvault", "wait", "for", "hook:never"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(0.02 * number)
        process.send_signal(sent)
        try:
            _, complaint = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            assert sent == signal.SIGINT
            process.send_signal(sent)
            _, complaint = process.communicate(timeout=30)
            continue
        assert process.returncode in (code, -sent, 1)
        if process.returncode == code:
            assert complaint == b""
            handled += 1
        if handled >= 6 and number >= 15:
            break
    assert handled >= 6


def test_a_wait_can_be_ended_again_and_again(folder: Path) -> None:
    """Many signals at once end a process once."""
    process = subprocess.Popen(
        [sys.executable, "-m", "memvault", "wait", "for", "hook:never"], cwd=folder
    )
    time.sleep(0.5)
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) in (143, -signal.SIGTERM)
