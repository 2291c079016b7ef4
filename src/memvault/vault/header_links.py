"""Read the links and names in a header that refer to other memories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SUPERSEDES = "supersedes"
SUPERSEDED_BY = "superseded_by"
LINK_KEYS = (SUPERSEDES, SUPERSEDED_BY, "conflict_with")
"""The header keys whose values refer to other memories."""
_MAX_NAMES = 100
"""Maximum number of names read from one header key."""


def referenced_names(metadata: Mapping[str, Any], key: str) -> list[str]:
    """Return the names at a header key; wikilinks are returned without brackets."""
    value = metadata.get(key)
    if not value:
        return []
    names = (link_target(entry) for entry in _strings_in(value))
    return list(dict.fromkeys(name for name in names if name))


def header_links(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the key and target of each link in a header; in ``LINK_KEYS``, names are links too."""
    for key in dict.fromkeys([*LINK_KEYS, *metadata]):
        if key in LINK_KEYS:
            yield from ((key, name) for name in referenced_names(metadata, key))
            continue
        linked = [text for text in _strings_in(metadata[key]) if is_wikilink(text)]
        yield from ((key, name) for name in referenced_names({key: linked}, key))


def is_wikilink(text: str) -> bool:
    """Return whether a string consists of one wikilink."""
    name = text.strip()
    return name.startswith("[[") and name.endswith("]]") and not set("[]") & set(name[2:-2])


def _strings_in(value: Any, depth: int = 0) -> list[str]:
    """Return the strings in a value; YAML parses an unquoted ``[[link]]`` as nested lists."""
    if isinstance(value, str):
        return [f"[[{value}]]" if depth > 1 else value]
    if not isinstance(value, list):
        return []
    return [text for entry in value[:_MAX_NAMES] for text in _strings_in(entry, depth + 1)][
        :_MAX_NAMES
    ]


def link_target(text: str) -> str:
    """Return the target of a wikilink without its heading and label; other text unchanged."""
    name = text.strip()
    if name.startswith("[[") and name.endswith("]]"):
        name = name[2:-2].partition("|")[0].partition("#")[0].strip()
    return name.removeprefix("./")
