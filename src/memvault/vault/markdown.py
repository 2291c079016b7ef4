"""Headings of a markdown text, and the marks that git writes around two versions of some lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINES = re.compile(r"[^\n\r]*(?:\r\n|\n|\r)|[^\n\r]+")
_BEGIN, _BASE, _MIDDLE, _END = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
_FENCES = ("```", "~~~")
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
        if start in _FENCES and _FENCE.match(text):
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


def in_conflict(text: str) -> bool:
    """Say whether a text holds the marks of a conflict in git, and not as an example in code."""
    if _BEGIN not in text:
        return False
    wanted = iter((_BEGIN, _MIDDLE, _END))
    mark = next(wanted)
    fenced = False
    for line in _marked_lines(text):
        if mark == _BEGIN and line.lstrip(" ").startswith(_FENCES):
            fenced = not fenced
        elif line.startswith(mark) and not fenced:
            following = next(wanted, None)
            if following is None:
                return True
            mark = following
    return False


def ours(text: str) -> str:
    """Return a text as it is without the other side of each conflict, and without the marks."""
    if _BEGIN not in text:
        return text
    kept, left_out, inside = [], False, False
    for line in text.splitlines(keepends=True):
        bare = line.rstrip("\r\n") + " "
        if bare.startswith(_BEGIN):
            inside, left_out = True, False
        elif inside and bare.startswith((_BASE, _MIDDLE)):
            left_out = True
        elif inside and bare.startswith(_END):
            inside = left_out = False
        elif not left_out:
            kept.append(line)
    return "".join(kept)


def unwrapped(text: str) -> str:
    """Return a text without the mark that it begins with, where a whole file is in conflict."""
    return text.partition("\n")[2] if text.startswith(_BEGIN) and in_conflict(text) else text


def _marked_lines(text: str) -> Iterator[str]:
    """Yield lines with a blank behind, so that a mark with nothing behind it is one too."""
    return (line.rstrip("\r") + " " for line in text.split("\n"))
