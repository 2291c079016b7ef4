"""The only source of time and randomness in memvault."""

from __future__ import annotations

import os
import threading
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from memvault.lazy_pattern import lazy_pattern

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""The 32 characters used in random ids; letters that are easily confused are left out."""
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LOCK = threading.Lock()
_latest = datetime.min.replace(tzinfo=UTC)
_MIDNIGHT = "T00:00:00.000Z"
_AGE = lazy_pattern(r"(\d{1,6})\s*([mhdw])")


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def monotonic_now() -> datetime:
    """Return the current time in UTC, always later than the last one returned in this process."""
    global _latest  # noqa: PLW0603  # one clock per process
    with _LOCK:
        _latest = max(now(), _latest + timedelta(microseconds=1))
        return _latest


def iso(moment: datetime | None = None) -> str:
    """Return a time (by default the current one) as ISO 8601 in UTC with milliseconds and ``Z``."""
    utc = (moment or now()).astimezone(UTC)
    return utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_from_ns(nanoseconds: int) -> str:
    """Return a file's timestamp in the format of ``iso``; 1970 if it is out of range."""
    try:
        return iso(datetime.fromtimestamp(nanoseconds / 1e9, UTC))
    except (OverflowError, ValueError, OSError):
        return "1970-01-01T00:00:00.000Z"


def today(moment: datetime | None = None) -> date:
    """Return the day of a time, by default the current one, in the user's time zone."""
    at = moment or now()
    try:
        return at.astimezone().date()
    except (OverflowError, OSError, ValueError):  # outside the range of datetime
        return at.date()


def local(text: str, length: int = len("2026-01-31")) -> str:
    """Return the first characters of a stored time as ISO 8601 in the user's time zone.

    A day without a time is stored as midnight UTC, and remains that day unless ``length`` includes
    seconds. Other text is only truncated to ``length``.
    """
    is_day = text.endswith(_MIDNIGHT) and length < len("2026-01-31T00:00:00")
    moment = None if is_day or "T" not in text else parse(text)
    try:
        return (moment.astimezone().isoformat() if moment else text)[:length]
    except (OverflowError, OSError, ValueError):  # outside the range of datetime
        return text[:length]


def day_start(day: date) -> datetime:
    """Return the UTC time at which a day begins in the user's time zone.

    Raises:
        OverflowError, OSError, ValueError: the time is out of the range of datetime.
    """
    midnight = datetime.combine(day, time.min)
    moment = midnight.astimezone(UTC)
    is_skipped = moment.astimezone().date() < day  # Daylight saving time begins at midnight.
    return midnight.replace(fold=1).astimezone(UTC) if is_skipped else moment


def first_moment(text: str) -> str:
    """Return a stored time; for a day without a time, its start in the user's time zone."""
    moment = parse(text[:10], None) if text.endswith(_MIDNIGHT) else None
    return iso(moment) if moment else text


def parse(text: str, zone: tzinfo | None = UTC) -> datetime | None:
    """Parse an ISO 8601 date or time; return None if it is invalid.

    Without an offset it is in ``zone``, or in the user's time zone if that is None.
    """
    try:
        moment = datetime.fromisoformat(text.strip().replace(" +", "+").replace(" UTC", "Z"))
        moment = moment.replace(tzinfo=zone) if moment.tzinfo is None else moment
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def parse_age(text: str) -> datetime | None:
    """Parse a date, a time, or an age such as ``7d``, ``12h`` or ``2w``; return None if invalid.

    A time without an offset is in the user's time zone.
    """
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        return parse(text, None)
    try:
        return now() - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        return None


def random_id(length: int = 6) -> str:
    """Return random lowercase letters and digits, without look-alikes."""
    return "".join(ID_ALPHABET[byte & 31] for byte in os.urandom(length))


def random_number(limit: int) -> int:
    """Return a random integer from 0 up to but not including ``limit``."""
    return int.from_bytes(os.urandom(8)) % limit


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
    except (KeyError, ValueError, OSError) as error:  # a folder, a path or an invalid name
        raise ValueError(f"there is no time zone {name!r}") from error
