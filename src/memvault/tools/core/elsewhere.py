"""A memory of another vault, named with that vault: ``work:use-postgresql-7k2m9q``.

A tool that is given such a name runs in that vault, and in no other at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import locate
from memvault.call import Caller
from memvault.errors import UsageError
from memvault.tools.core.registry import Tool

NAMING = frozenset(("memId", "id", "ids", "factId", "episodeId", "supersedes", "filePath", "query"))
"""The keys of arguments that may name a memory."""
_WORDS = frozenset(("memory_compound", "memory_forget"))
"""The tools whose query is a memory's name first, and words to look for after that."""


class VaultTarget(NamedTuple):
    """Another vault, by its name, and the arguments as it knows them."""

    vault: str
    root: Path
    bound: dict[str, Any]


def resolve_vault(
    tool: Tool, bound: Mapping[str, Any], caller: Caller, here: Path
) -> VaultTarget | None:
    """Return the vault that a call's arguments name, which may be the one that is ``here``.

    None where they name none.

    Raises:
        UsageError: they name several.
        VaultNotFound: it is no longer there.
    """
    naming = {
        parameter.name
        for parameter in tool.parameters
        if parameter.key in NAMING and (parameter.key != "query" or tool.name in _WORDS)
    }
    given = {name: bound[name] for name in naming if bound.get(name)}
    if not any(":" in text for value in given.values() for text in _texts(value)):
        return None
    known = _known(caller, here)
    parts = {text: _parted(text, known) for value in given.values() for text in _texts(value)}
    if all(rest == text for text, (_, rest) in parts.items()):
        return None
    vaults = sorted({vault for vault, _ in parts.values()} - {locate.THIS}) or [locate.THIS]
    if len({known[vault] for vault, _ in parts.values()}) > 1:
        is_here = any(vault == locate.THIS for vault, _ in parts.values())
        raise UsageError(
            f"These are memories of several vaults: {', '.join(vaults)}{' and this one' * is_here}",
            "name those of one vault at a time",
        )
    vault = vaults[0]
    own = {
        name: [parts[text][1] for text in value] if isinstance(value, list) else parts[value][1]
        for name, value in given.items()
    }
    return VaultTarget(vault, known[vault], {**bound, **own})


def split_vault_prefix(text: str, caller: Caller, here: Path) -> tuple[Path, str]:
    """Return the vault that a memory's name is of, and its name there."""
    known = _known(caller, here)
    vault, rest = _parted(text, known)
    return known[vault], rest


def _known(caller: Caller, here: Path) -> dict[str, Path]:
    return {**locate.reachable_vaults(caller.vaults), locate.THIS: here}


def _texts(value: Any) -> Iterator[str]:
    yield from (value if isinstance(value, list) else [str(value)])


def _parted(text: str, known: Mapping[str, Path]) -> tuple[str, str]:
    """Return a vault's name and what it is to be asked for."""
    vault, colon, rest = text.partition(":")
    is_named = colon and vault in known and rest[:1].strip()
    return (vault, rest) if is_named else (locate.THIS, text)
