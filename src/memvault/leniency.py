"""What a tool takes beyond its schema: what models really send, where it can mean one thing only.

The table is all there is: arguments are read by it, the reference prints it, and a property
test holds every value that is taken against the schema and against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from memvault.schema import Parameter

_NUMBER = re.compile(r"\s*-?\d{1,15}(\.\d{1,15})?\s*", re.ASCII)
_LARGEST_TEXT = 2**53
"""What a JSON number is exact up to; a larger one may not be what was meant."""
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
NO_MATCH = object()
"""What stands for a value that an entry does not read."""


class Leniency(NamedTuple):
    """What is taken, what it means, and a function that returns the meaning or ``UNREAD``.

    ``None`` as a meaning is an argument that was left out.
    """

    taken: str
    meaning: str
    read: Callable[[Parameter, Any], Any]


def coerce(parameter: Parameter, value: Any) -> Any:
    """Return what a value means that the schema does not allow, or ``UNREAD``."""
    for entry in LENIENCIES:
        found = entry.read(parameter, value)
        if found is not NO_MATCH:
            return found
    return NO_MATCH


def _absent(parameter: Parameter, value: Any) -> Any:
    return None if value is None and not parameter.required else NO_MATCH


def _choice(parameter: Parameter, value: Any) -> Any:
    known = {str(choice).lower(): choice for choice in parameter.choices}
    return known.get(value.lower(), NO_MATCH) if isinstance(value, str) else NO_MATCH


def _number(parameter: Parameter, value: Any) -> Any:
    if not {int, float} & {*parameter.types} or not isinstance(value, str):
        return NO_MATCH
    if not _NUMBER.fullmatch(value):
        return NO_MATCH
    return float(value) if "." in value else int(value)


def _flag(parameter: Parameter, value: Any) -> Any:
    if parameter.types != (bool,) or not isinstance(value, str | int):
        return NO_MATCH
    return _FLAGS.get(str(value).strip().lower(), NO_MATCH)


def _text(parameter: Parameter, value: Any) -> Any:
    if str in parameter.types and not parameter.choices:
        return str(value) if _is_whole(value) else NO_MATCH
    if _holds_texts(parameter) and isinstance(value, list):
        texts = [str(entry) if _is_whole(entry) else entry for entry in value]
        return texts if texts != value else NO_MATCH
    return NO_MATCH


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) <= _LARGEST_TEXT


def _holds_texts(parameter: Parameter) -> bool:
    return list in parameter.types and not parameter.items and not parameter.anything


def _as_json(parameter: Parameter, value: Any) -> Any:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return NO_MATCH
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return NO_MATCH
    fits = type(found) in parameter.types or (parameter.items and isinstance(found, dict))
    return found if fits else NO_MATCH


def _one_text(parameter: Parameter, value: Any) -> Any:
    if not _holds_texts(parameter) or not isinstance(value, str):
        return NO_MATCH
    return parameter.entries(value) if value.strip() else []


def _one_object(parameter: Parameter, value: Any) -> Any:
    return [value] if parameter.items and isinstance(value, dict) else NO_MATCH


LENIENCIES = (
    Leniency("`null` for an argument that may be left out", "that it is left out", _absent),
    Leniency("a choice in another case, as `Keyword`", "the choice, `keyword`", _choice),
    Leniency('a number written as a text, as `"3"` or `"0.5"`', "the number", _number),
    Leniency(
        '`"true"` or `"false"` in any case, `1` or `0`, for true or false', "true or false", _flag
    ),
    Leniency("a whole number for a text, as `5432`", 'the text, `"5432"`', _text),
    Leniency(
        'a list or an object written as a text of JSON, as `"[\\"a\\", \\"b\\"]"`',
        "the list or the object",
        _as_json,
    ),
    Leniency(
        "one text for a list of texts",
        'a list of it; `"a,b"` is two where no entry can hold a comma, as in tags',
        _one_text,
    ),
    Leniency("one object for a list of objects", "a list of it", _one_object),
)
"""Every leniency, in the order in which they are tried; what the schema allows comes before."""
