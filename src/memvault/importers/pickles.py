"""Read the values in a pickle without running it: no import, and no function call.

An object becomes an ``Opaque`` with its class name, arguments and state.
"""

from __future__ import annotations

import pickletools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

_MAX_OPERATIONS = 20_000_000
_MAX_MEMORY = 512 * 1024 * 1024
"""Maximum size of the values of a pickle in bytes, as an upper estimate."""
_SLOT, _CONTAINER, _OPAQUE = 16, 128, 512
"""Estimated bytes of a stack entry, an empty container and an object."""
_MAX_NAME = 300
_MAX_DEPTH = 200


class UnreadablePickle(ValueError):
    """A damaged pickle; the message is the reason."""


class Opaque:
    """An object in a pickle: its class name, arguments and state."""

    def __init__(self, name: str, arguments: Any = ()) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None
        self.items: list[Any] = []


class _Mark(NamedTuple):
    """A mark on the stack."""


_MARK = _Mark()


class _Machine:
    """The stack machine of pickles, limited to building plain values."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self._memory = 0

    def _account(self, size: int) -> None:
        self._memory += size
        if self._memory > _MAX_MEMORY:
            raise UnreadablePickle(f"its values exceed {_MAX_MEMORY >> 20} MB")

    def pop_to_mark(self) -> list[Any]:
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def run(self, name: str, argument: Any) -> None:
        """Run one operation by its name in ``pickletools``."""
        is_small = argument is None or isinstance(argument, int | float)
        self._account(_SLOT + (_SLOT * 2 if is_small else sys.getsizeof(argument)))
        self._account(_OPAQUE if name in _MAKE_OBJECTS else 0 if name in _PUSHED else _CONTAINER)
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _PUSHED:
            self.stack.append(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self.memo[int(argument)] = self.stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            self.stack.append(self.memo[int(argument)])
        elif name in _OPERATIONS:
            _OPERATIONS[name](self, argument)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise UnreadablePickle(f"unsupported operation {name}")

    def reduce(self, *_: Any) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        name = function.name if isinstance(function, Opaque) else "?"
        self.stack.append(Opaque(name, arguments))

    def new_with_keys(self, *_: Any) -> None:
        keys = self.stack.pop()
        self.reduce()
        self.stack[-1].state = keys

    def instance(self, argument: Any) -> None:
        items = self.pop_to_mark()
        name = argument or getattr(items.pop(0), "name", "?")
        self.stack.append(Opaque(_name(name), tuple(items)))

    def stack_global(self, *_: Any) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.stack.append(Opaque(f"{_name(module)} {_name(name)}"))

    def build(self, *_: Any) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Opaque):
            self.stack[-1].state = state

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(target, dict):
                if isinstance(key, str | int | float | bytes):
                    target[key] = value
            else:
                target.items.append((key, value))

    def append_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        (target if isinstance(target, list) else target.items).extend(items)

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        del self.stack[len(self.stack) - count :]
        self.stack.append(items)


def _name(value: Any) -> str:
    """Return a short text; "?" for other values, whose text may be unlimited."""
    return value if isinstance(value, str) and len(value) <= _MAX_NAME else "?"


_MAKE_OBJECTS = frozenset("REDUCE NEWOBJ NEWOBJ_EX INST OBJ STACK_GLOBAL GLOBAL BINPERSID".split())
_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
    "MARK": lambda: _MARK,
}
_PUSHED = frozenset(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING "
    "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE SHORT_BINUNICODE BINUNICODE "
    "BINUNICODE8".split()
)
_OPERATIONS: Mapping[str, Callable[[_Machine, Any], Any]] = {
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.pop_to_mark(),
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "APPEND": lambda machine, _: machine.append_items([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.append_items(machine.pop_to_mark()),
    "ADDITEMS": lambda machine, _: machine.append_items(machine.pop_to_mark()),
    "LIST": lambda machine, _: machine.stack.append(machine.pop_to_mark()),
    "FROZENSET": lambda machine, _: machine.stack.append(machine.pop_to_mark()),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_to_mark())),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "SETITEM": lambda machine, _: machine.set_items(
        [machine.stack.pop(), machine.stack.pop()][::-1]
    ),
    "SETITEMS": lambda machine, _: machine.set_items(machine.pop_to_mark()),
    "GLOBAL": lambda machine, argument: machine.stack.append(Opaque(_name(argument))),
    "STACK_GLOBAL": _Machine.stack_global,
    "REDUCE": _Machine.reduce,
    "NEWOBJ": _Machine.reduce,
    "NEWOBJ_EX": _Machine.new_with_keys,
    "INST": _Machine.instance,
    "OBJ": lambda machine, _: machine.instance(None),
    "BUILD": _Machine.build,
    "BINPERSID": lambda machine, _: machine.stack.append(Opaque("id", machine.stack.pop())),
}


def parse(data: bytes) -> Any:
    """Return the value in a pickle.

    Raises:
        UnreadablePickle: it is damaged, or has unsupported operations.
    """
    machine = _Machine()
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
            if count > _MAX_OPERATIONS:
                raise UnreadablePickle("too many operations")
            machine.run(operation.name, argument)
        return machine.stack[-1]
    except UnreadablePickle:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UnreadablePickle(f"damaged: {error}") from error


def mappings_with(value: Any, key: str) -> Iterator[dict[Any, Any]]:
    """Yield each mapping with a key in a parsed value once, in order."""
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
    return [value.arguments, value.state, value.items] if isinstance(value, Opaque) else []
