"""List memories that a sync stored as two files because both sides changed their text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memvault.git.tree_merge import LINK
from memvault.named_tuple import NamedTuple
from memvault.vault.header_links import referenced_names

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord


class ConflictPair(NamedTuple):
    """A memory that exists as two files because both sides of a sync changed its text."""

    path: str
    other: str


def conflict_pairs(memories: Iterable[MemoryRecord]) -> list[ConflictPair]:
    """Return the memories that exist as two files, each pair once with the shorter path first."""
    paths: dict[str, str] = {}
    links: list[tuple[str, str]] = []
    for memory in memories:
        paths[memory.mem_id] = min(paths.get(memory.mem_id, memory.path), memory.path)
        links += [(memory.path, link) for link in referenced_names(memory.metadata, LINK)]
    pairs = {(path, paths[link]) for path, link in links if link in paths and paths[link] != path}
    return sorted(
        {ConflictPair(*sorted(pair, key=lambda path: (len(path), path))) for pair in pairs}
    )
