"""Inspect a vault: take a read-only snapshot of the files for the checks.

Memories and their links come from the index; everything else comes from reading each file once.
Only the parts of a file that checks need are retained. Symbolic links are never followed.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from memvault import clock
from memvault.call import Call
from memvault.doctor.remembered import NoResults, RememberedResults
from memvault.files import plain_files
from memvault.index.protocol import (
    EmbedderStatus,
    IndexStatus,
    MemoryRecord,
    View,
    latest_first,
)
from memvault.memories.link_graph import LinkGraph
from memvault.model import is_document
from memvault.named_tuple import NamedTuple
from memvault.settings.exclusions import FOLDER_MARKERS, Exclusions, Levels
from memvault.store import secret_policy
from memvault.vault import decoding, document, header_dates, memory_file, paths
from memvault.vault.front_matter import repeated_keys, split_front_matter
from memvault.vault.header_dates import HeaderTime
from memvault.vault.header_yaml import MAX_HEADER, canonical_key
from memvault.vault.markdown import has_conflict_markers

EntryKind = Literal["file", "folder", "link out", "dangling", "special", "unreadable", "too deep"]
"""The kind of a directory entry.

A ``link out`` is a symbolic link that leads out of the vault, and a ``dangling`` link has no
target; no link is followed. ``special`` is an entry with the name of a memory that is not a regular
file. A folder is ``unreadable`` if it cannot be listed, and ``too deep`` if its path is longer than
the operating system accepts.
"""


def walk_tree(root: Path, exclusions: Exclusions) -> dict[EntryKind, list[str]]:
    """Return the paths of a vault's entries by kind, sorted.

    Entries whose names begin with a dot, and excluded entries, are omitted.
    """
    real = os.path.realpath(root)
    tree: dict[EntryKind, list[str]] = {kind: [] for kind in get_args(EntryKind)}
    pending: list[tuple[str, Levels]] = [("", ())]
    while pending:
        folder, above = pending.pop()
        try:
            with os.scandir(root / folder) as listed:
                entries = list(listed)
                markers = FOLDER_MARKERS.intersection([entry.name for entry in entries])
                levels = exclusions.levels(folder, markers, above)
                if levels is None:
                    continue
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    kind = _kind(entry, real)
                    if kind is None or exclusions.excludes(path, kind == "folder", levels):
                        continue
                    if kind == "folder":
                        pending.append((path, levels))
                    tree[kind].append(path)
        except FileNotFoundError:
            continue  # deleted after its parent was listed
        except OSError as error:
            tree["too deep" if error.errno == errno.ENAMETOOLONG else "unreadable"].append(folder)
    for kind_paths in tree.values():
        kind_paths.sort()
    return tree


def _kind(entry: os.DirEntry[str], real: str) -> EntryKind | None:
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


class InspectedFile(NamedTuple):
    """The problems of a markdown file; ``mtime`` is in nanoseconds.

    ``trouble`` says why the file cannot be read (``large``, or the OS error), and ``broken`` says
    why its header cannot be parsed. ``unread`` lists the header lines that are not YAML, with
    reasons. ``conflict_markers`` is true if the text contains git conflict markers.
    ``duplicate_keys`` contains the keys that occur more than once in the header. ``secrets``
    describes the secrets that the header does not allow, and where they are.
    """

    path: str
    etag: str = ""
    mtime: int = 0
    trouble: str = ""
    broken: str = ""
    conflict_markers: bool = False
    duplicate_keys: Sequence[str] = ()
    unread: str = ""
    secrets: str = ""


class InspectedMemory(NamedTuple):
    """A memory's record in the index, and its current file."""

    record: MemoryRecord
    file: InspectedFile

    @property
    def path(self) -> str:
        """The file's path in the vault."""
        return self.record.path


@dataclass(frozen=True)
class VaultInspection:
    """The input of every check: the memories, their links, other files and entries in a vault.

    ``links`` may omit memories without links. ``documents`` are not among the ``memories``.
    ``tree`` maps kinds to the paths of entries. ``files`` are the memories' files and the markdown
    files that are not memories, such as agents' files.
    ``remembered`` contains cached check results for unchanged files. Checks of the index, the
    journal and other state of this machine read that state through ``call``. ``read`` returns a
    file's bytes.
    """

    call: Call
    now: datetime
    tree: Mapping[EntryKind, list[str]]
    links: LinkGraph
    index_status: IndexStatus
    documents: list[MemoryRecord]
    memories: list[InspectedMemory]
    memory_paths: frozenset[str]
    files: list[InspectedFile]
    remembered: RememberedResults
    read: Callable[[str], bytes]

    @cached_property
    def by_id(self) -> dict[str, list[InspectedMemory]]:
        """The memories by memId."""
        sharing: dict[str, list[InspectedMemory]] = {}
        for memory in self.memories:
            sharing.setdefault(memory.record.mem_id, []).append(memory)
        return sharing

    @cached_property
    def unusual_times(self) -> list[tuple[InspectedMemory, list[HeaderTime]]]:
        """The memories with a time that is not ISO 8601 or is ahead of ``now``, and their times.

        The last change of a memory comes first.
        """
        found = []
        for memory in self.memories:
            metadata = memory.record.metadata
            times = [*header_dates.times(metadata, "modified")]
            times += header_dates.times(metadata, "created")
            if any(
                time.moment is None
                or time.moment > self.now
                or clock.parse(str(time.value)) is None
                for time in times
            ):
                found.append((memory, times))
        return found


def inspect_vault(call: Call) -> VaultInspection:
    """Read the index and every markdown file in a vault."""
    now = clock.now()

    def read_index(view: View) -> tuple[list[MemoryRecord], LinkGraph]:
        by_key = {record.uid: record for record in view.records()}
        return latest_first(by_key.values()), LinkGraph.without_unlinked(view, by_key.get)

    every, links = call.engine.on_view(read_index, rescans=True)
    documents = [record for record in every if is_document(record.path)]
    records = [record for record in every if not is_document(record.path)]
    tree = walk_tree(call.root, call.settings.exclusions)
    remembered = RememberedResults(call, "doctor")
    memories = [
        _with_record(record, _inspect_file(call, remembered, record.path, is_memory=True))
        for record in records
    ]
    memory_paths = frozenset(record.path for record in records)
    others = [
        _inspect_file(call, remembered, path)
        for path in tree["file"]
        if path[-3:].lower() == ".md"
        and path not in memory_paths
        and not paths.is_memory_path(path)
    ]
    files = [*(memory.file for memory in memories), *others]
    index = call.index.status()
    if index.away:
        call.notes.append(index.away)
    return VaultInspection(
        call,
        now,
        tree,
        links,
        index,
        documents,
        memories,
        memory_paths,
        files,
        remembered,
        lambda path: plain_files.read(call.root / path),
    )


def inspect_memory(
    call: Call, links: LinkGraph, memory: MemoryRecord, data: bytes
) -> VaultInspection:
    """Inspect one memory from a text that may differ from its file, without storing results."""
    tree = walk_tree(call.root, call.settings.exclusions)
    problems = _problems(call, memory.path, data, is_memory=True)
    file = InspectedFile(memory.path, document.etag(data), **problems)
    inspected = _with_record(memory, file)
    return VaultInspection(
        call,
        clock.now(),
        tree,
        links,
        IndexStatus("", EmbedderStatus(""), EmbedderStatus(""), 0),
        [],
        [inspected],
        frozenset(entry.path for entry in links.entries.values()),
        [inspected.file],
        NoResults(),
        lambda _: data,
    )


_HEADER_PROBLEMS = ("broken front matter: ", "the front matter cannot be indexed: ")
"""Prefixes of the problem of a record whose header could not be parsed."""
_KEY = re.compile(r"^([ \t-]*[^\s#:-][^:\n]*):", re.MULTILINE | re.ASCII)
"""Matches a possible key: the text of a line before its first colon, with its indentation."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def _with_record(record: MemoryRecord, file: InspectedFile) -> InspectedMemory:
    """Add the problems in a memory's record to those of its file."""
    if record.problem.startswith(_HEADER_PROBLEMS) and not file.conflict_markers:
        file = file._replace(broken=record.problem.partition(": ")[2])
    if record.problem.startswith(memory_file.UNREAD):
        file = file._replace(unread=record.problem.removeprefix(memory_file.UNREAD))
    return InspectedMemory(record, file)


def _inspect_file(
    call: Call, remembered: RememberedResults, path: str, is_memory: bool = False
) -> InspectedFile:
    file = f"{call.root}/{path}"  # pathlib takes longer than reading the file
    try:
        mtime = os.lstat(file).st_mtime_ns
        data = plain_files.read(file)
    except FileNotFoundError:
        return InspectedFile(path)  # The file has been deleted since the scan.
    except OSError as error:
        is_large = error.errno == errno.EFBIG
        return InspectedFile(path, trouble="large" if is_large else error.strerror or str(error))
    etag = document.etag(data)
    problems: dict[str, Any] | None = remembered.get(
        "file", (path, etag, is_memory), lambda: _problems(call, path, data, is_memory)
    )
    return InspectedFile(path, etag, mtime, **(problems or {}))


def _problems(call: Call, path: str, data: bytes, is_memory: bool) -> dict[str, Any]:
    """Return the problems of a file's bytes by the fields of ``InspectedFile``, if any."""
    problems: dict[str, Any] = {}
    encoding = call.settings.encoding
    if call.settings.secrets.on_write != "off":
        problems["secrets"] = secret_policy.secrets_in_file(path, data, call.settings)
    if data[:2] in _UTF16 or b"<<<<<<< " in data:
        text = decoding.decode(data, encoding).text
        problems["conflict_markers"] = has_conflict_markers(text)
    has_header = is_memory or path.startswith(("agents/", "spaces/"))
    if has_header and not problems.get("conflict_markers"):
        if not is_memory:
            problem = document.Document.parse(data, encoding=encoding).strict_problem
            problems["broken"] = problem.removeprefix("broken front matter: ")
        if not problems.get("broken"):
            problems["duplicate_keys"] = _duplicate_keys(data, encoding)
    return {name: value for name, value in problems.items() if value}


def _duplicate_keys(data: bytes, encoding: str) -> list[str]:
    """Return the keys that a header has more than once.

    The header is parsed only if a cheap scan of its lines finds a possible duplicate.
    """
    if data[:2] in _UTF16:
        data = decoding.decode(data).text.encode("utf-8", "replace")
    head = data.removeprefix(codecs.BOM_UTF8)
    if not head.startswith(b"---"):
        return []
    text = head[:MAX_HEADER].decode("latin-1").replace("\r", "\n")  # keeps the line numbers
    lines = _KEY.findall(text, 0, max(text.find("\n---", 3), 0) or len(text))
    keys = [canonical_key(line.strip(" \t\"'").replace('"', "")) for line in lines]
    if len(set(keys)) == len(keys) and "{" not in text[: text.find("\n---", 3)]:
        return []
    return list(repeated_keys(split_front_matter(decoding.decode(data, encoding).text).header))
