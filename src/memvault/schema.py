"""What a function's signature says of its arguments: their JSON schema, and checking them.

The signature, with an ``Arg`` in each annotation, is all that is written down.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from memvault.errors import UsageError

_LARGEST = 1e300
JSON_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
"""What JSON calls each type."""


class Cli(NamedTuple):
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
    ``open`` lets the objects in a list hold further keys. With ``spread`` a
    command takes the keys of one object in place of a list of them, and ``cli``
    says what else is different there.
    """

    help: str
    key: str = ""
    flag: str = ""
    positional: bool = False
    cli_optional: bool = False
    text: bool = False
    least: float | None = None
    most: float | None = None
    default: object = None
    whole: bool = False
    alias: str = ""
    open: bool = False
    spread: bool = False
    cli: Cli | None = None


class Parameter(NamedTuple):
    """One argument of a tool: ``kinds`` are the plain types it may have.

    ``items`` are the keys of the objects that an array holds; an array without
    them holds strings, or with ``anything`` what it likes.
    """

    name: str
    key: str
    flag: str
    kinds: tuple[type, ...]
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
        if self.arg.spread:
            return tuple(part for item in self.items for part in item.on_command_line)
        cli = self.arg.cli
        if cli is None:
            return (self,)
        read = cli.read is not None
        return (
            self._replace(
                key=cli.name or self.key,
                kinds=(list,) if read else self.kinds,
                default=self.default if cli.default is None else cli.default,
                arg=self.arg._replace(help=cli.help or self.arg.help, whole=self.arg.whole or read),
            ),
        )

    def from_command_line(self, given: Mapping[str, Any]) -> Any:
        """Return the argument made of what a command was given, or None where that is nothing.

        Raises:
            UsageError: a word cannot be read, or two give the same key.
        """
        if self.arg.spread:
            return [{item.key: given[item.name] for item in self.items if item.name in given}]
        cli = self.arg.cli or Cli()
        value = given.get(self.name, cli.default)
        if cli.read is None or value is None:
            return value
        objects = [cli.read(word) for word in value]
        if list in self.kinds:
            return objects
        keys = [key for entry in objects for key in entry]
        for key in keys:
            if keys.count(key) > 1:
                raise UsageError(f"{self.key} has {key} twice", "give it once")
        return {key: value for entry in objects for key, value in entry.items()}

    @property
    def named(self) -> str:
        """The key, with the option where that is spelled otherwise, for messages."""
        same = self.arg.positional or self.flag == f"--{kebab(self.key)}"
        return self.key if same else f"{self.key} ({self.flag})"


@cache
def declared(function: Callable[..., Any]) -> tuple[Parameter, ...]:
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
    names = [JSON_NAMES[kind] for kind in parameter.kinds]
    entry: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    if "array" in names and not parameter.anything:
        items = parameter.items
        entry["items"] = _object(items, parameter.arg.open) if items else {"type": "string"}
    if parameter.choices:
        entry["enum"] = list(parameter.choices)
    least, most = _bounds(parameter)
    if least is not None:
        entry["minimum"] = least
    if most is not None:
        entry["maximum"] = most
    default = parameter.known_default
    if default is not None:
        entry["default"] = list(default) if isinstance(default, tuple) else default
    entry["description"] = parameter.arg.help
    return entry


def _bounds(parameter: Parameter) -> tuple[float | None, float | None]:
    """Return the least and the most that a number may be: a float is always finite."""
    least, most = parameter.arg.least, parameter.arg.most
    if float in parameter.kinds:
        return -_LARGEST if least is None else least, _LARGEST if most is None else most
    return least, most


def bind(
    expected: tuple[Parameter, ...], arguments: Mapping[str, Any], whose: str
) -> dict[str, Any]:
    """Check arguments against parameters and name them as the function does.

    ``whose`` stands for the tool in messages. Case, underscores and hyphens of keys do not matter.

    Raises:
        UsageError: a key is unknown, given twice or missing, or a value has the wrong type.
    """
    return _bound(expected, arguments, whose)


def _bound(
    expected: tuple[Parameter, ...], arguments: Mapping[str, Any], whose: str, more: bool = False
) -> dict[str, Any]:
    """Check one object; where it may hold ``more``, unknown keys pass as they are."""
    known = {normal_key(parameter.key): parameter for parameter in expected}
    bound: dict[str, Any] = {}
    for key, value in arguments.items():
        parameter = known.get(key if more else normal_key(str(key)))
        if parameter is None and more:
            bound[key] = value
            continue
        if parameter is None:
            near = get_close_matches(normal_key(str(key)), list(known), n=1, cutoff=0.5)
            names = ", ".join(entry.key for entry in known.values()) or "none"
            raise UsageError(
                f"{whose} has no argument {key!r}",
                f"did you mean {known[near[0]].key}?" if near else f"its arguments are {names}",
            )
        if parameter.name in bound:
            raise UsageError(f"{parameter.key} is given twice", "give it once")
        bound[parameter.name] = _checked(parameter, value)
    for parameter in known.values():
        if parameter.required and parameter.name not in bound:
            raise UsageError(f"{whose} needs {parameter.key}", parameter.arg.help)
    return bound


def normal_name(name: str) -> str:
    """Return a tool's name in the spelling under which it is looked for."""
    return name.strip().lower().replace("-", "_")


def normal_key(key: str) -> str:
    """Return an argument's key in the spelling under which it is looked for."""
    return key.replace("_", "").replace("-", "").casefold()


def _checked(parameter: Parameter, value: Any) -> Any:
    """Return a value as what it is declared as: right type, one of the choices, in range."""
    value = _typed(parameter, value)
    if parameter.choices:
        value = _chosen(parameter, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _in_range(parameter, value)
    if parameter.items and isinstance(value, list):
        whose, more = f"each of {parameter.key}", parameter.arg.open
        return [_bound(parameter.items, entry, whose, more) for entry in value]
    return value


def _typed(parameter: Parameter, value: Any) -> Any:
    """Return a value as the type it is declared with: an integral 3.0 is the integer 3."""
    kinds = parameter.kinds
    if isinstance(value, bool):
        fits = bool in kinds
    elif isinstance(value, int) and int in kinds:
        fits = True
    elif isinstance(value, float) and int in kinds and value.is_integer():
        value, fits = int(value), True
    elif isinstance(value, int | float) and float in kinds:
        fits = abs(value) <= _LARGEST
        value = float(value) if fits else value
    else:
        fits = isinstance(value, tuple(kind for kind in kinds if kind is not bool) or ())
    if fits and isinstance(value, list) and not parameter.anything:
        fits = all(isinstance(entry, dict if parameter.items else str) for entry in value)
    if not fits:
        wanted = " or ".join(JSON_NAMES[kind] for kind in kinds)
        if list in kinds and not parameter.anything:
            wanted += " of objects" if parameter.items else " of strings"
        article = "an" if wanted[0] in "aio" else "a"
        raise UsageError(
            f"{parameter.named} must be {article} {wanted}, not {_short(value)}",
            parameter.arg.help,
        )
    return value


def _chosen(parameter: Parameter, value: Any) -> Any:
    """Return the choice that is meant; of words the case does not matter."""
    if value in parameter.choices or (not isinstance(value, str) and str in parameter.kinds):
        return value
    lowered = {str(choice).lower(): choice for choice in parameter.choices}
    if not isinstance(value, str) or value.lower() not in lowered:
        names = ", ".join(map(str, parameter.choices))
        raise UsageError(
            f"{parameter.named} must be one of {names}, not {value!r}", parameter.arg.help
        )
    return lowered[value.lower()]


def _in_range(parameter: Parameter, value: float) -> None:
    least, most = _bounds(parameter)
    if least is not None and value < least:
        raise UsageError(
            f"{parameter.named} must be at least {least:g}, not {_short(value)}",
            parameter.arg.help,
        )
    if most is not None and value > most:
        raise UsageError(
            f"{parameter.named} must be at most {most:g}, not {_short(value)}",
            parameter.arg.help,
        )


def _short(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
