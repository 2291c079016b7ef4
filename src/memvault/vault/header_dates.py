"""Parse times in headers, under the keys and in the formats that other programs write.

Obsidian's plugins, Hugo, Jekyll, Hexo, Notion, Joplin, Dendron and Zettlr use different keys, and
write ISO 8601, seconds or milliseconds since 1970, timestamps in digits, words, or a link to a
daily note. A time without an offset is in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Literal

from memvault import clock
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

Role = Literal["created", "modified"]
_KEYS: Mapping[Role, tuple[str, ...]] = {
    "created": tuple(
        "created datecreated createddate createdat createdtime createdon creationdate creationtime "
        "date publishdate".split()
    ),
    "modified": tuple(
        "modified updated lastmodifiedat lastmod datemodified dateupdated modifieddate updateddate "
        "modifiedat updatedat modifiedtime updatedtime lastmodified lastupdated lastupdate "
        "lastedited lasteditedtime modificationdate modificationtime".split()
    ),
}
"""Keys in lower case without spaces, hyphens and underscores; the first valid time is used."""
_OPTIONAL = "publishdate"
_SEPARATORS = lazy_pattern(r"[-_ ]+")
_MAX_LENGTH = 100


class HeaderTime(NamedTuple):
    """A time in a header: its key, its value, and the parsed time, which is None if invalid."""

    key: str
    value: Any
    moment: datetime | None


@lru_cache(maxsize=4096)
def _rank(key: str) -> tuple[Role, int] | None:
    """Return a key's role and its rank among the keys of that role, or None if not a time key."""
    plain = _SEPARATORS.sub("", key.casefold())
    for role, names in _KEYS.items():
        if plain in names:
            return role, names.index(plain)
    return None


def is_time_key(key: str) -> bool:
    """Return whether memvault reads a header key as a time."""
    return _rank(key) is not None


def is_modified_key(key: str) -> bool:
    """Return whether a header key is for the time of the last change."""
    rank = _rank(key)
    return rank is not None and rank[0] == "modified"


def times(metadata: Mapping[str, Any], role: Role) -> Iterator[HeaderTime]:
    """Yield the times in a header for a role, in order of preference."""
    ranked_keys = [
        (rank[1], key)
        for key in metadata
        if len(key) <= _MAX_LENGTH and (rank := _rank(key)) is not None and rank[0] == role
    ]
    for _, key in sorted(ranked_keys):
        yield HeaderTime(key, metadata[key], parse(metadata[key]))


def time_in(metadata: Mapping[str, Any], role: Role) -> str:
    """Return the time in a header for a role, formatted by ``clock.iso``, or an empty string."""
    moments = (time.moment for time in times(metadata, role))
    return next((clock.iso(moment) for moment in moments if moment is not None), "")


def unread(metadata: Mapping[str, Any]) -> Iterator[HeaderTime]:
    """Yield the unparseable times in a header, except template placeholders."""
    for role in _KEYS:
        for time in times(metadata, role):
            is_given = isinstance(time.value, str | int | list) and not isinstance(time.value, bool)
            text = str(time.value).strip()
            is_placeholder = "{{" in text or "<%" in text
            plain = _SEPARATORS.sub("", time.key.casefold())
            is_empty = text in ("", "[]") or is_placeholder or plain == _OPTIONAL
            if time.moment is None and is_given and not is_empty:
                yield time


def modified_at(metadata: Mapping[str, Any], moment: datetime) -> dict[str, Any]:
    """Return the header change that updates the time of the last change, if the header has one.

    A number stays a number and a day stays a day; any other format becomes ISO 8601.
    """
    for time in times(metadata, "modified"):
        if time.moment is not None:
            return {time.key: _like(time.value, moment)}
    return {}


def _like(value: Any, moment: datetime) -> Any:
    text = str(value)
    if _ISO_DAY.fullmatch(text):
        return moment.date().isoformat()
    if text.isdigit() and len(text) in (10, 13):
        number = round(moment.timestamp() * (1000 if len(text) == 13 else 1))
        return number if isinstance(value, int) else str(number)
    return clock.iso(moment)


_ISO_DAY = lazy_pattern(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = (
    r"(?:[ ,T]{0,3}(?:at|um|à|a las)?[ ,]{0,2}(?P<hour>\d{1,2})[:.h](?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:[.,]\d{1,9})?)? ?(?P<half>[ap]\.?m\.?)?"
    r" ?(?P<zone>Z|UTC|GMT|[ECMP][SD]T)? ?(?P<offset>[+-]\d\d:?\d\d)? ?(?:\([^()]{0,60}\))?)?"
)
_WEEKDAY = r"(?:[^\W\d_]{2,12}\.?,? )?"
_MONTH = r"(?P<month>[^\W\d_]{3,12})\.?"
_ORDINAL = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|\.)?"
_YEAR = r"(?P<year>\d{4})"
_NUMERIC = (
    rf"{_WEEKDAY}{_YEAR}(?P<sign>[-/.])(?P<number>\d{{1,2}})(?P=sign)(?P<day>\d{{1,2}})"
    r"(?:,? \(?[^\W\d_]{2,12}\.?\)?(?<! at))?"
)
_FORMS = (
    lazy_pattern(rf"{_NUMERIC}{_TIME}", re.IGNORECASE),
    lazy_pattern(
        rf"{_YEAR} ?[年년] ?(?P<number>\d{{1,2}}) ?[月월] ?(?P<day>\d{{1,2}}) ?[日일]{_TIME}",
        re.IGNORECASE,
    ),
    lazy_pattern(rf"{_WEEKDAY}{_MONTH} {_ORDINAL},? {_YEAR}{_TIME}", re.IGNORECASE),
    lazy_pattern(
        rf"{_WEEKDAY}{_ORDINAL}[ -](?:of |de )?{_MONTH},?[ -](?:de |del )?{_YEAR}{_TIME}",
        re.IGNORECASE,
    ),
    lazy_pattern(rf"(?P<day>\d{{1,2}})\. ?(?P<number>\d{{1,2}})\. ?{_YEAR}{_TIME}", re.IGNORECASE),
    lazy_pattern(
        rf"(?P<first>\d{{1,2}})(?P<sign>[-/])(?P<next>\d{{1,2}})(?P=sign){_YEAR}{_TIME}",
        re.IGNORECASE,
    ),
    lazy_pattern(rf"{_WEEKDAY}{_MONTH} {_ORDINAL}{_TIME} {_YEAR}", re.IGNORECASE),
)
"""Date formats, for text whose words are separated by single spaces."""
_PARTIAL = lazy_pattern(r"(\d{4})(?:[-/.](\d{1,2}))?", re.ASCII)
_MONTHS = (
    "january jan januar jänner janvier janv enero ene gennaio gen janeiro januari",
    "february feb februar février févr fév febrero febbraio fevereiro fev februari",
    "march mar märz mrz mars marzo março maart mrt",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag maio mei",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho",
    "august aug août agosto ago augustus",
    "september sep sept septembre septiembre settembre set setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre déc diciembre dic dicembre dezembro",
)
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_OFFSETS = {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
_STAMPS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""The format of a timestamp in digits, by its length."""
_DECIMALS = {9: 0, 10: 0, 12: 3, 13: 3, 16: 6, 19: 9}
"""The decimal places of a number of seconds since 1970, by its length."""
_LINK = lazy_pattern(
    r"\[\[(?:[^\[\]|#]*/)?([^\[\]|#/]+)(?:[|#][^\[\]]*)?\]\]|\[([^\[\]]+)\]\([^()]*\)"
    r"|[<\[]([^<>\[\]]+)[>\]]"
)
_ZONE_NAME = lazy_pattern(r"\[[\w/+-]{2,50}\]\Z", re.ASCII)


def parse(value: Any) -> datetime | None:
    """Return the time in a header value, or None if it is not a time or is ambiguous."""
    # YAML parses [[2022-01-03]] as nested lists.
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if not text or len(text) > _MAX_LENGTH:
        return None
    link = _LINK.fullmatch(text) if text[0] in "[<" else None
    if link:
        text = (link[1] or link[2] or link[3]).strip()
    if text.endswith("]"):
        text = _ZONE_NAME.sub("", text)
    text = " ".join(text.split())
    if text.replace(".", "", 1).isdigit() and text.isascii():
        return _number(text)
    try:
        return clock.parse(text) or _worded(text)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> datetime | None:
    digits, _, fraction = text.partition(".")
    stamp = _STAMPS.get(len(digits))
    try:
        if stamp and not fraction:
            moment = datetime.strptime(digits, stamp).replace(tzinfo=UTC)
            if 1900 <= moment.year <= 2200:
                return moment
    except ValueError:
        pass
    try:
        if len(digits) in _DECIMALS:
            seconds = float(text) / 10 ** _DECIMALS[len(digits)]
            return datetime.fromtimestamp(seconds, UTC)
        partial = _PARTIAL.fullmatch(text)
        return _partial(partial) if partial else clock.parse(text)
    except (ValueError, OverflowError, OSError):
        return None


def _partial(match: re.Match[str]) -> datetime | None:
    """Return the first moment of a year or month."""
    year, month = int(match[1]), int(match[2] or 1)
    return datetime(year, month, 1, tzinfo=UTC) if 1900 <= year <= 2200 else None


def _worded(text: str) -> datetime | None:
    """Parse a time that is not in ISO 8601; raises ``ValueError``."""
    for pattern in _FORMS:
        match = pattern.fullmatch(text)
        moment = _moment(match.groupdict()) if match else None
        if moment is not None:
            return moment
    partial = _PARTIAL.fullmatch(text)
    return _partial(partial) if partial else None


def _moment(parts: Mapping[str, str | None]) -> datetime | None:
    """Return the time from its parsed parts; raises ``ValueError`` if out of range."""
    month, day = _month_and_day(parts)
    if not month:
        return None
    hour, half = int(parts["hour"] or 0), (parts["half"] or "")[:1].lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    minute, second = int(parts["minute"] or 0), int(parts["second"] or 0)
    zone = timezone(timedelta(hours=_OFFSETS.get((parts["zone"] or "").upper(), 0)))
    if offset := parts["offset"]:
        span = timedelta(hours=int(offset[1:3]), minutes=int(offset[-2:]))
        zone = timezone(-span if offset[0] == "-" else span)
    year = int(parts["year"] or 0)
    return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone).astimezone(UTC)


def _month_and_day(parts: Mapping[str, str | None]) -> tuple[int, int]:
    """Return the month and day; the month is 0 if ambiguous.

    Two numbers separated by a slash may be in either order, so they are ambiguous unless one is
    above 12 or both are equal.
    """
    if name := parts.get("month"):
        return _MONTH_NUMBERS.get(name.casefold(), 0), int(parts["day"] or 0)
    if number := parts.get("number"):
        return int(number), int(parts["day"] or 0)
    first, following = int(parts.get("first") or 0), int(parts.get("next") or 0)
    if first > 12 or first == following:
        return following, first
    return (first, following) if following > 12 else (0, 0)
