"""JSON files of a source: arrays and lines, one item at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from memvault.importers.items import Unreadable
from memvault.importers.source import MAX_FILE, Source, text_lines

NO_OBJECT = "no JSON object"
_BLANKS = b"\xef\xbb\xbf \t\r\n"
_BACKEND = "IJSON_BACKEND"


class _LimitedStream:
    """A stream that ends with an error if one item has too many bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.room = MAX_FILE

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; raises ``OSError`` if the item has no end yet."""
        data = self._file.read(min(size, 1 << 16) if size >= 0 else 1 << 16)
        self.room -= len(data)
        if self.room < 0:
            raise OSError(f"one entry is larger than {MAX_FILE >> 20} MB")
        return data


def load_ijson() -> Any:
    """Return ijson with its own backend in C, or else in Python.

    Its other backends look for a library with the compiler and linker that are on the ``PATH``.
    """
    given = os.environ.get(_BACKEND)
    for name in [given] if given else ["yajl2_c", "python"]:
        os.environ[_BACKEND] = name
        try:
            import ijson
        except ImportError:
            continue
        else:
            return ijson
        finally:
            if given is None:
                del os.environ[_BACKEND]
    raise ModuleNotFoundError("No module named 'ijson'", name="ijson")


def array_items(source: Source, name: str, place: str = "item") -> Iterator[Any | Unreadable]:
    """Yield the items of a JSON array, and at the end why the rest cannot be read, if so.

    ``place`` is that of the items in ijson's notation: ``item`` for an array, ``results.item`` for
    one under a key.
    """
    ijson = load_ijson()
    try:
        with source.open(name) as file:
            stream = _LimitedStream(file)
            for item in ijson.items(stream, place, use_float=True):
                stream.room = MAX_FILE
                yield item
    except (OSError, ijson.JSONError, UnicodeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        yield Unreadable(name, f"its rest cannot be read: {reason}")


def objects(
    source: Source, name: str, place: str = "item"
) -> Iterator[tuple[str, dict[str, Any]] | Unreadable]:
    """Yield each object of a JSON array with its place, for people; else why it cannot be read.

    The parameter ``place`` is as for ``array_items``.
    """
    number = 0
    for number, entry in enumerate(array_items(source, name, place), 1):
        where = f"{name}, entry {number}"
        if isinstance(entry, Unreadable):
            yield entry
        else:
            yield (where, entry) if isinstance(entry, dict) else Unreadable(where, NO_OBJECT)
    if place == "item" and not number and not source.head(name).lstrip(_BLANKS).startswith(b"["):
        yield Unreadable(name, "no JSON array")


def lines(
    source: Source, name: str, most: int = MAX_FILE
) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the number of each line and its object, or the reason why it cannot be read."""
    number = 0
    try:
        for number, line in text_lines(source, name, most):
            if line.strip():
                try:
                    entry = json.loads(line)
                except (ValueError, RecursionError):
                    entry = None
                yield number, entry if isinstance(entry, dict) else NO_OBJECT
    except OSError as error:
        yield number + 1, error.strerror or str(error)


def read_object(source: Source, name: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no JSON object.
    """
    try:
        entry = json.loads(source.read(name))
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise ValueError(NO_OBJECT)
    return entry


def reason_of(error: Exception) -> str:
    """Return why a file cannot be read, for people."""
    return getattr(error, "strerror", None) or str(error)
