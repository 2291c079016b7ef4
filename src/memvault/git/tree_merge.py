"""Three-way merge of trees: apply our changes to their tree.

Memories are matched by id, which tracks moves on either side. A memory whose body both sides
changed becomes two files that link to each other; the remote version keeps the path. A file that
one side deleted and the other changed is kept.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

from memvault.errors import MemvaultError
from memvault.git.merge import MemoryMerger, parse_version
from memvault.git.objects import (
    TreeEntry,
    differences,
    read_blobs,
    tree_files,
    write_blob,
    write_tree,
)
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.repository.program import Git
from memvault.sanitize import replace_surrogates as _shown
from memvault.secrets.detector import masked
from memvault.settings.exclusions import Exclusions
from memvault.vault import document, memory_file, naming, paths
from memvault.vault.header_links import referenced_names
from memvault.vault.markdown import first_heading

LINK = "conflict_with"
"""The header key with which a memory's two files link to each other."""


class _Changes(NamedTuple):
    """The files in a tree that were deleted, added and edited since the base, by path.

    If another memory took a memory's path, the old memory counts as deleted and the new one as
    added.
    """

    deleted: dict[str, TreeEntry]
    added: dict[str, TreeEntry]
    edited: dict[str, tuple[TreeEntry, TreeEntry]]


class TreeMerger:
    """Merges two trees since their base; excluded files are not treated as memories.

    Our changes are applied to the remote's files. Temporary files are written to ``scratch``.
    ``notes`` has lists under the keys of a tool's result: files that exist twice, files that were
    renamed because the path was taken, files that one side deleted and the other changed, and
    dropped header values.
    """

    def __init__(
        self, git: Git, scratch: Path, base: str, theirs: str, exclusions: Exclusions
    ) -> None:
        self._git = git
        self._scratch = scratch
        self._merger = MemoryMerger(git, scratch)
        self._base = base
        self._theirs = theirs
        self._exclusions = exclusions
        self._files: dict[str, TreeEntry] = {}
        self._folders: Counter[str] = Counter()
        self._changed: dict[str, TreeEntry | None] = {}
        self.notes: dict[str, list[Any]] = defaultdict(list)

    def merge(self, ours: str) -> str:
        """Apply our tree's changes since the base to their tree; return the merged tree's id."""
        for path, entry in tree_files(self._git, self._theirs).items():
            self._set_entry(path, entry)
        self._changed.clear()
        self._apply(self._changes(ours))
        return write_tree(self._git, self._scratch, self._theirs, self._changed)

    def _apply(self, changes: _Changes) -> None:
        """Apply our changes to their files, moving files once their new paths are free."""
        sources = {identity: path for path, identity in self._identities(changes.deleted).items()}
        added = self._identities(changes.added)
        moves = {
            path: sources.pop(identity) for path, identity in added.items() if identity in sources
        }
        old_paths = set(moves.values())
        for path, old in changes.deleted.items():
            if path not in old_paths:
                self._delete(path, old)
        for path, (old, new) in changes.edited.items():
            self._change(path, path, old, new)
        moved = {
            path: self._change(old_path, path, changes.deleted[old_path], changes.added[path])
            for path, old_path in moves.items()
        }
        for path, entry in moved.items():
            if entry is not None:
                self._set_entry(self._free_path(path), entry)
        for path, new in changes.added.items():
            if path not in moves:
                self._add(path, new)

    def _changes(self, tree: str) -> _Changes:
        changes = _Changes({}, {}, {})
        edits = {}
        for path, old, new in differences(self._git, self._base, tree):
            if old is not None and new is not None:
                edits[path] = old, new
            elif old is not None:
                changes.deleted[path] = old
            elif new is not None:
                changes.added[path] = new
        before = self._own_ids({path: old for path, (old, _) in edits.items()})
        after = self._own_ids({path: new for path, (_, new) in edits.items()})
        for path, (old, new) in edits.items():
            ids = {before.get(path, ""), after.get(path, "")}
            if len(ids - {""}) == 2:
                changes.deleted[path], changes.added[path] = old, new
            else:
                changes.edited[path] = old, new
        return changes

    @cached_property
    def _added_by_theirs(self) -> dict[str, str]:
        """The paths of files that the remote added, by identity."""
        added = self._changes(self._theirs).added
        return {identity: path for path, identity in self._identities(added).items()}

    def _identities(self, files: Mapping[str, TreeEntry]) -> dict[str, str]:
        """Return the identity of each regular file by path: its memId, or else its content's id."""
        own_ids = self._own_ids(files)
        return {
            path: own_ids.get(path) or entry.name for path, entry in files.items() if entry.is_plain
        }

    def _own_ids(self, files: Mapping[str, TreeEntry]) -> dict[str, str]:
        notes = {path: entry for path, entry in files.items() if self._is_memory(path, entry)}
        data = self._read(notes.values())
        return {path: _own_id(data[entry.name]) for path, entry in notes.items()}

    def _current(self, path: str, old: TreeEntry) -> str:
        """Return the path in their tree of a file from the base; empty if they deleted it."""
        there = self._files.get(path)
        if there is not None and self._is_same_memory(path, there, old):
            return path
        moved = self._added_by_theirs.get(self._identities({path: old}).get(path, ""), "")
        return moved if moved in self._files else ""

    def _delete(self, path: str, old: TreeEntry) -> None:
        here = self._current(path, old)
        if here and self._files[here] != old:
            self.notes["notDeleted"].append(_shown(here))
        elif here:
            self._set_entry(here, None)

    def _add(self, path: str, new: TreeEntry) -> None:
        there = self._files.get(path)
        if there is None:
            self._set_entry(self._free_path(path), new)
        elif self._is_same_memory(path, there, new):
            merged = self._merged(path, None, there, new)
            if merged is None:
                self._keep_both(path, path, new)
            else:
                self._set_entry(path, merged)
        else:
            free = self._free_path(path)
            self._set_entry(free, self._named(path, free, new))

    def _change(self, old_path: str, path: str, old: TreeEntry, new: TreeEntry) -> TreeEntry | None:
        """Apply an edit or a move; return the entry of a moved file that still needs a path."""
        here = self._current(old_path, old)
        if not here:
            if old != new:
                free = self._free_path(path)
                self.notes["notDeleted"].append(_shown(free))
                self._set_entry(free, new)
            return None
        merged = self._merged(path, old, self._files[here], new)
        if merged is None:
            self._keep_both(here, path, new)
        elif here == old_path != path:
            self._set_entry(here, None)
            return merged
        else:
            self._set_entry(here, merged)
        return None

    def _merged(
        self, path: str, old: TreeEntry | None, there: TreeEntry, new: TreeEntry
    ) -> TreeEntry | None:
        if new in (there, old):
            return there
        if there == old:
            return new
        if not (there.is_plain and new.is_plain and (old is None or old.is_plain)):
            return None
        mode = there.mode if old is not None and new.mode == old.mode else new.mode
        data = self._read(entry for entry in (old, there, new) if entry)
        before = data[old.name] if old else None
        if not path.lower().endswith(".md"):
            whole = self._merger.plain(before or b"", data[there.name], data[new.name])
            return None if whole is None else TreeEntry(mode, write_blob(self._git, whole))
        merged = self._merger.file(before, data[there.name], data[new.name])
        if merged is None:
            return None
        for value in merged.dropped_values:
            self.notes["notKept"].append(_shown(f"{path}: {masked(value)}"))
        return TreeEntry(mode, write_blob(self._git, merged.data))

    def _keep_both(self, here: str, path: str, new: TreeEntry) -> None:
        """Keep their version and add ours next to it, each with a link to the other."""
        copy, there = self._free_sibling(path), self._files[here]
        if self._is_memory(path, there) and new.is_plain:
            data = self._read([there, new])
            first = _memory(here, data[there.name])
            second = _memory(copy, data[new.name])
            made = naming.derived_id(f"{new.name}/{PurePosixPath(path).name}")
            header = {"id": made, **_titled(_memory(path, data[new.name]), copy)}
            other = _linked(data[new.name], second, first.mem_id, header)
            if other:
                new = TreeEntry(new.mode, write_blob(self._git, other))
            linked = _linked(data[there.name], first, made if other else second.mem_id, {})
            if linked:
                self._set_entry(here, TreeEntry(there.mode, write_blob(self._git, linked)))
        self.notes["keptTwice"].append({"filePath": _shown(here), "copyPath": _shown(copy)})
        self._set_entry(copy, new)

    def _is_same_memory(self, path: str, there: TreeEntry, new: TreeEntry) -> bool:
        """Return whether two files at the same path are the same memory, or neither is a memory."""
        if there == new or not (self._is_memory(path, there) and new.is_plain):
            return True
        data = self._read([there, new])
        return _own_id(data[there.name]) == _own_id(data[new.name])

    def _named(self, path: str, free: str, new: TreeEntry) -> TreeEntry:
        """Return a memory's entry, with its title in the header if the new file name changes it."""
        data = self._read([new])[new.name]
        changes = _titled(_memory(path, data), free)
        if changes:
            with contextlib.suppress(MemvaultError):
                edited = document.edit(data, changes, None)
                return TreeEntry(new.mode, write_blob(self._git, edited))
        return new

    def _free_path(self, path: str) -> str:
        """Return a path if it is free, else a similar one, which is recorded as renamed.

        A parent folder of the path is renamed if they have a file with its name.
        """
        free = path
        while blocked := next((f for f in _folders(free) if f in self._files), ""):
            names = (f"{blocked}_{n}" for n in count(2))
            other = next(name for name in names if name not in self._files)
            free = f"{other}{free.removeprefix(blocked)}"
        free = self._free_sibling(free) if self._is_taken(free) else free
        if free != path:
            self.notes["renamed"].append({"from": _shown(path), "filePath": _shown(free)})
        return free

    def _free_sibling(self, path: str) -> str:
        """Return a free path in the same folder with a number in its name.

        If the file is not a memory, the new path sorts after ``path``: only the first of an agent's
        files takes effect, and the existing file must remain the first.
        """
        pure = PurePosixPath(path)
        mark = "-" if self._is_memory_path(path) else "_"
        names = (str(pure.with_name(f"{pure.stem}{mark}{n}{pure.suffix}")) for n in count(2))
        return next(name for name in names if not self._is_taken(name))

    def _is_taken(self, path: str) -> bool:
        return path in self._files or self._folders[path] > 0

    def _is_memory_path(self, path: str) -> bool:
        return paths.is_memory(path, self._exclusions)

    def _is_memory(self, path: str, entry: TreeEntry) -> bool:
        return entry.is_plain and self._is_memory_path(path)

    def _read(self, entries: Iterable[TreeEntry]) -> dict[str, bytes]:
        return read_blobs(self._git, (entry.name for entry in entries))

    def _set_entry(self, path: str, entry: TreeEntry | None) -> None:
        if (path in self._files) != (entry is not None):
            for folder in _folders(path):
                self._folders[folder] += 1 if entry else -1
        if entry is None:
            self._files.pop(path, None)
        else:
            self._files[path] = entry
        self._changed[path] = entry


def _folders(path: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(path).parents[:-1]]


def _own_id(data: bytes) -> str:
    read = parse_version(data)
    return read.own_id if read else ""


def _memory(path: str, data: bytes) -> Memory:
    return memory_file.read_memory(data, FileState.of(path, data), frozenset())


def _titled(memory: Memory, path: str) -> dict[str, str]:
    """Return the title for a memory's header if it came from the file name, which changes."""
    is_named = "title" in memory.metadata or first_heading(memory.body)
    moved = PurePosixPath(memory.path).stem != PurePosixPath(path).stem
    return {"title": memory.title} if moved and not is_named else {}


def _linked(data: bytes, memory: Memory, other: str, header: Mapping[str, str]) -> bytes:
    """Return a memory's bytes with a link to its other version; empty if the header is broken."""
    links = dict.fromkeys([*referenced_names(memory.metadata, LINK), other])
    try:
        return document.edit(data, {**header, LINK: [f"[[{link}]]" for link in links]}, None)
    except MemvaultError:
        return b""
