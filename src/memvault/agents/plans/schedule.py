"""When plans are due: cron lines, delays in words, and moments; the one home of cronsim.

A cron line means wall-clock time in the vault's zone. As in Debian's cron, a
time of day that a change to summer time skips comes right after the gap, one
that comes twice runs the first time, and a line with a star for minute or
hour runs whenever real time matches.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from memvault import clock
from memvault.errors import UsageError

if TYPE_CHECKING:
    from cronsim import CronSim

KINDS = ("cron", "runAfter", "scheduledAt")
_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)(?:\s*,\s*|\s+and\s+|\s*)")
_LONGEST_DELAY = 3_660 * 86_400
_LONGEST_CRON = 200
_OVERLAP = timedelta(hours=3)
"""More than any zone sets its clocks back by today."""
_MOST_TICKS = 2_000
"""Steps of a search at most; a line that matches once in years takes 400."""
_INSTANT = timedelta(microseconds=1)


class Schedule(NamedTuple):
    """A plan's one schedule: which of ``KINDS``, and how it is written."""

    kind: str
    text: str

    def check(self) -> None:
        """Check that it can be read.

        Raises:
            UsageError: it makes no sense.
        """
        if self.kind == "cron":
            _line(self.text)
        else:
            self.first(clock.now(), UTC)

    def first(self, now: datetime, zone: tzinfo) -> datetime | None:
        """Return when it is due for the first time, seen from now; None if never.

        Errors as for ``check``.
        """
        if self.kind == "cron":
            return next_after(self.text, now, zone)
        if self.kind == "runAfter":
            return now + delay(self.text)
        return moment(self.text, zone)


def only_schedule(plan: str, **given: str | None) -> Schedule:
    """Return the one schedule that is given for a plan, each under its kind.

    Raises:
        UsageError: there is none, or more than one.
    """
    found = [Schedule(kind, text) for kind, text in given.items() if text]
    if len(found) != 1:
        kinds = " and ".join(entry.kind for entry in found) or "none"
        raise UsageError(
            f"The plan {plan!r} needs exactly one schedule and has {kinds}",
            "give cron (--cron), runAfter (--run-after) or scheduledAt (--at)",
        )
    return found[0]


def next_after(cron: str, after: datetime, zone: tzinfo) -> datetime | None:
    """Return a cron line's first moment after another one, in UTC; None if there is none.

    Raises:
        UsageError: it is no cron line.
    """
    try:
        # In the hour that comes twice the library begins with the first pass, which is over.
        found = next(
            (utc for at in _moments(cron, after, zone) if (utc := at.astimezone(UTC)) > after), None
        )
    except (OverflowError, ValueError):
        return None  # beyond the last year
    # Where a clock goes back by less than an hour the library steps over a run, which it
    # does find looking back.
    while found and (earlier := latest(cron, found - _INSTANT, zone)) and earlier > after:
        found = earlier
    return found


def latest(cron: str, until: datetime, zone: tzinfo) -> datetime | None:
    """Return a cron line's last moment that is not after ``until``; errors as above."""
    try:
        # Begun past the hour that comes twice: seen from its second pass, the library
        # does not find what was in the first.
        start = until + _OVERLAP
        backwards = _moments(cron, start, zone, reverse=True)
        found = next((utc for at in backwards if (utc := at.astimezone(UTC)) <= until), None)
        if found is None:
            return None
        # Where a clock goes forward by less than an hour the library steps over a run, which
        # it does find looking forward.
        for at in _moments(cron, found, zone):
            if (utc := at.astimezone(UTC)) > until:
                break
            found = max(found, utc)
        return found
    except (OverflowError, ValueError):
        return None


def _moments(cron: str, start: datetime, zone: tzinfo, reverse: bool = False) -> CronSim:
    return _bounded()(_line(cron), start.astimezone(zone), reverse)


@cache
def _bounded() -> type[CronSim]:
    """Return the library's search with an end.

    Looking back it never gets past a day that a zone left out, such as 30 December 2011 in Apia.
    """
    from cronsim import CronSim

    class Bounded(CronSim):
        ticks = 0

        def tick(self, seconds: int = 1) -> None:
            """Go on a little, but not for ever."""
            self.ticks += 1
            if self.ticks > _MOST_TICKS:
                raise OverflowError("the search for a run has no end")
            super().tick(seconds)

    return Bounded


@lru_cache(maxsize=256)
def _line(cron: str) -> str:
    """Return a cron line with single blanks, if it is one."""
    from cronsim import CronSim, CronSimError

    line = " ".join(cron.split())
    problem = ""
    if line.count(" ") != 4:
        problem = "it needs five fields"
    elif len(line) > _LONGEST_CRON:
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
            "write minute, hour, day of month, month and weekday, as in '0 9 * * MON-FRI'",
        )
    return line


def delay(text: str) -> timedelta:
    """Read a delay such as ``2 hours``, ``90 seconds``, ``1h30m`` or ``1 day and 2 hours``.

    Raises:
        UsageError: it is invalid, not positive, or longer than ten years.
    """
    plain = text.strip().lower()
    seconds, place = 0.0, 0
    while match := _PART.match(plain, place):
        if match[2] not in _UNITS:
            break
        seconds += float(match[1]) * _UNITS[match[2]]
        place = match.end()
    if not plain or place != len(plain) or not 0 < seconds <= _LONGEST_DELAY:
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        raise UsageError(
            f"runAfter cannot be {shown!r}",
            "write 90 seconds, 30 minutes, 2 hours, 1 day or 1 week, at most ten years",
        )
    return timedelta(seconds=seconds)


def moment(text: str, zone: tzinfo) -> datetime:
    """Read an ISO 8601 date or time, in the vault's zone where it names none.

    Raises:
        UsageError: it is neither.
    """
    try:
        at = datetime.fromisoformat(text.strip().replace(" +", "+").replace(" UTC", "Z"))
        at = at.replace(tzinfo=zone) if at.tzinfo is None else at
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"scheduledAt cannot be {text[:40]!r}", "write 2026-03-01T08:00:00Z"
        ) from error
