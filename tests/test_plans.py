"""Plans define when something is due; people and tools may write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from conftest import Run, sampled, write
from memvault import Vault, clock
from memvault.agents.address import Address
from memvault.agents.plans import schedule
from memvault.agents.plans.agent_plans import AgentPlans
from memvault.agents.plans.schedule import Schedule
from memvault.agents.plans.status import PlanRequest, PlanStatus
from memvault.settings.vault_settings import Settings
from memvault.store.memory_store import MemoryStore

PLANS = "agents/main/plans"
MAIN = Address("main")
NOW = datetime(2026, 2, 18, 8, 30, tzinfo=UTC)


def at(folder: Path, now: datetime = NOW, zone: tzinfo = UTC) -> AgentPlans:
    """The agent's plans at a moment."""
    return AgentPlans(MemoryStore(folder, Settings()), MAIN, zone, lambda: now)


def planned(folder: Path, name: str, kind: str, text: str, zone: tzinfo = UTC) -> PlanStatus:
    """Set a plan."""
    return at(folder, zone=zone).set([PlanRequest(name, "x", Schedule(kind, text))])[0]


def fire(folder: Path, now: datetime = NOW) -> tuple[list[str], list[str]]:
    """Fire due plans; return the runs as ``NAME MOMENT``, and the notes."""
    runs: list[str] = []

    def deliver(event_id: str, timestamp: datetime, data: dict[str, Any]) -> None:
        runs.append(f"{data['planName']} {data['scheduledFor']}")

    return runs, at(folder, now).fire(deliver)


def get(folder: Path, now: datetime = NOW, zone: tzinfo = UTC) -> dict[str, PlanStatus]:
    """Return the state of the plans, by name."""
    return {stand.plan.name: stand for stand in at(folder, now, zone).statuses()[0]}


def test_plan_kinds_are_listed_next_due_first(vault: Vault) -> None:
    """A recurring plan, a delay and a fixed time can be set in one call; next due comes first."""
    launch = clock.iso(clock.now() + timedelta(days=40))
    asked = [
        {"name": "Daily numbers", "cron": "0 9 * * *", "instruction": "Post the numbers"},
        {"name": "Ask again", "runAfter": "2 hours", "instruction": "Has the mockup been seen?"},
        {"name": "Before launch", "scheduledAt": launch, "instruction": "Run the checks"},
    ]
    done = vault.call("set_plans", plans=asked)
    assert [(plan["name"], plan["status"]) for plan in done["plans"]] == [
        ("Daily numbers", "active"),
        ("Ask again", "active"),
        ("Before launch", "active"),
    ]
    assert done["plans"][2]["nextRunAt"] == launch
    found = {plan["name"]: plan for plan in vault.call("get_plans", status="active")["plans"]}
    assert found["Daily numbers"]["cron"] == "0 9 * * *"
    assert found["Ask again"]["scheduledAt"] == found["Ask again"]["nextRunAt"]
    assert vault.call("get_plans", status="completed")["plans"] == []
    ids = [plan["id"] for plan in done["plans"]]
    again = vault.call("set_plans", plans=[{**asked[0], "cron": "30 9 * * *"}])
    assert again["plans"][0]["id"] == ids[0]
    assert vault.call("delete_plans", planIds=[*ids[:2], "nope"])["deleted"] == 2
    assert [plan["id"] for plan in vault.call("get_plans")["plans"]] == ids[2:]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"cron": "0 9 * * *", "runAfter": "2 hours"},
        {"cron": "0 9 * *"},
        {"cron": "* * * * * *"},
        {"cron": "61 * * * *"},
        {"cron": "9" * 5000 + " * * * *"},
        {"cron": "0 0 30 2 *"},
        {"runAfter": "soon"},
        {"runAfter": "0 minutes"},
        {"runAfter": "-1 hours"},
        {"runAfter": "9999 weeks"},
        {"runAfter": "2"},
        {"scheduledAt": "tomorrow"},
        {"scheduledAt": "2020-01-01"},
        {"scheduledAt": "0001-01-01T00:00:00+14:00"},
        {"cron": "0 9 * * *", "instruction": " "},
        {"cron": "0 9 * * *", "name": ""},
    ],
    ids=str,
)
def test_plan_error_rejects_the_whole_call(vault: Vault, wrong: dict[str, str]) -> None:
    """An invalid plan is refused in one sentence, together with all other plans of its call."""
    good = {"name": "Good", "instruction": "x", "cron": "0 9 * * *"}
    bad = {"name": "Bad", "instruction": "x", **wrong}
    found = vault.call("set_plans", plans=[good, bad])
    assert found["error"]["code"] == "usage", found
    assert found["error"]["hint"]
    assert wrong.get("name") == "" or "The plan 'Bad' " in found["error"]["message"]
    assert found["error"]["message"].endswith("; no plan was set")
    assert vault.call("get_plans")["plans"] == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2 hours", 7200), ("30 minutes", 1800), ("1 day", 86400), ("90 seconds", 90),
     ("1 week", 604800), ("2h", 7200), ("1h30m", 5400), ("1.5 Hours", 5400),
     ("1 day, 2 hours and 1 minute", 93660)],
)  # fmt: skip
def test_plan_delay_accepts_words(text: str, seconds: int) -> None:
    """A delay can be written in everyday words."""
    assert schedule.delay(text).total_seconds() == seconds


def test_plan_with_recent_past_time_is_due_immediately(folder: Path) -> None:
    """A time in the recent past is due immediately; without a zone, the vault's zone applies."""
    stand = planned(folder, "Late", "scheduledAt", "2026-02-18T09:00", ZoneInfo("Europe/Berlin"))
    assert stand.plan.schedule.text == "2026-02-18T08:00:00.000Z"
    assert fire(folder) == (["Late 2026-02-18T08:00:00.000Z"], [])
    assert get(folder)["Late"].status == "completed"


def test_handwritten_plan_is_scheduled(folder: Path) -> None:
    """A file with only a schedule and text is a plan, named after the file."""
    write(folder, f"{PLANS}/Water.md", '---\ncron: "0 9 * * *"  # mine\n---\nWater the plants\n')
    write(folder, f"{PLANS}/Tea.md", "---\nrunAfter: 10 minutes\n---\nDrink it\n")
    write(folder, f"{PLANS}/Old.md", "---\nscheduledAt: 2026-01-01\n---\nToo late\n")
    write(folder, f"{PLANS}/Paused.md", '---\ncron: "* * * * *"\nstatus: paused\n---\nNot now\n')
    assert at(folder).next_due() == NOW + timedelta(minutes=10)
    assert fire(folder) == ([], [])
    found = get(folder)
    assert found["Water"].next_run == datetime(2026, 2, 18, 9, tzinfo=UTC)
    assert found["Tea"].next_run == NOW + timedelta(minutes=10)
    assert found["Old"].status == "expired"
    assert found["Paused"].next_run is None
    assert b"# mine" in (folder / PLANS / "Water.md").read_bytes()
    runs, _ = fire(folder, NOW + timedelta(hours=1))
    assert sorted(runs) == ["Tea 2026-02-18T08:40:00.000Z", "Water 2026-02-18T09:00:00.000Z"]


def test_handwritten_plan_is_listed_with_next_run(vault: Vault, folder: Path) -> None:
    """Listing plans shows the next run of a handwritten one, without writing anything."""
    write(folder, f"{PLANS}/Water.md", '---\ncron: "0 9 * * *"\n---\nWater the plants\n')
    write(folder, f"{PLANS}/Old.md", "---\nscheduledAt: 2020-01-01\n---\nToo late\n")
    before = (folder / PLANS / "Water.md").read_bytes()
    water, old = vault.call("get_plans")["plans"]
    assert water["nextRunAt"][11:] == "09:00:00.000Z"
    assert old["status"] == "expired"
    assert (folder / PLANS / "Water.md").read_bytes() == before


def test_manually_changed_plan_schedule_sets_next_run(folder: Path) -> None:
    """A changed cron line, time or zone sets a new next run, even if the plan has ended."""
    report = planned(folder, "Report", "cron", "0 9 * * *")
    once = planned(folder, "Once", "scheduledAt", "2026-02-18T08:30:00Z")
    assert fire(folder)[0] == ["Once 2026-02-18T08:30:00.000Z"]
    change(folder / report.plan.entry.path, 'cron: "0 9', 'cron: "45 8')
    change(folder / once.plan.entry.path, "08:30:00.000Z", "08:40:00.000Z")
    assert fire(folder) == ([], [])
    assert get(folder)["Report"].next_run == NOW + timedelta(minutes=15)
    later = NOW + timedelta(minutes=11)
    assert fire(folder, later)[0] == ["Once 2026-02-18T08:40:00.000Z"]
    assert fire(folder, later)[0] == []
    tokyo = get(folder, zone=ZoneInfo("Asia/Tokyo"))
    assert tokyo["Report"].next_run == datetime(2026, 2, 18, 23, 45, tzinfo=UTC)


def test_manually_reactivated_plan_runs_again(folder: Path) -> None:
    """Changing completed to active restarts a delay, and runs a past time immediately."""
    stands = [
        planned(folder, "Tea", "runAfter", "10 minutes"),
        planned(folder, "Call", "scheduledAt", "2026-02-18T08:35:00Z"),
    ]
    later = NOW + timedelta(minutes=20)
    assert len(fire(folder, later)[0]) == 2
    for stand in stands:
        change(folder / stand.plan.entry.path, "status: completed", "status: active")
    assert fire(folder, later)[0] == ["Call 2026-02-18T08:35:00.000Z"]
    assert fire(folder, later + timedelta(minutes=9))[0] == []
    assert fire(folder, later + timedelta(minutes=10))[0] == ["Tea 2026-02-18T09:00:00.000Z"]


def test_plan_skips_runs_missed_while_paused(folder: Path) -> None:
    """Runs that came due while a plan was paused are not run when it is active again."""
    file = folder / planned(folder, "Report", "cron", "0 9 * * *").plan.entry.path
    change(file, "status: active", "status: paused")
    assert fire(folder, NOW + timedelta(days=3)) == ([], [])
    change(file, "status: paused", "status: active")
    assert fire(folder, NOW + timedelta(days=3)) == ([], [])
    assert get(folder, NOW + timedelta(days=3))["Report"].next_run == datetime(
        2026, 2, 21, 9, tzinfo=UTC
    )


def change(file: Path, old: str, new: str) -> None:
    """Edit a file as a person does."""
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def test_plan_with_invalid_schedule_does_not_block_others(vault: Vault, folder: Path) -> None:
    """A plan with no schedule, two or an invalid one is reported, and the other plans run."""
    broken = {
        "none": "name: x",
        "two": 'cron: "0 9 * * *"\nrunAfter: 2h',
        "bad": 'cron: "0 99 * * *"',
        "star": "cron: */5 * * * *",
    }
    for name, header in broken.items():
        write(folder, f"{PLANS}/{name}.md", f"---\n{header}\n---\nx\n")
    write(folder, f"{PLANS}/good.md", "---\nscheduledAt: 2026-02-18T08:00:00Z\n---\nx\n")
    write(folder, f"{PLANS}/odd.md", "---\nrunAfter: 2h\nnextRunAt: soon\npending: [x]\n---\nx\n")
    runs, notes = fire(folder)
    assert runs == ["good 2026-02-18T08:00:00.000Z"]
    assert all(any(f"{name}.md" in note for note in notes) for name in broken)
    assert len(vault.call("get_plans")["warnings"]) == len(broken)


def test_plan_update_keeps_other_header_lines(folder: Path) -> None:
    """An update changes the schedule and instruction; other header lines stay."""
    before = planned(folder, "Report", "cron", "0 9 * * *")
    change(folder / before.plan.entry.path, "---\n\n", "owner: me\n---\n\n")
    again = PlanRequest("Report", "y", Schedule("runAfter", "2 hours"))
    ((after, *_),) = at(folder).set([again])
    assert (after.id, after.instruction) == (before.plan.id, "y")
    assert after.schedule.kind == "runAfter"
    assert after.entry.header["owner"] == "me"
    assert "cron" not in after.entry.header


def test_plan_name_ignores_unicode_composition(vault: Vault, folder: Path) -> None:
    """Composed and decomposed letters are the same name, even in a handwritten file."""
    write(folder, f"{PLANS}/c.md", "---\nname: Cafe\u0301\ncron: '0 9 * * *'\n---\nx\n")
    vault.call("set_plans", plans=[{"name": "Caf\u00e9", "instruction": "y", "runAfter": "1 day"}])
    (plan,) = vault.call("get_plans")["plans"]
    assert (plan["instruction"], plan["runAfter"]) == ("y", "1 day")


def test_plan_can_be_deleted_by_id_or_name(vault: Vault) -> None:
    """The tool delete_plans accepts the same names as set_plans."""
    for name in ("One", "Two", "Three"):
        plan = {"name": name, "instruction": "x", "cron": "0 9 * * *"}
        done = vault.call("set_plans", plans=[plan])["plans"][0]
    gone = vault.call("delete_plans", planIds=["One", done["id"], "Four"])
    assert gone["deleted"] == 2
    assert "Four" in gone["warnings"][0]
    assert [plan["name"] for plan in vault.call("get_plans")["plans"]] == ["Two"]


@sampled(3)
@pytest.mark.parametrize(
    ("place", "day"),
    [
        ("Europe/Berlin", datetime(2026, 3, 29, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2026, 10, 25, tzinfo=UTC)),
        # Clocks go back half an hour.
        ("Australia/Lord_Howe", datetime(2026, 4, 4, 14, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2026, 10, 3, 14, tzinfo=UTC)),
        ("Antarctica/Troll", datetime(2026, 10, 25, tzinfo=UTC)),  # clocks go back two hours
    ],
)
@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "*/20 * * * *", "15 * * * *", "0 1,2,3 * * *", "0 */2 * * *"]
)
def test_plan_previous_and_next_run_are_adjacent(place: str, day: datetime, cron: str) -> None:
    """Previous and next run are adjacent at any time, even around clock changes."""
    zone = ZoneInfo(place)
    every = []
    at: datetime | None = day - timedelta(days=2)
    while at is not None and at < day + timedelta(days=2):
        at = schedule.next_after(cron, at, zone)
        assert at is not None
        every.append(at)
    assert every == sorted(set(every))
    for minute in range(-120, 480, 7):
        now = day + timedelta(minutes=minute)
        assert schedule.next_after(cron, now, zone) == min(run for run in every if run > now)
        assert schedule.latest(cron, now, zone) == max(run for run in every if run <= now)


def test_plan_uses_vault_time_zone(run: Run, folder: Path) -> None:
    """Cron lines are evaluated in the time zone set in memvault.toml."""
    write(folder, "memvault.toml", '[plans]\ntimezone = "Asia/Tokyo"\n')
    done = run("plans", "set", "Report", "Do it", "--cron", "0 9 * * *", "--json").json
    assert done["plans"][0]["nextRunAt"].endswith("T00:00:00.000Z")
