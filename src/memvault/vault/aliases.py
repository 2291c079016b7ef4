"""The alias by which Obsidian finds a memory from its title.

Obsidian resolves ``[[Title]]`` by a file's name or by one of its aliases. Files are
named by a slug, so the title is an alias wherever the file's name does not say it.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from memvault.model import Memory
from memvault.vault.normal_form import normalize_title


def of_new(title: str, stem: str, given: Any) -> dict[str, list[Any]]:
    """Return the aliases of a new memory's header: its title where it has to be, and others."""
    others = given if isinstance(given, list) else [given] if given else []
    if _is_needed(title, stem):
        others = [title, *(name for name in others if name != title)]
    return {"aliases": others} if others else {}


def retitled(memory: Memory, title: str) -> dict[str, list[Any]]:
    """Return what changes in a memory's header besides when it gets another title.

    The alias that is its old title becomes the new one; other aliases stay.
    """
    given = memory.metadata.get("aliases")
    old: list[Any] = given if isinstance(given, list) else [given] if given else []
    new = [name for name in old if not (isinstance(name, str) and _same(name, memory.title))]
    if _is_needed(title, PurePosixPath(memory.path).stem):
        new = [title, *(name for name in new if name != title)]
    return {"aliases": new} if new != old else {}


def _is_needed(title: str, stem: str) -> bool:
    """Say whether a file's name is not the title; a title with a secret is not said twice."""
    from memvault.secrets_found.detect import masked

    return not _same(title, stem) and masked(title) == title


def _same(name: str, other: str) -> bool:
    return normalize_title(" ".join(name.split())) == normalize_title(other)
