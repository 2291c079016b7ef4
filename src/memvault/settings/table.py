"""Define settings as a table: one row each, with its default, valid values and purpose.

A section of a settings file is a class, and a row is an attribute of it. For example, the setting
``history.revisions`` is ``settings.history.revisions``, with the type of its default::

    class HistorySettings(Section):
        revisions = Setting(50, whole(1, 1_000_000), "maximum revisions of a memory")

These rows are used to load settings, to check values set by commands, and to generate the template
of a vault and the guide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from memvault.errors import MemvaultError, UsageError
from memvault.named_tuple import NamedTuple
from memvault.settings.toml_file import HINT, read_table

T = TypeVar("T")
S = TypeVar("S", bound="Section")


class ValueKind(NamedTuple):
    """A kind of value: its description, its check, and its conversion from TOML."""

    wanted: str
    is_valid: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


class Setting(Generic[T]):
    """A row: its default, valid values, purpose and example; documented if it has a purpose."""

    def __init__(self, default: T, kind: ValueKind, about: str = "", example: Any = None) -> None:
        self.default = default
        self.kind = kind
        self.about = about
        self.example = example

    @overload
    def __get__(self, section: None, owner: type[Section]) -> Self: ...
    @overload
    def __get__(self, section: Section, owner: type[Section]) -> T: ...
    def __get__(self, section: Section | None, owner: type[Section]) -> Self | T:
        return self if section is None else self.default


class Section:
    """A group of settings and their values; a setting without a value has its default.

    A section also has a value for each annotated attribute of its class. Two sections of a
    class are equal if all of their values are equal.

    Raises:
        TypeError: a name is unknown.
    """

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - self._names():
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(sorted(unknown))}")
        vars(self).update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; use replace()")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self._names()
        )

    __hash__ = None  # type: ignore[assignment]  # some values are mappings

    @classmethod
    def _names(cls) -> set[str]:
        return {*cls.rows(), *cls.__annotations__}

    @classmethod
    def rows(cls) -> dict[str, Setting[Any] | Section]:
        """Return the rows and subsections of this section, by name."""
        return {key: row for key, row in vars(cls).items() if isinstance(row, Setting | Section)}

    def values(self) -> dict[str, Any]:
        """Return the value of each row."""
        return {key: getattr(self, key) for key in self.rows()}

    def replace(self, **values: Any) -> Self:
        """Return these settings with other values."""
        return type(self)(**{**vars(self), **values})


SWITCH = ValueKind("true or false", lambda value: value in (True, False))  # 1 and 0 also pass.


def whole(minimum: int, maximum: float = inf) -> ValueKind:
    """Return the kind of integers between two bounds, inclusive."""
    upper = "" if maximum == inf else f" and at most {maximum:,}"
    return ValueKind(
        f"a whole number, at least {minimum}{upper}",
        lambda value: type(value) is int and minimum <= value <= maximum,
    )


def one_of(*choices: str) -> ValueKind:
    """Return the kind of values that are one of the given words."""
    return ValueKind(f"{', '.join(choices[:-1])} or {choices[-1]}", choices.__contains__)


def text(description: str, is_valid: Callable[[str], object] = lambda _: True) -> ValueKind:
    """Return the kind of strings that pass a check."""
    return ValueKind(description, lambda value: isinstance(value, str) and bool(is_valid(value)))


def texts(description: str, is_valid: Callable[[list[str]], bool] = lambda _: True) -> ValueKind:
    """Return the kind of lists of strings that pass a check."""
    return ValueKind(description, lambda value: are_texts(value) and is_valid(value), tuple)


def are_texts(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


FLAG = ValueKind("true or false", lambda value: isinstance(value, bool))
MODEL = text("a model's name or folder")
TOOLS = text("names of profiles and tools, such as core,talk")


def check(section: Section, prefix: str, hints: Mapping[str, str]) -> None:
    """Check settings that a command is about to write; ``hints`` has the hint for each key.

    Raises:
        UsageError: a setting is invalid.
    """
    for key, hint in hints.items():
        row = section.rows()[key]
        if isinstance(row, Setting) and not row.kind.is_valid(getattr(section, key)):
            raise UsageError(f"{prefix}.{key} must be {row.kind.wanted}", hint)


def load(
    path: Path, defaults: S, failure: type[MemvaultError]
) -> tuple[S, frozenset[str], list[str]]:
    """Return settings with the values of a TOML file in place of the defaults.

    Also returns the names of the settings that the file sets, and the names of unknown settings. A
    setting with an empty string keeps its default and does not count as set.

    Raises:
        MemvaultError: the file cannot be read, or a setting is invalid. The error is an instance of
            ``failure``.
    """
    explicit: set[str] = set()
    unknown: list[str] = []

    def filled(section: Any, table: Mapping[str, Any], prefix: str = "") -> Any:
        values = {}
        for key, value in table.items():
            name, row = prefix + key, vars(type(section)).get(key)
            if isinstance(row, Section):
                if not isinstance(value, dict):
                    raise failure(f"{path}: {name} must be a [{name}] table", HINT)
                values[key] = filled(row, value, f"{name}.")
            elif not isinstance(row, Setting):
                unknown.append(name)
            elif not row.kind.is_valid(value):
                raise failure(f"{path}: {name} must be {row.kind.wanted}", HINT)
            elif value != "":
                explicit.add(name)
                values[key] = row.kind.convert(value)
        return section.replace(**values)

    settings = filled(defaults, read_table(path, failure))
    return settings, frozenset(explicit), unknown
