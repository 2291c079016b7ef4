"""A result as text for a model: all that it needs of it, in lines instead of JSON.

Many clients hand a model this text and nothing else, others the structured content and no text.
So the text leaves out only what none needs: of each memory in a list the seconds and what is
empty, and when it was made where it says when it was changed.

What a text from the vault says stands behind its key on one line, or below it and further in,
so that no line of it can be taken for one of the result's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memvault import sanitize

_IN = "  "
_MINUTE = len("2026-01-31T12:00")


def text(found: Mapping[str, Any]) -> str:
    """Return a result as lines; that it succeeded goes without saying."""
    shown = {key: value for key, value in found.items() if (key, value) != ("success", True)}
    return "\n".join(_entries(shown, "")) or "Done"


def _entries(found: Mapping[Any, Any], indent: str) -> Iterator[str]:
    for key, value in found.items():
        yield from _entry(f"{indent}{sanitize.escape_line(str(key))}:", value, indent + _IN)


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    """Give what stands behind a key or a dash, on its line or below it."""
    flat = _flat(value)
    if flat is not None:
        yield f"{head} {flat}"
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
        kept = _kept(value) if isinstance(value, Mapping) else {}
        if kept:
            first, *rest = _entries(kept, indent)
            yield f"{indent[:-2]}- {first[len(indent) :]}"
            yield from rest
        else:
            yield from _entry(f"{indent[:-2]}-", value, indent + _IN)


def _kept(record: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return what a model needs of one record in a list."""
    kept = {key: value for key, value in record.items() if value not in ("", [], {}, None)}
    if isinstance(kept.get("modified"), str):
        kept.pop("created", None)
        kept["modified"] = kept["modified"][:_MINUTE]
    return kept


def _flat(value: Any) -> str | None:
    """Return what fits behind a key on its line, or None where it takes lines of its own."""
    if isinstance(value, str):
        return None if "\n" in value else sanitize.escape_line(value) or '""'
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and not value):
        return None if value else json.dumps(value)
    if isinstance(value, list | tuple):
        plain = all(
            isinstance(part, str) and "\n" not in part and "," not in part for part in value
        )
        return ", ".join(sanitize.escape_line(part) or '""' for part in value) if plain else None
    return json.dumps(value)
