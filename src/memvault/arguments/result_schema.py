"""Derive the JSON schema of a result from its type."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from memvault.arguments.parameters import JSON_NAMES


@cache
def result_schema(result_type: Any) -> dict[str, Any]:
    """Return the JSON schema of a tool's result, which always has the key ``success``.

    It allows further keys, because a later version may add some. The schema is cached, because a
    server lists its tools often; do not modify it.
    """
    schema = _schema(result_type)
    return {**schema, "required": ["success", *schema.get("required", ())]}


def _schema(hint: Any) -> dict[str, Any]:
    """Return a type's schema: a JSON type, a list, a dict, a union or a ``TypedDict``."""
    if typing.is_typeddict(hint):
        return _object_schema(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema(part) for part in arguments]}
    kind = origin or hint
    schema: dict[str, Any] = {"type": JSON_NAMES[kind]}
    if kind is list:
        schema["items"] = _schema(arguments[0])
    elif kind is dict and arguments[1] is not Any:
        schema["additionalProperties"] = _schema(arguments[1])
    return schema


def _object_schema(typed_dict: Any) -> dict[str, Any]:
    """Return the schema of a ``TypedDict``; mandatory keys come first."""
    fields: Mapping[str, Any] = typing.get_type_hints(typed_dict)  # unwraps NotRequired
    hints = typing.get_type_hints(typed_dict, include_extras=True)
    # In a module with postponed annotations, __required_keys__ ignores NotRequired.
    required = [
        key
        for key in fields
        if key in typed_dict.__required_keys__
        and typing.get_origin(hints[key]) is not typing.NotRequired
    ]
    keys = [*required, *(key for key in fields if key not in required)]
    schema = {"type": "object", "properties": {key: _schema(fields[key]) for key in keys}}
    return {**schema, "required": required} if required else schema
