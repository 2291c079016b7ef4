"""Days of plans, looks that are cut off, and processes that are killed: each run once."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memvault.work import firing
from test_firing import MAIN, START, Inbox, look, opened, plan


class Days(RuleBasedStateMachine):
    """Plans set, time passing, looks that succeed and looks that are cut off anywhere."""

    LINES = ("*/15 * * * *", "0 * * * *", "30 6 * * *", "0 9 1 * *")

    @initialize()
    def begin(self) -> None:
        """Begin with an empty vault."""
        self.root = Path(tempfile.mkdtemp())
        self.store = opened(self.root)
        self.inbox = Inbox(self.root)
        self.now = START
        self.once: dict[str, datetime] = {}
        self.often: dict[str, tuple[str, datetime]] = {}

    @rule(line=st.sampled_from(LINES))
    def recurring(self, line: str) -> None:
        """Set a recurring plan under a new name."""
        name = f"often {len(self.often)}"
        self.often[name] = (line, self.now)
        plan(self.store, name, "cron", line, self.now)

    @rule(minutes=st.integers(1, 3000))
    def single(self, minutes: int) -> None:
        """Set a one-shot under a new name."""
        name = f"once {len(self.once)}"
        self.once[name] = self.now + timedelta(minutes=minutes)
        plan(self.store, name, "runAfter", f"{minutes} minutes", self.now)

    @rule(minutes=st.sampled_from([1, 14, 61, 1441, 50_000]))
    def passes(self, minutes: int) -> None:
        """Let time pass."""
        self.now += timedelta(minutes=minutes)

    @rule(nth=st.integers(1, 6))
    def cut_off(self, nth: int) -> None:
        """Look, and be cut off before or after some event is written."""
        left = [nth]

        def trouble() -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        self.inbox.trouble = trouble
        try:
            firing.fire(self.store, MAIN, self.now, UTC, self.inbox.deliver)
        except KeyboardInterrupt:
            pass
        else:
            self.inbox.pop()
        self.inbox.trouble = lambda: None

    @rule()
    def looks(self) -> None:
        """Look; whatever has come due by now has been handed out."""
        look(self.store, self.inbox, self.now)
        for name, at in self.once.items():
            assert ((name, stamp(at)) in self.inbox.popped) == (at <= self.now)
        for name, (line, begun) in self.often.items():
            at = last_before(line, self.now)
            if at > begun:
                assert (name, stamp(at)) in self.inbox.popped

    @invariant()
    def never_twice(self) -> None:
        """No run is handed out twice."""
        if hasattr(self, "inbox"):
            assert len(set(self.inbox.popped)) == len(self.inbox.popped)

    def teardown(self) -> None:
        """Remove the vault."""
        if hasattr(self, "root"):
            shutil.rmtree(self.root)


def stamp(at: datetime) -> str:
    """A moment as events spell it."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.000Z"


def last_before(line: str, now: datetime) -> datetime:
    """The last moment of one of the machine's cron lines, worked out by arithmetic."""
    minute = now.replace(second=0, microsecond=0)
    if line == "*/15 * * * *":
        return minute - timedelta(minutes=minute.minute % 15)
    if line == "0 * * * *":
        return minute.replace(minute=0)
    if line == "30 6 * * *":
        at = minute.replace(hour=6, minute=30)
        return at if at <= now else at - timedelta(days=1)
    at = minute.replace(day=1, hour=9, minute=0)
    return at if at <= now else (at - timedelta(days=2)).replace(day=1)


TestDays = Days.TestCase
TestDays.settings = settings(max_examples=25, stateful_step_count=25)

LOOKING = """
import json, sys, itertools, os
from datetime import datetime, timedelta, UTC
from pathlib import Path
from memvault.config import Settings
from memvault.vault.store import Store
from memvault.work import firing
from memvault.work.agents import Address
from memvault.work.locking import agent_lock
root, rounds = Path(sys.argv[1]), int(sys.argv[2])
store, main = Store(root, Settings()), Address("main")
inbox, out = root / "inbox", root / "popped"
def deliver(name, at, data):
    if not (inbox / name).exists():
        temporary = inbox / f".{os.getpid()}"
        temporary.write_text(data["scheduledFor"])
        temporary.rename(inbox / name)
counter = root / "counter"
while True:
    with agent_lock(store.root, main):
        done = len(counter.read_bytes())
        if done >= rounds:
            break
        now = datetime(2026, 2, 18, 8, 30, 5, tzinfo=UTC) + timedelta(minutes=done + 1)
        firing.fire(store, main, now, UTC, deliver)
        for number, file in enumerate(inbox.glob("[!.]*")):
            file.rename(out / f"{file.read_text().replace(':', '')}-{os.getpid()}-{done}-{number}")
        with counter.open("ab") as file:
            file.write(b".")
"""


def watched(root: Path) -> list[str]:
    """Make a vault with a plan for every minute; return the command that looks at it."""
    plan(opened(root), "Tick", "cron", "* * * * *")
    for name in ("inbox", "popped"):
        (root / name).mkdir()
    (root / "counter").touch()
    return [sys.executable, "-c", LOOKING, str(root)]


def runs(root: Path) -> list[str]:
    """The runs that were popped, each as often as it was."""
    return sorted(path.name.split("-")[2] for path in (root / "popped").iterdir())


def minutes(count: int) -> list[str]:
    """The runs that there must be."""
    first = START + timedelta(minutes=1)
    return [f"18T{first + timedelta(minutes=n):%H%M%S}.000Z" for n in range(count)]


def test_ten_processes_at_once_hand_out_each_run_once(folder: Path) -> None:
    """However many processes look at the same time, each run is handed out once."""
    command = watched(folder)
    started = [subprocess.Popen([*command, "40"]) for _ in range(10)]
    assert [process.wait(120) for process in started] == [0] * 10
    assert runs(folder) == minutes(40)


def test_killed_processes_lose_and_repeat_nothing(folder: Path) -> None:
    """Processes that are killed while they look lose no run and hand out none twice."""
    command = watched(folder)
    chance = random.Random(7)
    for _ in range(15):
        process = subprocess.Popen([*command, "100000"])
        before = (folder / "counter").stat().st_size
        while (folder / "counter").stat().st_size == before:
            time.sleep(0.001)
        time.sleep(chance.random() * 0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    total = (folder / "counter").stat().st_size + 3
    subprocess.run([*command, str(total)], check=True, timeout=60)
    assert runs(folder) == minutes(total)
