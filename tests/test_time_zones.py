"""A day is the user's day, in any time zone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from conftest import child, explained, parts, succeeded, user_in, write
from memvault import Vault, clock
from memvault.recall.dates import is_newer, parse_moment
from memvault.recall.filter_expression import compile_expression

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no TZ")


@pytest.fixture(params=["America/Los_Angeles", "Asia/Tokyo", "UTC"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """A user's time zone, west and east of UTC."""
    with user_in(request.param):
        yield str(request.param)


EARLY, LATE = "2026-03-04T01:30:00.500Z", "2026-03-04T22:30:00.500Z"
LOCAL_DAYS = {
    "America/Los_Angeles": ("2026-03-03", "2026-03-04"),
    "Asia/Tokyo": ("2026-03-04", "2026-03-05"),
    "UTC": ("2026-03-04", "2026-03-04"),
}


def test_days_follow_the_user_time_zone(zone: str, folder: Path) -> None:
    """Listings, since, until, filters and questions use the user's day; JSON is in UTC."""
    for name, at in (("early", EARLY), ("late", LATE)):
        write(folder, f"notes/{name}.md", f"---\ncreated: {at}\nmodified: {at}\n---\nA walk.\n")
    write(folder, "notes/day.md", "---\ncreated: 2026-03-01\nmodified: 2026-03-01\n---\nA day.\n")
    vault = Vault(folder)
    for name, at, day in zip(("early", "late"), (EARLY, LATE), LOCAL_DAYS[zone], strict=True):
        same = {
            title
            for title, other in zip(("early", "late"), LOCAL_DAYS[zone], strict=True)
            if other == day
        }
        found = vault.call("memory_list", since=day, until=day)
        assert {entry["title"] for entry in found["memories"]} == same
        assert {entry["modified"] for entry in found["memories"]} >= {at}
        by_filter = vault.call("memory_list", filter=f"modified == '{day}'")
        assert {entry["title"] for entry in by_filter["memories"]} == same
        printed = succeeded(child(folder, "list", "--since", day, "--until", day)).out
        assert f"{day}" in printed
        assert name in printed
        best = explained(vault, f"a walk on {day}")
        assert {entry["title"] for entry in best if parts(entry).get("date")} >= {name}
    for words in ("2026-03-01", "on 1 March 2026"):
        found = vault.call("memory_list", since=words, until=words)
        assert [entry["title"] for entry in found["memories"]] == ["day"]


def test_validity_ends_at_local_midnight(zone: str, folder: Path) -> None:
    """A day in valid_to ends at the user's midnight; log and trash show the user's days."""
    today = clock.today()
    write(folder, "notes/now.md", f"---\nvalid_to: {today}\n---\nThe gate code.\n")
    write(folder, "notes/old.md", f"---\nvalid_to: {today - timedelta(days=1)}\n---\nThe gate.\n")
    found = {entry["title"]: entry for entry in Vault(folder).call("memory_list")["memories"]}
    assert "expired" not in found["now"]
    assert "expired" in found["old"]
    succeeded(child(folder, "remember", "A bridge over the river", "--title", "bridge"))
    succeeded(child(folder, "delete", "bridge"))
    for command in (("log",), ("trash", "list")):
        found = succeeded(child(folder, *command, "--json")).json
        first = (found.get("changes") or found["trash"])[0]
        at = first.get("when") or first["discarded"]
        assert at.endswith("Z")
        assert clock.local(at, 19) in succeeded(child(folder, *command)).out


def test_time_zone_defines_newer_than_day(zone: str) -> None:
    """A memory with a time is newer than a day if it is from a later day for the user."""
    for at, day in zip((EARLY, LATE), LOCAL_DAYS[zone], strict=True):
        before = str(date.fromisoformat(day) - timedelta(days=1))
        assert is_newer(at, before)
        assert not is_newer(at, day)
        assert not is_newer(day, at)
        assert is_newer(day, f"{before}T12:00:00.000Z")
    assert is_newer(LATE, EARLY)


@pytest.mark.parametrize(
    ("place", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/Sao_Paulo", "2018-11-04", 23),  # midnight does not exist
        ("America/Sao_Paulo", "2018-02-17", 25),  # the last hour occurs twice
        ("Pacific/Kiritimati", "2026-03-01", 24),
    ],
)
def test_time_zone_day_has_23_or_25_hours_at_clock_change(place: str, day: str, hours: int) -> None:
    """A day begins and ends at local midnight, even when clocks change."""
    with user_in(place):
        first, last = parse_moment(day, False), parse_moment(day, True)
        before = parse_moment(str(date.fromisoformat(day) - timedelta(days=1)), True)
    assert first is not None
    assert last is not None
    assert before is not None
    assert last - first == timedelta(hours=hours) - timedelta(microseconds=1)
    assert first - before == timedelta(microseconds=1)


@pytest.mark.parametrize("place", ["UTC", "Europe/Berlin", "America/New_York"])
def test_time_zone_of_filter_times_defaults_to_local(place: str) -> None:
    """A time without an offset in a filter is in the user's time zone."""
    at = datetime(2026, 11, 22, 10, 30, tzinfo=UTC).astimezone(ZoneInfo(place))
    after = at + timedelta(minutes=1)
    memory = {"created": clock.iso(at)}
    with user_in(place):
        assert compile_expression(f"created == '{at:%Y-%m-%d %H:%M}'")(memory)
        assert compile_expression(f"created < '{after:%Y-%m-%d %H:%M}'")(memory)
