"""The marks that git writes around two versions of some lines."""

from __future__ import annotations

from collections.abc import Iterator

_BEGIN, _BASE, _MIDDLE, _END = "<<<<<<< ", "||||||| ", "======= ", ">>>>>>> "
_FENCES = ("```", "~~~")


def in_conflict(text: str) -> bool:
    """Say whether a text holds the marks of a conflict in git, and not as an example in code."""
    if _BEGIN not in text:
        return False
    wanted = iter((_BEGIN, _MIDDLE, _END))
    mark = next(wanted)
    fenced = False
    for line in _lines(text):
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


def _lines(text: str) -> Iterator[str]:
    """Yield lines with a blank behind, so that a mark with nothing behind it is one too."""
    return (line.rstrip("\r") + " " for line in text.split("\n"))
