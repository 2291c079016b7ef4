"""Unicode's normal forms in a time that grows with the text and not with its square."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

_MOST_MARKS = 30
"""Marks on one letter that are put in order, as in Unicode's stream-safe texts."""
_MARKS = re.compile(f"(?:[^\\w\\s\0-\u02ff]|[\uff9e\uff9f]){{{_MOST_MARKS + 1},}}+")
"""A run of what may be marks; the two are letters that become some."""


def normalize(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in a normal form; of hundreds of marks on one letter each few on their own.

    Python sorts such a run in a time that grows with its square: half a million
    marks take minutes.
    """
    if text.isascii():
        return text
    pieces, start = [], 0
    for run in _MARKS.finditer(text):
        for cut in range(run.start() + _MOST_MARKS, run.end(), _MOST_MARKS):
            pieces.append(text[start:cut])
            start = cut
    pieces.append(text[start:])
    return "".join(unicodedata.normalize(form, piece) for piece in pieces)


def normalize_title(name: str) -> str:
    """Return a title as it is looked for: whatever its case, and however it is composed."""
    return normalize("NFC", normalize("NFC", name).casefold())
