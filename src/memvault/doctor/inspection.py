"""Inspection of a vault: a read-only snapshot of everything that the checks need.

Memories come from the records of the index; everything else comes from reading each file once. Only
the parts of a text that checks need are retained. Symbolic links are never followed.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, get_args

from memvault import clock
from memvault.call import Call
from memvault.doctor.status import too_large
from memvault.errors import EmbedderError, MemvaultError
from memvault.files import atomic, lock, plain_files
from memvault.git import index_file
from memvault.index.protocol import MemoryRecord
from memvault.recall.filters import Filters
from memvault.store import writer
from memvault.vault import document, paths
from memvault.vault.front_matter import MAX_HEADER, repeated_keys, split_front_matter
from memvault.vault.markdown import Link, has_conflict_markers, links
from memvault.vault.paths import is_ignored

_Kind = Literal["file", "folder", "link out", "unreadable", "dangling", "special", "too deep"]
"""The kind of a directory entry, in the order of the fields of ``FileTree``."""


class FileTree(NamedTuple):
    """The files and folders of a vault by path, and the entries that are not read.

    ``unreadable`` are folders that could not be listed. ``links_out`` are symbolic links that lead
    out of the vault, ``dangling`` those whose target is missing; no link is followed. ``special``
    are entries with the name of a memory that are not regular files. ``too_deep`` are folders whose
    paths are longer than the operating system accepts. Entries whose names begin with a dot, and
    those that the settings ignore, are left out.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    links_out: tuple[str, ...]
    unreadable: tuple[str, ...]
    dangling: tuple[str, ...]
    special: tuple[str, ...]
    too_deep: tuple[str, ...] = ()


def walk_tree(root: Path, ignore: tuple[str, ...]) -> FileTree:
    """Return the files and folders of a vault, each kind sorted by path."""
    real = os.path.realpath(root)
    paths_by_kind: dict[_Kind, list[str]] = {kind: [] for kind in get_args(_Kind)}
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name.startswith(".") or (ignore and is_ignored(path, ignore)):
                        continue
                    kind = _kind(entry, real)
                    if kind == "folder":
                        pending.append(path)
                    if kind is not None:
                        paths_by_kind[kind].append(path)
        except FileNotFoundError:
            continue  # deleted after its parent was listed
        except OSError as error:
            is_deep = error.errno == errno.ENAMETOOLONG
            paths_by_kind["too deep" if is_deep else "unreadable"].append(folder)
    return FileTree(*(tuple(sorted(paths)) for paths in paths_by_kind.values()))


def _kind(entry: os.DirEntry[str], real: str) -> _Kind | None:
    """Return the kind of a directory entry, or None if it is not reported.

    Links within the vault, and special files that are not named like a memory, are not reported.
    """
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if target != real and not target.startswith(real + os.sep):
            return "link out"
        return None if _target_exists(entry) else "dangling"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "special" if entry.name[-3:].lower() == ".md" else None


def _target_exists(entry: os.DirEntry[str]) -> bool:
    """Return whether the target of a link exists, as far as this user can determine."""
    try:
        entry.stat()
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
    return True


_KEY = re.compile(r"^([ \t-]*[^\s#:-][^:\n]*):", re.MULTILINE | re.ASCII)
"""A possible key: the text of a line before its first colon, with its indentation."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class InspectedMemory(NamedTuple):
    """A memory: its record, and what was found when its file was read.

    ``etag`` and ``mtime`` (in nanoseconds) are those of the file now, ``links`` its links.
    ``conflict_markers`` is whether the text contains git conflict markers, ``trouble`` why the file
    cannot be read. ``duplicate_keys`` are the keys that its header has more than once. ``secrets``
    describes the secrets that the file contains without declaring them allowed, and where.
    """

    record: MemoryRecord
    etag: str
    mtime: int
    links: tuple[Link, ...] = ()
    conflict_markers: bool = False
    trouble: str = ""
    duplicate_keys: tuple[str, ...] = ()
    secrets: str = ""

    @property
    def path(self) -> str:
        """The file's path in the vault."""
        return self.record.path


class InspectedFile(NamedTuple):
    """A markdown file that is not a memory, such as a file of an agent.

    ``broken`` is why its header cannot be parsed; the other fields are those of a memory.
    """

    path: str
    conflict_markers: bool = False
    broken: str = ""
    trouble: str = ""
    duplicate_keys: tuple[str, ...] = ()
    secrets: str = ""


class Machine(NamedTuple):
    """The state of this machine: models, vectors, index, journal, history, locks and git.

    ``model_problem`` is why an embedding model cannot be used. ``waiting`` counts the memories
    without transformer vectors, ``old_vectors`` the folders of vectors of other models. ``stale``
    are memories whose index entry differs from their file. ``journal`` has the number of unreadable
    lines of each journal file; ``overdue`` counts the files that the history should no longer keep.
    ``held`` are lock files of processes that are gone, ``damaged`` are revisions, each with its
    problem. ``in_git`` is a file of ``.memvault`` that git tracks. ``vault_above`` is the vault
    that contains this one. ``repositories`` are folders that git treats as repositories of their
    own. ``engine`` describes how the content of an index engine differs from what was sent to it.
    """

    model_problem: str
    waiting: int
    old_vectors: int
    stale: tuple[str, ...]
    journal: tuple[tuple[str, int], ...]
    overdue: int
    temporary: tuple[str, ...]
    held: tuple[str, ...]
    damaged: tuple[tuple[str, str], ...]
    state_too_large: tuple[tuple[str, str], ...]
    move_left: bool
    unignored: bool
    in_git: str
    git_locked: bool
    vault_above: str
    repositories: tuple[str, ...]
    engine: str


class VaultInspection(NamedTuple):
    """The input of every check; ``read`` returns the bytes of a file of the vault."""

    notes: tuple[InspectedMemory, ...]
    others: tuple[InspectedFile, ...]
    tree: FileTree
    machine: Machine
    types: frozenset[str]
    now: datetime
    read: Callable[[str], bytes]


def inspect(call: Call) -> VaultInspection:
    """Inspect the vault of a call; errors are those of refreshing the index."""
    call.engine.invalidate()
    records = call.engine.list_records(Filters())
    tree = walk_tree(call.root, call.settings.ignore)
    notes = tuple(_inspect_memory(call, record) for record in records)
    known = {record.path for record in records}
    others = tuple(
        _inspect_file(call, path)
        for path in tree.files
        if path[-3:].lower() == ".md" and path not in known and not paths.is_memory_path(path)
    )
    return VaultInspection(
        notes,
        others,
        tree,
        _inspect_machine(call, notes, known, tree),
        call.store.known_types,
        clock.now(),
        lambda path: plain_files.read(call.root / path),
    )


def _inspect_memory(call: Call, record: MemoryRecord) -> InspectedMemory:
    try:
        path = call.root / record.path
        mtime = path.lstat().st_mtime_ns
        data = plain_files.read(path)
    except OSError as error:
        return InspectedMemory(record, "", 0, trouble=_unreadable_reason(error))
    note_links: tuple[Link, ...] = ()
    has_markers = False
    is_utf16 = data[:2] in _UTF16
    if is_utf16 or b"[[" in data or b"](" in data or b"<<<<<<< " in data:
        text = document.decode(data).text
        has_markers = has_conflict_markers(text)
        note_links = tuple(links(split_front_matter(text).body))
    duplicate_keys = () if has_markers else _duplicate_keys(data)
    secrets = _describe_secrets(call, record.path, data)
    return InspectedMemory(
        record, document.etag(data), mtime, note_links, has_markers, "", duplicate_keys, secrets
    )


def _inspect_file(call: Call, path: str) -> InspectedFile:
    try:
        data = plain_files.read(call.root / path)
    except OSError as error:
        return InspectedFile(path, trouble=_unreadable_reason(error))
    inspected = InspectedFile(path, secrets=_describe_secrets(call, path, data))
    if b"<<<<<<< " in data and has_conflict_markers(document.decode(data).text):
        return inspected._replace(conflict_markers=True)
    if path.startswith(("agents/", "spaces/")):
        try:
            document.read_header(data)
        except ValueError as error:
            return inspected._replace(broken=str(error))
        return inspected._replace(duplicate_keys=_duplicate_keys(data))
    return inspected


def _describe_secrets(call: Call, path: str, data: bytes) -> str:
    """Describe the secrets in a file; empty if the settings turn their detection off."""
    return "" if call.settings.secrets.on_write == "off" else writer.in_file(path, data)


def _duplicate_keys(data: bytes) -> tuple[str, ...]:
    """Return the keys that a header has more than once.

    The header is parsed only if a cheap scan of its lines finds a possible duplicate.
    """
    if data[:2] in _UTF16:
        data = document.decode(data).text.encode("utf-8", "replace")
    head = data.removeprefix(codecs.BOM_UTF8)
    if not head.startswith(b"---"):
        return ()
    text = head[:MAX_HEADER].decode("latin-1").replace("\r", "\n")  # keeps the division into lines
    lines = _KEY.findall(text, 0, max(text.find("\n---", 3), 0) or len(text))
    keys = [line.rstrip(" \t\"'").replace('"', "").replace("'", "") for line in lines]
    if len(set(keys)) == len(keys) and "{" not in text[: text.find("\n---", 3)]:
        return ()
    return tuple(repeated_keys(split_front_matter(document.decode(data).text).header))


def _unreadable_reason(error: OSError) -> str:
    """Return why a file cannot be read; empty if it was deleted in the meantime."""
    if isinstance(error, FileNotFoundError):
        return ""
    return "large" if error.errno == errno.EFBIG else (error.strerror or str(error))


def _inspect_machine(
    call: Call, notes: tuple[InspectedMemory, ...], known: set[str], tree: FileTree
) -> Machine:
    index, root = call.index, call.root
    private = root / ".memvault"
    problem = call.hide_paths(_model_problem(call))
    uses_transformer = bool(notes) and not problem and index.deep.mode != "off"
    waiting = index.pending_transformer() if uses_transformer and not index.deep.is_running() else 0
    unused = len(index.deep.unused_models()) if uses_transformer and not waiting else 0
    is_private = private.is_dir() and not private.is_symlink()
    stale_locks = lock.stale_markers(private) if is_private else ()
    damaged = call.store.history.verify()
    if index.away:
        call.notes.append(index.away)
    repositories = index_file.repositories_inside(root, tree.folders)
    return Machine(
        problem,
        waiting,
        unused,
        _stale_memories(call, notes, known, tree),
        tuple(call.store.changes.journal.damaged_lines()),
        call.store.history.overdue().files,
        tuple(sorted(_relative(root, path) for path in atomic.abandoned_below(root))),
        tuple(sorted(_relative(root, path) for path in stale_locks)),
        tuple(sorted((_relative(root, path), reason) for path, reason in damaged)),
        tuple((entry["filePath"], entry["problem"]) for entry in too_large(root)),
        os.path.lexists(root / writer.FILE),
        is_private and not (private / ".gitignore").is_file(),
        index_file.private_file(root),
        index_file.is_locked(root),
        _vault_above(call),
        tuple(path for path in tree.folders if path in repositories),
        index.differs(),
    )


def _model_problem(call: Call) -> str:
    """Return why an embedder cannot be used; empty if there is no problem.

    The transformer embedder is not checked if the settings turn it off.
    """
    try:
        _ = call.index.table.version
    except EmbedderError as error:
        return error.message
    deep = call.index.deep
    if deep.mode == "off":
        return ""
    return deep.choice.note or deep.failure_reason()


def _stale_memories(
    call: Call, notes: tuple[InspectedMemory, ...], known: set[str], tree: FileTree
) -> tuple[str, ...]:
    """Return the memories whose index entry differs from their file, after a second check.

    Files that were changed around the second refresh are left out: their difference does not show
    that the index is wrong.
    """
    present = {path for path in tree.files if paths.is_memory_path(path)}
    hidden = tuple(f"{folder}/" for folder in (*tree.unreadable, *tree.too_deep))
    suspects = {note.path for note in notes if note.etag and note.etag != note.record.etag}
    suspects |= present - known
    suspects |= {path for path in known - present if not (hidden and path.startswith(hidden))}
    if not suspects:
        return ()
    before = {path: _etag_of(call, path) for path in suspects}
    call.engine.invalidate()  # they may have been saved since the first refresh
    indexed = {record.path: record.etag for record in call.engine.list_records(Filters())}
    wrong = (path for path, etag in before.items() if etag != indexed.get(path, ""))
    return tuple(sorted(path for path in wrong if _etag_of(call, path) == before[path]))


def _etag_of(call: Call, path: str) -> str:
    with contextlib.suppress(MemvaultError):
        return document.etag(call.store.read_bytes(path)[0])
    return ""


def _vault_above(call: Call) -> str:
    """Return the vault that contains this one; empty if there is none.

    A caller who may not see paths gets only the name of its folder.
    """
    from memvault.files.user_folders import SETTINGS_FILE

    for folder in call.root.parents:
        if os.path.lexists(folder / SETTINGS_FILE):
            return str(folder) if call.caller.may_see_paths else folder.name
    return ""


def _relative(root: Path, path: Path) -> str:
    return PurePosixPath(path.relative_to(root)).as_posix()
