"""What a memory's header says that it replaces, and by which names that one may be called.

A name is a memId, a path, a title, an alias or a wikilink, as a person writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memvault.vault.normal_form import normalize_title

SUPERSEDES = "supersedes"
SUPERSEDED_BY = "superseded_by"
_MOST = 100
"""Names that one header's key is read for."""


def referenced_names(metadata: Mapping[str, Any], key: str) -> list[str]:
    """Return the names that a header has under a key, links without their brackets."""
    value = metadata.get(key)
    found = (_linked(entry) for entry in _flat(value))
    return list(dict.fromkeys(name for name in found if name))


def _flat(value: Any, depth: int = 0) -> list[str]:
    """Return the texts of a value; YAML reads ``[[link]]`` without quotes as a list in a list."""
    if isinstance(value, str):
        return [f"[[{value}]]" if depth > 1 else value]
    if not isinstance(value, list):
        return []
    return [text for entry in value[:_MOST] for text in _flat(entry, depth + 1)][:_MOST]


def _linked(text: str) -> str:
    """Return what a wikilink names, without its heading and what it shows; other text as it is."""
    name = text.strip()
    if name.startswith("[[") and name.endswith("]]"):
        name = name[2:-2].partition("|")[0].partition("#")[0].strip()
    return name.removeprefix("./")


def name_key(name: str) -> str:
    """Return a name as an index keeps it: whatever its case, and without ``.md``."""
    key = name.lower()
    if not name.isascii():
        key = normalize_title(name).encode("utf-8", "replace").decode()  # as SQLite can keep it
    return key.removesuffix(".md") if len(key) > len(".md") else key


def name_keys(path: str, mem_id: str, title: str, aliases: Iterable[str]) -> list[str]:
    """Return every name that a header may call a memory by, as an index keeps them."""
    file = path.rpartition("/")[2]
    return list(dict.fromkeys(map(name_key, (mem_id, path, title, file, *aliases))))
