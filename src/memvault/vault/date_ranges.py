"""Ranges of days, and dates in file names and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from pathlib import PurePosixPath
from typing import Any, Literal

from memvault import clock
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault import header_dates

_DAY = lazy_pattern(r"(\d{4})([-_.]?)(\d\d)\2(\d\d)", re.ASCII)
_WEEK = lazy_pattern(r"(\d{4})-?[Ww](\d\d)(?:-?(\d))?", re.ASCII)
_MONTH = lazy_pattern(r"(\d{4})[-_.](\d\d)", re.ASCII)
_MONTH_DAY = lazy_pattern(r"(\d\d)[-_.](\d\d)", re.ASCII)
_TWO_DIGITS = lazy_pattern(r"\d\d", re.ASCII)
_YEAR = lazy_pattern(r"\d{4}", re.ASCII)
_LEADING_DATE = lazy_pattern(
    r"(?:(\d{4}([-_.])\d\d\2\d\d)|((?:19|20)\d{6})(?:(?:[01]\d|2[0-3])(?:[0-5]\d){1,2})?)(?!\d)",
    re.ASCII,
)
"""Matches a day and an optional time, as in a Zettelkasten id such as 202603051230."""


class DateRange(NamedTuple):
    """The days from ``first`` to ``last``, both inclusive."""

    first: date
    last: date

    @classmethod
    def containing(cls, day: date, unit: Literal["day", "week", "month", "year"]) -> DateRange:
        """Return the range of the day, calendar week, month or year that contains a day.

        Raises:
            OverflowError: the week begins before the year 1 or ends after 9999.
        """
        if unit == "day":
            return cls(day, day)
        if unit == "week":
            first = day - timedelta(days=day.weekday())
            return cls(first, first + timedelta(days=6))
        if unit == "year":
            return cls(date(day.year, 1, 1), date(day.year, 12, 31))
        from calendar import monthrange

        return cls(day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1]))

    def widened(self, days: int) -> DateRange:
        """Return the range extended by ``days`` at both ends, within the supported years."""
        before, after = (self.first - date.min).days, (date.max - self.last).days
        return DateRange(
            self.first - timedelta(days=min(days, before)),
            self.last + timedelta(days=min(days, after)),
        )

    def edge(self, end: bool) -> datetime:
        """Return the start or the end of the range in the user's time zone, as a UTC time."""
        try:
            if end:
                return clock.day_start(self.last + timedelta(days=1)) - timedelta(microseconds=1)
            return clock.day_start(self.first)
        except (OverflowError, OSError, ValueError):  # outside the range of datetime
            day = self.last if end else self.first
            return datetime.combine(day, time.max if end else time.min, UTC)


def declared_dates(path: str, metadata: Mapping[str, Any]) -> list[DateRange]:
    """Return the dates in a memory's file name and in the ``date`` of its header."""
    value = metadata.get("date")
    days = parse_date_range(str(value).strip()[:10]) if isinstance(value, str | int) else None
    moment = header_dates.parse(value) if value and days is None else None
    if moment is not None:
        days = DateRange.containing(clock.today(moment), "day")
    return [span for span in (dates_in_path(path), days) if span is not None]


def dates_in_path(path: str) -> DateRange | None:
    """Return the dates at the beginning of a file name, or None.

    A name may begin with ``2026-11-05``, ``20261105``, or ``202611051230`` with a time.
    """
    days = note_days(path)
    if days is None:
        match = _LEADING_DATE.match(path.rpartition("/")[2])
        days = parse_date_range(match[1] or match[3]) if match is not None else None
    return days


def note_days(path: str) -> DateRange | None:
    """Return the dates of a daily, weekly or monthly note, whose name is only a date, or None.

    Such names are ``2026-11-05.md``, ``2026/11-05.md``, ``2026/11/05.md``, ``2026-W45.md``,
    ``2026-11.md`` and ``2026/11.md``.
    """
    if not path.rpartition("/")[2][:1].isdigit():  # Quickly reject most names.
        return None
    pure = PurePosixPath(path)
    folders = pure.parts[-3:-1]
    stem = pure.stem
    if _MONTH_DAY.fullmatch(stem) and folders and _YEAR.fullmatch(folders[-1]):
        return parse_date_range(f"{folders[-1]}-{stem[:2]}-{stem[3:]}")
    if _TWO_DIGITS.fullmatch(stem) and folders and _YEAR.fullmatch(folders[-1]):
        return parse_date_range(f"{folders[-1]}-{stem}")
    if _TWO_DIGITS.fullmatch(stem) and len(folders) > 1 and _TWO_DIGITS.fullmatch(folders[1]):
        return parse_date_range(f"{folders[0]}-{folders[1]}-{stem}")
    return parse_date_range(stem)


def parse_date_range(text: str) -> DateRange | None:
    """Parse a day, week or month such as 2026-11-05, 2026-W45 or 2026-11, or return None.

    A day can also be written as 2026-W45-4.
    """
    try:
        if match := _DAY.fullmatch(text):
            return DateRange.containing(date(int(match[1]), int(match[3]), int(match[4])), "day")
        if match := _WEEK.fullmatch(text):
            day = date.fromisocalendar(int(match[1]), int(match[2]), int(match[3] or 1))
            return DateRange.containing(day, "day" if match[3] else "week")
        if match := _MONTH.fullmatch(text):
            return DateRange.containing(date(int(match[1]), int(match[2]), 1), "month")
    except (ValueError, OverflowError):  # There is no such date.
        return None
    return None


def parse_period(text: str) -> DateRange | None:
    """Parse a day, week, month or year such as 2026, or return None if it is invalid."""
    if _YEAR.fullmatch(text):
        year = int(text)
        return DateRange(date(year, 1, 1), date(year, 12, 31)) if year else None
    return parse_date_range(text)
