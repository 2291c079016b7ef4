"""From a tool's signature to its JSON schema, and from given arguments to bound ones."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from memvault.errors import UsageError
from memvault.tools.registry import Arg, Tool

__all__ = ["Parameter", "bind", "input_schema", "kebab", "parameters"]

_LARGEST = 1e300
_JSON_NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


class Parameter(NamedTuple):
    """One argument of a tool: ``kinds`` are the plain types it may have."""

    name: str
    key: str
    flag: str
    kinds: tuple[type, ...]
    choices: tuple[str, ...]
    required: bool
    default: Any
    arg: Arg

    @property
    def named(self) -> str:
        """The key, with the option where that is spelled otherwise, for messages."""
        same = self.arg.positional or self.flag == f"--{kebab(self.key)}"
        return self.key if same else f"{self.key} ({self.flag})"


@cache
def parameters(tool: Tool) -> tuple[Parameter, ...]:
    """Read a tool's arguments off its function; the workspace comes first and is none."""
    hints = typing.get_type_hints(tool.function, include_extras=True)
    found = []
    for name, parameter in list(inspect.signature(tool.function).parameters.items())[1:]:
        hint = hints[name]
        assert typing.get_origin(hint) is Annotated, f"{tool.name}: {name} has no Arg"
        kind, arg = typing.get_args(hint)[:2]
        key = arg.key or _camel(name)
        required = parameter.default is inspect.Parameter.empty
        kinds, choices = _kinds(kind)
        found.append(
            Parameter(
                name,
                key,
                arg.flag or f"--{kebab(key)}",
                kinds,
                choices,
                required,
                None if required else parameter.default,
                arg,
            )
        )
    return tuple(found)


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


def input_schema(tool: Tool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    properties = {parameter.key: _property(parameter) for parameter in parameters(tool)}
    required = [parameter.key for parameter in parameters(tool) if parameter.required]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _property(parameter: Parameter) -> dict[str, Any]:
    names = [_JSON_NAMES[kind] for kind in parameter.kinds]
    entry: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    if "array" in names:
        entry["items"] = {"type": "string"}
    if parameter.choices:
        entry["enum"] = list(parameter.choices)
    if parameter.arg.least is not None:
        entry["minimum"] = parameter.arg.least
    if parameter.arg.most is not None:
        entry["maximum"] = parameter.arg.most
    default = parameter.default if parameter.default is not None else parameter.arg.assumed
    if default is not None:
        entry["default"] = list(default) if isinstance(default, tuple) else default
    entry["description"] = parameter.arg.help
    return entry


def bind(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check arguments against a tool's parameters and name them as the function does.

    Case, underscores and hyphens of keys do not matter.

    Raises:
        UsageError: a key is unknown, given twice or missing, or a value has the wrong type.
    """
    known = {_normal(parameter.key): parameter for parameter in parameters(tool)}
    bound: dict[str, Any] = {}
    for key, value in arguments.items():
        parameter = known.get(_normal(key))
        if parameter is None:
            near = get_close_matches(_normal(key), list(known), n=1, cutoff=0.5)
            names = ", ".join(entry.key for entry in known.values()) or "none"
            raise UsageError(
                f"{tool.name} has no argument {key!r}",
                f"did you mean {known[near[0]].key}?" if near else f"its arguments are {names}",
            )
        if parameter.name in bound:
            raise UsageError(f"{parameter.key} is given twice", "give it once")
        bound[parameter.name] = _checked(parameter, value)
    for parameter in known.values():
        if parameter.required and parameter.name not in bound:
            raise UsageError(f"{tool.name} needs {parameter.key}", parameter.arg.help)
    return bound


def _normal(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


def _checked(parameter: Parameter, value: Any) -> Any:
    """Return a value as the type it is declared with: an integral 3.0 is the integer 3."""
    kinds = parameter.kinds
    if isinstance(value, bool):
        fits = bool in kinds
    elif isinstance(value, float) and int in kinds and value.is_integer():
        value, fits = int(value), True
    elif isinstance(value, int | float) and float in kinds:
        fits = abs(value) <= _LARGEST
        value = float(value) if fits else value
    else:
        fits = isinstance(value, tuple(kind for kind in kinds if kind is not bool) or ())
    if fits and isinstance(value, list):
        fits = all(isinstance(entry, str) for entry in value)
    if not fits:
        wanted = " or ".join(_JSON_NAMES[kind] for kind in kinds)
        wanted += " of strings" if list in kinds else ""
        article = "an" if wanted[0] in "aio" else "a"
        raise UsageError(
            f"{parameter.named} must be {article} {wanted}, not {_shown(value)}", parameter.arg.help
        )
    if parameter.choices and isinstance(value, str):
        lowered = {choice.lower(): choice for choice in parameter.choices}
        if value.lower() not in lowered:
            raise UsageError(
                f"{parameter.named} must be one of {', '.join(parameter.choices)}, not {value!r}",
                parameter.arg.help,
            )
        value = lowered[value.lower()]
    if isinstance(value, int | float) and not isinstance(value, bool):
        _in_range(parameter, value)
    return value


def _in_range(parameter: Parameter, value: float) -> None:
    least, most = parameter.arg.least, parameter.arg.most
    if least is not None and value < least:
        raise UsageError(
            f"{parameter.named} must be at least {least:g}, not {_shown(value)}", parameter.arg.help
        )
    if most is not None and value > most:
        raise UsageError(
            f"{parameter.named} must be at most {most:g}, not {_shown(value)}", parameter.arg.help
        )


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
