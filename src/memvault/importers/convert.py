"""Values of exports as the vault writes them: times, tags, lines and labels of links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from memvault import clock
from memvault.importers import plain_text
from memvault.lazy_pattern import lazy_pattern
from memvault.secrets.detector import KEY
from memvault.vault import header_dates
from memvault.vault.header_links import LINK_KEYS

_LAST = 1e11
"""Seconds since 1970 beyond any time in an export."""
_OWN_KEYS = frozenset(
    "id title aliases alias memory_type type tags tag path status importance confidence valid_from "
    "valid_to source created modified imported_from imported_id imported_version".split()
) | {*LINK_KEYS, KEY}
"""Header keys to which memvault gives a meaning, which a program's property does not have."""
_CELL = lazy_pattern(r"[ >]*+\|")
_NOT_IN_LABELS = lazy_pattern(r"[\[\]|]")
_NOT_IN_REFS = lazy_pattern(r"[\[\]|#\\\r\n]")


def time_of(seconds: object, unit: float = 1.0) -> str:
    """Return a time in ISO 8601, from a number of ``unit`` seconds since 1970; else ""."""
    if not isinstance(seconds, str | int | float) or not seconds:
        return ""
    try:
        return clock.iso(datetime.fromtimestamp(float(str(seconds)) * unit, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def parsed_time(text: object) -> str:
    """Return a time in ISO 8601, from a text such as ``20240131T120000Z`` or a date; else ""."""
    value = str(text).strip() if isinstance(text, str | int | float) else ""
    if value[10:11] == "T" and value.endswith("Z"):  # the usual form, tried first
        with suppress(ValueError, OverflowError):
            return clock.iso(datetime.fromisoformat(value))
    for pattern in ("%Y%m%dT%H%M%SZ", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"):
        try:
            moment = datetime.strptime(value, pattern)  # noqa: DTZ007  # UTC is added below
        except ValueError:
            continue
        return clock.iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    moment_or_none = clock.parse(value)
    return clock.iso(moment_or_none) if moment_or_none is not None else ""


def time_or_text(value: object, unit: float = 1.0) -> str:
    """As ``time_of`` for a number, and as ``parsed_time`` for a text."""
    if isinstance(value, int | float):
        return time_of(value, unit) if 0 < value < _LAST / unit else ""
    return parsed_time(value)


def text(value: object) -> str:
    """Return a text; empty for anything else."""
    return value if isinstance(value, str) else ""


def listed(entry: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list at a key; empty for anything else."""
    value = entry.get(key)
    return value if isinstance(value, list) else []


def objects(entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects in the list at a key."""
    return [one for one in listed(entry, key) if isinstance(one, dict)]


def mapping(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object at a key; empty for anything else."""
    value = entry.get(key)
    return value if isinstance(value, dict) else {}


def line(value: object) -> str:
    """Return a text as one line; empty for no text."""
    return " ".join(str(value or "").split())


def body(text: str) -> str:
    """Return the text of a program without front matter, so that a first line is not read as it."""
    return f"\n{text}" if text.startswith("---") else text


def tag(text: str) -> str:
    """Return a name as a tag, in which blanks are hyphens."""
    return "-".join(text.split())


def numbered(key: str, seen: Counter[str]) -> str:
    """Return the key of a record, with a number if an earlier record has the same."""
    seen[key] += 1
    free = key if seen[key] == 1 else f"{key}-{seen[key]}"
    return free if free == key else numbered(free, seen)


def free_key(seen: Counter[str], key: str, fallback: str) -> str:
    """Return the key of a record, or another if an earlier record has it; no two are the same."""
    return numbered(fallback if key in seen else key, seen)


def ref(name: str) -> str:
    """Return a name as an id, without the signs of links."""
    return _NOT_IN_REFS.sub("-", name).strip()


def id_link(
    ref: str, shown: str, match: re.Match[str] | None = None, is_embed: bool = False
) -> str:
    """Return a link to an id of the source in place of a match, also in a table's cell.

    ``ref`` has none of the signs ``[]|``.
    """
    begin = match.string.rfind("\n", 0, match.start()) + 1 if match is not None else 0
    is_cell = match is not None and _CELL.match(match.string, begin) is not None
    bar = "\\|" if is_cell else "|"
    shown = " ".join(label(shown).split())
    return f"{'!' if is_embed else ''}[[import:{ref}{bar + shown if shown else ''}]]"


def web_link(url: object, title: object) -> str:
    """Return a link to a page of the web, named by its host without a title; empty for no page."""
    address = text(url)
    if not address.startswith(("http://", "https://")) or set(address) & set(" <>\n"):
        return ""
    shown = plain_text.escaped(line(title) or address.split("/")[2], is_line=True)
    return f"[{shown}](<{address}>)"


def task(title: str, is_done: bool, day: str = "") -> str:
    """Return a task with the day on which it is due."""
    shown = plain_text.escaped(title, is_line=True)
    return f"- [{'x' if is_done else ' '}] {shown}{f' 📅 {day}' if day else ''}"


def label(text: str) -> str:
    """Return a text as the label of a link, without the signs that end it."""
    return _NOT_IN_LABELS.sub("-", text)


def header_key(name: str, program: str) -> str:
    """Return the header key for a property, with a prefix if memvault gives the key a meaning."""
    key = re.sub(r"\W+", "_", name.lower()).strip("_") or "property"
    is_own = key in _OWN_KEYS or header_dates.is_time_key(key)
    return f"{program}_{key}" if is_own else key
