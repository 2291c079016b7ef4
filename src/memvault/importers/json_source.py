"""JSON files in a source: arrays and lines, one item at a time.

The items of an array are located by their brackets and parsed one by one, so an invalid item does
not affect the others. A streaming parser would stop at the first invalid item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from memvault.importers.formats import REST
from memvault.importers.items import SkippedItem
from memvault.importers.records import reason_for
from memvault.importers.source import MAX_FILE, Source, text_lines

NO_OBJECT = "not a JSON object"
TOO_LARGE = f"larger than {MAX_FILE >> 20} MB"
_BLANKS = b"\xef\xbb\xbf \t\r\n"
_PIECE = 1 << 16
_MAX_KEY = 200
_MAX_CONTAINERS = 2_000_000
"""Maximum number of objects and arrays in one item; each takes a hundred bytes of memory."""
_TOKEN = re.compile(rb'[\[\]{},]|"[^"\\]*+(?:\\.[^"\\]*+)*+(")?+', re.DOTALL)
_WITHOUT_BRACKETS = re.compile(rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(")?+', re.DOTALL)


def parse(data: bytes | str) -> Any:
    """Parse JSON text.

    Raises:
        ValueError: if the text is not JSON, or exceeds the limits.
    """
    text = data if isinstance(data, str) else data.decode("utf-8-sig")
    if text.count("{") + text.count("[") > _MAX_CONTAINERS:  # including brackets in strings
        raise ValueError(f"more than {_MAX_CONTAINERS:,} objects and arrays")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def object_in(data: Any) -> dict[str, Any] | None:
    """Return the object in JSON text; None if the value is not the text of an object."""
    try:
        value = parse(data) if isinstance(data, bytes | str) else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class _ArrayScanner:
    """Cuts one array's items out of chunks of JSON text.

    The array is the whole text, or the value of ``key`` in an object.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._depth = 0
        self._level = 0
        """The depth of the array while it is being read, else 0."""
        self._last_key = b""
        self._in_string = self._is_escaped = False
        self._item: list[bytes] = []
        self._size = 0
        self.is_done = False

    @property
    def is_open(self) -> bool:
        """Whether the array has started but not ended."""
        return self._level > 0

    def items(self, piece: bytes) -> Iterator[bytes | None]:
        """Yield the items that end in the next chunk; None for an item that is too large."""
        start = position = 0
        if self._in_string:
            begin = 1 if self._is_escaped else 0
            position = self._end_of_string(piece, 0, _REST_OF_STRING.match(piece, begin))
        while not self.is_done and (token := self._next(piece, position)) is not None:
            mark, start_of_token = piece[token.start()], token.start()
            position = token.end()
            if mark == 0x22:
                self._last_key = b""
                position = self._end_of_string(piece, start_of_token, token)
            elif mark in b"[{":
                self._depth += 1
                if mark == 0x5B and self._begins():
                    self._level, start = self._depth, position
            elif self._depth == self._level and mark in b",]":
                self._keep(piece[start:start_of_token])
                start = position
                yield from self._taken(is_last=mark == 0x5D)
            elif mark in b"]}" and self._depth > self._level:
                self._depth -= 1
        if self._level:
            self._keep(piece[start:])

    def _next(self, piece: bytes, position: int) -> re.Match[bytes] | None:
        if self._level and self._depth > self._level:  # within an item, only brackets matter
            position = _WITHOUT_BRACKETS.match(piece, position).end()  # type: ignore[union-attr]
        return _TOKEN.search(piece, position)

    def _begins(self) -> bool:
        """Return whether the array that starts here is the one to read."""
        if self._level:
            return False
        return self._last_key == self._key if self._key else self._depth == 1

    def _end_of_string(self, piece: bytes, start: int, match: re.Match[bytes] | None) -> int:
        """Return the end of a string in a chunk, and record whether it continues in the next."""
        assert match is not None  # always matches, possibly an empty string
        end, is_whole = match.end(), match[1] is not None
        if self._key and self._depth == 1 and not self._level and len(self._last_key) < _MAX_KEY:
            self._last_key += piece[start:end].strip(b'"')
        self._is_escaped = not is_whole and end < len(piece)
        self._in_string = not is_whole
        return end if is_whole else len(piece)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_FILE:
            self._item.clear()
        else:
            self._item.append(part)

    def _taken(self, is_last: bool) -> Iterator[bytes | None]:
        item = None if self._size > MAX_FILE else b"".join(self._item)
        self._item, self._size = [], 0
        if is_last:
            self._level, self.is_done = 0, True
        if item is None or not is_last or item.strip(_BLANKS):
            yield item


def array_items(source: Source, name: str, key: str = "") -> Iterator[Any | SkippedItem]:
    """Yield the items of a JSON array, or why an item or the rest cannot be read.

    ``key`` is the array's key in the file's object; empty if the file is an array.
    """
    scanner, number = _ArrayScanner(key.encode()), 0
    try:
        with source.open(name) as file:
            while not scanner.is_done and (piece := file.read(_PIECE)):
                source.tick()
                for data in scanner.items(piece):
                    number += 1
                    yield _parsed(data, f"{name}, entry {number}")
    except OSError as error:
        yield SkippedItem(name, f"{REST}: {error.strerror or error}")
        return
    if scanner.is_open:
        yield SkippedItem(name, f"{REST}: the file ends within an entry")


def _parsed(data: bytes | None, where: str) -> Any | SkippedItem:
    if data is None:
        return SkippedItem(where, TOO_LARGE)
    try:
        return parse(data)
    except ValueError as error:
        return SkippedItem(where, f"is not JSON: {str(error).partition(': line')[0]}")


def objects(
    source: Source, name: str, key: str = "", may_be_one: bool = False
) -> Iterator[tuple[str, dict[str, Any]] | SkippedItem]:
    """Yield each object of a JSON array with its location, or why it cannot be read.

    ``key`` is the array's key in the file's object; empty if the file is an array.
    With ``may_be_one``, the file may also be one object.
    """
    start = source.head(name).lstrip(_BLANKS)[:1]
    if may_be_one and start == b"{":
        try:
            yield name, read_object(source, name)
        except (OSError, ValueError) as error:
            yield SkippedItem(name, reason_for(error))
        return
    number = 0
    for number, entry in enumerate(array_items(source, name, key), 1):
        where = f"{name}, entry {number}"
        if isinstance(entry, SkippedItem):
            yield entry
        else:
            yield (where, entry) if isinstance(entry, dict) else SkippedItem(where, NO_OBJECT)
    if not key and not number and start != b"[":
        yield SkippedItem(name, "not a JSON array")


def json_lines(
    source: Source, name: str, max_bytes: int = MAX_FILE
) -> Iterator[tuple[str, dict[str, Any]] | SkippedItem]:
    """Yield the object in each line with its location, or why it cannot be read."""
    number = 0
    try:
        for number, line in text_lines(source, name, max_bytes):
            if line.strip():
                entry, where = object_in(line), f"{name}, line {number}"
                yield SkippedItem(where, NO_OBJECT) if entry is None else (where, entry)
    except OSError as error:
        yield SkippedItem(f"{name}, line {number + 1}", error.strerror or str(error))


def read_object(source: Source, name: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file is not a JSON object.
    """
    entry = object_in(source.read(name))
    if entry is None:
        raise ValueError(NO_OBJECT)
    return entry
