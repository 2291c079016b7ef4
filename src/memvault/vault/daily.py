"""The days that a file's name says: daily, weekly and monthly notes, and names that begin so."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import PurePosixPath
from typing import NamedTuple

_DAY = re.compile(r"(\d{4})([-_.]?)(\d\d)\2(\d\d)", re.ASCII)
_WEEK = re.compile(r"(\d{4})-?[Ww](\d\d)", re.ASCII)
_MONTH = re.compile(r"(\d{4})[-_.](\d\d)", re.ASCII)
_IN_YEAR = re.compile(r"(\d\d)[-_.](\d\d)", re.ASCII)
_TWO = re.compile(r"\d\d", re.ASCII)
_YEAR = re.compile(r"\d{4}", re.ASCII)
_BEGINNING = re.compile(r"(\d{4}-\d\d-\d\d)(?!\d)", re.ASCII)


class DateRange(NamedTuple):
    """The days from ``first`` to ``last``, both included."""

    first: date
    last: date


def dates_in_path(path: str) -> DateRange | None:
    """Return the days that a file's name is, or begins with; None where it says none."""
    found = note_days(path)
    if found is None:
        begins = _BEGINNING.match(path.rpartition("/")[2])
        found = parse_date_range(begins[1]) if begins is not None else None
    return found


def note_days(path: str) -> DateRange | None:
    """Return the days of a daily, weekly or monthly note, whose name is nothing but these.

    Such as ``2026-11-05.md``, ``2026/11-05.md``, ``2026/11/05.md``, ``2026-W45.md``,
    ``2026-11.md`` and ``2026/11.md``.
    """
    if not path.rpartition("/")[2][:1].isdigit():  # as most names, told fast
        return None
    pure = PurePosixPath(path)
    folders = pure.parts[-3:-1]
    stem = pure.stem
    if _IN_YEAR.fullmatch(stem) and folders and _YEAR.fullmatch(folders[-1]):
        return parse_date_range(f"{folders[-1]}-{stem[:2]}-{stem[3:]}")
    if _TWO.fullmatch(stem) and folders and _YEAR.fullmatch(folders[-1]):
        return parse_date_range(f"{folders[-1]}-{stem}")
    if _TWO.fullmatch(stem) and len(folders) > 1 and _TWO.fullmatch(folders[1]):
        return parse_date_range(f"{folders[0]}-{folders[1]}-{stem}")
    return parse_date_range(stem)


def parse_date_range(text: str) -> DateRange | None:
    """Return the day, week or month that a text such as 2026-11-05, 2026-W45 or 2026-11 is."""
    try:
        if match := _DAY.fullmatch(text):
            day = date(int(match[1]), int(match[3]), int(match[4]))
            return DateRange(day, day)
        if match := _WEEK.fullmatch(text):
            first = date.fromisocalendar(int(match[1]), int(match[2]), 1)
            return DateRange(first, first + timedelta(days=6))
        if match := _MONTH.fullmatch(text):
            year, month = int(match[1]), int(match[2])
            after = date(year + month // 12, month % 12 + 1, 1)
            return DateRange(date(year, month, 1), after - timedelta(days=1))
    except (ValueError, OverflowError):  # no such day
        return None
    return None
