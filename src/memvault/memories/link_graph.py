"""Which memories link to which: the links in their texts, and the names in their headers."""

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
"""The keys of a header that name other memories."""


class ResolvedLink(NamedTuple):
    """A link of one memory to another, or to nothing that is there.

    ``key`` is the header's key where it stands there; ``link`` is None then.
    """

    source: Memory
    name: str
    target: MemoryRecord | None
    link: Link | None = None
    key: str = ""


class LinkGraph:
    """The links of a vault, as one look at it found them; texts are read when asked for.

    ``records`` are all of its memories, ``unread`` those that could not be read.
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
        """How many memories' files have each name, as an index keeps it."""
        return Counter(name_key(PurePosixPath(entry.path).stem) for entry in self.records)

    def memories(self) -> Iterator[Memory]:
        """Yield every memory as its file is now; what cannot be read is left out."""
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
        """Return a memory's links to notes, those of its text first, in their order."""
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
        """Return every link to the memory of a path, but for its own."""
        return [
            link
            for memory in self.memories()
            if memory.path != path
            for link in self.outgoing(memory)
            if link.target is not None and link.target.path == path
        ]

    def resolve(self, link: Link, path: str) -> MemoryRecord | None:
        """Return the memory that a link in a file of some path leads to, if any."""
        beside = None if link.is_wikilink else self.beside(link, path)
        return beside or next(iter(self.by_name(link.target)), None)

    def beside(self, link: Link, path: str) -> MemoryRecord | None:
        """Return the memory whose path from the folder of a file is a link's target, if any."""
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), link.target))
        known = self._named.get(name_key(wanted), ())
        return next((entry for entry in known if entry.path == wanted), None)

    def by_name(self, target: str) -> list[MemoryRecord]:
        """Return the memories that a link's target or a name in a header fits equally well."""
        name = target.removeprefix("./").strip("/")
        known = self._named.get(name_key(name), [])
        return match_link(name, known) or known


def ends(path: str) -> Iterable[str]:
    """Yield what is left of a path without each of its first folders, as Obsidian writes it."""
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(1, len(parts)))
