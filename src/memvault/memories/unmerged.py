"""Find the memories that other git worktrees have and this one lacks.

Worktrees of a repository are compared by the hashes of their memories, without running git. If two
worktrees have different versions of a memory, the newer one is unmerged in the other worktree.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from memvault import clock
from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.git_location import other_worktrees
from memvault.files.user_folders import SETTINGS_FILE
from memvault.index.protocol import MemoryRecord
from memvault.model import Memory
from memvault.repository.location import find_repository
from memvault.store import worktree_copies
from memvault.store.change_set import FileRef, missing_as_not_found
from memvault.store.memory_store import MemoryStore
from memvault.vault import document
from memvault.vault.paths import numbered_names

_CACHE = "worktrees.json"
_MAX_UNMERGED = 200
"""Maximum number of unmerged memories to read; a call reads them again."""
_SETTLED_NS = 2_000_000_000
"""Age in nanoseconds from which a file's times reveal whether it has changed."""

_Etags = dict[str, list[int | str]]
"""The size, mtime, ctime, inode and etag of each memory's file, by path."""


class Worktree(NamedTuple):
    """A vault in another worktree; if ``is_copy``, only copies are left of a deleted worktree."""

    root: Path
    checked_out: str
    is_copy: bool = False


class UnmergedMemory(NamedTuple):
    """A memory that this worktree lacks, or has in an older version."""

    memory: Memory
    worktree: Worktree


class Unmerged:
    """The memories that only other worktrees have, as seen from one vault.

    ``cache`` is the folder of the vault's index, for the hashes of other worktrees' files, or None
    if there is no such folder. Unless ``copies`` is set, no copies in the repository are changed.
    """

    def __init__(self, store: MemoryStore, cache: Path | None, copies: bool) -> None:
        self._store = store
        self._cache = cache / _CACHE if cache is not None else None
        self._copies = copies
        self.notes: list[str] = []
        self.by_id: dict[str, UnmergedMemory] = {}
        """The unmerged memories by memId, after ``memories``."""

    @cached_property
    def worktrees(self) -> list[Worktree]:
        """The other worktrees that have this vault, and the copies from deleted ones."""
        try:
            location = find_repository(self._store.root)
        except MemvaultError:
            return []
        if location is None:
            return []
        prefix = location.prefix_of(self._store.root)
        found = [
            Worktree(other.top / prefix, other.checked_out)
            for other in other_worktrees(location)
            if _is_vault(other.top / prefix)
        ]
        copies = worktree_copies.copied_vaults(location, prefix)
        return found + [Worktree(copy.root, copy.checked_out, True) for copy in copies]

    def memories(self, records: Iterable[MemoryRecord]) -> list[UnmergedMemory]:
        """Return the unmerged memories; ``records`` are all memories of this vault."""
        if not self.worktrees:
            return []
        own = list(records)
        etags = self._etags_of_worktrees()
        if self._copies:
            self._update_copies({record.path: record.etag for record in own}, etags)
        seen = {record.etag for record in own}
        by_id = {record.mem_id: record for record in own}
        self.notes.clear()
        newest: dict[str, UnmergedMemory] = {}
        for worktree in self.worktrees:
            store = MemoryStore(worktree.root, self._store.settings)
            for path in self._differing(worktree, etags[worktree], seen):
                memory = _read(store, path)
                if memory is None or memory.etag in seen:
                    continue
                if self._is_outdated(worktree, memory, by_id.get(memory.mem_id)):
                    continue
                seen.add(memory.etag)
                earlier = newest.get(memory.mem_id)
                if earlier is None or earlier.memory.modified < memory.modified:
                    newest[memory.mem_id] = UnmergedMemory(memory, worktree)
        self.by_id = newest
        return list(newest.values())

    def find(self, name: str, records: Iterable[MemoryRecord]) -> UnmergedMemory | None:
        """Return the only unmerged memory with a given memId, path or title, or else None."""
        from memvault.recall.resolve import match_name

        items = self.memories(records)
        matches = match_name(name, [item.memory for item in items])
        if len(matches) != 1:
            return None
        return next(item for item in items if item.memory is matches[0])

    def _etags_of_worktrees(self) -> dict[Worktree, dict[str, str]]:
        """Return the etag of each memory by path, for each other worktree."""
        cached = plain_files.read_json(self._cache) if self._cache is not None else {}
        current = {
            str(worktree.root): _etags(
                MemoryStore(worktree.root, self._store.settings), cached.get(str(worktree.root))
            )
            for worktree in self.worktrees
        }
        if self._cache is not None and current != cached:
            with contextlib.suppress(MemvaultError):
                atomic.write(self._cache, json.dumps(current).encode(), durable=False)
        return {
            worktree: {path: str(entry[-1]) for path, entry in current[str(worktree.root)].items()}
            for worktree in self.worktrees
        }

    def _differing(
        self, worktree: Worktree, etags: Mapping[str, str], own_etags: set[str]
    ) -> list[str]:
        """Return the paths of a worktree's memories that this vault lacks, last changed first."""
        differing = [path for path, etag in etags.items() if etag not in own_etags]
        if len(differing) > _MAX_UNMERGED:
            differing.sort(key=lambda path: -_mtime(worktree.root / path))
            self.notes.append(
                f"{len(differing) - _MAX_UNMERGED} memories of {worktree.checked_out} were not "
                "searched; merge the branch to search them"
            )
        return differing[:_MAX_UNMERGED]

    def _update_copies(
        self, own: Mapping[str, str], etags: Mapping[Worktree, Mapping[str, str]]
    ) -> None:
        """Copy the memories that only one worktree has, and delete the copies of merged ones."""
        live = {
            worktree.root: etags[worktree] for worktree in self.worktrees if not worktree.is_copy
        }
        live[self._store.root] = own
        counts = Counter(etag for by_path in live.values() for etag in set(by_path.values()))
        for root, by_path in live.items():
            unmerged = [path for path, etag in by_path.items() if counts[etag] == 1]
            worktree_copies.update_all(root, unmerged[:_MAX_UNMERGED])
        for worktree in filter(lambda worktree: worktree.is_copy, self.worktrees):
            for path, etag in etags[worktree].items():
                if counts[etag]:
                    worktree_copies.delete_copy(worktree.root, path)

    def _is_outdated(self, worktree: Worktree, memory: Memory, own: MemoryRecord | None) -> bool:
        """Return whether this vault has a newer version of a memory, or deleted it later."""
        if own is not None:
            if own.modified != memory.modified:
                return own.modified > memory.modified
            return _mtime(self._store.root / own.path) >= _mtime(worktree.root / memory.path)
        deleted = self._deleted.get(memory.path, "")
        return deleted >= memory.modified

    @cached_property
    def _deleted(self) -> Mapping[str, str]:
        """The time at which each path was last moved to the trash, as ISO 8601."""
        times: dict[str, str] = {}
        for item in self._store.trash.files():
            moment = clock.parse(item.when)
            times.setdefault(item.path, clock.iso(moment) if moment else "")
        return times


def copy_here(
    store: MemoryStore, item: UnmergedMemory, own: Memory | None, discards: bool
) -> Memory:
    """Copy an unmerged memory to a vault; ``own`` is the vault's older version, if any.

    With ``discards`` it is then moved to the trash, or the older version becomes current again.

    Raises:
        Conflict: the older version has changed since it was read.
        Refused: the memory contains secrets, which the settings do not allow.
        StorageError: the memory cannot be written.
    """
    path, worktree = item.memory.path, item.worktree
    with missing_as_not_found(path), atomic.map_os_errors(path):
        data = plain_files.read(worktree.root / path)
    if own is not None:
        before, _ = store.read_bytes(own.path)
        memory = store.rewrite(own, data).memory
        if discards:
            memory = store.rewrite(memory, before).memory
    else:
        subject = FileRef(item.memory.mem_id, item.memory.title)
        paths = numbered_names(path, store.has_file)
        memory = store.read(store.changes.create(paths, data, subject))
        if discards:
            store.discard(memory.path, memory.etag)
    if worktree.is_copy:
        worktree_copies.delete_copy(worktree.root, path)
    return memory


def _is_vault(root: Path) -> bool:
    return (root / SETTINGS_FILE).is_file()


def _read(store: MemoryStore, path: str) -> Memory | None:
    with contextlib.suppress(MemvaultError):
        return store.read(path)
    return None


def _mtime(path: Path) -> int:
    with contextlib.suppress(OSError):
        return os.lstat(path).st_mtime_ns
    return 0


def _etags(store: MemoryStore, cached: object) -> _Etags:
    """Return the state and etag of each memory's file; only changed files are read."""
    known = cached if isinstance(cached, dict) else {}
    settled = time.time_ns() - _SETTLED_NS
    etags: _Etags = {}
    try:
        files = store.scan().files
    except MemvaultError:
        return {}
    for state in files:
        stamp = [state.size, state.mtime, state.ctime, state.inode]
        entry = known.get(state.path)
        if isinstance(entry, list) and entry[:-1] == stamp:
            etags[state.path] = entry
            continue
        with contextlib.suppress(OSError):
            etag = document.etag(plain_files.read(store.root / state.path))
            stamp[0] = state.size if state.mtime < settled else -1  # Read it again next time.
            etags[state.path] = [*stamp, etag]
    return etags
