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


def insert_block(text: str | None, block: str, markers: BlockMarkers) -> str:
    """Return a text with the block, which replaces an older one.

    Raises:
        UnbalancedMarkers: only one of the markers is present.
    """
    span = _find_block(text or "", markers)
    newline = _newline(text or "", span)
    inserted = newline.join([markers.begin, *block.strip("\n").split("\n"), markers.end])
    if text is None:
        return inserted + newline
    if span is not None:
        return text[: span[0]] + inserted + text[span[1] :]
    if not text:
        return inserted
    return text + newline + (inserted + newline if text.endswith("\n") else newline + inserted)


def remove_block(text: str, markers: BlockMarkers) -> str | None:
    """Return a text without its block, or None if the file was created for the block.

    Raises:
        UnbalancedMarkers: only one of the markers is present.
    """
    span = _find_block(text, markers)
    if span is None:
        return text
    newline = _newline(text, span)
    before, after = text[: span[0]], text[span[1] :]
    if not after:
        return before.removesuffix(newline * 2)
    after = after.removeprefix(newline)
    if not before and not after:
        return None
    return before.removesuffix(newline) + after


def _find_block(text: str, markers: BlockMarkers) -> tuple[int, int] | None:
    """Return the start and the end of the block, or None if there is none."""
    begin = end = None
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        stripped = line.strip()
        if stripped == markers.begin and begin is None:
            begin = offset, number
        elif stripped == markers.end and begin is not None:
            return begin[0], offset + len(line.rstrip("\r\n"))
        elif stripped == markers.end:
            end = number
        offset += len(line)
    if begin is not None:
        raise UnbalancedMarkers(f"line {begin[1]}: {markers.begin} has no {markers.end} behind it")
    if end is not None:
        raise UnbalancedMarkers(f"line {end}: {markers.end} has no {markers.begin} before it")
    return None


def _newline(text: str, span: tuple[int, int] | None) -> str:
    """Return the line ending of the block if there is one, else that of the text."""
    begin, end = span or (0, len(text))
    return "\r\n" if "\r\n" in text[begin:end] else "\n"
