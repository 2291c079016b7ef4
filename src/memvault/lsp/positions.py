"""Convert between an editor's positions and offsets in a text, and compute edits of a text."""

from __future__ import annotations

import re
from bisect import bisect_right

from lsprotocol import types

_LINE_END = re.compile(r"\r\n|\n|\r")
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
"""Maps the protocol's encodings to Python's codec and the bytes per code unit."""


class TextLines:
    """A text and its lines, which end with LF, CRLF or CR as in the protocol.

    ``encoding`` is the unit of an editor's columns. Positions outside the text are clamped.
    """

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self.encoding = encoding
        self._codec, self._unit = _CODECS[encoding]
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def span(self, line: int) -> tuple[int, int]:
        """Return the start and end of a line, without its line ending."""
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        return start, start + len(self.text[start:end].rstrip("\r\n"))

    def line(self, number: int) -> str:
        """Return a line without its line ending; empty if there is none."""
        if not 0 <= number < len(self._starts):
            return ""
        start, end = self.span(number)
        return self.text[start:end]

    def line_number(self, offset: int) -> int:
        """Return the number of the line that contains an offset."""
        return bisect_right(self._starts, offset) - 1

    def offset(self, position: types.Position) -> int:
        """Return a position's offset."""
        if position.line >= len(self._starts):
            return len(self.text)
        start, end = self.span(max(0, position.line))
        line, units = self.text[start:end], max(0, position.character)
        if line.isascii():
            return start + min(units, len(line))
        encoded = line.encode(self._codec, "replace")[: units * self._unit]
        return start + len(encoded.decode(self._codec, "ignore"))

    def position(self, offset: int) -> types.Position:
        """Return the position of an offset."""
        number = self.line_number(offset)
        before = self.text[self._starts[number] : offset]
        if not before.isascii():
            return types.Position(number, len(before.encode(self._codec, "replace")) // self._unit)
        return types.Position(number, len(before))

    def range(self, start: int, end: int) -> types.Range:
        """Return the range between two offsets."""
        return types.Range(self.position(start), self.position(end))

    def line_range(self, number: int) -> types.Range:
        """Return a line's range, without its line ending."""
        return self.range(*self.span(min(max(0, number), len(self._starts) - 1)))

    def whole_lines(self) -> list[str]:
        """Return all lines with their line endings; the last one may be empty."""
        ends = [*self._starts[1:], len(self.text)]
        return [self.text[start:end] for start, end in zip(self._starts, ends, strict=True)]

    def edits(self, new: str) -> list[types.TextEdit]:
        """Return edits that turn this text into a new one: line by line, or as one block."""
        old_lines, new_lines = self.whole_lines(), TextLines(new).whole_lines()
        first, last = 0, 0
        shorter = min(len(old_lines), len(new_lines))
        while first < shorter and old_lines[first] == new_lines[first]:
            first += 1
        while last < shorter - first and old_lines[-1 - last] == new_lines[-1 - last]:
            last += 1
        old_end, new_end = len(old_lines) - last, len(new_lines) - last
        if len(old_lines) == len(new_lines):
            return [
                types.TextEdit(self.line_range(number), new_lines[number].rstrip("\r\n"))
                for number in range(first, old_end)
                if old_lines[number] != new_lines[number]
            ]
        starts = [*self._starts, len(self.text)]
        at = self.range(starts[first], starts[old_end])
        return [types.TextEdit(at, "".join(new_lines[first:new_end]))]
