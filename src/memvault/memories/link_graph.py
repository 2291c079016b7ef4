"""Resolve links between memories, from their bodies and headers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import cached_property
from pathlib import PurePosixPath

from memvault.index.protocol import (
    LinkEntry,
    MemoryRecord,
    StaleView,
    StoredLink,
    View,
    by_time,
    latest_first,
)
from memvault.model import Memory, is_example
from memvault.named_tuple import NamedTuple
from memvault.recall.resolve import match_wikilink
from memvault.vault.header_links import header_links
from memvault.vault.markdown import links, mask_comments
from memvault.vault.markdown_inline import Link, path_beside
from memvault.vault.names import link_distance, link_keys, name_key


class ResolvedLink(NamedTuple):
    """A link from a memory to another one; ``target`` is None if the link is broken.

    If the link is in the header, ``key`` is its key and ``link`` is None.
    """

    source: Memory
    name: str
    target: MemoryRecord | None
    link: Link | None = None
    key: str = ""


class IndexedLink(NamedTuple):
    """A link in the index between two memories, each identified by its key."""

    source: int
    target: int
    stored: StoredLink


class LinkGraph:
    """The links of a vault in one view of its index.

    ``entries`` contains the names and links of all memories by key; ``record`` returns a record by
    key. Links are resolved on demand, so a new name can change where other memories' links lead.
    Any method may raise ``StaleView``.
    """

    def __init__(
        self,
        entries: Mapping[int, LinkEntry],
        record: Callable[[int], MemoryRecord | None],
    ) -> None:
        self.entries = entries
        self._record = record
        self._matches_by_target: dict[str, tuple[list[str], dict[str, MemoryRecord]]] = {}
        self._closest_by_folder: dict[tuple[str, str], str] = {}

    @classmethod
    def without_unlinked(
        cls, view: View, record: Callable[[int], MemoryRecord | None]
    ) -> LinkGraph:
        """Return a graph of the memories that have links in either direction.

        Names in indexed links are resolved as in the graph of all memories.
        """
        names = {
            name_key(name)
            for entry in view.links(frozenset()).values()
            for link in entry.links
            for name in (
                link.target,
                _bare(link.target),
                link.beside or path_beside(link.target, entry.path),
            )
        }
        return cls(view.links(names), record)

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        """The keys of the memories by name."""
        named: dict[str, list[int]] = {}
        for key, entry in self.entries.items():
            for name in entry.names:
                named.setdefault(name, []).append(key)
        return named

    @cached_property
    def _by_path(self) -> dict[str, int]:
        """The key of the first memory by path, because unmerged copies may have the same path."""
        return {entry.path: key for key, entry in reversed([*self.entries.items()])}

    @cached_property
    def files(self) -> Counter[str]:
        """The number of memories and documents by file name, normalized as in the index."""
        paths = (PurePosixPath(entry.path) for entry in self.entries.values())
        return Counter(name_key(path.name) for path in paths)

    def record(self, key: int) -> MemoryRecord:
        """Return the record of a memory."""
        record = self._record(key)
        if record is None:
            raise StaleView
        return record

    def outgoing(self, memory: Memory) -> list[ResolvedLink]:
        """Return the links of a memory to notes, first from its text, then from its header."""
        resolved = []
        for link in links(memory.body):
            beside = link.path_beside(memory.path)
            key = self._resolve(link.target, beside, memory.path)
            target = self.record(key) if key is not None else None
            if link.is_wikilink or target is not None or link.target.lower().endswith(".md"):
                resolved.append(ResolvedLink(memory, link.target, target, link))
        resolved += [
            ResolvedLink(memory, name, self.by_name(name, memory.path), None, key)
            for key, name in header_links(memory.metadata)
        ]
        return resolved

    def indexed(self, names: Set[str] = frozenset()) -> Iterator[IndexedLink]:
        """Yield all links from one memory to another, or only those by one of the names."""
        for source, entry in self.entries.items():
            for link in entry.links:
                if names and names.isdisjoint(_keys(link)):
                    continue
                target = self._resolve(link.target, link.beside, entry.path)
                if target is not None and target != source:
                    yield IndexedLink(source, target, link)

    def backlinks(self, path: str) -> list[IndexedLink]:
        """Return the backlinks of the memory at a path, most recently modified memory first."""
        names = {
            name for entry in self.entries.values() if entry.path == path for name in entry.names
        }
        linking = self.indexed(names) if names else ()
        backlinks = [link for link in linking if self.entries[link.target].path == path]
        return sorted(backlinks, key=lambda link: by_time(self.record(link.source)), reverse=True)

    def orphans(self, records: Iterable[MemoryRecord]) -> Iterator[MemoryRecord]:
        """Yield the memories without links in either direction, except examples."""
        linked = {uid for link in self.indexed() for uid in (link.source, link.target)}
        for record in records:
            if record.uid not in linked and not is_example(record.metadata):
                yield record

    def may_lead_to(self, keys: Set[str]) -> Iterator[str]:
        """Yield the paths of memories with a link whose target has one of the keys."""
        for entry in self.entries.values():
            if any(not keys.isdisjoint(_keys(link)) for link in entry.links):
                yield entry.path

    def _resolve(self, target: str, beside: str, source: str) -> int | None:
        """Return the key of the memory that a link in the file ``source`` leads to, or None."""
        for path in (beside, f"{beside}.md") if beside else ():
            key = self._by_path.get(path)
            if key is not None and name_key(beside) in self.entries[key].names:
                return key
        keys = self._named.get(name_key(_bare(target)), ())
        if len(keys) < 2:
            return keys[0] if keys else None
        _, by_path = self._matches(target)
        return by_path[self._closest(target, source[: source.rfind("/") + 1])].uid

    def beside(self, link: Link, path: str) -> MemoryRecord | None:
        """Return the memory at a link's target, relative to a file's folder, or None."""
        target = link.path_beside(path)
        matches = self.named(target) if target else []
        by_path = {entry.path: entry for entry in matches}
        return by_path.get(target) or by_path.get(f"{target}.md")

    def by_name(self, target: str, source: str) -> MemoryRecord | None:
        """Return the memory that a link target or header value in ``source`` refers to, or None."""
        key = self._resolve(target, "", source)
        return None if key is None else self.record(key)

    def is_ambiguous(self, target: str) -> bool:
        """Return whether several memories match a link target or a header value equally well."""
        return len(self._matches(target)[0]) > 1

    def _matches(self, target: str) -> tuple[list[str], dict[str, MemoryRecord]]:
        """Return the paths of a target's equally good matches, sorted, and the records by path."""
        if target not in self._matches_by_target:
            name = _bare(target)
            matches = self.named(name)
            matches = match_wikilink(name, matches) or matches
            by_path = {record.path: record for record in matches}
            self._matches_by_target[target] = sorted(by_path), by_path
        return self._matches_by_target[target]

    def _closest(self, target: str, folder: str) -> str:
        """Return the path of the match that a link in a folder resolves to (``link_distance``).

        There must be a match. Times do not matter, so that an edit never changes where another
        file's links lead.
        """
        if (target, folder) not in self._closest_by_folder:
            paths, _ = self._matches(target)
            near = paths[bisect_left(paths, folder) : bisect_left(paths, f"{folder}\U0010ffff")]
            if near or not folder:
                closest = min(near, key=lambda path: link_distance(path, folder))
            else:
                closest = self._closest(target, "")
            self._closest_by_folder[target, folder] = closest
        return self._closest_by_folder[target, folder]

    def has_name(self, name: str) -> bool:
        """Return whether any memory's name equals ``name``, or its path ends with it."""
        return name_key(name) in self._named

    def named(self, name: str) -> list[MemoryRecord]:
        """Return the memories whose name equals ``name`` or path ends with it, newest first."""
        records = map(self.record, self._named.get(name_key(name), ()))
        return latest_first(records)


def line_of(memory: Memory, link: StoredLink) -> tuple[int, str]:
    """Return the number of the line in a memory's file that contains a link, and its text.

    Comments in the text are replaced by spaces; they may begin or end in other lines.
    """
    text = mask_comments(memory.body).split("\n", link.line + 1)[link.line].strip()
    return memory.body_line + link.line, text


def keys_of(memory: Memory | MemoryRecord) -> list[str]:
    """Return all names that links may use for a memory, normalized as in the index."""
    return link_keys(memory.path, memory.mem_id, memory.title, memory.aliases)


def _keys(link: StoredLink) -> tuple[str, str]:
    """Return the possible names of a link's target."""
    return name_key(_bare(link.target)), name_key(link.beside)


def _bare(target: str) -> str:
    return target.removeprefix("./").strip("/")
