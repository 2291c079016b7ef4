"""Escape and shorten untrusted text, so that it cannot deceive a reader or a terminal.

Everything from a vault that is shown to a person, or written as JSON, is escaped here first:
characters that control a terminal, change the text direction, end a line or are invisible are
replaced by visible ones. Letters of every script, emoji and their joiners are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memvault.lazy_pattern import lazy_pattern

_UNSAFE = lazy_pattern(
    "[\x7f-\x9f"  # DEL and the C1 controls, which terminals interpret like ESC
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # characters that change the text direction
    "\u2028\u2029\ufeff"
    "\ud800-\udfff"  # lone surrogates, invalid in text
    "\U000e0000-\U000e007f]"  # invisible letters
)
_SIGNS = {code: 0x2400 + code for code in range(32) if code != ord("\t")}
_SIGNS_BUT_LINES = {code: sign for code, sign in _SIGNS.items() if code != ord("\n")}


def escape_line(value: str) -> str:
    """Return text as one line for people, with ␛ for ESC and ␊ for a line break."""
    return escaped(value).translate(_SIGNS)


def escape_text(value: str) -> str:
    """Return text for people, keeping its line breaks."""
    return escaped(value).translate(_SIGNS_BUT_LINES)


def quote_argument(value: str) -> str:
    """Return untrusted text quoted as one word of a shell command."""
    import shlex

    return shlex.quote(value) if value.isprintable() else "NAME"


def safe_json(value: Any) -> str:
    """Return a value as JSON that is safe to print and parses to the same value."""
    return escaped(json.dumps(value, ensure_ascii=False))


def as_json_lines(value: Mapping[str, Any]) -> str:
    """Return an object as JSON with one line for each key, and for each entry in a list.

    This is a fifth shorter than one line per value, and easier to search.
    """
    rows = []
    for key, entry in value.items():
        listed = isinstance(entry, list) and entry
        text = ",\n    ".join(map(safe_json, entry)) if listed else safe_json(entry)
        rows.append(f"  {safe_json(key)}: " + (f"[\n    {text}\n  ]" if listed else text))
    return "{\n" + ",\n".join(rows) + "\n}"


def escaped(value: str) -> str:
    """Return JSON with unsafe characters as JSON escapes, which do not change its meaning."""
    if value.isascii() and "\x7f" not in value:  # Most strings are plain ASCII.
        return value
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], value)


def shorten(value: str, length: int) -> str:
    """Return text shortened to a number of characters, with an ellipsis if it was shortened."""
    return value if len(value) <= length else f"{value[:length]}…"


def replace_surrogates(value: str) -> str:
    """Replace lone surrogates, as in a file name that is not UTF-8, with question marks."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()
