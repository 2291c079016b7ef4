"""The only source of time and randomness."""

from __future__ import annotations

import os
import re
import threading
from datetime import UTC, datetime, timedelta, tzinfo

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""The characters of random ids: 32, without those that look alike."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LOCK = threading.Lock()
_latest = datetime.min.replace(tzinfo=UTC)
_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def monotonic_now() -> datetime:
    """Return the current time in UTC, later than any that this process got before."""
    global _latest  # noqa: PLW0603  # one clock per process
    with _LOCK:
        _latest = max(now(), _latest + timedelta(microseconds=1))
        return _latest


def iso(moment: datetime | None = None) -> str:
    """Return a time (by default the current one) as ISO 8601 in UTC with milliseconds and ``Z``."""
    utc = (moment or now()).astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_from_ns(nanoseconds: int) -> str:
    """Return a file's timestamp in the same form; one out of the calendar's range becomes 1970."""
    try:
        return iso(datetime.fromtimestamp(nanoseconds / 1e9, UTC))
    except (OverflowError, ValueError, OSError):
        return "1970-01-01T00:00:00.000Z"


def parse(text: str, zone: tzinfo = UTC) -> datetime | None:
    """Parse an ISO 8601 date or time, which is in ``zone`` without an offset; None if neither."""
    try:
        moment = datetime.fromisoformat(text.strip().replace(" +", "+").replace(" UTC", "Z"))
        moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_age(text: str) -> datetime | None:
    """Parse a date, a time, or an age such as ``7d``, ``12h`` or ``2w``; None if it is invalid."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        return parse(text)
    try:
        return now() - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        return None


def random_id(length: int = 6) -> str:
    """Return random lowercase letters and digits, without those that look alike."""
    return "".join(ID_ALPHABET[byte & 31] for byte in os.urandom(length))


def zone(name: str) -> tzinfo:
    """Return a time zone by its name in the tz database, such as ``Europe/Berlin``.

    Raises:
        ValueError: there is no such time zone.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # a folder, a path, an invalid character
        raise ValueError(f"there is no time zone {name!r}") from error
