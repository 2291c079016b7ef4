"""Insertion and removal of a marked block of lines in a text that others edit too.

These functions are pure. Whether a line ending follows the block shows how the text ended before
the block was added: with a line ending if it had one, without otherwise.
"""

from __future__ import annotations

from typing import NamedTuple


class UnbalancedMarkers(ValueError):
    """Only one of the two markers is present; the message names its line, counted from 1."""


class BlockMarkers(NamedTuple):
    """The lines before and after a block."""

    begin: str
    end: str


def insert_block(text: str | None, block: str, marks: BlockMarkers) -> str:
    """Return a text with the block, which replaces an older one.

    Raises:
        UnbalancedMarkers: only one of the markers is present.
    """
    place = _place(text or "", marks)
    newline = _newline(text or "", place)
    whole = newline.join([marks.begin, *block.strip("\n").split("\n"), marks.end])
    if text is None:
        return whole + newline
    if place is not None:
        return text[: place[0]] + whole + text[place[1] :]
    if not text:
        return whole
    return text + newline + (whole + newline if text.endswith("\n") else newline + whole)


def remove_block(text: str, marks: BlockMarkers) -> str | None:
    """Return a text without its block, or None if the file was created for the block.

    Raises:
        UnbalancedMarkers: only one of the markers is present.
    """
    place = _place(text, marks)
    if place is None:
        return text
    newline = _newline(text, place)
    before, behind = text[: place[0]], text[place[1] :]
    if not behind:
        return before.removesuffix(newline * 2)
    behind = behind.removeprefix(newline)
    if not before and not behind:
        return None
    return before.removesuffix(newline) + behind


def _place(text: str, marks: BlockMarkers) -> tuple[int, int] | None:
    """Return the start and the end of the block, or None if there is none."""
    begin = end = None
    at = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        said = line.strip()
        if said == marks.begin and begin is None:
            begin = at, number
        elif said == marks.end and begin is not None:
            return begin[0], at + len(line.rstrip("\r\n"))
        elif said == marks.end:
            end = number
        at += len(line)
    if begin is not None:
        raise UnbalancedMarkers(f"line {begin[1]}: {marks.begin} has no {marks.end} behind it")
    if end is not None:
        raise UnbalancedMarkers(f"line {end}: {marks.end} has no {marks.begin} before it")
    return None


def _newline(text: str, place: tuple[int, int] | None) -> str:
    """Return the line ending of the block if there is one, else that of the text."""
    begin, end = place or (0, len(text))
    return "\r\n" if "\r\n" in text[begin:end] else "\n"
