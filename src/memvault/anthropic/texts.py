"""The text of a memory as Claude sees it: without its header, in numbered lines."""

from __future__ import annotations

from typing import Any

from memvault.errors import UsageError
from memvault.model import Memory
from memvault.secrets_found import detect

_WIDTH = 6
_UNITS = ("B", "K", "M", "G")


def parts(memory: Memory) -> tuple[str, str]:
    """Return the blank lines that a body begins with, and the rest, which is the file's text."""
    text = memory.body.lstrip("\r\n")
    return memory.body[: len(memory.body) - len(text)], text


def display_text(memory: Memory) -> str:
    """Return a file's text as a model may see it, with masks in the place of secrets."""
    text = parts(memory)[1].replace("\r\n", "\n")
    return text if detect.allows(memory.metadata) else detect.masked(text)


def split_lines(text: str) -> list[str]:
    """Return a text's lines without their ends."""
    found = text.split("\n")
    return found[:-1] if len(found) > 1 and not found[-1] else found


def whole_lines(text: str) -> list[str]:
    """Return a text's lines with their ends; only a line feed ends one."""
    found = text.split("\n")
    return [*(f"{line}\n" for line in found[:-1]), *filter(None, found[-1:])]


def numbered(found: list[str], first: int, last: int) -> str:
    """Return some lines with their numbers, the first of all being 1."""
    some = enumerate(found[first - 1 : last], start=first)
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in some)


def line_range(given: list[Any] | None, count: int) -> tuple[int, int]:
    """Return the first and last line that are asked for.

    Raises:
        UsageError: there are no such lines.
    """
    if not given:
        return 1, count
    if len(given) == 2 and all(type(line) is int for line in given):
        first, last = given
        last = count if last == -1 else last
        if 1 <= first <= min(last, count):
            return first, last
    raise UsageError(
        f"Error: Invalid `view_range` parameter: {given}. It should be two lines of the file: "
        f"[1, {count}]"
    )


def occurrences(text: str, old: str) -> list[int]:
    """Return where a text holds another."""
    found = []
    at = text.find(old) if old else -1
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def with_ends(memory: Memory, text: str) -> str:
    """Return a text with the line ends of a memory."""
    plain = text.replace("\r\n", "\n")
    return plain if memory.newline == "\n" else plain.replace("\n", memory.newline)


def format_size(count: float) -> str:
    """Return a number of bytes as people write it."""
    unit = _UNITS[0]
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.1f}".removesuffix(".0") + unit
