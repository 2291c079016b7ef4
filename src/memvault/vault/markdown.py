"""Headings of a markdown text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINES = re.compile(r"[^\n\r]*(?:\r\n|\n|\r)|[^\n\r]+")
_FENCE = re.compile(r"[ ]{0,3}(```|~~~)")


def lines(text: str) -> Iterator[re.Match[str]]:
    """Yield a text's lines with their ends."""
    return _LINES.finditer(text)


def headings(body: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield each heading outside code as (start, end of its line, level, text)."""
    fenced = False
    for line in lines(body):
        text = line[0]
        start = text.lstrip(" ")[:3]
        if start in ("```", "~~~") and _FENCE.match(text):
            fenced = not fenced
        elif not fenced and start.startswith("#"):
            level, title = _heading(text)
            if level:
                yield line.start(), line.end(), level, title


def _heading(line: str) -> tuple[int, str]:
    """Return a line's level and text; level 0 where it is no heading."""
    bare = line.lstrip(" ")
    title = bare.lstrip("#")
    level = len(bare) - len(title)
    if len(line) - len(bare) > 3 or level > 6 or title[:1].strip():
        return 0, ""
    title = title.strip()
    unmarked = title.rstrip("#")
    if not unmarked or unmarked[-1] in " \t":  # closing marks stand apart; C# keeps its own
        title = unmarked.strip()
    return level, title


def first_heading(body: str) -> str:
    """Return the first heading of level 1, or an empty text."""
    found = (text for _, _, level, text in headings(body) if level == 1 and text)
    return " ".join(next(found, "").split())
