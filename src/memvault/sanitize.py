"""What comes out of a vault, so that it cannot lie to whoever reads it.

A vault may come from anyone. Whatever of it is shown to a person, or written
as JSON, passes here first: what steers a terminal, turns text round, ends a
line or is not seen becomes a sign. Letters of every script stay what they are,
emoji and what joins them too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_UNSEEN = re.compile(
    "[\x7f-\x9f"  # delete, and what steers a terminal as ESC does
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns text round
    "\u2028\u2029\ufeff"
    "\ud800-\udfff"  # half a character, which no text may hold
    "\U000e0000-\U000e007f]"  # letters that nobody sees
)
_SIGNS = {code: 0x2400 + code for code in range(32) if code != ord("\t")}
_SIGNS_BUT_LINES = {code: sign for code, sign in _SIGNS.items() if code != ord("\n")}


def escape_line(value: str) -> str:
    """Return a text as one line for people: ␛ stands for ESC, ␊ for a line's end."""
    return escaped(value).translate(_SIGNS)


def escape_text(value: str) -> str:
    """Return a text for people as the lines that it has."""
    return escaped(value).translate(_SIGNS_BUT_LINES)


def quote_argument(value: str) -> str:
    """Return a text from anyone as one word of a command that somebody may type."""
    import shlex

    return shlex.quote(value) if value.isprintable() else "NAME"


def safe_json(value: Any) -> str:
    """Return a value as JSON that is safe to look at, and means exactly the value."""
    return escaped(json.dumps(value, ensure_ascii=False))


def as_json_lines(value: Mapping[str, Any]) -> str:
    """Return an object as JSON with a line for each key, and for each entry of a list.

    It is a fifth shorter than with a line for each value, and easier to search by lines.
    """
    rows = []
    for key, entry in value.items():
        listed = isinstance(entry, list) and entry
        text = ",\n    ".join(map(safe_json, entry)) if listed else safe_json(entry)
        rows.append(f"  {safe_json(key)}: " + (f"[\n    {text}\n  ]" if listed else text))
    return "{\n" + ",\n".join(rows) + "\n}"


def escaped(value: str) -> str:
    """Return a text with what is not seen spelled as JSON does: in JSON it means the same."""
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], value)
