"""Convert values from exports: times, tags, lines, link labels and header keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from memvault import clock
from memvault.errors import UsageError
from memvault.importers import plain_text
from memvault.lazy_pattern import lazy_pattern
from memvault.memories import create
from memvault.secrets.detector import KEY
from memvault.vault import header_dates
from memvault.vault.header_links import LINK_KEYS

_LAST = 1e11
"""Upper bound for times in seconds since 1970; larger numbers are not times."""
_OWN_KEYS = frozenset(
    "id title aliases alias memory_type type tags tag path status importance confidence valid_from "
    "valid_to source created modified imported_from imported_id imported_version".split()
) | {*LINK_KEYS, KEY}
"""Header keys with a meaning in memvault; a property with such a name gets a prefix."""
_CELL = lazy_pattern(r"[ >]*+\|")
_NOT_IN_LABELS = lazy_pattern(r"[\[\]|]")
_NOT_IN_REFS = lazy_pattern(r"[\[\]|#\\\r\n]")


def time_of(seconds: object, unit: float = 1.0) -> str:
    """Convert a time since 1970, in multiples of ``unit`` seconds, to ISO 8601; "" if invalid."""
    if not isinstance(seconds, str | int | float) or not seconds:
        return ""
    try:
        return clock.iso(datetime.fromtimestamp(float(str(seconds)) * unit, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def parsed_time(text: object) -> str:
    """Convert a string such as ``20240131T120000Z`` or a date to ISO 8601; "" if it is neither."""
    value = str(text).strip() if isinstance(text, str | int | float) else ""
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value) if len(value) > len("2024-01-31") else None
        if moment is not None and (moment.tzinfo or " " in value):
            return clock.iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    local = clock.parse(value)
    return clock.iso(local) if local is not None else ""


def time_or_text(value: object, unit: float = 1.0) -> str:
    """Convert a number with ``time_of``, or a string with ``parsed_time``."""
    if isinstance(value, int | float):
        return time_of(value, unit) if 0 < value < _LAST / unit else ""
    return parsed_time(value)


def text(value: object) -> str:
    """Return a string; "" for a value of another type."""
    return value if isinstance(value, str) else ""


def list_at(entry: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list at a key; empty if there is none."""
    value = entry.get(key)
    return value if isinstance(value, list) else []


def objects_at(entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in the list at a key."""
    return [item for item in list_at(entry, key) if isinstance(item, dict)]


def object_at(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key; empty if there is none."""
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def one_line(value: object) -> str:
    """Return a value as one line of text."""
    return " ".join(str(value or "").split())


def protect_first_line(text: str) -> str:
    """Return text whose first line cannot be mistaken for front matter."""
    return f"\n{text}" if text.startswith("---") else text


def title_of(text: str) -> str:
    """Return a title made from the first words of a text; "" if it has none."""
    try:
        return create.title_of(text)
    except UsageError:
        return ""


def tag(text: str) -> str:
    """Return a name as a tag, with hyphens for spaces."""
    return "-".join(text.split())


def unique_key(key: str, seen: Counter[str]) -> str:
    """Return a record's key, with a number appended if an earlier record has the same key."""
    seen[key] += 1
    free = key if seen[key] == 1 else f"{key}-{seen[key]}"
    return free if free == key else unique_key(free, seen)


def unique_key_or(seen: Counter[str], key: str, fallback: str) -> str:
    """Return a unique key of a record, based on ``fallback`` if an earlier record has its key."""
    return unique_key(fallback if key in seen else key, seen)


def id_from_name(name: str) -> str:
    """Return a name as an id, without the characters that end a link."""
    return _NOT_IN_REFS.sub("-", name).strip()


def id_link(
    ref: str, shown: str, match: re.Match[str] | None = None, is_embed: bool = False
) -> str:
    """Return a link to an id in the source; in a table cell, the ``|`` is escaped.

    ``match`` is the replaced text; ``ref`` must not contain any of ``[]|``.
    """
    begin = match.string.rfind("\n", 0, match.start()) + 1 if match is not None else 0
    is_cell = match is not None and _CELL.match(match.string, begin) is not None
    bar = "\\|" if is_cell else "|"
    shown = " ".join(label(shown).split())
    return f"{'!' if is_embed else ''}[[import:{ref}{bar + shown if shown else ''}]]"


def web_link(url: object, title: object) -> str:
    """Return a link to a web page, labeled by its title or host; "" for other URLs."""
    address = text(url)
    if not address.startswith(("http://", "https://")) or set(address) & set(" <>\n"):
        return ""
    shown = plain_text.escaped(one_line(title) or address.split("/")[2], is_line=True)
    return f"[{shown}](<{address}>)"


def task(title: str, is_done: bool, day: str = "") -> str:
    """Return a task, with its due day if there is one."""
    shown = plain_text.escaped(title, is_line=True)
    return f"- [{'x' if is_done else ' '}] {shown}{f' 📅 {day}' if day else ''}"


def label(text: str) -> str:
    """Return text as a link label, without the characters that end it."""
    return _NOT_IN_LABELS.sub("-", text)


def header_key(name: str, program: str) -> str:
    """Return the header key for a property, with a prefix if memvault uses the name."""
    key = re.sub(r"\W+", "_", name.lower()).strip("_") or "property"
    is_own = key in _OWN_KEYS or header_dates.is_time_key(key)
    return f"{program}_{key}" if is_own else key
