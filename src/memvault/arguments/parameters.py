"""Derive parameters and their JSON schema from a function's signature.

The signature is the only declaration, with an ``Arg`` in the annotation of each parameter.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal

from memvault.errors import UsageError
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

LARGEST = 1e300
MOST_ENTRIES = 5_000
"""Maximum number of entries in a list, which bounds a tool's work."""
JSON_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
"""The JSON name of each type."""


_BULLET = lazy_pattern(r"\A\s*+[-*+•]\s++")
MOST_CHARACTERS = 100_000
"""Maximum length in characters of a string that is not content, such as a query or a name.

The schema omits it, to keep the descriptions that a model reads short.
"""


class CommandLineForm(NamedTuple):
    """How an argument differs on the command line.

    ``read`` converts one word to an object: each word becomes one object of a list argument, or
    adds its keys to an object argument.
    """

    help: str = ""
    read: Callable[[str], Mapping[str, Any]] | None = None
    name: str = ""
    default: object = None


class Arg(NamedTuple):
    """The properties of an argument that its type does not express."""

    help: str
    # Its JSON key; by default the parameter's name in camelCase.
    key: str = ""
    # Its option; by default the key in kebab-case.
    flag: str = ""
    # Whether it is a positional argument of the command.
    positional: bool = False
    # Whether it is optional on the command line although JSON requires it.
    cli_optional: bool = False
    # Whether it is content, which may be ``-`` or ``@file`` and of any length.
    text: bool = False
    # Whether the length is unlimited even if ``text`` is False.
    unbounded: bool = False
    minimum: float | None = None
    maximum: float | None = None
    # The default shown in the schema, if the function computes it.
    default: object = None
    # Whether commas are part of a list's entries on the command line, not separators.
    keep_commas: bool = False
    # An alternative name for its option.
    option_alias: str = ""
    # Other keys that models use for it; each must be unambiguous within its tool.
    json_aliases: tuple[str, ...] = ()
    # Synonyms of its choices, or of some of its values.
    synonyms: Mapping[str, Any] = types.MappingProxyType({})
    # Whether the objects of a list may have further keys.
    extra_keys: bool = False
    # Whether all words of the command are joined into one value, so no quotes are needed.
    join_words: bool = False
    # The kind of value that the shell completes: "memory" (with an optional vault prefix), "type",
    # "tag", "agent", "space" or "file"; "search" also accepts the @NAME of a saved search, and
    # "query" also accepts filters.
    completes: str = ""
    # The placeholder for the value in the help; by default the key.
    metavar: str = ""
    # Whether options set the keys of one object, not a list of objects.
    flatten: bool = False
    cli_override: CommandLineForm | None = None


class Parameter(NamedTuple):
    """One argument of a tool; ``types`` contains its possible JSON types.

    ``items`` contains the keys of the objects in an array; an array without ``items`` contains
    strings, or any values if ``anything`` is set.
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
        """The default that the documentation shows."""
        return self.arg.default if self.default is None else self.default

    @property
    def on_command_line(self) -> tuple[Parameter, ...]:
        """The command-line arguments for this argument."""
        if self.arg.flatten:
            return tuple(part for item in self.items for part in item.on_command_line)
        cli = self.arg.cli_override
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

    def parse_cli(self, cli_values: Mapping[str, Any]) -> Any:
        """Return the argument's value from command-line values; None if it is missing.

        Raises:
            UsageError: a word cannot be parsed, or two words set the same key.
        """
        if self.arg.flatten:
            return [
                {item.key: cli_values[item.name] for item in self.items if item.name in cli_values}
            ]
        cli = self.arg.cli_override or CommandLineForm()
        value = cli_values.get(self.name, cli.default)
        if cli.read is None or value is None:
            return value
        objects = [cli.read(word) for word in value]
        if list in self.types:
            return objects
        keys = [key for entry in objects for key in entry]
        for key in keys:
            if keys.count(key) > 1:
                raise UsageError(f"{self.key} has {key} twice", "pass it only once")
        return {key: value for entry in objects for key, value in entry.items()}

    def entries(self, text: str) -> list[str]:
        """Parse a string's list entries: a JSON list, or else comma-separated parts.

        If entries may contain commas, any other string is one entry. Tags are split by
        ``split_tags``.
        """
        parsed = parse_json(text)
        if isinstance(parsed, list) and all(isinstance(entry, str) for entry in parsed):
            return parsed
        if self.arg.keep_commas or self.arg.positional:
            return [text]
        if self.arg.completes == "tag":
            return split_tags(text)
        return [part.strip() for part in text.split(",") if part.strip()]

    @property
    def metavar(self) -> str:
        """The name of its value in help pages, such as ``MEMORY``."""
        cli = self.arg.cli_override
        key = (
            "memory"
            if self.arg.completes in ("memory", "trash")
            else (cli and cli.name) or self.key
        )
        return self.arg.metavar or kebab(key).upper()

    @property
    def shell_name(self) -> str:
        """Its name on the command line, for messages: the option, or ``metavar`` if positional.

        ``tools.core.messages`` replaces it with the key for callers that use JSON.
        """
        return self.metavar if self.arg.positional else self.flag.partition("/")[0]


def in_file(expected: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    """Return parameters for values read from a file, which messages refer to by key."""
    return tuple(
        entry._replace(
            flag=entry.key, arg=entry.arg._replace(positional=False), items=in_file(entry.items)
        )
        for entry in expected
    )


_NONE: Any = object()
"""Marks a required parameter, because None may be a default."""


@cache
def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Return the arguments that a function declares: its parameters with an ``Arg``."""
    # The result's type is only imported by type checkers.
    annotations = {key: hint for key, hint in function.__annotations__.items() if key != "return"}
    annotated = types.SimpleNamespace(__annotations__=annotations)
    hints = typing.get_type_hints(annotated, function.__globals__, include_extras=True)
    return tuple(
        _parameter(name, hints[name], default)
        for name, default in _defaults(function).items()
        if typing.get_origin(hints[name]) is Annotated
    )


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the default of each parameter, or ``_NONE``; importing inspect would take 6 ms."""
    code, positional = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    with_default = code.co_varnames[code.co_argcount - len(positional) : code.co_argcount]
    values = {**dict(zip(with_default, positional, strict=True)), **(function.__kwdefaults__ or {})}
    return {name: values.get(name, _NONE) for name in names}


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    kind, arg = typing.get_args(hint)[:2]
    key = arg.key or to_camel(name)
    required = default is _NONE
    kinds, choices = _types_and_choices(kind)
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
    """Return the keys of the ``TypedDict`` that is the type of a list's entries."""
    for part in (hint, *typing.get_args(hint)):
        if typing.get_origin(part) is list and typing.is_typeddict(typing.get_args(part)[0]):
            typed_dict = typing.get_args(part)[0]
            fields = typing.get_type_hints(typed_dict, include_extras=True)
            items = []
            for name, field in fields.items():
                optional = typing.get_origin(field) is typing.NotRequired
                inner = typing.get_args(field)[0] if optional else field
                items.append(_parameter(name, inner, None if optional else _NONE))
            return tuple(items)
    return ()


def _types_and_choices(hint: Any) -> tuple[tuple[type, ...], tuple[str, ...]]:
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        kinds: list[type] = []
        choices: tuple[str, ...] = ()
        for part in parts:
            part_types, some = _types_and_choices(part)
            kinds += part_types
            choices += some
        return tuple(kinds), choices
    if origin is Literal:
        return (str,), tuple(typing.get_args(hint))
    return (origin or hint,), ()


def to_camel(name: str) -> str:
    """Return a snake_case name in camelCase."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def kebab(key: str) -> str:
    """Return a JSON key in kebab-case, the spelling of the command line."""
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in key)


def input_schema(expected: tuple[Parameter, ...]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    return _object_schema(expected, False)


def _object_schema(expected: tuple[Parameter, ...], allows_additional: bool) -> dict[str, Any]:
    """Return the JSON schema of an object; ``allows_additional`` permits further keys."""
    properties = {parameter.key: property_schema(parameter) for parameter in expected}
    required = [parameter.key for parameter in expected if parameter.required]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": allows_additional,
    }


def property_schema(parameter: Parameter) -> dict[str, Any]:
    """Return the JSON schema of one argument."""
    names = [JSON_NAMES[kind] for kind in parameter.types]
    entry: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    if "array" in names and not parameter.anything:
        items = parameter.items
        entry["items"] = (
            _object_schema(items, parameter.arg.extra_keys) if items else {"type": "string"}
        )
        entry["maxItems"] = MOST_ENTRIES
    if parameter.choices:
        entry["enum"] = list(parameter.choices)
    minimum, maximum = bounds(parameter)
    if minimum is not None:
        entry["minimum"] = minimum
    if maximum is not None:
        entry["maximum"] = maximum
    default = parameter.known_default
    if default is not None:
        entry["default"] = list(default) if isinstance(default, tuple) else default
    entry["description"] = parameter.arg.help
    return entry


def split_tags(text: str) -> list[str]:
    """Parse a string's tags, one per line or separated by commas; bullets are removed.

    A part in which every word begins with # is also split at spaces. Code fences are ignored.
    """
    tags: list[str] = []
    lines = (_BULLET.sub("", line) for line in text.splitlines() if not line.startswith("```"))
    for part in filter(str.strip, (part for line in lines for part in line.split(","))):
        tag_words = part.split()
        tags += tag_words if all(word.startswith("#") for word in tag_words) else [part.strip()]
    return tags


def parse_json(text: str) -> Any:
    """Return the JSON list or object in a string, with or without a code fence; else None."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json").strip()
    if not text.startswith(("[", "{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_short(parameter: Parameter) -> bool:
    """Return whether the length of a string is limited.

    Content, unbounded arguments and arguments of vault tools have no limit.
    """
    return str in parameter.types and not (
        parameter.arg.text or parameter.arg.unbounded or parameter.anything
    )


def bounds(parameter: Parameter) -> tuple[float | None, float | None]:
    """Return the minimum and maximum of a number; the bounds of a float are always finite."""
    minimum, maximum = parameter.arg.minimum, parameter.arg.maximum
    if float in parameter.types:
        return -LARGEST if minimum is None else minimum, LARGEST if maximum is None else maximum
    return minimum, maximum


def normal_name(name: str) -> str:
    """Return a tool's name in the form used for lookups."""
    return name.strip().lower().replace("-", "_")


def normal_key(key: str) -> str:
    """Return an argument's key in the form used for lookups."""
    return key.replace("_", "").replace("-", "").casefold()
