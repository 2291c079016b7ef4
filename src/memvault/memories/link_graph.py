"""Links between memories: the links in their texts, and the names in their headers."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import NamedTuple

from memvault.errors import MemvaultError, NotFound
from memvault.index.protocol import MemoryRecord
from memvault.model import Memory
from memvault.recall.resolve import match_link
from memvault.store.memory_store import MemoryStore
from memvault.vault.file_names import (
    SUPERSEDED_BY,
    SUPERSEDES,
    name_key,
    name_keys,
    referenced_names,
)
from memvault.vault.markdown import Link, links

HEADER_KEYS = (SUPERSEDES, SUPERSEDED_BY, "conflict_with")
"""The header keys that name other memories."""


class ResolvedLink(NamedTuple):
    """A link of a memory to another one; ``target`` is None if the link is broken.

    If the link is in the header, ``key`` is its key and ``link`` is None.
    """

    source: Memory
    name: str
    target: MemoryRecord | None
    link: Link | None = None
    key: str = ""


class LinkGraph:
    """The links of a vault, based on a snapshot of its records; texts are read on demand.

    ``records`` are all memories; ``unread`` collects the paths of those that could not be read.
    """

    def __init__(self, records: Sequence[MemoryRecord], store: MemoryStore) -> None:
        self.records = records
        self.unread: list[str] = []
        self._store = store
        self._named: dict[str, list[MemoryRecord]] = {}
        for record in self.records:
            names = name_keys(record.path, record.mem_id, record.title, record.aliases)
            for name in dict.fromkeys([*names, *map(name_key, ends(record.path))]):
                self._named.setdefault(name, []).append(record)

    @cached_property
    def files(self) -> Counter[str]:
        """The number of memories with each file name, normalised as an index stores it."""
        return Counter(name_key(PurePosixPath(entry.path).stem) for entry in self.records)

    def memories(self) -> Iterator[Memory]:
        """Yield every memory with its file as it is now; unreadable ones are skipped."""
        for record in self.records:
            try:
                memory = self._store.read(record.path)
            except NotFound:
                continue
            except MemvaultError:
                self.unread.append(record.path)
                continue
            yield memory

    def outgoing(self, memory: Memory) -> list[ResolvedLink]:
        """Return the links of a memory to notes: those of its text in order, then its header."""
        found = []
        for link in links(memory.body):
            target = self.resolve(link, memory.path)
            if link.is_wikilink or target is not None or link.target.lower().endswith(".md"):
                found.append(ResolvedLink(memory, link.target, target, link))
        for key in HEADER_KEYS:
            names = referenced_names(memory.metadata, key)
            found += [
                ResolvedLink(memory, name, next(iter(self.by_name(name)), None), None, key)
                for name in names
            ]
        return found

    def backlinks(self, path: str) -> list[ResolvedLink]:
        """Return all backlinks of the memory at a path, except for links to itself."""
        return [
            link
            for memory in self.memories()
            if memory.path != path
            for link in self.outgoing(memory)
            if link.target is not None and link.target.path == path
        ]

    def resolve(self, link: Link, path: str) -> MemoryRecord | None:
        """Return the memory that a link in the file at a path leads to, or None."""
        relative = None if link.is_wikilink else self.beside(link, path)
        return relative or next(iter(self.by_name(link.target)), None)

    def beside(self, link: Link, path: str) -> MemoryRecord | None:
        """Return the memory at a link's target, relative to the folder of a file, or None."""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target))
        known = self._named.get(name_key(target), ())
        return next((entry for entry in known if entry.path == target), None)

    def by_name(self, target: str) -> list[MemoryRecord]:
        """Return the memories that a link target, or a name in a header, fits equally well."""
        name = target.removeprefix("./").strip("/")
        known = self.named(name)
        return match_link(name, known) or known

    def named(self, name: str) -> list[MemoryRecord]:
        """Return all memories that have a name, or whose path ends with it."""
        return self._named.get(name_key(name), [])


def ends(path: str) -> Iterable[str]:
    """Yield what remains of a path after removing each of its leading folders, as Obsidian does."""
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))
