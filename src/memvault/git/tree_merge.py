"""Replaying local commits onto remote ones, without a working tree.

Memories are matched by id, so that moves on either side are followed. A text that
both sides changed is kept as two files that name each other: the remote version keeps
its path, and later local commits change the second file. A file that one side deleted
and the other changed is kept.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import count
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import NamedTuple

from memvault.errors import MemvaultError, Refused
from memvault.git.merge import MemoryMerger, version
from memvault.git.program import Git
from memvault.model import FileState, Memory
from memvault.sanitize import replace_surrogates
from memvault.secrets.detector import masked
from memvault.vault import document, paths
from memvault.vault.file_names import normalize, referenced_names
from memvault.vault.markdown import first_heading

SCRATCH = "memvault-sync-"
"""Prefix of the temporary folders in the git directory, which a killed sync leaves behind."""
_SHORT = re.compile(r"(?:git|memvau)~[0-9]+")
"""Short names (8.3) that Windows gives .git and .memvault."""
_FIELDS = "%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%B"


class TreeEntry(NamedTuple):
    """A file in a tree: its mode, and the object id of its content as ``name``."""

    mode: str
    name: str

    @property
    def is_plain(self) -> bool:
        """Whether it is a plain file, not a link or a submodule."""
        return self.mode.startswith("100")


class ChangedPath(NamedTuple):
    """A path that differs between two trees; a side is None if it has no such file."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None


class Commit(NamedTuple):
    """A commit: its id as ``name``, tree, parents, author, author date and message."""

    name: str
    tree: str
    parents: list[str]
    author: str
    email: str
    date: str
    message: str


class Objects:
    """Access to git's objects, with a separate index for building trees.

    ``scratch`` is a temporary folder in the git directory ``folder``; it is deleted when
    the context ends.
    """

    def __init__(self, git: Git, folder: Path) -> None:
        self._git = git
        self._folder = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder)
        self.scratch = Path(self._folder.name)
        self._own = {"GIT_INDEX_FILE": str(self.scratch / "index")}

    def __enter__(self) -> Objects:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def files(self, tree: str) -> dict[str, TreeEntry]:
        """Return the files of a tree by path."""
        found = {}
        for line in _parts(self._git.run("ls-tree", "-r", "-z", "--full-tree", tree)):
            about, path = line.split("\t", 1)
            mode, _, name = about.split(" ")
            found[path] = TreeEntry(mode, name)
        return found

    def differences(self, before: str, after: str) -> list[ChangedPath]:
        """Return the paths that differ between two trees."""
        words = ("diff-tree", "-r", "-z", "--no-renames", "--raw", "--full-index", before, after)
        parts = _parts(self._git.run(*words))
        found = []
        for about, path in zip(parts[::2], parts[1::2], strict=True):
            mode, new_mode, name, new_name, _ = about.lstrip(":").split(" ")
            found.append(ChangedPath(path, _entry(mode, name), _entry(new_mode, new_name)))
        return found

    def check_names(self, tree: str) -> None:
        """Check that each path in a tree is a single file on every operating system.

        Raises:
            Refused: a path leads into .memvault or .git on some system, or is both a file
                and a folder.
        """
        files: dict[str, str] = {}
        folders: set[str] = set()
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree)
        for path in _parts(self._git.run(*words)):
            if is_private(path):
                hint = "take it out with git rm -r --cached where it was committed, and push that"
                raise Refused(
                    f"{replace_surrogates(path)} is of one machine, and no file to share", hint
                )
            above = folded(path)
            files[above] = path
            while (above := above.rpartition("/")[0]) and above not in folders:
                folders.add(above)
        for name in folders & files.keys():
            hint = "rename one of the two where it was committed, and push that with git"
            raise Refused(f"{replace_surrogates(files[name])} is a file and a folder at once", hint)

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by their ids."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        data = self._git.run("cat-file", "--batch", data="".join(f"{n}\n" for n in wanted).encode())
        found, place = {}, 0
        for name in wanted:
            end = data.index(b"\n", place)
            size = int(data[place:end].rsplit(b" ", 1)[1])
            found[name] = data[end + 1 : end + 1 + size]
            place = end + size + 2
        return found

    def small(self, names: Iterable[str], most: int) -> list[str]:
        """Return the ids of objects with at most ``most`` bytes."""
        wanted = dict.fromkeys(names)
        data = "".join(f"{name}\n" for name in wanted).encode()
        said = self._git.run("cat-file", "--batch-check=%(objectsize)", data=data).split()
        return [name for name, size in zip(wanted, map(int, said), strict=True) if size <= most]

    def write(self, data: bytes) -> str:
        """Store bytes as an object; return its id."""
        return self._git.run("hash-object", "-w", "--stdin", data=data).decode().strip()

    def begin_tree(self, tree: str) -> None:
        """Read a tree into the separate index."""
        self._nothing = TreeEntry("0", "0" * len(tree))
        self._git.run("read-tree", tree, more=self._own)

    def tree(self, changes: Mapping[str, TreeEntry | None]) -> str:
        """Apply changes to the separate index; return the id of the resulting tree."""
        if changes:
            ordered = sorted(changes.items(), key=lambda change: change[1] is not None)
            lines = (f"{mode} {name}\t{path}\0" for path, (mode, name) in
                     ((path, entry or self._nothing) for path, entry in ordered))  # fmt: skip
            data = "".join(lines).encode("utf-8", "surrogateescape")
            self._git.run("update-index", "-z", "--index-info", data=data, more=self._own)
        return self._git.run("write-tree", more=self._own).decode().strip()

    def commits(self, since: str, until: str) -> list[Commit]:
        """Return the commits after ``since`` up to ``until``, the oldest first."""
        words = ("log", "-z", "--reverse", "--topo-order", "--date=raw", f"--format={_FIELDS}")
        fields = self._git.run(*words, f"{since}..{until}").decode("utf-8", "surrogateescape")
        parts = fields.removesuffix("\0").split("\0") if fields else []
        found = []
        for at in range(0, len(parts), 7):
            name, tree, parents, author, email, date, message = parts[at : at + 7]
            found.append(Commit(name, tree, parents.split(), author, email, date, message))
        return found

    @cached_property
    def _committer(self) -> tuple[list[str], dict[str, str]]:
        """Git's option for signing commits, if set, and the variables of the committer."""
        is_signing = self._git.config("commit.gpgSign").lower() == "true"
        return ["-S"] if is_signing else [], self._git.identity()

    def commit(self, tree: str, parents: Iterable[str], old: Commit, message: str) -> str:
        """Write a commit that replaces ``old`` and keeps its author; return its id."""
        author = {
            "GIT_AUTHOR_NAME": old.author or "unknown",
            "GIT_AUTHOR_EMAIL": old.email,
            "GIT_AUTHOR_DATE": old.date,
        }
        above = [word for parent in parents for word in ("-p", parent)]
        data = message.encode("utf-8", "surrogateescape")
        signed, who = self._committer
        more = {**who, **author}
        words = ("commit-tree", *signed, *above, tree)
        return self._git.run(*words, data=data, more=more).decode().strip()


def is_private(path: str) -> bool:
    """Return whether a path leads into .git or .memvault on Linux, macOS or Windows."""
    names = (name.partition(":")[0].rstrip(" .") for name in folded(path).split("/"))
    return any(name in (".git", ".memvault") or _SHORT.fullmatch(name) for name in names)


def folded(path: str) -> str:
    """Return a path as compared by file systems that ignore case and Unicode normal forms."""
    if path.isascii():
        return path.lower()
    kept = "".join(char for char in path if unicodedata.category(char) != "Cf")
    return normalize("NFC", normalize("NFC", kept).casefold())


def _entry(mode: str, name: str) -> TreeEntry | None:
    return None if set(mode) == {"0"} else TreeEntry(mode, name)


def _parts(data: bytes) -> list[str]:
    return [part.decode("utf-8", "surrogateescape") for part in data.split(b"\0") if part]


LINK = "conflict_with"
"""The header key under which two files of the same memory name each other."""


class ConflictCopy(NamedTuple):
    """A file that is kept twice: the remote version at ``path``, the local one at ``copy``.

    ``link`` is the copy's memId if the two files name each other, else empty.
    """

    path: str
    copy: str
    link: str = ""


class Placed(NamedTuple):
    """The current path of a file of the local side, and its entry."""

    path: str
    entry: TreeEntry


class _Step(NamedTuple):
    """The change of one file by a local commit: its path and entry before and after."""

    old_path: str
    path: str
    old: TreeEntry | None
    new: TreeEntry | None


class Replay:
    """The remote tree, onto which local commits are replayed one by one.

    ``twice`` lists files that are kept as two, ``undeleted`` those that one side deleted
    and the other changed, and ``dropped_values`` header values that were replaced by
    others. ``renamed`` maps paths that were taken on the remote side to the new ones.
    """

    def __init__(
        self,
        objects: Objects,
        merger: MemoryMerger,
        base: str,
        others: str,
        ignore: tuple[str, ...] = (),
    ) -> None:
        """Load the tree ``others``; files that match a pattern of ``ignore`` are not memories."""
        self._ignore = ignore
        self._objects = objects
        self._merger = merger
        self._base = base
        self._others = others
        self._files: dict[str, TreeEntry] = {}
        self._folders: Counter[str] = Counter()
        self._where: dict[str, Placed] = {}
        self._changed: dict[str, TreeEntry | None] = {}
        self.twice: list[ConflictCopy] = []
        self.undeleted: list[str] = []
        self.dropped_values: list[str] = []
        self.renamed: dict[str, str] = {}
        for path, entry in objects.files(others).items():
            self._put(path, entry)
        objects.begin_tree(others)

    def step(self, before: str, after: str) -> str:
        """Apply the changes from one local tree to the next; return the id of the merged tree."""
        self._changed = {}
        for old_path, path, old, new in self._steps(self._objects.differences(before, after)):
            if old is None and new is not None:
                self._add(path, new)
            elif old is not None and new is None:
                self._delete(path, old)
            elif old is not None and new is not None:
                self._change(old_path, path, old, new)
        return self._objects.tree(self._changed)

    def _steps(self, found: list[ChangedPath]) -> list[_Step]:
        """Return deletions first, then changes and moves, then additions."""
        moved = self._moves(found)
        sources = set(moved.values())
        before = {entry.path: entry.before for entry in found}
        steps = []
        for path, old, new in found:
            if path in moved:
                steps.append(_Step(moved[path], path, before[moved[path]], new))
            elif path not in sources:
                steps.append(_Step(path, path, old, new))
        return sorted(steps, key=lambda step: (step.new is not None, step.old is None))

    def _moves(self, found: list[ChangedPath]) -> dict[str, str]:
        """Return the old paths of moved files by their new paths."""
        gone = {path: old for path, old, new in found if old and new is None}
        came = {path: new for path, old, new in found if new and old is None}
        if not gone or not came:
            return {}
        by_mark = {mark: path for path, mark in self._marks(gone).items()}
        marks = self._marks(came)
        return {path: by_mark.pop(mark) for path, mark in marks.items() if mark in by_mark}

    def _marks(self, files: dict[str, TreeEntry]) -> dict[str, str]:
        """Return the identity of each file by path: its memId, else the id of its content."""
        plain = {path: entry for path, entry in files.items() if entry.is_plain}
        notes = {path: entry for path, entry in plain.items() if self._is_memory(path)}
        data = self._objects.read(entry.name for entry in notes.values())
        marks = {path: entry.name for path, entry in plain.items()}
        for path, entry in notes.items():
            marks[path] = _own_id(data[entry.name]) or entry.name
        return marks

    @cached_property
    def _came(self) -> dict[str, str]:
        """The paths of files that were added on the remote side, by identity."""
        found = self._objects.differences(self._base, self._others)
        marks = self._marks({path: new for path, old, new in found if new and old is None})
        return {mark: path for path, mark in marks.items()}

    def _found(self, path: str, old: TreeEntry) -> Placed | None:
        """Return the current path of a file of the local side, or None if it is missing."""
        placed = self._where.get(path)
        if placed is not None:
            here = self._files.get(placed.path)
            return None if here is None else placed
        if path in self._files and self._is_one(path, self._files[path], old):
            return Placed(path, old)
        moved = self._came.get(self._marks({path: old}).get(path, ""))
        return Placed(moved, old) if moved in self._files else None

    def _delete(self, path: str, old: TreeEntry) -> None:
        placed = self._found(path, old)
        self._where.pop(path, None)
        self.renamed.pop(path, None)
        if placed is None:
            return
        if self._files[placed.path] != placed.entry:
            self.undeleted.append(placed.path)
            return
        self._put(placed.path, None)
        for entry in [entry for entry in self.twice if entry.copy == placed.path]:
            self.twice.remove(entry)
            self._part(entry)

    def _add(self, path: str, new: TreeEntry) -> None:
        there = self._files.get(path)
        if there is None:
            self._place(path, self._renamed(path, self._free(path)), new)
        elif there == new:
            self._put(path, new)
        elif self._is_one(path, there, new):
            self._merge(path, path, path, None, new)
        else:
            free = self._renamed(path, self._beside(path))
            self._place(path, free, self._named(path, free, new))

    def _change(self, old_path: str, path: str, old: TreeEntry, new: TreeEntry) -> None:
        placed = self._found(old_path, old)
        is_followed = self._where.pop(old_path, None) is not None
        if placed is None:
            if old != new:
                free = self._renamed(path, self._free(path))
                self.undeleted.append(free)
                self._place(path, free, new)
        elif path == old_path or (placed.path != old_path and not is_followed):
            self._merge(placed.path, path, placed.path, old, new)  # others may have moved it
        else:
            self._merge(placed.path, path, self._renamed(path, self._free(path)), old, new)

    def _merge(
        self, here: str, path: str, target: str, old: TreeEntry | None, new: TreeEntry
    ) -> None:
        """Merge the local change of a file with the current version, stored at ``target``."""
        merged = self._together(path, old, self._files[here], new)
        if merged is None:
            self._twice(here, path, new)
            return
        if target != here:
            self._put(here, None)
        self._place(path, target, merged)

    def _together(
        self, path: str, old: TreeEntry | None, there: TreeEntry, new: TreeEntry
    ) -> TreeEntry | None:
        if there == new or new == old:
            return there
        if there == old:
            return new
        if not (there.is_plain and new.is_plain and (old is None or old.is_plain)):
            return None
        mode = there.mode if old is not None and new.mode == old.mode else new.mode
        data = self._objects.read([entry.name for entry in (old, there, new) if entry])
        before = data[old.name] if old else None
        if path.lower().endswith(".md"):
            merged = self._merger.file(before, data[there.name], data[new.name])
            if merged is None:
                return None
            self.dropped_values += [f"{path}: {masked(value)}" for value in merged.dropped_values]
            return TreeEntry(mode, self._objects.write(merged.data))
        whole = self._merger.plain(before or b"", data[there.name], data[new.name])
        return None if whole is None else TreeEntry(mode, self._objects.write(whole))

    def _twice(self, here: str, path: str, new: TreeEntry) -> None:
        """Keep the current version and add the local one next to it, each naming the other."""
        copy, there, own = self._beside(path), self._files[here], ""
        if self._is_memory(path) and there.is_plain and new.is_plain:
            data = self._objects.read([there.name, new.name])
            first = _memory(here, data[there.name])
            second = _memory(copy, data[new.name])
            made = paths.derived_id(f"{new.name}/{PurePosixPath(path).name}")
            more = {"id": made, **_titled(_memory(path, data[new.name]), copy)}
            other = _linked(data[new.name], second, first.mem_id, more)
            own = made if other else second.mem_id
            if other:
                new = TreeEntry(new.mode, self._objects.write(other))
            linked = _linked(data[there.name], first, own, {})
            if linked:
                self._put(here, TreeEntry(there.mode, self._objects.write(linked)))
        self.twice.append(ConflictCopy(here, copy, own))
        self._place(path, copy, new)

    def _part(self, twice: ConflictCopy) -> None:
        """Remove the link to a deleted copy from the file."""
        entry = self._files.get(twice.path)
        if entry is None or not twice.link:
            return
        data = self._objects.read([entry.name])[entry.name]
        links = referenced_names(_memory(twice.path, data).metadata, LINK)
        left = [f"[[{link}]]" for link in links if link != twice.link]
        changed = document.edit(data, {LINK: left or None}, None)
        self._put(twice.path, TreeEntry(entry.mode, self._objects.write(changed)))

    def _is_one(self, path: str, there: TreeEntry, new: TreeEntry) -> bool:
        """Return whether two files of the same path are the same memory, or not memories."""
        if not self._is_memory(path) or not (there.is_plain and new.is_plain):
            return True
        data = self._objects.read([there.name, new.name])
        return _own_id(data[there.name]) == _own_id(data[new.name])

    def _named(self, path: str, free: str, new: TreeEntry) -> TreeEntry:
        """Return a memory with its title in the header if the new file name would change it."""
        memory = _memory(path, self._objects.read([new.name])[new.name])
        changes = _titled(memory, free)
        if not changes:
            return new
        data = self._objects.read([new.name])[new.name]
        with contextlib.suppress(MemvaultError):
            return TreeEntry(new.mode, self._objects.write(document.edit(data, changes, None)))
        return new

    def _renamed(self, path: str, free: str) -> str:
        """Return the path for a file, and record it if its own path is taken."""
        self.renamed.pop(path, None)
        if free != path:
            self.renamed[path] = free
        return free

    def _free(self, path: str) -> str:
        """Return a path if it is free, else a similar one.

        A folder of the path is renamed if it is a file on the remote side.
        """
        for folder in reversed(PurePosixPath(path).parents[:-1]):
            if str(folder) in self._files:
                names = (f"{folder}_{n}" for n in count(2))
                other = next(name for name in names if name not in self._files)
                return self._free(f"{other}{path.removeprefix(str(folder))}")
        return self._beside(path) if self._is_taken(path) else path

    def _beside(self, path: str) -> str:
        """Return a free path in the same folder with a number in its name.

        For files that are not memories it sorts after ``path``: the first path of an agent's
        entries takes effect, which remains the existing one.
        """
        pure = PurePosixPath(path)
        mark = "-" if self._is_memory(path) else "_"
        names = (str(pure.with_name(f"{pure.stem}{mark}{n}{pure.suffix}")) for n in count(2))
        return next(name for name in names if not self._is_taken(name))

    def _is_memory(self, path: str) -> bool:
        return paths.is_memory_path(path) and not paths.is_ignored(path, self._ignore)

    def _is_taken(self, path: str) -> bool:
        return path in self._files or self._folders[path] > 0

    def _place(self, path: str, target: str, entry: TreeEntry) -> None:
        """Store a file at ``target``, and record it by the path that the local side uses."""
        self._put(target, entry)
        if target != path:
            self._where[path] = Placed(target, entry)

    def _put(self, path: str, entry: TreeEntry | None) -> None:
        if (path in self._files) != (entry is not None):
            for folder in PurePosixPath(path).parents:
                self._folders[str(folder)] += 1 if entry else -1
        if entry is None:
            self._files.pop(path, None)
        else:
            self._files[path] = entry
        self._changed[path] = entry


def _own_id(data: bytes) -> str:
    read = version(data)
    return read.own_id if read else ""


def _memory(path: str, data: bytes) -> Memory:
    return document.read_memory(data, FileState(path, len(data), 0, 0, 0), frozenset())


def _titled(memory: Memory, path: str) -> dict[str, str]:
    """Return the title for a memory's header if it comes from the file name, which changes."""
    is_named = "title" in memory.metadata or first_heading(memory.body)
    moved = PurePosixPath(memory.path).stem != PurePosixPath(path).stem
    return {"title": memory.title} if moved and not is_named else {}


def _linked(data: bytes, memory: Memory, other: str, more: Mapping[str, str]) -> bytes:
    """Return a memory's bytes with a link to its other version, or none if it is not editable."""
    links = dict.fromkeys([*referenced_names(memory.metadata, LINK), other])
    try:
        return document.edit(data, {**more, LINK: [f"[[{link}]]" for link in links]}, None)
    except MemvaultError:
        return b""
