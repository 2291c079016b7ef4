"""Named tuples behave like `typing.NamedTuple`."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import typing
from typing import Any, Generic, TypeVar

import pytest

from memvault.named_tuple import NamedTuple

Value = TypeVar("Value")


class Range(NamedTuple):
    """A range."""

    first: int
    last: int = 9
    name: str = ""

    @property
    def length(self) -> int:
        return self.last - self.first


class Closed(Range):
    """A subclass without fields of its own."""

    __slots__ = ()

    label = "closed"


class Box(NamedTuple, Generic[Value]):
    content: Value


class Empty(NamedTuple):
    pass


class Standard(typing.NamedTuple):
    """A range."""

    first: int
    last: int = 9
    name: str = ""


def _outcome(use: Any, cls: Any) -> Any:
    try:
        return use(cls)
    except (AttributeError, TypeError, ValueError):
        return "an error"  # The type and message differ between versions of Python.


@pytest.mark.parametrize(
    "use",
    [
        lambda cls: tuple(cls(1)),
        lambda cls: tuple(cls(1, last=2, name="a")),
        lambda cls: cls(),
        lambda cls: cls(1, 2, "a", 4),
        lambda cls: cls(1, 2, last=3),
        lambda cls: cls(1, unknown=3),
        lambda cls: tuple(cls._make([1, 2, "a"])),
        lambda cls: cls._make([1]),
        lambda cls: tuple(cls(1)._replace(last=3)),
        lambda cls: cls(1)._replace(unknown=3),
        lambda cls: cls(1)._asdict(),
        lambda cls: cls(1)._fields,
        lambda cls: (cls._field_defaults, cls.__match_args__, cls.__doc__),
        typing.get_type_hints,
        lambda cls: repr(cls(1, name="a")).partition("(")[2],
        lambda cls: (cls(1) == (1, 9, ""), cls(1) < cls(2), hash(cls(1)) == hash((1, 9, ""))),
        lambda cls: setattr(cls(1), "first", 2),
        lambda cls: setattr(cls(1), "other", 2),
        lambda cls: json.dumps(cls(1)),
        lambda cls: tuple(copy.deepcopy(cls(1))),
        lambda cls: (pickle.loads(pickle.dumps(cls(1))) == cls(1), type(copy.copy(cls(1))) is cls),
        lambda cls: vars(cls(1)),
    ],
)
def test_named_tuple_behaves_like_typing_named_tuple(use: Any) -> None:
    """Construction, fields, errors, comparison, JSON and pickle work as in the standard class."""
    assert _outcome(use, Range) == _outcome(use, Standard)


def test_named_tuple_is_matched_by_position_and_extended() -> None:
    """Named tuples work in patterns, as generic classes, without fields, and as base classes."""
    match Range(1, 2):
        case Range(first, last):
            assert (first, last) == (1, 2)
    assert Box[int](3).content == 3
    assert Empty() == ()
    closed = Closed(4)._replace(last=6)
    assert (type(closed), closed.length, closed.label) == (Closed, 2, "closed")
    assert type(Range(1)) is Range


def test_subclass_keeps_its_own_constructor() -> None:
    """A subclass's constructor runs each time, also before the base class's first instance."""

    class Base(NamedTuple):
        first: int

    class Doubled(Base):
        def __new__(cls, first: int) -> Doubled:
            return super().__new__(cls, first * 2)

    assert [Doubled(1), Doubled(2), Base(3)] == [(2,), (4,), (3,)]


def test_constructor_error_names_class() -> None:
    """A missing or unknown argument is reported with the class's name."""
    with pytest.raises(TypeError, match=r"Range.__new__\(\) .*'unknown'"):
        Range(1, unknown=2)  # type: ignore[call-arg]


def test_named_tuple_is_created_by_several_threads_at_once() -> None:
    """Several threads can create the first instance of a class at the same time."""
    for _ in range(50):

        class Pair(NamedTuple):
            left: int
            right: int = 2

        pairs: list[Pair] = []
        threads = [threading.Thread(target=lambda: pairs.append(Pair(1))) for _ in range(4)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pairs == [(1, 2)] * 4
