"""HTML of notes as markdown, by markdownify, and times of exports as the header's."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from memvault import clock
from memvault.lazy_pattern import lazy_pattern

_BLANK_LINES = lazy_pattern(r"\n(?:[ \t]*\n){2,}")


def markdown(html: str) -> str:
    """Return HTML as markdown: no scripts and styles, no blank lines in a row.

    Raises:
        ValueError: it is nested too deeply.
    """
    from markdownify import markdownify

    text = re.sub(r"(?is)<(script|style|head)\b.*?(?:</\1>|\Z)", "", html)
    try:
        made = markdownify(text, heading_style="ATX", bullets="-", escape_misc=False)
    except RecursionError as error:
        raise ValueError("its HTML is nested too deeply") from error
    return _BLANK_LINES.sub("\n\n", made.replace("\xa0", " ")).strip()


def time_of(seconds: object, unit: float = 1.0) -> str:
    """Return a time as the header has it, from a number of ``unit`` seconds since 1970, else ""."""
    try:
        return clock.iso(datetime.fromtimestamp(float(str(seconds)) * unit, UTC)) if seconds else ""
    except (ValueError, OverflowError, OSError):
        return ""


def parsed_time(text: object) -> str:
    """Return a time as the header has it, from a text such as ``20240131T120000Z``, else ""."""
    value = str(text or "").strip()
    for pattern in ("%Y%m%dT%H%M%SZ", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S"):
        try:
            moment = datetime.strptime(value, pattern)  # noqa: DTZ007  # UTC is added below
        except ValueError:
            continue
        return clock.iso(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    moment_or_none = clock.parse(value)
    return clock.iso(moment_or_none) if moment_or_none is not None else ""
