"""A cron line, a delay or a time is refused in one sentence, or its runs are in order."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from memvault import clock
from memvault.agents.plans.schedule import KINDS, Schedule, delay, latest, next_after
from memvault.errors import UsageError
from targets.shapes import text_of

TOKENS = tuple(
    "0 9 * * *|* * * * *|*/5 * * * *|0 0 29 2 *|30 2 * * SUN|0 0 L * *|0 0 * * 5#3|"
    "0 0 * * MON-FRI|@daily|"
    "JAN|1-5|,|/|-|*|#|L|W|?|2 hours|90 seconds|1h30m|1 day and 2 hours|, |1.5|week|"
    "2026-03-01T08:00:00Z|"
    "2026-W09-1|+02:00| UTC|0001-01-01|9999-12-31T23:59:59|24:00|60|-00:00|١|²|\n|\t".split("|")
)
_ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Pacific/Apia")
_MOMENTS = (
    "2026-11-22T10:30:00Z",
    "2026-03-29T00:59:59.999Z",  # Berlin sets its clocks forward
    "2026-10-25T00:30:00Z",  # and sets them back
    "2026-04-04T14:45:00Z",  # Lord Howe sets them back by half an hour
    "2011-12-30T09:00:00Z",  # Apia skips a day
    "2026-11-01T05:30:00Z",  # New York sets them back
)


_FIELDS = tuple(
    row.split()
    for row in (
        "* 0 30 59 */7 15,45 1-5 10-50/20",
        "* 0 1 2 3 23 */5 1,2 2-3",
        "* 1 15 28 29 30 31 L 13-14 */9",
        "* 1 2 3 4 10 11 12 MAR OCT 3,10 */5",
        "* 0 5 7 SUN MON-FRI 5#3 0#5 5L 6,0",
    )
)
"""Fields of cron lines, so that most generated lines are valid."""


def check(data: bytes) -> None:
    """Read a schedule; the first three bytes select its kind, time zone and current time.

    If the first byte is #, the next five generate a cron line.
    """
    numbers, text = data[:3].ljust(3, b"\0"), text_of(data[3:])
    kind = KINDS[numbers[0] % len(KINDS)]
    if numbers[0] in b"#":
        kind, text = "cron", _line(data[3:8])
    zone = clock.zone(_ZONES[numbers[1] % len(_ZONES)])
    now = clock.parse(_MOMENTS[numbers[2] % len(_MOMENTS)])
    assert now is not None
    schedule = Schedule(kind, text)
    try:
        schedule.check()
    except UsageError as error:
        assert error.hint
        assert len(error.message) < 700
        return
    try:
        first = schedule.first(now, zone)
    except UsageError:  # the time is after the last year in that zone
        assert kind == "scheduledAt"
        return
    if kind == "runAfter":
        assert timedelta(0) < delay(text) <= timedelta(days=3_660)
        assert first == now + delay(text)
    elif kind == "scheduledAt":
        assert first is not None
        assert Schedule(kind, clock.iso(first)).first(now, zone) == first.replace(
            microsecond=first.microsecond // 1000 * 1000
        )
    elif first is not None:
        _in_order(text, now, first, zone)


def _line(numbers: bytes) -> str:
    """Return a cron line; each byte selects a field."""
    chosen = zip(_FIELDS, numbers.ljust(len(_FIELDS), b"\0"), strict=True)
    return " ".join(fields[number % len(fields)] for fields, number in chosen)


def _in_order(cron: str, now: datetime, first: datetime, zone: tzinfo) -> None:
    """Check in both directions that no run is between now and the first run."""
    assert now < first
    assert first.utcoffset() == timedelta(0)
    last = latest(cron, first, zone)
    # Backward, no run is found across a day that the zone skipped.
    assert last == first or (last is None and str(zone) == "Pacific/Apia" and now.year == 2011)
    before = latest(cron, first - timedelta(microseconds=1), zone)
    assert before is None or before <= now
    second = next_after(cron, first, zone)
    assert second is None or second > first
