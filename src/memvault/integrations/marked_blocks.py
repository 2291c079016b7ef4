"""Insert and remove a marked block of lines in a file that others also edit.

These functions are pure. A block is appended after a blank line.
"""

from __future__ import annotations

from memvault.named_tuple import NamedTuple


class UnbalancedMarkers(ValueError):
    """Only one of the two markers is present; the message contains its line number, from 1."""


class BlockMarkers(NamedTuple):
    """The marker lines before and after a block."""

    begin: str
    end: str


def insert_block(text: str | None, block: str, markers: BlockMarkers) -> str:
    """Return text with the block, replacing an older block.

    Raises:
        UnbalancedMarkers: only one of the markers is present.
    """
    text = text or ""
    span = _find_block(text, markers)
    newline = _newline(text, span)
    inserted = newline.join([markers.begin, *block.strip("\n").split("\n"), markers.end])
    if span is not None:
        return text[: span[0]] + inserted + text[span[1] :]
    if text and not text.endswith("\n"):
        text += newline
    return f"{text}{newline if text else ''}{inserted}{newline}"


def remove_block(text: str, markers: BlockMarkers) -> str | None:
    """Return text without its block, or None if nothing else remains.

    Raises:
        UnbalancedMarkers: only one of the markers is present.
    """
    span = _find_block(text, markers)
    if span is None:
        return text
    newline = _newline(text, span)
    before = text[: span[0]].removesuffix(newline)
    after = text[span[1] :].removeprefix(newline)
    return before + after or None


def _find_block(text: str, markers: BlockMarkers) -> tuple[int, int] | None:
    """Return the start and the end of the block, or None."""
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
        raise UnbalancedMarkers(f"line {begin[1]}: {markers.begin} has no {markers.end} after it")
    if end is not None:
        raise UnbalancedMarkers(f"line {end}: {markers.end} has no {markers.begin} before it")
    return None


def _newline(text: str, span: tuple[int, int] | None) -> str:
    """Return the line ending of the block if there is one, or else of the text."""
    begin, end = span or (0, len(text))
    return "\r\n" if "\r\n" in text[begin:end] else "\n"
