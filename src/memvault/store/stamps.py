"""Create and parse the names of revisions and trash folders, which begin with a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from memvault import clock
from memvault.lazy_pattern import lazy_pattern

STAMPED_NAME = lazy_pattern(r"\d{8}T\d{6}\.\d{3}Z-\w+")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_LAST_YEAR = 9_000
"""Names from this year on are not from a real clock, so new names need not sort after them."""


def new_stamp(earlier: list[str]) -> str:
    """Return the current time as a name that sorts after all names in the sorted list ``earlier``.

    If the clock was set back, the name is one millisecond after the last one.
    """
    moment = clock.now()
    names = (
        name
        for name in reversed(earlier)
        if name < f"{_LAST_YEAR}" and STAMPED_NAME.fullmatch(name)
    )
    last = _parse_stamp(next(names, ""))
    if last >= moment.replace(microsecond=moment.microsecond // 1000 * 1000):
        moment = last + timedelta(milliseconds=1)
    return format_stamp(moment)


def format_stamp(moment: datetime) -> str:
    """Return a time formatted as the prefix of a file name."""
    return clock.iso(moment).replace("-", "").replace(":", "")


def _parse_stamp(name: str) -> datetime:
    return clock.parse(name.split("-", maxsplit=1)[0]) or _LONG_AGO


def trusted_stamp(name: str) -> datetime:
    """Return the time in a name; a time over a day in the future is treated as very old."""
    moment = _parse_stamp(name)
    return moment if moment < clock.now() + timedelta(days=1) else _LONG_AGO
