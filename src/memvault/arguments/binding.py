"""Validate the arguments of a call, and map JSON keys to the names of parameters."""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from memvault.arguments.parameters import (
    JSON_NAMES,
    LARGEST,
    MOST_CHARACTERS,
    MOST_ENTRIES,
    Parameter,
    bounds,
    is_short,
    normal_key,
    parse_json,
)
from memvault.errors import UsageError, closest, suggestion
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_NUMBER = lazy_pattern(r"\s*-?\d{1,15}(\.\d{1,15})?\s*", re.ASCII)
_MARKER = lazy_pattern(r"([-*+]|\d{1,9}[.)])\s")
"""Matches the start of a markdown list item."""
_MAX_EXACT_INT = 2**53
"""The largest integer that every JSON parser represents exactly."""
FLAGS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
"""The words for true and false, in lower case."""
MOST_BYTES = 64 * 1024 * 1024
"""Maximum size in bytes of a file or input for an argument; memories have the same limit."""
NO_MATCH = object()
"""Returned by a coercion that does not apply to a value."""


class Coercion(NamedTuple):
    """A lenient conversion of a value.

    ``accepts`` describes the input, and ``becomes`` the result, both for the documentation.
    ``convert`` returns the intended value, None for a missing argument, or ``NO_MATCH``; it raises
    ``UsageError`` for an invalid string in command-line form.
    """

    accepts: str
    becomes: str
    convert: Callable[[Parameter, Any], Any]


def coerce(parameter: Parameter, value: Any) -> Any:
    """Return the intended value for a value that the schema rejects, or ``NO_MATCH``.

    Raises:
        UsageError: a string in command-line form is invalid.
    """
    for entry in COERCIONS:
        result = entry.convert(parameter, value)
        if result is not NO_MATCH:
            return result
    return NO_MATCH


def _absent(parameter: Parameter, value: Any) -> Any:
    return None if value is None and not parameter.required else NO_MATCH


def _choice(parameter: Parameter, value: Any) -> Any:
    choices_by_text = {str(choice).lower(): choice for choice in parameter.choices}
    choices_by_text |= parameter.arg.synonyms
    if not isinstance(value, str | bool):
        return NO_MATCH
    return choices_by_text.get(str(value).strip().lower(), NO_MATCH)


def _number(parameter: Parameter, value: Any) -> Any:
    if not {int, float} & {*parameter.types} or not isinstance(value, str):
        return NO_MATCH
    if not _NUMBER.fullmatch(value):
        return NO_MATCH
    return float(value) if "." in value else int(value)


def _flag(parameter: Parameter, value: Any) -> Any:
    if bool not in parameter.types or not isinstance(value, str | int):
        return NO_MATCH
    return FLAGS.get(str(value).strip().lower(), NO_MATCH)


def _text(parameter: Parameter, value: Any) -> Any:
    if str in parameter.types and not parameter.choices:
        return str(value) if _is_exact_int(value) else NO_MATCH
    if _holds_texts(parameter) and isinstance(value, list):
        texts = [str(entry) if _is_exact_int(entry) else entry for entry in value]
        return texts if texts != value else NO_MATCH
    return NO_MATCH


def _is_exact_int(value: Any) -> bool:
    return type(value) is int and abs(value) <= _MAX_EXACT_INT


def _holds_texts(parameter: Parameter) -> bool:
    return list in parameter.types and not parameter.items and not parameter.anything


def _as_json(parameter: Parameter, value: Any) -> Any:
    parsed = parse_json(value) if isinstance(value, str) else None
    if parsed is None:
        return NO_MATCH
    fits = type(parsed) in parameter.types or (parameter.items and isinstance(parsed, dict))
    return parsed if fits else NO_MATCH


def _as_command(parameter: Parameter, value: Any) -> Any:
    read = (
        parameter.arg.cli_override.read if parameter.arg.cli_override and parameter.items else None
    )
    entries = [value] if isinstance(value, str) else value
    if read is None or not isinstance(entries, list):
        return NO_MATCH
    if not any(isinstance(entry, str) for entry in entries):
        return NO_MATCH
    return [read(entry) if isinstance(entry, str) else entry for entry in entries]


def _one_text(parameter: Parameter, value: Any) -> Any:
    if not _holds_texts(parameter) or not isinstance(value, str):
        return NO_MATCH
    return parameter.entries(value) if value.strip() else []


def _pairs(parameter: Parameter, value: Any) -> Any:
    keys = [item.key for item in parameter.items]
    if keys != ["key", "value"] or not isinstance(value, dict):
        return NO_MATCH
    entry_keys = {normal_key(str(key)) for key in value}
    names = [{item.key, *map(normal_key, item.arg.json_aliases)} for item in parameter.items]
    # The value may be a single entry rather than a mapping of keys to values.
    if entry_keys & {*keys} or all(entry_keys & item_names for item_names in names):
        return NO_MATCH
    return [{"key": key, "value": entry} for key, entry in value.items()]


def _lines(parameter: Parameter, value: Any) -> Any:
    if not parameter.arg.text or parameter.types != (str,) or not isinstance(value, list):
        return NO_MATCH
    if not value or not all(isinstance(entry, str) for entry in value):
        return NO_MATCH
    return "\n".join(entry if _MARKER.match(entry) else f"- {entry}" for entry in value)


def _one_object(parameter: Parameter, value: Any) -> Any:
    return [value] if parameter.items and isinstance(value, dict) else NO_MATCH


COERCIONS = (
    Coercion("`null` for an optional argument", "absent", _absent),
    Coercion(
        "a choice in another case, such as `Keyword`, or under another common name, such as `warn`",
        "the choice, `keyword` or `warning`",
        _choice,
    ),
    Coercion('a number as a string, such as `"3"` or `"0.5"`', "the number", _number),
    Coercion(
        '`"true"`, `"t"`, `"yes"`, `"y"`, `"on"` or `1` for true, '
        '`"false"`, `"f"`, `"no"`, `"n"`, `"off"` or `0` for false, ignoring case',
        "true or false",
        _flag,
    ),
    Coercion("an integer for a string, such as `5432`", 'the string `"5432"`', _text),
    Coercion(
        'a list or an object as a JSON string, such as `"[\\"a\\", \\"b\\"]"`, '
        "even in a fenced code block",
        "the list or the object",
        _as_json,
    ),
    Coercion(
        "a string in command-line form for an object in a list, such as `agent:bob`, "
        "`failed:no disk` or `port=5432`",
        "the object",
        _as_command,
    ),
    Coercion(
        "one string for a list of strings",
        'a list with that string; `"a,b"` becomes two entries if entries cannot contain commas, '
        'as in tags; the tags `"#a #b"` also become two, and `"a b"` one',
        _one_text,
    ),
    Coercion(
        'an object of keys and values for a list of pairs, such as `{"port": "5432"}`',
        'the list, `[{"key": "port", "value": "5432"}]`',
        _pairs,
    ),
    Coercion(
        "a list of strings where markdown is expected", "a markdown list of these strings", _lines
    ),
    Coercion("one object for a list of objects", "a list with that object", _one_object),
)
"""All coercions, in the order in which they are tried on a value that the schema rejects."""


_MAX_COMPARED_KEY = 100
"""Maximum number of characters of an unknown key to compare with the known keys."""
_MIN_PREFIX = 3
_MIN_SIMILARITY = 0.7
"""Minimum similarity of a suggested key; below it, all keys are listed."""
_CLIENT_KEYS = frozenset(("action", "chatinput", "randomstring", "sessionid", "tool", "toolcallid"))
"""Normalized keys that clients add to the arguments of every tool."""
_MAX_IGNORED = 8
"""Maximum number of ignored keys to list in a note."""


def bind(
    expected: tuple[Parameter, ...], arguments: Mapping[str, Any], whose: str
) -> dict[str, Any]:
    """Validate JSON arguments, and return them by the names of the function's parameters.

    ``whose`` is the tool's name in messages. Case, underscores and hyphens in keys are ignored; a
    key may be an alias of an argument.

    Raises:
        UsageError: a key is unknown, given twice or missing, or a value is invalid.
    """
    return check(expected, by_name(expected, arguments, whose), whose)


def by_name(
    expected: tuple[Parameter, ...],
    arguments: Mapping[str, Any],
    whose: str,
    ignored: list[str] | None = None,
) -> dict[str, Any]:
    """Return JSON arguments under the names of their parameters.

    With ``ignored``, the arguments come from a client that may add its own: unknown keys are
    appended to it unless they resemble an argument, and the string ``null`` means that an optional
    argument is missing.

    Raises:
        UsageError: a key is unknown or given twice.
    """
    if ignored is not None:
        arguments = _without_additions(expected, arguments, ignored)
    parameters_by_key = {normal_key(parameter.key): parameter for parameter in expected}
    named: dict[str, Any] = {}
    for key, value in arguments.items():
        normal = normal_key(str(key))
        parameter = parameters_by_key.get(normal) or _by_alias(normal, expected)
        if parameter is None:
            nearest = _nearest(normal, parameters_by_key)
            names = ", ".join(entry.key for entry in parameters_by_key.values())
            valid = f"valid arguments: {names}" if names else "it takes no arguments"
            raise UsageError(
                f"{whose} has no argument {_shorten(key)}",
                f"did you mean {nearest}?" if nearest else valid,
            )
        if named.get(parameter.name) is None:
            named[parameter.name] = value
        elif value is not None:
            raise UsageError(f"`{parameter.shell_name}` is given twice", "pass it only once")
    return named


def check(expected: tuple[Parameter, ...], named: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """Return values by parameter name in their declared types; None means missing.

    Raises:
        UsageError: a value is invalid, a required value is missing, or a name is unknown.
    """
    parameters = {parameter.name: parameter for parameter in expected}
    checked: dict[str, Any] = {}
    for name, value in named.items():
        if name not in parameters:
            raise UsageError(f"{whose} has no argument {_shorten(name)}")
        converted = _check_value(parameters[name], value)
        if converted is not None:
            checked[name] = converted
    for parameter in expected:
        if parameter.required and parameter.name not in checked:
            raise UsageError(f"{whose} needs `{parameter.shell_name}`", parameter.arg.help)
    return checked


def _without_additions(
    expected: tuple[Parameter, ...], arguments: Mapping[str, Any], ignored: list[str]
) -> dict[str, Any]:
    """Return the arguments without keys added by a client; append these keys to ``ignored``."""
    parameters_by_key = {normal_key(parameter.key): parameter for parameter in expected}
    given_keys = {normal_key(key) for key in arguments} & parameters_by_key.keys()
    accepted = {}
    for key, value in arguments.items():
        normal = normal_key(key)
        parameter = parameters_by_key.get(normal)
        if parameter is None:
            parameter = _by_alias(normal, expected)
            near = parameter.key if parameter else _nearest(normal, parameters_by_key)
            is_added = normal in _CLIENT_KEYS or key.startswith(("_", "$"))
            is_unknown = parameter is None and (is_added or (normal and not near))
            # A key that clients add may be an alias of an argument, unless that argument is also
            # given.
            if is_unknown or (is_added and normal_key(near) in given_keys):
                ignored.append(key)
                continue
        if parameter is None or not _is_null(parameter, value):
            accepted[key] = value
    return accepted


def _is_null(parameter: Parameter, value: Any) -> bool:
    """Return whether a value is the string ``null`` for a missing optional argument.

    In queries, markdown and the arguments of a vault's tool, ``null`` is an ordinary word.
    """
    if parameter.required or not isinstance(value, str) or value.strip() != "null":
        return False
    is_word = str in parameter.types and not is_short(parameter)
    return not is_word and parameter.arg.completes not in ("query", "search")


def ignored_note(whose: str, ignored: list[str]) -> str:
    """Return the note about arguments that a tool does not have."""
    shown = ", ".join(map(_shorten, ignored[:_MAX_IGNORED]))
    omitted_count = len(ignored) - _MAX_IGNORED
    others = f" and {omitted_count} more" if omitted_count > 0 else ""
    noun = "argument" if len(ignored) == 1 else "arguments"
    return f"ignored unknown {noun} of {whose}: {shown}{others}"


def _check_entry(parameter: Parameter, entry: Mapping[str, Any], whose: str) -> dict[str, Any]:
    """Return one object of a list with checked values.

    Raises:
        UsageError: a key is unknown, a value is invalid, or a required value is missing.
    """
    if not parameter.arg.extra_keys:
        return bind(parameter.items, entry, whose)
    items = {_used_key(item, entry): item for item in parameter.items}
    extra = {key: value for key, value in entry.items() if key not in items}
    named = {item.name: entry[key] for key, item in items.items() if key in entry}
    return {**extra, **check(parameter.items, named, whose)}


def _by_alias(key: str, expected: tuple[Parameter, ...]) -> Parameter | None:
    """Return the parameter that has this normalized key as an alias, or None."""
    for parameter in expected:
        if key in map(normal_key, parameter.arg.json_aliases):
            return parameter
    return None


def _used_key(parameter: Parameter, arguments: Mapping[str, Any]) -> str:
    """Return the key or alias that an object uses for a parameter; by default the key."""
    names = (parameter.key, *parameter.arg.json_aliases)
    return next((name for name in names if name in arguments), parameter.key)


def _nearest(key: str, parameters_by_key: Mapping[str, Parameter]) -> str:
    """Return the most similar argument for an unknown key, by option, prefix or spelling."""
    key = key[:_MAX_COMPARED_KEY]
    if key == "memory":  # Do not suggest the memory type.
        parameters_by_key = {
            name: entry for name, entry in parameters_by_key.items() if name != "memorytype"
        }
    options = {normal_key(entry.flag.strip("-")): entry.key for entry in parameters_by_key.values()}
    is_long = len(key) >= _MIN_PREFIX
    by_prefix = [
        entry.key for name, entry in parameters_by_key.items() if is_long and name.startswith(key)
    ]
    match = parameters_by_key.get(closest(key, parameters_by_key, cutoff=_MIN_SIMILARITY))
    by_spelling = [match.key] if match else []
    return next(iter([*filter(None, [options.get(key)]), *by_prefix, *by_spelling]), "")


def _check_value(parameter: Parameter, value: Any) -> Any:
    """Return a value in its declared type, after checking its length, choices and range.

    None means that the argument is missing.
    """
    if is_short(parameter):
        _check_length(parameter, value)
    value = _convert(parameter, value)
    if isinstance(value, list) and not parameter.anything:
        for entry in value:
            _check_length(parameter, entry)
    if parameter.choices and value is not None:
        value = _match_choice(parameter, value)
    elif isinstance(value, str):
        value = parameter.arg.synonyms.get(value.strip().lower(), value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_range(parameter, value)
    if parameter.items and isinstance(value, list):
        return [
            _check_entry(parameter, entry, f"entry {number} of `{parameter.shell_name}`")
            for number, entry in enumerate(value, 1)
        ]
    return value


def _convert(parameter: Parameter, value: Any) -> Any:
    """Return a value in its declared type, applying a coercion if needed."""
    try:
        return check_type(parameter, value)
    except UsageError:
        # Lenient parsing is tried only if a value doesn't validate.
        coerced = coerce(parameter, value)
        if coerced is NO_MATCH:
            raise
        return coerced if coerced is None else _convert(parameter, coerced)


def check_type(parameter: Parameter, value: Any) -> Any:
    """Return a value in its declared type; an integral 3.0 is converted to the integer 3.

    Raises:
        UsageError: the value has another type, or is a list with too many entries.
    """
    kinds = parameter.types
    if isinstance(value, bool):
        fits = bool in kinds
    elif isinstance(value, int) and int in kinds:
        fits = True
    elif isinstance(value, float) and int in kinds and value.is_integer():
        value, fits = int(value), True
    elif isinstance(value, int | float) and float in kinds:
        fits = abs(value) <= LARGEST
        value = float(value) if fits else value
    else:
        fits = isinstance(value, tuple(kind for kind in kinds if kind is not bool) or ())
    if fits and isinstance(value, list) and not parameter.anything:
        if len(value) > MOST_ENTRIES:
            raise UsageError(
                f"`{parameter.shell_name}` has {len(value):,} entries; "
                f"the maximum is {MOST_ENTRIES:,}",
                "split it into several calls",
            )
        fits = all(isinstance(entry, dict if parameter.items else str) for entry in value)
    if not fits:
        expected = " or ".join(JSON_NAMES[kind] for kind in kinds)
        if list in kinds and not parameter.anything:
            expected += " of objects" if parameter.items else " of strings"
        article = "an" if expected[0] in "aio" else "a"
        raise UsageError(
            f"`{parameter.shell_name}` must be {article} {expected}, not {_shorten(value)}",
            parameter.arg.help,
        )
    return value


def _check_length(parameter: Parameter, value: object) -> None:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise UsageError(
            f"`{parameter.shell_name}` has {len(value):,} characters; "
            f"the maximum is {MOST_CHARACTERS:,}",
            parameter.arg.help,
        )


def _match_choice(parameter: Parameter, value: Any) -> Any:
    """Return the choice that a value denotes."""
    if value in parameter.choices or (not isinstance(value, str) and str in parameter.types):
        return value

    coerced = coerce(parameter, value)
    if coerced is not NO_MATCH:
        return coerced
    names = [str(choice) for choice in parameter.choices]
    raise UsageError(
        f"`{parameter.shell_name}` must be one of {', '.join(names)}, not {_shorten(value)}",
        suggestion(str(value).lower(), names, parameter.arg.help),
    )


def _check_range(parameter: Parameter, value: float) -> None:
    minimum, maximum = bounds(parameter)
    if minimum is not None and value < minimum:
        raise UsageError(
            f"`{parameter.shell_name}` must be at least {minimum:g}, not {_shorten(value)}",
            parameter.arg.help,
        )
    if maximum is not None and value > maximum:
        raise UsageError(
            f"`{parameter.shell_name}` must be at most {maximum:g}, not {_shorten(value)}",
            parameter.arg.help,
        )


def _shorten(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:  # an integer too long to convert
        text = "a number with thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_input(name: str, hint: str) -> bytes:
    """Read a file, or standard input for ``-``.

    Raises:
        UsageError: the input cannot be read, or is larger than a memory may be.
    """
    try:
        if name == "-":
            if sys.stdin is None:
                raise OSError(errno.EBADF, "Standard input is closed")
            return read_stream(sys.stdin.buffer, "Standard input")
        with open(name, "rb") as file:
            return read_stream(file, name)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{name} cannot be read: {reason}", hint) from error


def read_stream(stream: BinaryIO, name: str) -> bytes:
    """Read a stream to its end; an endless stream is an error.

    Raises:
        UsageError: the input is larger than a memory may be.
    """
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{name} is larger than {MOST_BYTES >> 20} MB", "split it into smaller files"
        )
    return data


def read_json(text: str, what: str, hint: str) -> Any:
    """Parse a JSON argument; ``what`` begins the message, for example ``The outcome is``.

    Raises:
        UsageError: the text is not valid JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} not JSON: {error}", hint) from error


def read_object(text: str, what: str, hint: str) -> dict[str, Any]:
    """Parse a JSON argument that must be an object; an empty text is an empty object.

    Raises:
        UsageError: the text is not valid JSON, or not an object.
    """
    value = read_json(text.strip() or "{}", what, hint)
    if not isinstance(value, dict):
        raise UsageError(f"{what} not a JSON object", hint)
    return value
