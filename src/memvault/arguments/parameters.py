"""What a function's signature says of its arguments: their JSON schema, and checking them.

The signature, with an ``Arg`` in each annotation, is all that is written down.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from memvault.errors import UsageError

LARGEST = 1e300
MOST_ENTRIES = 5_000
"""Entries of a list at most: the work that a tool does for a list grows with each."""
JSON_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
"""What JSON calls each type."""


MOST_CHARACTERS = 100_000
"""Characters of a text at most that is no content: a query, a name, a filter.

The schema does not name it: in each of them it would be most of what a model reads of that text.
"""


class CommandLineForm(NamedTuple):
    """How a command line takes an argument otherwise: its help, its name and its default.

    ``read`` makes an object of a word; a list has one of each word, and an
    object all of their keys.
    """

    help: str = ""
    read: Callable[[str], Mapping[str, Any]] | None = None
    name: str = ""
    default: object = None


class Arg(NamedTuple):
    """What an argument's type does not say.

    ``key`` is its JSON name where that is not the parameter's in camelCase;
    ``flag`` its option where that is not the key in kebab-case; ``positional``
    makes it a command-line argument; ``text`` lets ``-`` and ``@file`` stand
    for a text; ``default`` is what the schema names as the default where the
    function decides it; ``whole`` keeps a list's entries on the command line
    from being split at commas; ``alias`` is another spelling of its option;
    ``open`` lets the objects in a list hold further keys; ``words`` makes
    all of a command's words one text, so that none need quotes. With ``spread`` a
    command takes the keys of one object in place of a list of them, and ``cli``
    says what else is different there.
    """

    help: str
    key: str = ""
    flag: str = ""
    positional: bool = False
    cli_optional: bool = False
    text: bool = False
    minimum: float | None = None
    maximum: float | None = None
    default: object = None
    keep_commas: bool = False
    alias: str = ""
    extra_keys: bool = False
    join_words: bool = False
    flatten: bool = False
    cli: CommandLineForm | None = None


class Parameter(NamedTuple):
    """One argument of a tool: ``kinds`` are the plain types it may have.

    ``items`` are the keys of the objects that an array holds; an array without
    them holds strings, or with ``anything`` what it likes.
    """

    name: str
    key: str
    flag: str
    types: tuple[type, ...]
    choices: tuple[Any, ...]
    required: bool
    default: Any
    arg: Arg
    items: tuple[Parameter, ...] = ()
    anything: bool = False

    @property
    def known_default(self) -> Any:
        """What stands for the argument where it is left out, as the documentation names it."""
        return self.arg.default if self.default is None else self.default

    @property
    def on_command_line(self) -> tuple[Parameter, ...]:
        """What a command takes for the argument."""
        if self.arg.flatten:
            return tuple(part for item in self.items for part in item.on_command_line)
        cli = self.arg.cli
        if cli is None:
            return (self,)
        read = cli.read is not None
        return (
            self._replace(
                key=cli.name or self.key,
                types=(list,) if read else self.types,
                default=self.default if cli.default is None else cli.default,
                arg=self.arg._replace(
                    help=cli.help or self.arg.help, keep_commas=self.arg.keep_commas or read
                ),
            ),
        )

    def parse_cli(self, given: Mapping[str, Any]) -> Any:
        """Return the argument made of what a command was given, or None where that is nothing.

        Raises:
            UsageError: a word cannot be read, or two give the same key.
        """
        if self.arg.flatten:
            return [{item.key: given[item.name] for item in self.items if item.name in given}]
        cli = self.arg.cli or CommandLineForm()
        value = given.get(self.name, cli.default)
        if cli.read is None or value is None:
            return value
        objects = [cli.read(word) for word in value]
        if list in self.types:
            return objects
        keys = [key for entry in objects for key in entry]
        for key in keys:
            if keys.count(key) > 1:
                raise UsageError(f"{self.key} has {key} twice", "give it once")
        return {key: value for entry in objects for key, value in entry.items()}

    def entries(self, text: str) -> list[str]:
        """Return the entries of a list that a text is: several where none can hold a comma."""
        if self.arg.keep_commas or self.arg.positional:
            return [text]
        return [part.strip() for part in text.split(",") if part.strip()]

    @property
    def named(self) -> str:
        """The key, with the option where that is spelled otherwise, for messages."""
        same = self.arg.positional or self.flag == f"--{kebab(self.key)}"
        return self.key if same else f"{self.key} ({self.flag})"


@cache
def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the arguments that a function declares: its parameters that have an ``Arg``."""
    hints = typing.get_type_hints(function, include_extras=True)
    given = inspect.signature(function).parameters.values()
    return tuple(
        _parameter(entry.name, hints[entry.name], entry.default)
        for entry in given
        if typing.get_origin(hints[entry.name]) is Annotated
    )


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    kind, arg = typing.get_args(hint)[:2]
    key = arg.key or _camel(name)
    required = default is inspect.Parameter.empty
    kinds, choices = _kinds(kind)
    return Parameter(
        name,
        key,
        arg.flag or f"--{kebab(key)}",
        kinds,
        choices,
        required,
        None if required else default,
        arg,
        _items(kind),
        any(part == list[Any] for part in (kind, *typing.get_args(kind))),
    )


def _items(hint: Any) -> tuple[Parameter, ...]:
    """Read the keys of the ``TypedDict`` that a list holds."""
    for part in (hint, *typing.get_args(hint)):
        if typing.get_origin(part) is list and typing.is_typeddict(typing.get_args(part)[0]):
            shape = typing.get_args(part)[0]
            fields = typing.get_type_hints(shape, include_extras=True)
            found = []
            for name, field in fields.items():
                optional = typing.get_origin(field) is typing.NotRequired
                inner = typing.get_args(field)[0] if optional else field
                found.append(_parameter(name, inner, None if optional else inspect.Parameter.empty))
            return tuple(found)
    return ()


def _kinds(hint: Any) -> tuple[tuple[type, ...], tuple[str, ...]]:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        kinds: list[type] = []
        choices: tuple[str, ...] = ()
        for part in parts:
            more, some = _kinds(part)
            kinds += more
            choices += some
        return tuple(kinds), choices
    if origin is Literal:
        return (str,), tuple(typing.get_args(hint))
    return (origin or hint,), ()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def kebab(key: str) -> str:
    """Return a JSON key as the command line spells it."""
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in key)


def input_schema(expected: tuple[Parameter, ...]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    return _object(expected, False)


def _object(expected: tuple[Parameter, ...], more: bool) -> dict[str, Any]:
    """Return the schema of an object; ``more`` says whether it may hold further keys."""
    properties = {parameter.key: property_schema(parameter) for parameter in expected}
    required = [parameter.key for parameter in expected if parameter.required]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": more,
    }


def property_schema(parameter: Parameter) -> dict[str, Any]:
    """Return the JSON schema of one argument."""
    names = [JSON_NAMES[kind] for kind in parameter.types]
    entry: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    if "array" in names and not parameter.anything:
        items = parameter.items
        entry["items"] = _object(items, parameter.arg.extra_keys) if items else {"type": "string"}
        entry["maxItems"] = MOST_ENTRIES
    if parameter.choices:
        entry["enum"] = list(parameter.choices)
    least, most = bounds(parameter)
    if least is not None:
        entry["minimum"] = least
    if most is not None:
        entry["maximum"] = most
    default = parameter.known_default
    if default is not None:
        entry["default"] = list(default) if isinstance(default, tuple) else default
    entry["description"] = parameter.arg.help
    return entry


def is_short(parameter: Parameter) -> bool:
    """Return whether a text is limited: one that is no content, of a tool of the program's own."""
    return str in parameter.types and not parameter.arg.text and not parameter.anything


def bounds(parameter: Parameter) -> tuple[float | None, float | None]:
    """Return the least and the most that a number may be: a float is always finite."""
    least, most = parameter.arg.minimum, parameter.arg.maximum
    if float in parameter.types:
        return -LARGEST if least is None else least, LARGEST if most is None else most
    return least, most


def normal_name(name: str) -> str:
    """Return a tool's name in the spelling under which it is looked for."""
    return name.strip().lower().replace("-", "_")


def normal_key(key: str) -> str:
    """Return an argument's key in the spelling under which it is looked for."""
    return key.replace("_", "").replace("-", "").casefold()
