"""Parse a header in which some lines are not YAML, reading all other lines as usual."""

from __future__ import annotations

import contextlib
import re
from itertools import pairwise
from typing import Any

from memvault.lazy_pattern import lazy_pattern
from memvault.vault.header_yaml import (
    KNOWN_KEYS,
    TEXT_KEYS,
    ReadHeader,
    UnreadLines,
    canonical_key,
    match_key,
    parse_header,
)

_LINE = lazy_pattern(r"[^\r\n]+")
_LINE_START = lazy_pattern(r"(?:(?<=[\r\n])|\A)[^\r\n]")


_ENTRY = lazy_pattern(r"^(?=[^\s#\]}])(?!-(?:[ \t]|$))", re.MULTILINE)
_ITEM_LINE = lazy_pattern(r"^[ \t]*+-[ \t]++([^\r\n]++)", re.MULTILINE)
_LEADING_TABS = lazy_pattern(r"^ *+\t[ \t]*+", re.MULTILINE)
_MAX_ENTRIES = 500


_MAX_REPAIRED = 64 * 1024


def read_by_entry(header: str) -> ReadHeader | None:
    """Parse an invalid header's entries one by one; return None for text that is not a header."""
    if len(header) > _MAX_REPAIRED:
        return None
    starts = sorted({0, *(match.start() for match in _ENTRY.finditer(header))})
    if len(starts) > _MAX_ENTRIES:
        return None
    unread: list[UnreadLines] = []
    with_alias: list[UnreadLines] = []
    for start, following in pairwise([*starts, len(header)]):
        entry = _without_comments(header[start:following])
        try:
            parse_header(entry)
        except ValueError as error:
            is_alias = "undefined alias" in str(error)  # The anchor may be in another entry.
            part = _unread_part(header, start, start + len(entry), str(error))
            (with_alias if is_alias else unread).append(part)
    for parts in (unread, sorted([*unread, *with_alias])):
        keyless = sum(not lines.key for lines in parts)
        whole = len(starts) - len(parts)
        has_known_key = any(canonical_key(lines.key) in KNOWN_KEYS for lines in parts)
        if whole + len(parts) - keyless < keyless or not (whole or has_known_key):
            return None
        readable = header
        for lines in parts:
            readable = _commented(readable, lines.start, lines.end)
        with contextlib.suppress(ValueError):
            values = parse_header(readable)
            for lines in parts:
                if lines.value is not None:
                    values[canonical_key(lines.key)] = lines.value
            return ReadHeader(values, tuple(parts), readable)
    return None


def _without_comments(entry: str) -> str:
    """Return an entry without its trailing comments and blank lines."""
    lines = entry.splitlines(keepends=True)
    while len(lines) > 1 and lines[-1].lstrip()[:1] in ("", "#"):
        lines.pop()
    return "".join(lines)


def _unread_part(header: str, start: int, end: int, reason: str) -> UnreadLines:
    """Return an entry's lines that are not YAML: one line if the rest is valid, else all lines."""
    entry = header[start:end]
    number = header.count("\n", 0, start) + 2
    match = match_key(entry)
    key = match[1].strip("\"'") if match else ""
    reason = reason.partition(": ")[2] or reason
    first, _, below = entry.partition("\n")
    rest = first[match.end() :].strip() if match else ""
    if below.strip() and key:
        items = [_unquoted(item.strip()) for item in _ITEM_LINE.findall(below)]
        if canonical_key(key) in TEXT_KEYS and items:
            return UnreadLines(start, end, number, reason, key, items)
        if (spaced := _with_spaces(entry, key)) is not None:
            return UnreadLines(start, end, number, reason, key, spaced)
        for line in _LINE.finditer(header, start + len(first) + 1, end):
            commented = _commented(entry, line.start() - start, line.end() - start)
            with contextlib.suppress(ValueError):
                if line[0].strip() and parse_header(commented):
                    number += header.count("\n", start, line.start())
                    return UnreadLines(line.start(), line.end(), number, reason)
        return UnreadLines(start, end, number, reason, key)
    value: Any = _unquoted(rest) or None
    if key and canonical_key(key) in TEXT_KEYS - {"title", "memory_type"} and rest.startswith("["):
        names = rest.strip("[]").split(",")
        value = [name for name in (_unquoted(entry.strip()) for entry in names) if name]
    return UnreadLines(start, end, number, reason, key, value if key else None)


def _with_spaces(entry: str, key: str) -> Any:
    """Return the value of an entry that is valid YAML with tabs replaced by spaces, else None."""
    spaced = _LEADING_TABS.sub(lambda tabs: tabs[0].replace("\t", "  "), entry)
    with contextlib.suppress(ValueError):
        return parse_header(spaced).get(canonical_key(key)) if spaced != entry else None
    return None


def _unquoted(text: str) -> str:
    """Return text without its surrounding quotes, one of which may be missing."""
    return text.strip(text[0]).strip() if text[:1] in ("'", '"') else text


def _commented(text: str, start: int, end: int) -> str:
    """Return text with ``#`` as the first character of each line between two positions."""
    return text[:start] + _LINE_START.sub("#", text[start:end]) + text[end:]
