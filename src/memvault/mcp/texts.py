"""Results as text for a model, in lines instead of JSON.

Many clients pass a model only this text, others only the structured content. So the text omits
only what no model needs: for each memory in a list the seconds, empty values, and the date of
creation if there is one of modification.

A text from the vault follows its key on the same line, or is indented below it, so that no line
of it can be mistaken for one of the result itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memvault import sanitize

_INDENT = "  "
_MINUTE_LENGTH = len("2026-01-31T12:00")


def text(found: Mapping[str, Any]) -> str:
    """Return a result as lines; ``success`` is omitted if true."""
    shown = {key: value for key, value in found.items() if (key, value) != ("success", True)}
    return "\n".join(_entries(shown, "")) or "Done"


def _entries(found: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for key, value in found.items():
        yield from _entry(f"{indent}{sanitize.escape_line(str(key))}:", value, indent + _INDENT)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    """Yield the lines of a key or dash with its value, on the same line or indented below."""
    inline = _inline(value)
    if inline is not None:
        yield f"{head} {inline}"
        return
    yield head
    if isinstance(value, str):
        yield from (
            f"{indent}{line}".rstrip()
            for line in sanitize.escape_text(value.strip("\n")).split("\n")
        )
    elif isinstance(value, Mapping):
        yield from _entries(value, indent)
    else:
        yield from _items(value, indent)


def _items(found: Sequence[Any], indent: str) -> Iterator[str]:
    for value in found:
        fields = _relevant_fields(value) if isinstance(value, Mapping) else {}
        if fields:
            first, *rest = _entries(fields, indent)
            yield f"{indent[:-2]}- {first[len(indent) :]}"
            yield from rest
        else:
            yield from _entry(f"{indent[:-2]}-", value, indent + _INDENT)


def _relevant_fields(record: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the fields of a record in a list that a model needs."""
    fields = {key: value for key, value in record.items() if value not in ("", [], {}, None)}
    if isinstance(fields.get("modified"), str):
        fields.pop("created", None)
        fields["modified"] = fields["modified"][:_MINUTE_LENGTH]
    return fields


def _inline(value: Any) -> str | None:
    """Return a value as text that fits on its key's line, or None if it needs its own lines."""
    if isinstance(value, str):
        return None if "\n" in value else sanitize.escape_line(value) or '""'
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and not value):
        return None if value else json.dumps(value)
    if isinstance(value, list | tuple):
        is_plain = all(
            isinstance(part, str) and "\n" not in part and "," not in part for part in value
        )
        return ", ".join(sanitize.escape_line(part) or '""' for part in value) if is_plain else None
    return json.dumps(value)
