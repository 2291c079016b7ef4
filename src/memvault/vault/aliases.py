"""Derive a memory's aliases from its title and file name."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from memvault.model import Memory
from memvault.vault.names import normalize_title


def aliases_for_new(title: str, stem: str, aliases: Any) -> dict[str, list[Any]]:
    """Return the aliases of a new memory's header: the given ones, and the title if needed."""
    others = aliases if isinstance(aliases, list) else [aliases] if aliases else []
    if _needs_alias(title, stem):
        others = [title, *(name for name in others if name != title)]
    return {"aliases": others} if others else {}


def aliases_after_rename(
    memory: Memory, title: str, keep_old: bool = False
) -> dict[str, list[Any]]:
    """Return the changes to a memory's header required by a new title.

    An alias equal to the old title is replaced by the new title; other aliases are kept. With
    ``keep_old``, the old title becomes the last alias, unless it contains a secret.
    """
    aliases = memory.metadata.get("aliases")
    old: list[Any] = aliases if isinstance(aliases, list) else [aliases] if aliases else []
    replaced = (memory.title, title)
    new = [
        name
        for name in old
        if not (isinstance(name, str) and any(_is_same_title(name, other) for other in replaced))
    ]
    if _needs_alias(title, PurePosixPath(memory.path).stem):
        new = [title, *new]
    if keep_old and _needs_alias(memory.title, title):
        new = [*new, memory.title]
    return {"aliases": new} if new != old else {}


def _needs_alias(title: str, stem: str) -> bool:
    """Return whether a title needs an alias: it differs from the file name and has no secrets."""
    from memvault.secrets.detector import masked

    return not _is_same_title(title, stem) and masked(title) == title


def _is_same_title(name: str, other: str) -> bool:
    return normalize_title(" ".join(name.split())) == normalize_title(other)
