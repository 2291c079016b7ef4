"""A plan that is due becomes one event, exactly once: whoever looks, whenever one is killed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from conftest import write
from memvault.config import Settings
from memvault.vault.store import Store
from memvault.work import firing, plans
from memvault.work.agents import Address
from memvault.work.schedule import Schedule

START = datetime(2026, 2, 18, 8, 30, tzinfo=UTC)
MAIN = Address("main")


class Inbox:
    """A folder of events as the inbox keeps them; what is popped is noted in order."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "inbox"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.popped: list[tuple[str, str]] = []
        self.trouble: Callable[[], None] = lambda: None

    def deliver(self, event_id: str, timestamp: datetime, data: dict[str, Any]) -> None:
        """Write an event unless one of that id is there."""
        self.trouble()
        if not (self.folder / event_id).exists():
            (self.folder / event_id).write_text(json.dumps(data), "utf-8")
        assert timestamp.isoformat(timespec="milliseconds")[:23] == data["scheduledFor"][:23]
        self.trouble()

    def pop(self) -> list[tuple[str, str]]:
        """Take every event out; return the plans' names and moments."""
        new = []
        for file in sorted(self.folder.iterdir()):
            data = json.loads(file.read_text("utf-8"))
            new.append((data["planName"], data["scheduledFor"]))
            file.unlink()
        self.popped += new
        return new


def opened(root: Path) -> Store:
    """The store of a vault that is made where there is none."""
    if not (root / "memvault.toml").exists():
        write(root, "memvault.toml", "version = 1\n")
    return Store(root, Settings())


def look(store: Store, inbox: Inbox, now: datetime) -> list[tuple[str, str]]:
    """Fire and pop as a process does; return what was popped."""
    firing.fire(store, MAIN, now, UTC, inbox.deliver)
    return inbox.pop()


def plan(store: Store, name: str, kind: str, text: str, now: datetime = START) -> plans.Plan:
    """Set a plan."""
    wanted = plans.Wanted(name, f"Do {name}", Schedule(kind, text))
    return plans.put(store, MAIN, [wanted], now, UTC)[0]


@pytest.fixture
def store(folder: Path) -> Store:
    """An empty vault's store."""
    return opened(folder)


def test_one_shots_fire_once_and_are_completed(store: Store, tmp_path: Path) -> None:
    """A delay and a moment each give one event, at their time and never again."""
    inbox = Inbox(tmp_path)
    plan(store, "Follow up", "runAfter", "2 hours")
    plan(store, "Checklist", "scheduledAt", "2026-02-18T11:00:00Z")
    assert firing.next_due(store, MAIN, UTC) == START + timedelta(hours=2)
    assert look(store, inbox, START + timedelta(minutes=119)) == []
    assert look(store, inbox, START + timedelta(hours=9)) == [
        ("Follow up", "2026-02-18T10:30:00.000Z"),
        ("Checklist", "2026-02-18T11:00:00.000Z"),
    ]
    assert look(store, inbox, START + timedelta(days=90)) == []
    assert {each.status for each in plans.all_plans(store, MAIN)[0]} == {"completed"}
    assert firing.next_due(store, MAIN, UTC) is None


def test_missed_runs_of_a_cron_line_are_one(store: Store, tmp_path: Path) -> None:
    """Who looks after a week gets the latest run, not one for every day."""
    inbox = Inbox(tmp_path)
    plan(store, "Report", "cron", "0 9 * * *")
    assert look(store, inbox, START + timedelta(days=7)) == [("Report", "2026-02-24T09:00:00.000Z")]
    assert firing.next_due(store, MAIN, UTC) == datetime(2026, 2, 25, 9, tzinfo=UTC)
    assert look(store, inbox, START + timedelta(days=7, minutes=20)) == []


def test_a_run_every_minute_missed_for_a_year_is_found_at_once(
    store: Store, tmp_path: Path
) -> None:
    """A frequent plan that nobody looked at for long does not slow the next look down."""
    inbox = Inbox(tmp_path)
    plan(store, "Tick", "cron", "* * * * *")
    begun = time.monotonic()
    assert look(store, inbox, START + timedelta(days=365)) == [("Tick", "2027-02-18T08:30:00.000Z")]
    assert time.monotonic() - begun < 2


def test_two_machines_write_the_same(tmp_path: Path) -> None:
    """Two copies of a vault that fire the same run at different moments merge without a word."""
    first = opened(tmp_path / "a")
    plan(first, "Report", "cron", "0 9 * * *")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    trees = []
    for name, minutes in (("a", 31), ("b", 44)):
        inbox = Inbox(tmp_path / name)
        now = START + timedelta(minutes=minutes, seconds=7)
        firing.fire(opened(tmp_path / name), MAIN, now, UTC, inbox.deliver)
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        trees.append(
            {
                path.relative_to(tmp_path / name): path.read_bytes()
                for path in files
                if ".memvault" not in path.parts
            }
        )
    assert trees[0] == trees[1]
    assert len([path for path in trees[0] if path.parts[0] == "inbox"]) == 1


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_run_that_broke_off_is_completed(store: Store, tmp_path: Path, before: bool) -> None:
    """A look that fails before or after the event is written is completed by the next one."""
    inbox = Inbox(tmp_path)
    plan(store, "Report", "cron", "0 9 * * *")
    calls = []

    def trouble() -> None:
        calls.append(1)
        if len(calls) == (1 if before else 2):
            raise RuntimeError("killed")

    inbox.trouble = trouble
    with pytest.raises(RuntimeError):
        look(store, inbox, START + timedelta(hours=1))
    assert firing.next_due(store, MAIN, UTC) == datetime(2026, 2, 18, 9, tzinfo=UTC)
    assert look(store, inbox, START + timedelta(hours=2)) == [
        ("Report", "2026-02-18T09:00:00.000Z")
    ]
    assert look(store, inbox, START + timedelta(hours=3)) == []
    assert "pending" not in plans.all_plans(store, MAIN)[0][0].entry.header


def test_a_plan_is_renamed_while_its_run_is_under_way(store: Store, tmp_path: Path) -> None:
    """A file renamed in the very moment of a run does not make it run twice."""
    inbox = Inbox(tmp_path)
    file = store.root / plan(store, "Report", "cron", "0 9 * * *").entry.path

    def trouble() -> None:
        if file.exists():
            file.rename(file.with_name("moved.md"))

    inbox.trouble = trouble
    assert len(look(store, inbox, START + timedelta(hours=1))) == 1
    assert look(store, inbox, START + timedelta(hours=1)) == []


def test_setting_the_same_plan_again_skips_and_repeats_nothing(
    store: Store, tmp_path: Path
) -> None:
    """An agent that sets its plans whenever it begins misses no run and gets none again."""
    inbox = Inbox(tmp_path)
    late = START + timedelta(hours=1)
    for now in (START, late):
        plan(store, "Report", "cron", "0 9 * * *", now)
        plan(store, "Checklist", "scheduledAt", "2026-02-18T09:15:00Z", now)
    assert len(look(store, inbox, late)) == 2
    plan(store, "Report", "cron", "0 9 * * *", late)
    again = plan(store, "Checklist", "scheduledAt", "2026-02-18T09:15:00Z", late)
    assert again.status == "completed"
    assert look(store, inbox, late) == []
    plan(store, "Checklist", "scheduledAt", "2026-02-18T09:20:00Z", late)
    assert look(store, inbox, late) == [("Checklist", "2026-02-18T09:20:00.000Z")]


def test_headers_of_any_style_are_fired(store: Store, tmp_path: Path) -> None:
    """A header in braces or with Windows line ends is planned and fired like any other."""
    inbox = Inbox(tmp_path)
    at = "2026-02-18T08:00:00Z"
    write(store.root, "agents/main/plans/a.md", f"---\n{{scheduledAt: '{at}', mine: 1}}\n---\nx\n")
    write(store.root, "agents/main/plans/b.md", f"---\r\nscheduledAt: {at}\r\n---\r\ny\r\n")
    assert [name for name, _ in look(store, inbox, START)] == ["a", "b"]
    assert look(store, inbox, START) == []
    found = {plan.name: plan.entry for plan in plans.all_plans(store, MAIN)[0]}
    assert (found["a"].header["mine"], found["a"].text, found["b"].text) == (1, "x", "y")
    assert b"\r\nlastRunAt: " in (store.root / "agents/main/plans/b.md").read_bytes()


def test_a_plan_that_cannot_be_written_does_not_run(store: Store, tmp_path: Path) -> None:
    """A plan without write permission is named, and the others run."""
    inbox = Inbox(tmp_path)
    file = store.root / plan(store, "Locked", "cron", "0 9 * * *").entry.path
    plan(store, "Open", "cron", "0 9 * * *")
    file.chmod(0o444)
    fired = firing.fire(store, MAIN, START + timedelta(hours=1), UTC, inbox.deliver)
    assert [name for name, _ in inbox.pop()] == ["Open"]
    assert any("'Locked' does not run" in note for note in fired.notes)
    file.chmod(0o644)
    assert [name for name, _ in look(store, inbox, START + timedelta(hours=1))] == ["Locked"]


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
def test_clock_changes_neither_lose_nor_repeat_a_run(
    store: Store, tmp_path: Path, cron: str, day: int, expected: list[str]
) -> None:
    """In Berlin a nightly plan runs once in each night, also in those when clocks change."""
    zone = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3 if day == 29 else 10, day, tzinfo=UTC) - timedelta(minutes=5)
    wanted = plans.Wanted("Nightly", "Do it", Schedule("cron", cron))
    plans.put(store, MAIN, [wanted], now, zone)
    inbox = Inbox(tmp_path)
    while len(inbox.popped) < len(expected):
        now += timedelta(minutes=10)
        firing.fire(store, MAIN, now, zone, inbox.deliver)
        inbox.pop()
        assert now.day < 28 or now.month == 3
    assert [at[8:16] for _, at in inbox.popped] == expected
