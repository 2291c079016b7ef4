"""One look at everything that the checks ask for; nothing is changed by it.

What is known of memories comes from the index's records, the rest from reading
each file once; only what the checks need of a text is kept. Links of the file
system are never followed.
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
from memvault.local_paths import hide_local_paths
from memvault.recall.filters import Filters
from memvault.store import writer
from memvault.vault import document, paths
from memvault.vault.front_matter import MAX_HEADER, repeated_keys, split_front_matter
from memvault.vault.markdown import Link, has_conflict_markers, links
from memvault.vault.paths import is_ignored

_Kind = Literal["file", "folder", "link out", "unreadable", "dangling", "special", "too deep"]
"""What an entry of a folder is, in the order of ``Tree``."""


class FileTree(NamedTuple):
    """Plain files and folders by their paths; ``unreadable`` could not be listed.

    ``links_out`` are links that lead out of the vault, ``dangling`` those that lead
    nowhere; none is followed. ``special`` are called like memories and are no files.
    ``too_deep`` are folders whose paths are longer than the system takes.
    What begins with a dot, or is ignored by the settings, is not in it.
    """

    files: tuple[str, ...]
    folders: tuple[str, ...]
    links_out: tuple[str, ...]
    unreadable: tuple[str, ...]
    dangling: tuple[str, ...]
    special: tuple[str, ...]
    too_deep: tuple[str, ...] = ()


def walk_tree(root: Path, ignore: tuple[str, ...]) -> FileTree:
    """Return what lies in a vault."""
    real = os.path.realpath(root)
    found: dict[_Kind, list[str]] = {kind: [] for kind in get_args(_Kind)}
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
                        found[kind].append(path)
        except FileNotFoundError:
            continue  # gone between the listing and the look at it
        except OSError as error:
            is_deep = error.errno == errno.ENAMETOOLONG
            found["too deep" if is_deep else "unreadable"].append(folder)
    return FileTree(*(tuple(sorted(paths)) for paths in found.values()))


def _kind(entry: os.DirEntry[str], real: str) -> _Kind | None:
    """Say what an entry is; nothing of a link within the vault, and of what is called otherwise."""
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if target != real and not target.startswith(real + os.sep):
            return "link out"
        return None if _leads(entry) else "dangling"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "special" if entry.name[-3:].lower() == ".md" else None


def _leads(entry: os.DirEntry[str]) -> bool:
    """Say whether there is something where a link leads, as far as this user may know."""
    try:
        entry.stat()
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
    return True


_KEY = re.compile(r"^([ \t-]*[^\s#:-][^:\n]*):", re.MULTILINE | re.ASCII)
"""What stands before the first colon of a line, with how far it is indented."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class InspectedMemory(NamedTuple):
    """A memory: its record, the etag and time that its file has now, what it links to.

    ``marked`` says whether git's marks are in it, ``trouble`` why it cannot be read;
    ``doubled`` names the keys that its header has more than once, ``secrets`` says which
    it holds and does not call fine, and where.
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
    """A markdown file that is no memory, such as an agent's entry; ``broken`` says how."""

    path: str
    conflict_markers: bool = False
    broken: str = ""
    trouble: str = ""
    duplicate_keys: tuple[str, ...] = ()
    secrets: str = ""


class Machine(NamedTuple):
    """What is of this machine: problems of models, vectors, index, journal, history, git.

    ``stale`` are memories that the index has otherwise than they are, and ``waiting``
    those without deep vectors. ``repositories`` are folders that git takes for repositories of
    their own. ``old_vectors`` counts the other models' folders, ``overdue``
    what the history should keep no longer. ``held`` are locks' files of processes that are
    gone, ``damaged`` are revisions, each with what is wrong. ``engine`` says what an engine
    holds otherwise than was sent there.
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
    """Everything that checks are told; ``read`` gives the bytes of a file of the vault."""

    notes: tuple[InspectedMemory, ...]
    others: tuple[InspectedFile, ...]
    tree: FileTree
    machine: Machine
    types: frozenset[str]
    now: datetime
    read: Callable[[str], bytes]


def inspect(call: Call) -> VaultInspection:
    """Look at the vault of a call; errors as for the index's look."""
    call.engine.invalidate()
    records = call.engine.list_records(Filters())
    tree = walk_tree(call.root, call.settings.ignore)
    notes = tuple(_note(call, record) for record in records)
    known = {record.path for record in records}
    others = tuple(
        _other(call, path)
        for path in tree.files
        if path[-3:].lower() == ".md" and path not in known and not paths.is_memory_path(path)
    )
    return VaultInspection(
        notes,
        others,
        tree,
        _machine(call, notes, known, tree),
        call.store.known_types,
        clock.now(),
        lambda path: plain_files.read(call.root / path),
    )


def _note(call: Call, record: MemoryRecord) -> InspectedMemory:
    try:
        path = call.root / record.path
        mtime = path.lstat().st_mtime_ns
        data = plain_files.read(path)
    except OSError as error:
        return InspectedMemory(record, "", 0, trouble=_trouble(error))
    found: tuple[Link, ...] = ()
    marked = False
    wide = data[:2] in _UTF16
    if wide or b"[[" in data or b"](" in data or b"<<<<<<< " in data:
        text = document.decode(data).text
        marked = has_conflict_markers(text)
        found = tuple(links(split_front_matter(text).body))
    doubled = () if marked else _doubled(data)
    secrets = _secrets(call, record.path, data)
    return InspectedMemory(record, document.etag(data), mtime, found, marked, "", doubled, secrets)


def _other(call: Call, path: str) -> InspectedFile:
    try:
        data = plain_files.read(call.root / path)
    except OSError as error:
        return InspectedFile(path, trouble=_trouble(error))
    found = InspectedFile(path, secrets=_secrets(call, path, data))
    if b"<<<<<<< " in data and has_conflict_markers(document.decode(data).text):
        return found._replace(conflict_markers=True)
    if path.startswith(("agents/", "spaces/")):
        try:
            document.read_header(data)
        except ValueError as error:
            return found._replace(broken=str(error))
        return found._replace(duplicate_keys=_doubled(data))
    return found


def _secrets(call: Call, path: str, data: bytes) -> str:
    """Say which secrets a file holds, in a vault that looks for any."""
    return "" if call.settings.secrets.on_write == "off" else writer.in_file(path, data)


def _doubled(data: bytes) -> tuple[str, ...]:
    """Return the keys that a header has more than once; only where some seem so it is parsed."""
    if data[:2] in _UTF16:
        data = document.decode(data).text.encode("utf-8", "replace")
    head = data.removeprefix(codecs.BOM_UTF8)
    if not head.startswith(b"---"):
        return ()
    text = head[:MAX_HEADER].decode("latin-1").replace("\r", "\n")  # its lines are the same
    lines = _KEY.findall(text, 0, max(text.find("\n---", 3), 0) or len(text))
    keys = [line.rstrip(" \t\"'").replace('"', "").replace("'", "") for line in lines]
    if len(set(keys)) == len(keys) and "{" not in text[: text.find("\n---", 3)]:
        return ()
    return tuple(repeated_keys(split_front_matter(document.decode(data).text).header))


def _trouble(error: OSError) -> str:
    """Say why a file cannot be read; nothing of one that has gone meanwhile."""
    if isinstance(error, FileNotFoundError):
        return ""
    return "large" if error.errno == errno.EFBIG else (error.strerror or str(error))


def _machine(
    call: Call, notes: tuple[InspectedMemory, ...], known: set[str], tree: FileTree
) -> Machine:
    index, root = call.index, call.root
    private = root / ".memvault"
    problem = hide_local_paths(call, _model_problem(call))
    waits = bool(notes) and not problem and index.deep.mode != "off"
    waiting = index.pending_transformer() if waits and not index.deep.is_running() else 0
    old = len(index.deep.unused_models()) if waits and not waiting else 0
    is_private = private.is_dir() and not private.is_symlink()
    left = lock.stale_markers(private) if is_private else ()
    damaged = call.store.history.verify()
    if index.away:
        call.notes.append(index.away)
    inner = index_file.repositories_inside(root, tree.folders)
    return Machine(
        problem,
        waiting,
        old,
        _stale(call, notes, known, tree),
        tuple(call.store.changes.journal.damaged_lines()),
        call.store.history.overdue().files,
        tuple(sorted(_relative(root, path) for path in atomic.abandoned_below(root))),
        tuple(sorted(_relative(root, path) for path in left)),
        tuple(sorted((_relative(root, path), said) for path, said in damaged)),
        tuple((entry["filePath"], entry["problem"]) for entry in too_large(root)),
        os.path.lexists(root / writer.FILE),
        is_private and not (private / ".gitignore").is_file(),
        index_file.private_file(root),
        index_file.is_locked(root),
        _vault_above(call),
        tuple(path for path in tree.folders if path in inner),
        index.differs(),
    )


def _model_problem(call: Call) -> str:
    """Say why an embedder cannot be used; empty where both can, or the deep one is not wanted."""
    try:
        _ = call.index.table.version
    except EmbedderError as error:
        return error.message
    deep = call.index.deep
    if deep.mode == "off":
        return ""
    return deep.choice.note or deep.failure_reason()


def _stale(
    call: Call, notes: tuple[InspectedMemory, ...], known: set[str], tree: FileTree
) -> tuple[str, ...]:
    """Return the memories that the index has otherwise than they are, looked at twice.

    What was changed around the second look says nothing of the index.
    """
    present = {path for path in tree.files if paths.is_memory_path(path)}
    hidden = tuple(f"{folder}/" for folder in (*tree.unreadable, *tree.too_deep))
    suspects = {note.path for note in notes if note.etag and note.etag != note.record.etag}
    suspects |= present - known
    suspects |= {path for path in known - present if not (hidden and path.startswith(hidden))}
    if not suspects:
        return ()
    before = {path: _etag_of(call, path) for path in suspects}
    call.engine.invalidate()  # somebody may have saved them meanwhile
    fresh = {record.path: record.etag for record in call.engine.list_records(Filters())}
    wrong = (path for path, etag in before.items() if etag != fresh.get(path, ""))
    return tuple(sorted(path for path in wrong if _etag_of(call, path) == before[path]))


def _etag_of(call: Call, path: str) -> str:
    with contextlib.suppress(MemvaultError):
        return document.etag(call.store.read_bytes(path)[0])
    return ""


def _vault_above(call: Call) -> str:
    """Return the vault that this one lies in, as the caller may be told it; empty where none."""
    from memvault.files.user_folders import SETTINGS_FILE

    for folder in call.root.parents:
        if os.path.lexists(folder / SETTINGS_FILE):
            return str(folder) if call.caller.may_see_paths else folder.name
    return ""


def _relative(root: Path, path: Path) -> str:
    return PurePosixPath(path.relative_to(root)).as_posix()
