"""Compute schedules of plans: cron lines, delays and times. Only this module uses cronsim.

A cron line is in the local time of the vault's time zone. As in Debian's cron, a run at a time that
is skipped at the start of daylight saving time happens directly after the gap, and a run at a time
that occurs twice happens the first time; but a line with a star for minute or hour runs whenever
the local time matches.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import UsageError
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.sanitize import shorten

if TYPE_CHECKING:
    from cronsim import CronSim

_OPTIONS = {"cron": "--cron", "runAfter": "--run-after", "scheduledAt": "--at"}
KINDS = tuple(_OPTIONS)
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_DELAY_PART = lazy_pattern(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)(?:\s*,\s*|\s+and\s+|\s*)")
_MAX_DELAY = 3_660 * 86_400
_MAX_CRON = 200
_OVERLAP = timedelta(hours=3)
"""A duration longer than any clock change in a current time zone."""
_MAX_STEPS = 2_000
"""Maximum number of steps of a search; a line for 29 February takes about 400 steps."""
_INSTANT = timedelta(microseconds=1)


class Schedule(NamedTuple):
    """The schedule of a plan: its kind, one of ``KINDS``, and its text."""

    kind: str
    text: str

    def check(self) -> None:
        """Check that the schedule is valid.

        Raises:
            UsageError: the schedule is invalid.
        """
        if self.kind == "cron":
            _check_line(self.text)
        else:
            self.first(clock.now(), UTC)

    def first(self, now: datetime, zone: tzinfo) -> datetime | None:
        """Return when the schedule is first due; None if never.

        Cron lines and delays start at ``now``; a fixed time may be in the past.

        Raises:
            UsageError: the schedule is invalid.
        """
        if self.kind == "cron":
            return next_after(self.text, now, zone)
        if self.kind == "runAfter":
            return now + delay(self.text)
        at = clock.parse(self.text, zone)
        if at is None:
            raise UsageError(
                f"{shorten(self.text, 40)!r} is not a time", "write 2026-03-01T08:00:00Z"
            )
        return at


def only_schedule(plan: str, **texts: str | None) -> Schedule:
    """Return a plan's schedule from ``texts``, which maps kinds to their values.

    Raises:
        UsageError: there is no schedule, or more than one.
    """
    schedules = [Schedule(kind, text) for kind, text in texts.items() if text]
    if len(schedules) != 1:
        kinds = " and ".join(_OPTIONS[entry.kind] for entry in schedules) or "none"
        raise UsageError(
            f"The plan {plan!r} needs exactly one schedule (found {kinds})",
            "pass one of `--cron`, `--run-after` and `--at`",
        )
    return schedules[0]


def next_after(cron: str, after: datetime, zone: tzinfo) -> datetime | None:
    """Return the first time of a cron line after another time, in UTC, or None.

    Raises:
        UsageError: the cron line is invalid.
    """
    try:
        # In an hour that occurs twice, cronsim starts with the first pass, which may be over.
        result = next(
            (utc for at in _times(cron, after, zone) if (utc := at.astimezone(UTC)) > after), None
        )
    except (OverflowError, ValueError):
        return None  # beyond the maximum year
    # If a clock goes back by less than an hour, cronsim misses a run when searching forward but
    # finds it when searching backward.
    while result and (earlier := latest(cron, result - _INSTANT, zone)) and earlier > after:
        result = earlier
    return result


def latest(cron: str, until: datetime, zone: tzinfo) -> datetime | None:
    """Return the last time of a cron line up to and including ``until``, or None.

    Raises:
        UsageError: the cron line is invalid.
    """
    try:
        # Start after an hour that occurs twice: if cronsim starts in the second occurrence, it
        # does not find runs in the first one.
        start = until + _OVERLAP
        backward = _times(cron, start, zone, reverse=True)
        result = next((utc for at in backward if (utc := at.astimezone(UTC)) <= until), None)
        if result is None:
            return None
        # If a clock goes forward by less than an hour, cronsim misses a run when searching
        # backward but finds it when searching forward.
        for at in _times(cron, result, zone):
            if (utc := at.astimezone(UTC)) > until:
                break
            result = max(result, utc)
        return result
    except (OverflowError, ValueError):
        return None


def _times(cron: str, start: datetime, zone: tzinfo, reverse: bool = False) -> CronSim:
    return _bounded_search()(_check_line(cron), start.astimezone(zone), reverse)


@cache
def _bounded_search() -> type[CronSim]:
    """Return a subclass of cronsim's search with a limited number of steps.

    A backward search would never get past a day that a time zone skipped, such as 30 December 2011
    in Apia.
    """
    from cronsim import CronSim

    class Bounded(CronSim):
        ticks = 0

        def tick(self, seconds: int = 1) -> None:
            """Advance the search by one step, up to a limit."""
            self.ticks += 1
            if self.ticks > _MAX_STEPS:
                raise OverflowError("no run within the maximum number of steps")
            super().tick(seconds)

    return Bounded


@lru_cache(maxsize=256)
def _check_line(cron: str) -> str:
    """Return a cron line with single spaces, after validating it."""
    from cronsim import CronSim, CronSimError

    line = " ".join(cron.split())
    problem = ""
    if line.count(" ") != 4:
        problem = "it needs five fields"
    elif len(line) > _MAX_CRON:
        problem = "it is too long"
    else:
        try:
            CronSim(line, datetime(2026, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            problem = str(error).lower()
        except Exception:
            problem = "it cannot be read"
    if problem:
        raise UsageError(
            f"{line[:60]!r} is not a valid cron line: {problem}",
            "use minute, hour, day of month, month and weekday, such as `0 9 * * MON-FRI`",
        )
    return line


def delay(text: str) -> timedelta:
    """Parse a delay such as ``2 hours``, ``90 seconds``, ``1h30m`` or ``1 day and 2 hours``.

    Raises:
        UsageError: the delay is invalid, not positive, or longer than ten years.
    """
    cleaned = text.strip().lower()
    seconds, position = 0.0, 0
    while match := _DELAY_PART.match(cleaned, position):
        if match[2] not in _UNITS:
            break
        seconds += float(match[1]) * _UNITS[match[2]]
        position = match.end()
    if not cleaned or position != len(cleaned) or not 0 < seconds <= _MAX_DELAY:
        raise UsageError(
            f"{shorten(text, 40)!r} is not a delay",
            "use a delay such as 90 seconds, 30 minutes, 2 hours, 1 day or 1 week, up to ten years",
        )
    return timedelta(seconds=seconds)
