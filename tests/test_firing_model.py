"""Days of plans, looks that are cut off, and processes that are killed: each run once."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conftest import examples
from killing import Killing
from memvault.agents.address import agent_lock
from racing import Racing, raced
from test_firing import MAIN, START, Agent


class Days(RuleBasedStateMachine):
    """Plans set, time passing, looks that succeed and looks that are cut off anywhere."""

    LINES = ("*/15 * * * *", "0 * * * *", "30 6 * * *", "0 9 1 * *")

    @initialize()
    def begin(self) -> None:
        """Begin with an empty vault."""
        self.agent = Agent(Path(tempfile.mkdtemp()))
        self.once: dict[str, datetime] = {}
        self.often: dict[str, tuple[str, datetime]] = {}

    @rule(line=st.sampled_from(LINES))
    def recurring(self, line: str) -> None:
        """Set a recurring plan under a new name."""
        name = f"often {len(self.often)}"
        self.often[name] = (line, self.agent.now)
        self.agent.plan(name, "cron", line)

    @rule(minutes=st.integers(1, 3000))
    def single(self, minutes: int) -> None:
        """Set a one-shot under a new name."""
        name = f"once {len(self.once)}"
        self.once[name] = self.agent.now + timedelta(minutes=minutes)
        self.agent.plan(name, "runAfter", f"{minutes} minutes")

    @rule(minutes=st.sampled_from([1, 14, 61, 1441, 50_000]))
    def passes(self, minutes: int) -> None:
        """Let time pass."""
        self.agent.now += timedelta(minutes=minutes)

    @rule(nth=st.integers(1, 6))
    def cut_off(self, nth: int) -> None:
        """Look, and be cut off before or after some event is written."""
        left = [nth]

        def deliver(name: str, at: datetime, data: dict[str, Any]) -> None:
            for half in range(2):
                if half:
                    self.agent.inbox.deliver("plan", data, name)
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt

        agent = self.agent
        with agent_lock(agent.root, MAIN), contextlib.suppress(KeyboardInterrupt):
            agent.plans().fire(deliver)

    @rule()
    def taken_back(self) -> None:
        """Take events out and let go of them unread, as a process that fails does."""
        popped = self.agent.inbox.pop(3)
        if popped.lease is not None:
            popped.lease.requeue()

    @rule()
    def looks(self) -> None:
        """Look; whatever has come due by now has been handed out."""
        self.agent.look()
        handed = self.agent.handed
        for name, at in self.once.items():
            assert ((name, stamp(at)) in handed) == (at <= self.agent.now)
        for name, (line, begun) in self.often.items():
            at = last_before(line, self.agent.now)
            if at > begun:
                assert (name, stamp(at)) in handed

    @invariant()
    def never_twice(self) -> None:
        """No run is handed out twice."""
        if hasattr(self, "agent"):
            assert len(set(self.agent.handed)) == len(self.agent.handed)

    def teardown(self) -> None:
        """Remove the vault."""
        if hasattr(self, "agent"):
            shutil.rmtree(self.agent.root)


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
TestDays.settings = settings(max_examples=examples(25), stateful_step_count=25)

LOOKING = """
from datetime import datetime, timedelta, UTC
from pathlib import Path
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from memvault.agents.plans import plans
from memvault.agents.address import Address

def work(root, rounds=1000):
    root = Path(root)
    counter, done = root / "counter", 0
    store = MemoryStore(root, Settings())
    start = datetime(2026, 2, 18, 8, 30, 5, tzinfo=UTC)
    inbox = plans.PlannedInbox(
        lambda: plans.AgentPlans(store, Address("main"), UTC, start + timedelta(minutes=done))
    )
    while done < rounds:
        done = counter.stat().st_size + 1
        popped = inbox.pop(1000)
        if popped.lease is not None:
            popped.lease.acknowledge()
        if done > counter.stat().st_size:
            with counter.open("ab") as file:
                file.write(b".")
"""


def watched(root: Path) -> None:
    """Make a vault with a plan for every minute."""
    Agent(root).plan("Tick", "cron", "* * * * *")
    (root / "counter").touch()


def runs(root: Path) -> list[str]:
    """The runs that were handed out, each as often as it was."""
    popped = (root / ".memvault/agents/main/popped").glob("*/*.md")
    return sorted(path.name[6:16] for path in popped)


def minutes(count: int) -> list[str]:
    """The runs that there must be."""
    first = START + timedelta(minutes=1)
    return [f"18T{first + timedelta(minutes=n):%H%M%S}." for n in range(count)]


def test_ten_processes_at_once_hand_out_each_run_once(folder: Path, racing: Racing) -> None:
    """However many processes look at the same time, each run is handed out once."""
    watched(folder)
    raced(racing.run(folder, LOOKING, [[str(folder), 40]] * 10))
    found = runs(folder)
    assert len(found) == len(set(found))
    assert found[-1] >= minutes(40)[-1]


def test_killed_processes_lose_and_repeat_nothing(folder: Path, racing: Racing) -> None:
    """A process killed in front of any change to a file loses no run and hands out none twice."""
    watched(folder)
    with Killing(folder, LOOKING) as looking:
        places = [looking.at(number) for number in range(1, 41)]
    assert {place.split()[0] for place in places} >= {"open", "os.link", "os.rename", "os.remove"}
    total = (folder / "counter").stat().st_size + 3
    raced(racing.run(folder, LOOKING, [[str(folder), total]]))
    found = runs(folder)
    assert len(found) == len(set(found))
    assert found == minutes(total)
