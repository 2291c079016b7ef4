"""Read the values in a pickle without importing modules or calling functions.

An object of any class becomes an ``Opaque``. The process that reads a source has a memory limit.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

_MAX_DEPTH = 200


class UnreadablePickle(ValueError):
    """A damaged pickle; the message is the reason."""


class Opaque:
    """An object in a pickle; ``values`` contains its arguments, state and items."""

    values: list[Any]

    def __new__(cls, *arguments: Any, **_keywords: Any) -> Opaque:
        """Store the arguments here, because ``__init__`` is not always called."""
        made = super().__new__(cls)
        made.values = [*arguments]
        return made

    def append(self, value: Any) -> None:
        """Add a value."""
        self.values.append(value)

    __setstate__ = add = append

    def __setitem__(self, _key: Any, value: Any) -> None:
        self.values.append(value)

    def __call__(self, *arguments: Any) -> Opaque:
        """Return an ``Opaque`` for a called object."""
        return Opaque(*arguments)


class _Unpickler(pickle.Unpickler):
    """An unpickler that resolves every class to ``Opaque``."""

    def find_class(self, _module: str, _name: str) -> type[Opaque]:
        return Opaque

    def persistent_load(self, key: Any) -> Opaque:
        return Opaque(key)


def parse(data: bytes) -> Any:
    """Return the value in a pickle.

    Raises:
        UnreadablePickle: if the pickle is damaged.
    """
    try:
        return _Unpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except MemoryError:
        raise
    except Exception as error:  # unpickling can raise any exception
        raise UnreadablePickle(f"damaged: {error}") from error


def mappings_with(value: Any, key: str) -> Iterator[dict[Any, Any]]:
    """Yield each mapping with the given key in a parsed value, once and in order."""
    pending, seen = [(value, 0)], set()
    while pending:
        current, depth = pending.pop()
        if depth > _MAX_DEPTH or id(current) in seen:
            continue
        if isinstance(current, dict | list | tuple | Opaque):
            seen.add(id(current))
        if isinstance(current, dict) and key in current:
            yield current
        pending += [(child, depth + 1) for child in reversed(_children(current))]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    return value.values if isinstance(value, Opaque) else []
