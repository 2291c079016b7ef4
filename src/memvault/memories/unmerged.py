"""Find memories that exist in other git worktrees but not in this one.

Worktrees of a repository are compared by the hashes of their memories, without running git. If a
worktree has a different version of a memory, it is unmerged unless it is an earlier version: a
revision of the version here, a part of its text, or a file that has not changed since its worktree
was created.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from memvault import clock
from memvault.errors import MemvaultError, Refused
from memvault.files import atomic, plain_files
from memvault.files.git_location import (
    created_ns,
    linked_worktree,
    other_worktrees,
    vault_location,
)
from memvault.files.user_folders import SETTINGS_FILE
from memvault.index.protocol import MemoryRecord
from memvault.model import FileState, Memory, is_document
from memvault.named_tuple import NamedTuple
from memvault.store import worktree_copies
from memvault.store.change_set import FileRef, missing_as_not_found
from memvault.store.journal import Journal
from memvault.store.memory_store import MemoryStore
from memvault.store.revisions import Revisions
from memvault.store.worktree_copies import Copies
from memvault.vault import document
from memvault.vault.paths import require_plain_folders

_CACHE = "worktrees.json"
_MAX_CACHE_BYTES = 256 * 1024 * 1024
_MAX_UNMERGED = 200
"""Maximum number of a worktree's memories to read; each call reads them again."""
_SETTLED_NS = 2_000_000_000
"""Age in nanoseconds from which a file's times reveal whether it has changed."""
_CHECKOUT_NS = 60_000_000_000
"""Time in nanoseconds for which git may still write files after it has created a worktree."""

_Etags = dict[str, list[int | str]]
"""The size, mtime, ctime, inode and etag of each memory's file, by path."""


class Worktree(NamedTuple):
    """A vault in a worktree.

    ``created`` is when a linked worktree was created, in nanoseconds since 1970, and 0 for the main
    one. ``copies`` contains the copies of a linked worktree's memories. If ``is_copy``, the
    worktree no longer exists, and ``root`` is the folder of its copies.
    """

    root: Path
    checked_out: str
    created: int = 0
    copies: Copies | None = None
    is_copy: bool = False


class UnmergedMemory(NamedTuple):
    """A memory that this worktree lacks, or has only in an earlier or diverging version."""

    memory: Memory
    worktree: Worktree


class Unmerged:
    """The memories that exist only in other worktrees, as seen from one vault.

    ``cache`` is the folder of the vault's index, for the hashes of other worktrees' files, or None
    if there is no such folder. Unless ``copies`` is set, no copies in the repository are changed.
    """

    def __init__(self, store: MemoryStore, cache: Path | None, copies: bool) -> None:
        self._store = store
        self._cache = cache / _CACHE if cache is not None else None
        self._copies = copies
        self._written: dict[Path, set[str]] = {}
        self.notes: list[str] = []
        self.by_id: dict[str, UnmergedMemory] = {}
        """The unmerged memories by memId; filled by ``memories``."""

    @cached_property
    def _worktrees(self) -> list[Worktree]:
        """This worktree, the other ones that have the vault, and the copies from deleted ones."""
        location = vault_location(self._store.root)
        if location is None:
            return []
        prefix = location.prefix_of(self._store.root)
        worktrees: list[Worktree] = []
        for place in (location, *other_worktrees(location)):
            root = place.top / prefix
            if place is location or _is_vault(place.top, prefix):
                copies = worktree_copies.copies_of(place, root)
                created = created_ns(place.folder)
                worktrees.append(Worktree(root, place.checked_out, created, copies))
        abandoned = worktree_copies.abandoned(location, prefix)
        gone = (Worktree(copy.root, copy.checked_out, 0, copy, True) for copy in abandoned)
        return [*worktrees, *gone]

    @property
    def exists(self) -> bool:
        """Whether there is another worktree with this vault, or a copy from a deleted one."""
        return len(self._worktrees) > 1

    def memories(self, records: Iterable[MemoryRecord]) -> list[UnmergedMemory]:
        """Return the unmerged memories; ``records`` contains all memories of this vault."""
        self.notes.clear()
        self.by_id = {}
        if not self.exists:
            return []
        own = list(records)
        etags = self._etags_of_worktrees({record.path: record.etag for record in own})
        if self._copies:
            self._update_copies(etags)
        seen = {record.etag for record in own}
        by_id = {record.mem_id: record for record in own}
        own_paths = {record.path for record in own}
        for worktree in self._worktrees[1:]:
            store = MemoryStore(worktree.root, self._store.settings)
            for path in self._differing(worktree, etags[worktree], seen, own_paths):
                memory = _read(store, path)
                if memory is None or memory.etag in seen:
                    continue
                if self._is_earlier(worktree, memory, by_id.get(memory.mem_id)):
                    continue
                seen.add(memory.etag)
                other = self.by_id.get(memory.mem_id)
                if other is None or other.memory.modified < memory.modified:
                    self.by_id[memory.mem_id] = UnmergedMemory(memory, worktree)
        return list(self.by_id.values())

    def find(self, name: str, records: Iterable[MemoryRecord]) -> UnmergedMemory | None:
        """Return the only unmerged memory with a given memId, path or title, or else None."""
        from memvault.recall.resolve import match_name

        items = self.memories(records)
        matches = match_name(name, [item.memory for item in items])
        if len(matches) != 1:
            return None
        return next(item for item in items if item.memory is matches[0])

    def _etags_of_worktrees(self, own: Mapping[str, str]) -> dict[Worktree, Mapping[str, str]]:
        """Return each worktree's etags by path; ``own`` contains the etags of this worktree."""
        most = _MAX_CACHE_BYTES
        cached = plain_files.read_json(self._cache, most) if self._cache is not None else {}
        current: dict[str, _Etags] = {}
        for worktree in self._worktrees[1:]:
            store = MemoryStore(worktree.root, self._store.settings)
            current[str(worktree.root)] = _etags(store, cached.get(str(worktree.root)))
        if self._cache is not None and current != cached:
            with contextlib.suppress(MemvaultError):
                atomic.write(self._cache, json.dumps(current).encode(), durable=False)
        etags: dict[Worktree, Mapping[str, str]] = {self._worktrees[0]: own}
        for worktree in self._worktrees[1:]:
            states = current[str(worktree.root)]
            etags[worktree] = {path: str(entry[-1]) for path, entry in states.items()}
        return etags

    def _differing(
        self,
        worktree: Worktree,
        etags: Mapping[str, str],
        own_etags: set[str],
        own_paths: set[str],
    ) -> list[str]:
        """Return the paths of memories that may be unmerged, last changed first.

        A file that this vault has in another version, and that has not changed since the worktree
        was created, is an earlier version.
        """
        differing = [
            path
            for path, etag in etags.items()
            if etag not in own_etags
            and not (path in own_paths and self._is_untouched(worktree, path))
        ]
        if len(differing) > _MAX_UNMERGED:
            differing.sort(key=lambda path: -_mtime(worktree.root / path))
            self.notes.append(
                f"{len(differing) - _MAX_UNMERGED} memories of {worktree.checked_out} were not "
                "searched; merge the branch to search them"
            )
        return differing[:_MAX_UNMERGED]

    def _is_untouched(self, worktree: Worktree, path: str) -> bool:
        """Return whether a file has not changed since git created its worktree.

        A change by memvault has a copy or, if the copy was deleted, a journal entry in the
        worktree. Other changes are recognized by the file's time.
        """
        root, copies = worktree.root, worktree.copies
        if copies is None or os.path.lexists(copies.root / path):
            return False
        if _mtime(root / path) > worktree.created + _CHECKOUT_NS:
            return False
        if root not in self._written:
            changes = Journal(root).changes()
            self._written[root] = {entry.path for change in changes for entry in change.files}
        return path not in self._written[root]

    def _is_earlier(self, worktree: Worktree, memory: Memory, own: MemoryRecord | None) -> bool:
        """Return whether this vault has a later version of a memory, or deleted it later."""
        if own is None:
            return any(
                when >= memory.modified
                for path, mem_id, when in self._deleted
                if memory.mem_id == mem_id or memory.path == path
            )
        revisions = self._store.history.revisions(memory.mem_id)
        if any(name.endswith(memory.etag) for name in revisions):
            return True
        with contextlib.suppress(MemvaultError):
            own_lines = set(map(str.strip, self._store.read(own.path).body.splitlines()))
            if own_lines.issuperset(map(str.strip, memory.body.splitlines())):
                return True
        history = Revisions(worktree.root)
        changed_there = worktree.is_copy or bool(history.revisions(memory.mem_id))
        is_later = own.modified < memory.modified <= clock.iso()
        return not (is_later or changed_there)

    @cached_property
    def _deleted(self) -> list[tuple[str, str, str]]:
        """The path and memId of each memory in the trash, and when it was moved there."""
        deleted = []
        for item in self._store.trash.files():
            with contextlib.suppress(OSError):
                data = plain_files.read(item.file)
                memory = self._store.parse(data, FileState.of(item.path, data))
                moment = clock.parse(item.when)
                when = clock.iso(moment) if moment else ""
                deleted.append((item.path, memory.mem_id, when))
        return deleted

    def _update_copies(self, etags: Mapping[Worktree, Mapping[str, str]]) -> None:
        """Copy memories edited outside memvault, and delete copies that are no longer needed.

        A copy is deleted if the main worktree has the same text, or if its worktree still exists
        and no longer has the file.
        """
        live = [worktree for worktree in self._worktrees if not worktree.is_copy]
        counts = Counter(etag for worktree in live for etag in set(etags[worktree].values()))
        main = next((worktree for worktree in live if not worktree.created), None)
        merged = {etag: path for path, etag in etags[main].items()} if main is not None else {}
        for worktree in self._worktrees:
            if worktree.copies is None:
                continue
            if not worktree.is_copy:
                for path, etag in etags[worktree].items():
                    if counts[etag] == 1 and not self._is_untouched(worktree, path):
                        _copy(worktree.copies, worktree.root, path)
            for path in worktree.copies.paths():
                is_gone = not worktree.is_copy and plain_files.is_missing(worktree.root / path)
                if is_gone or _is_merged(worktree.copies.root / path, main, merged):
                    worktree.copies.delete(path)


def _is_vault(top: Path, prefix: str) -> bool:
    """Return whether a worktree has a vault at a path, without links."""
    with contextlib.suppress(Refused, OSError):
        require_plain_folders(top, prefix)
        return stat.S_ISREG(os.lstat(top / prefix / SETTINGS_FILE).st_mode)
    return False


def _copy(copies: Copies, root: Path, path: str) -> None:
    """Copy a memory unless its copy has the same size and time; failures are ignored."""
    with contextlib.suppress(OSError):
        copied, written = os.lstat(copies.root / path), os.lstat(root / path)
        if (copied.st_size, copied.st_mtime_ns) == (written.st_size, written.st_mtime_ns):
            return
    with contextlib.suppress(MemvaultError, OSError):
        copies.write(root, path)


def _is_merged(copy: Path, main: Worktree | None, merged: Mapping[str, str]) -> bool:
    """Return whether a file in the main worktree, which is read again, has a copy's bytes."""
    with contextlib.suppress(OSError):
        data = plain_files.read(copy)
        path = merged.get(document.etag(data))
        return main is not None and path is not None and plain_files.read(main.root / path) == data
    return False


def copy_here(
    store: MemoryStore, item: UnmergedMemory, own: Memory | None, discards: bool
) -> Memory:
    """Copy an unmerged memory to a vault; ``own`` is the vault's older version, if any.

    With ``discards`` the copy then moves to the trash, or the older version becomes current again.
    A copy that is restored to a linked worktree stays, because ``undo`` and the removal of that
    worktree would lose the memory.

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
        memory = store.read(store.create_near(path, data, subject))
        if discards:
            store.discard(memory.path, memory.etag)
    keeps = linked_worktree(store.root) is not None and not discards
    if worktree.is_copy and worktree.copies is not None and not keeps:
        worktree.copies.delete(path)
    return memory


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
        if is_document(state.path):
            continue
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
