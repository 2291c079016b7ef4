"""A due plan becomes exactly one event, with several readers and killed processes."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conftest import Git, examples, write
from killing import Killing
from memvault.agents.address import Address, agent_lock
from memvault.agents.plans.agent_plans import AgentPlans
from memvault.agents.plans.planned_inbox import PlannedInbox
from memvault.agents.plans.schedule import Schedule
from memvault.agents.plans.status import PlanRequest, PlanStatus
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore
from racing import Racing, raced

START = datetime(2026, 2, 18, 8, 30, tzinfo=UTC)
MAIN = Address("main")


class Agent:
    """An agent with a test clock and a real inbox; records delivered events in order."""

    def __init__(self, root: Path, now: datetime = START, zone: tzinfo = UTC) -> None:
        if not (root / "memvault.toml").exists():
            write(root, "memvault.toml", "version = 1\n")
        self.root, self.now, self.zone = root, now, zone
        self.store = MemoryStore(root, Settings())
        self.inbox = PlannedInbox(self.plans())
        self.handed: list[tuple[str, str]] = []

    def plans(self) -> AgentPlans:
        """The plans."""
        return AgentPlans(self.store, MAIN, self.zone, lambda: self.now)

    def plan(self, name: str, kind: str, text: str) -> PlanStatus:
        """Set a plan."""
        return self.plans().set([PlanRequest(name, f"Do {name}", Schedule(kind, text))])[0]

    def look(self, after: timedelta | None = None) -> list[tuple[str, str]]:
        """Advance the clock and take all events; return plans' names and moments."""
        self.now = START + after if after is not None else self.now
        popped = self.inbox.pop(1_000)
        self.notes = popped.notes
        if popped.lease is not None:
            popped.lease.acknowledge()
        new = [(event.data["planName"], event.data["scheduledFor"]) for event in popped.events]
        self.handed += new
        return new

    def stands(self) -> dict[str, PlanStatus]:
        """Return the state of the plans, by name."""
        return {stand.plan.name: stand for stand in self.plans().statuses()[0]}

    def next_due(self) -> datetime | None:
        """Return when the next plan is due."""
        return self.plans().next_due()


@pytest.fixture
def agent(folder: Path) -> Agent:
    """An agent in an empty vault."""
    return Agent(folder)


def hours(number: float) -> timedelta:
    """Some hours."""
    return timedelta(hours=number)


def test_one_shot_plans_fire_once(agent: Agent) -> None:
    """A delay and a fixed time each fire one event when due, and never again."""
    agent.plan("Follow up", "runAfter", "2 hours")
    agent.plan("Checklist", "scheduledAt", "2026-02-18T11:00:00Z")
    assert agent.next_due() == START + hours(2)
    assert agent.look(timedelta(minutes=119)) == []
    assert sorted(agent.look(hours(9))) == [
        ("Checklist", "2026-02-18T11:00:00.000Z"),
        ("Follow up", "2026-02-18T10:30:00.000Z"),
    ]
    assert agent.look(timedelta(days=90)) == []
    assert {stand.plan.status for stand in agent.stands().values()} == {"completed"}
    assert agent.next_due() is None


def test_missed_cron_runs_fire_once(agent: Agent) -> None:
    """A check after a week fires only the latest run, not one for each day."""
    agent.plan("Report", "cron", "0 9 * * *")
    assert agent.look(timedelta(days=7)) == [("Report", "2026-02-24T09:00:00.000Z")]
    assert agent.next_due() == datetime(2026, 2, 25, 9, tzinfo=UTC)
    assert agent.look(timedelta(days=7, minutes=20)) == []


def test_plan_missed_every_minute_for_a_year_is_one_event(agent: Agent) -> None:
    """A frequent plan that was not checked for a long time fires only its latest run."""
    agent.plan("Tick", "cron", "* * * * *")
    assert agent.look(timedelta(days=365)) == [("Tick", "2027-02-18T08:30:00.000Z")]


def test_recurring_plan_file_is_unchanged_by_runs(agent: Agent) -> None:
    """Runs leave a recurring plan's file unchanged, so git has nothing to commit."""
    file = agent.root / agent.plan("Report", "cron", "0 9 * * *").plan.entry.path
    before = file.read_bytes()
    assert agent.look(hours(1))
    assert agent.look(timedelta(days=2))
    assert file.read_bytes() == before


def test_plan_runs_on_two_clones_merge_in_git(tmp_path: Path, git: Git) -> None:
    """Two clones with the same plans, checked at different times, merge cleanly with git."""
    first = Agent(tmp_path / "a")
    first.plan("Tick", "cron", "0 * * * *")
    git("a", "init", "-q")
    for words in (("add", "-A"), ("commit", "-qm", "begin"), ("clone", "-q", ".", "../b")):
        git("a", *words)
    second = Agent(tmp_path / "b")
    for agent, after in ((first, hours(1)), (second, hours(2))):
        agent.plan("Report", "cron", "0 9 * * *")
        agent.plan("Once", "scheduledAt", "2026-02-18T09:00:00Z")
        assert agent.look(after)
        git(agent.root.name, "add", "-A")
        git(agent.root.name, "commit", "-qm", "ran")
    git("a", "pull", "-q", "--no-rebase", "--no-edit", "../b")
    assert set(first.stands()) == {"Tick", "Report", "Once"}
    assert first.look(hours(3)) == [("Tick", "2026-02-18T11:00:00.000Z")]


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_interrupted_plan_run_is_completed(agent: Agent, before: bool) -> None:
    """A check interrupted before or after writing the event is completed by the next check."""
    agent.plan("Report", "cron", "0 9 * * *")

    def cut_off(name: str, at: datetime, data: dict[str, Any]) -> None:
        if not before:
            agent.inbox.deliver("plan", data, name)
        raise KeyboardInterrupt

    agent.now = START + hours(1)
    with agent_lock(agent.root, MAIN), pytest.raises(KeyboardInterrupt):
        agent.plans().fire(cut_off)
    assert agent.next_due() == datetime(2026, 2, 18, 9, tzinfo=UTC)
    assert agent.look(hours(2)) == [("Report", "2026-02-18T09:00:00.000Z")]
    assert agent.look(hours(3)) == []


def test_plan_changed_or_deleted_mid_run_runs_once(agent: Agent) -> None:
    """A plan file renamed, broken or deleted mid-run neither loses nor repeats the run."""
    files = [
        agent.root / agent.plan(name, "cron", "0 9 * * *").plan.entry.path
        for name in ("Moved", "Broken", "Deleted")
    ]

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    agent.now = START + hours(1)
    with agent_lock(agent.root, MAIN), pytest.raises(KeyboardInterrupt):
        agent.plans().fire(cut_off)
    text = files[1].read_bytes()
    files[0].rename(files[0].with_name("other.md"))
    files[1].write_bytes(b"---\ncron: [\n")
    files[2].unlink()
    assert sorted(name for name, _ in agent.look()) == ["Broken", "Deleted", "Moved"]
    files[1].write_bytes(text)
    assert agent.look() == []
    assert sorted(name for name, _ in agent.look(timedelta(days=1, hours=1))) == ["Broken", "Moved"]


def test_setting_same_plan_again_is_idempotent(agent: Agent) -> None:
    """An agent that sets its plans at every start does not miss or repeat a run."""
    plans = {
        "Report": ("cron", "0 9 * * *"),
        "Checklist": ("scheduledAt", "2026-02-18T09:15:00Z"),
        "Tea": ("runAfter", "30 minutes"),
    }
    for now in (START, START + hours(1)):
        agent.now = now
        for name, (kind, text) in plans.items():
            agent.plan(name, kind, text)
    assert len(agent.look()) == 3
    agent.plan("Report", *plans["Report"])
    assert agent.plan("Checklist", *plans["Checklist"]).status == "completed"
    assert agent.look() == []
    agent.now = START + timedelta(days=30)
    assert agent.plan("Checklist", *plans["Checklist"]).status == "completed"
    agent.plan("Checklist", "scheduledAt", "2026-03-20T08:20:00Z")
    assert ("Checklist", "2026-03-20T08:20:00.000Z") in agent.look()


def test_plan_set_late_skips_past_times(agent: Agent) -> None:
    """A changed plan that waited an hour for the agent's lock first runs after that hour."""
    agent.plan("Report", "cron", "0 8 * * *")

    def now() -> datetime:
        lock = agent_lock(agent.root, MAIN)
        waiting = lock.acquire(0)
        lock.release()
        return START if waiting else START + hours(1)

    plans = AgentPlans(agent.store, MAIN, UTC, now)
    (stand,) = plans.set([PlanRequest("Report", "Do it", Schedule("cron", "0 9 * * *"))])
    assert stand.next_run == datetime(2026, 2, 19, 9, tzinfo=UTC)


def test_plan_delay_restarts_if_set_again(agent: Agent) -> None:
    """A delay can be set again after its run, and setting a pending delay restarts it."""
    agent.plan("Tea", "runAfter", "30 minutes")
    agent.now = START + timedelta(minutes=20)
    agent.plan("Tea", "runAfter", "30 minutes")
    assert agent.look(timedelta(minutes=40)) == []
    assert agent.look(timedelta(minutes=50)) == [("Tea", "2026-02-18T09:20:00.000Z")]
    agent.plan("Tea", "runAfter", "30 minutes")
    assert agent.look(timedelta(minutes=80)) == [("Tea", "2026-02-18T09:50:00.000Z")]


def test_plan_with_any_front_matter_style_fires(agent: Agent) -> None:
    """A plan in flow-style YAML runs unchanged, and one with CRLF is marked as completed."""
    at = "2026-02-18T08:00:00Z"
    braces = f"---\n{{scheduledAt: '{at}', mine: 1}} # why\n---\nx\n"
    write(agent.root, "agents/main/plans/a.md", braces)
    write(agent.root, "agents/main/plans/b.md", f"---\r\nscheduledAt: {at}\r\n---\r\ny\r\n")
    assert sorted(name for name, _ in agent.look()) == ["a", "b"]
    assert agent.look() == []
    assert {stand.status for stand in agent.stands().values()} == {"completed"}
    assert (agent.root / "agents/main/plans/a.md").read_text() == braces
    assert b"\r\nstatus: completed\r\n" in (agent.root / "agents/main/plans/b.md").read_bytes()


def test_read_only_plan_runs_once(agent: Agent, write_protect: Callable[[Path], None]) -> None:
    """A read-only plan runs once, and a warning says if its status could not be saved."""
    stands = [
        agent.plan("Often", "cron", "0 9 * * *"),
        agent.plan("Once", "runAfter", "5 minutes"),
    ]
    for stand in stands:
        write_protect(agent.root / stand.plan.entry.path)
    assert len(agent.look(hours(1))) == 2
    assert agent.look(hours(2)) == []
    failure = "the status completed could not be written"
    once = [problem for problem in agent.notes if failure in problem]
    assert len(once) == (0 if "completed" in agent.stands()["Once"].plan.status else 1)


def test_plan_does_not_rerun_after_lost_state(agent: Agent) -> None:
    """Without .memvault, completed one-shot plans stay completed and recurring plans continue."""
    agent.plan("Once", "runAfter", "5 minutes")
    agent.plan("Often", "cron", "0 9 * * *")
    assert len(agent.look(hours(1))) == 2
    shutil.rmtree(agent.root / ".memvault")
    assert agent.look(hours(2)) == []
    assert agent.look(timedelta(days=1, hours=1)) == [("Often", "2026-02-19T09:00:00.000Z")]
    write(agent.root, ".memvault/agents/main/plans.json", '{"plans": {"x": 1, "y": {}}, "z": [')
    assert agent.look(timedelta(days=1, hours=2)) == []


def test_unreadable_plans_do_not_block_the_inbox(agent: Agent) -> None:
    """A plan folder that is a symlink or a file is reported, and the inbox is still read."""
    agent.inbox.deliver("plan", {"planName": "p", "scheduledFor": "s"})
    write(agent.root, "agents/main/plans", "a file")
    assert agent.look() == [("p", "s")]
    assert "no plan was run" in agent.notes[0]
    assert agent.next_due() is None


@pytest.mark.parametrize(
    ("cron", "day", "expected"),
    [
        ("30 2 * * *", 29, ["29T01:00", "30T00:30"]),
        ("0 3 * * *", 29, ["29T01:00", "30T01:00"]),
        ("*/30 * * * *", 29, ["29T00:00", "29T00:30", "29T01:00", "29T01:30"]),
        ("30 2 * * *", 25, ["25T00:30", "26T01:30"]),
        ("0 3 * * *", 25, ["25T02:00", "26T02:00"]),
        ("*/30 * * * *", 25, ["25T00:00", "25T00:30", "25T01:00", "25T01:30"]),
    ],
)
def test_plan_runs_once_across_clock_changes(
    folder: Path, cron: str, day: int, expected: list[str]
) -> None:
    """In Berlin a nightly plan runs exactly once a night, even when the clocks change."""
    now = datetime(2026, 3 if day == 29 else 10, day, tzinfo=UTC) - timedelta(minutes=5)
    agent = Agent(folder, now, ZoneInfo("Europe/Berlin"))
    agent.plan("Nightly", "cron", cron)
    while len(agent.handed) < len(expected):
        agent.now += timedelta(minutes=10)
        agent.look()
        assert agent.now.day < 28 or agent.now.month == 3
    assert [at[8:16] for _, at in agent.handed] == expected


class Days(RuleBasedStateMachine):
    """Plans, passing time, successful reads and reads that are interrupted anywhere."""

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
        """Set a one-shot plan under a new name."""
        name = f"once {len(self.once)}"
        self.once[name] = self.agent.now + timedelta(minutes=minutes)
        self.agent.plan(name, "runAfter", f"{minutes} minutes")

    @rule(minutes=st.sampled_from([1, 14, 61, 1441, 50_000]))
    def passes(self, minutes: int) -> None:
        """Advance the clock."""
        self.agent.now += timedelta(minutes=minutes)

    @rule(nth=st.integers(1, 6))
    def cut_off(self, nth: int) -> None:
        """Read, and be interrupted before or after an event is written."""
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
        """Take events and release them unread, like a failing process."""
        popped = self.agent.inbox.pop(3)
        if popped.lease is not None:
            popped.lease.requeue()

    @rule()
    def looks(self) -> None:
        """Read; every run that is due by now has been delivered."""
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
        """No run is delivered twice."""
        if hasattr(self, "agent"):
            assert len(set(self.agent.handed)) == len(self.agent.handed)

    def teardown(self) -> None:
        """Remove the vault."""
        if hasattr(self, "agent"):
            shutil.rmtree(self.agent.root)


def stamp(at: datetime) -> str:
    """Return a moment in the format of events."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.000Z"


def last_before(line: str, now: datetime) -> datetime:
    """Return the last moment of one of the machine's cron lines, by arithmetic."""
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
from memvault.agents.plans import agent_plans, planned_inbox
from memvault.agents.address import Address

def work(root, rounds=1000):
    root = Path(root)
    counter, done = root / "counter", 0
    store = MemoryStore(root, Settings())
    start = datetime(2026, 2, 18, 8, 30, 5, tzinfo=UTC)
    inbox = planned_inbox.PlannedInbox(
        agent_plans.AgentPlans(store, Address("main"), UTC, lambda: start + timedelta(minutes=done))
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
    """Return the delivered runs with their counts."""
    popped = (root / ".memvault/agents/main/popped").glob("*/*.md")
    return sorted(path.name[6:16] for path in popped)


def minutes(count: int) -> list[str]:
    """Return the expected runs."""
    first = START + timedelta(minutes=1)
    return [f"18T{first + timedelta(minutes=n):%H%M%S}." for n in range(count)]


def test_concurrent_processes_fire_each_plan_run_once(folder: Path, racing: Racing) -> None:
    """Each run fires exactly once, even if many processes check at the same time."""
    watched(folder)
    raced(racing.run(folder, LOOKING, [[str(folder), 40]] * 10))
    found = runs(folder)
    assert len(found) == len(set(found))
    assert found[-1] >= minutes(40)[-1]


def test_plan_run_survives_kill_exactly_once(folder: Path, racing: Racing) -> None:
    """A process killed before any file change neither loses nor repeats a run."""
    watched(folder)
    with Killing(folder, LOOKING) as looking:
        places = [looking.at(number) for number in range(1, 41)]
    assert {place.split()[0] for place in places} >= {"open", "os.link", "os.rename", "os.remove"}
    total = (folder / "counter").stat().st_size + 3
    raced(racing.run(folder, LOOKING, [[str(folder), total]]))
    found = runs(folder)
    assert len(found) == len(set(found))
    assert found == minutes(total)
