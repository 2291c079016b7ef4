"""Plan an import: the path and status of each item in the vault."""

from __future__ import annotations

import json
import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal

from memvault.files.user_folders import SETTINGS_FILE
from memvault.importers import records
from memvault.importers.items import (
    UNCLAIMED,
    Attachment,
    ImportedNote,
    Item,
    ItemWarning,
    SkippedItem,
    TypeCount,
    VaultFile,
)
from memvault.importers.links import LinkTargets
from memvault.importers.state import VaultState
from memvault.model import FALLBACK_TYPE
from memvault.named_tuple import NamedTuple
from memvault.vault import decoding, document, naming, paths, program_files
from memvault.vault.document import etag
from memvault.vault.names import name_key, names_folded

Status = Literal["new", "changed", "edited", "unchanged"]
"""A note's status: new, changed in the source, changed on both sides, or unchanged."""
_NOT_IN_NAMES = frozenset('\\/:*?"<>|#^[]')
_MAX_NAME = 120
_MAX_NAME_OF_FILE = 255
"""Maximum length of a file name, in bytes, in most file systems."""
_TIMES = frozenset({"created", "modified"})
_OTHER_NAME = "-memory"
"""The suffix added to note names that programs would otherwise read as instructions."""
_AGENTS_FOLDERS = ("agents", "spaces")


class PlannedNote(NamedTuple):
    """The path of a note in the vault, and its status."""

    path: str
    status: Status


class Included(NamedTuple):
    """Kinds of files to import that are skipped by default.

    ``instructions`` contains files that programs read automatically as instructions or settings;
    ``agents`` contains files in ``agents/`` and ``spaces/``: messages, plans and other state.
    """

    instructions: bool = False
    agents: bool = False


_DEFAULT = Included()
_OF_AGENTS = "agent state or messages; use `--agents` to import them"
_READ_AS = "programs read it as {}; use `--with-instructions` to import it unchanged"


class ImportPlan:
    """A planned import; ``types`` counts the notes to write by memory type."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind = kind
        self.folder = folder
        self.notes: dict[str, PlannedNote] = {}
        self.attachments: dict[str, tuple[str, bool]] = {}
        """Maps each source path to its path in the vault and whether the file exists."""
        self.ids: dict[str, str] = {}
        """The paths of the notes to write, keyed by the folded ids in their headers."""
        self.new_ids: set[str] = set()
        """The keys of notes that get a new id because another memory has theirs."""
        self.names = LinkTargets()
        self.types: Counter[str] = Counter()
        self.unreadable: list[SkippedItem] = []
        self.warnings: list[ItemWarning] = []
        """Items that are imported in another form, or with guessed values."""
        self.other_files: list[str] = []
        """The names of source files that the format does not read."""
        self.left_out: list[SkippedItem] = []
        """Files that are imported only with an option, with the reason for each."""
        self.contents: Counter[str] = Counter()
        """Counts of imported content, by type."""
        self.omitted: Counter[str] = Counter()
        """Counts of unconverted content, by type."""

    def paths(self, status: Status) -> list[str]:
        """Return the paths of the notes with a status, in the order of the source."""
        return [note.path for note in self.notes.values() if note.status == status]

    @property
    def root_files(self) -> list[str]:
        """Return the paths of the files to write at the root of the vault."""
        written = [*self.paths("new"), *self.paths("changed"), *self.new_attachments]
        return [path for path in written if "/" not in path]

    @property
    def new_attachments(self) -> list[str]:
        """The paths of the files to copy."""
        return [path for path, is_there in self.attachments.values() if not is_there]


def plan(
    items: Iterable[Item],
    kind: str,
    folder: str,
    state: VaultState,
    progress: Callable[[int], object] = lambda _: None,
    included: Included = _DEFAULT,
) -> ImportPlan:
    """Plan an import into a folder in the vault; "" is its root.

    ``progress`` is called with the number of items read so far. All paths and ids are in memory,
    but only one item at a time.
    """
    planner = _Planner(ImportPlan(kind, folder), state, included)
    for count, item in enumerate(items):
        progress(count)
        planner.add(item)
    return planner.result


class _Planner:
    """Adds items to a plan."""

    def __init__(self, result: ImportPlan, state: VaultState, included: Included) -> None:
        self.result = result
        self._state = state
        self._files = state.files
        self._included = included
        self._reserved: set[str] = set()
        """The case-folded paths of items to write."""
        for path in state.paths:
            result.names.add_existing(path)

    def add(self, item: Item) -> None:
        """Add an item."""
        if isinstance(item, SkippedItem):
            if item.reason == UNCLAIMED:
                self.result.other_files.append(item.what)
            else:
                self.result.unreadable.append(item)
        elif isinstance(item, ItemWarning):
            self.result.warnings.append(item)
        elif isinstance(item, TypeCount):
            counts = self.result.contents if item.is_converted else self.result.omitted
            counts[item.type_name] += item.number
        else:
            try:
                self._add_file(item)
            except (OSError, ValueError, RecursionError) as error:
                # The path is not valid on any file system.
                self._skip(item.path, records.reason_for(error))

    def _skip(self, path: str, reason: str) -> None:
        self.result.unreadable.append(SkippedItem(path, reason))

    def _warn(self, path: str, reason: str) -> None:
        self.result.warnings.append(ItemWarning(path, reason))

    def _add_file(self, item: ImportedNote | Attachment | VaultFile) -> None:
        wanted_path = self._wanted_path(item)
        if self._is_settings(item):
            self._skip(item.path, "another vault's settings are not imported")
        elif isinstance(item, ImportedNote) and item.key in self.result.notes:
            self._skip(item.path, f"duplicate id {item.key}")
        elif reason := _reason_to_skip(wanted_path, self._included):
            self.result.left_out.append(SkippedItem(item.path, reason))
        elif isinstance(item, Attachment):
            self._add_attachment(item, wanted_path)
        elif isinstance(item, VaultFile):
            self._add_vault_file(item, wanted_path)
        else:
            self._add_note(item, wanted_path)

    def _wanted_path(self, item: ImportedNote | Attachment | VaultFile) -> str:
        """Return the preferred path of an item in the vault, which may be taken."""
        if isinstance(item, VaultFile):
            return _join(self.result.folder, item.path)
        path = _join(self.result.folder, _safe(item.path))
        if isinstance(item, Attachment):
            return path
        if item.key in self._state.imported:
            return self._state.imported[item.key].path
        if not self._included.instructions and program_files.read_as(path) == "instructions":
            stem, suffix = posixpath.splitext(path)
            return f"{stem}{_OTHER_NAME}{suffix}"
        return path

    def _is_settings(self, item: Item) -> bool:
        """Return whether an item would create a vault inside the vault."""
        if not isinstance(item, Attachment | VaultFile):
            return False
        is_file = isinstance(item, VaultFile)
        path = _join(self.result.folder, item.path) if is_file else f"/{item.path}"
        is_own = path == SETTINGS_FILE  # the vault's own settings are kept
        return names_folded(path)[-1] == SETTINGS_FILE and not is_own

    def _add_note(self, note: ImportedNote, wanted_path: str) -> None:
        planned = self._planned(note, wanted_path)
        path, status = planned
        self.result.notes[note.key] = planned
        self.result.names.add(note.path, note.refs, path)
        if status not in ("new", "changed"):
            return
        is_instructions = program_files.read_as(_safe(note.path)) == "instructions"
        if status == "new" and is_instructions and _OTHER_NAME in path:
            name = posixpath.basename(note.path)
            self._warn(note.path, f"imported as {path}: programs read {name} as instructions")
        memory_type = self._files.type_of(path, note.text.encode("utf-8", "replace"))
        if memory_type == FALLBACK_TYPE:
            memory_type = str(note.header.get("memory_type") or FALLBACK_TYPE)
        self.result.types[memory_type] += 1
        if owner := self._owner_of_id(note.text, path):
            self.result.new_ids.add(note.key)
            self._warn(note.path, f"gets a new id, because {owner} has the same id")

    def _planned(self, note: ImportedNote, wanted_path: str) -> PlannedNote:
        """Return the path and the status of a note."""
        earlier = self._state.imported.get(note.key)
        if earlier is None and note.key in self._state.imported_otherwise:
            return PlannedNote(self._state.imported_otherwise[note.key], "unchanged")
        if earlier is not None:
            if earlier.source_hash == source_hash(note):
                return PlannedNote(earlier.path, "unchanged")
            return PlannedNote(earlier.path, "edited" if earlier.is_edited else "changed")
        if self._files.has_content(wanted_path, note.text.encode("utf-8", "replace")):
            return PlannedNote(wanted_path, "unchanged")
        return PlannedNote(self._reserve(wanted_path), "new")

    def _owner_of_id(self, text: str, path: str) -> str:
        """Return the path of another memory with the same id as a note; "" if there is none."""
        mem_id = document.given_id(text)
        if not mem_id:
            return ""
        key = name_key(mem_id)
        owner = self.result.ids.setdefault(key, self._state.ids.get(key, path))
        return owner if owner != path else ""

    def _add_attachment(self, item: Attachment, wanted_path: str) -> None:
        if item.path in self.result.attachments:
            return
        path, is_there = wanted_path, False
        if self._files.exists(wanted_path):
            data = item.read()
            for path in paths.numbered_names(wanted_path, self._files.exists):
                is_there = self._files.has_content(path, data)
                if is_there or not self._files.exists(path):
                    break
        if not is_there:
            path = self._reserve(path)
        self.result.attachments[item.path] = path, is_there
        self.result.names.add(item.path, item.refs, path)

    def _add_vault_file(self, item: VaultFile, path: str) -> None:
        """Add a file from another vault; it is written only if its path is free.

        Raises:
            ValueError: if the name is not a valid file name.
        """
        if "\0" in os.fsdecode(os.fsencode(path)):
            raise ValueError("not a valid file name")
        if any(len(os.fsencode(part)) > _MAX_NAME_OF_FILE for part in path.split("/")):
            raise ValueError(f"the name is longer than {_MAX_NAME_OF_FILE} bytes")
        if not path.isprintable():
            raise ValueError("the name contains a control character")
        if any(part.startswith(".") or not part for part in item.path.split("/")):
            self._skip(item.path, "hidden or outside the vault")
            return
        data = item.read()
        is_there = self._files.exists(path)
        is_different = is_there and not self._files.has_content(path, data)
        if not self._files.is_memory(path):
            if is_different:
                self._skip(item.path, "the vault has a different file at this path")
            self.result.attachments[item.path] = path, is_there
            return
        status: Status = "edited" if is_different else "unchanged" if is_there else "new"
        self.result.notes[item.path] = PlannedNote(path, status)
        if status == "new":
            self.result.types[self._files.type_of(path, data)] += 1
            if owner := self._owner_of_id(decoding.decode(data).text, path):
                self._warn(item.path, f"has the same id as {owner}; change one of them")

    def _reserve(self, wanted_path: str) -> str:
        """Return the first free variant of a path, and reserve it."""

        def is_taken(path: str) -> bool:
            return path.casefold() in self._reserved or self._files.exists(path)

        path = next(
            name for name in paths.numbered_names(wanted_path, is_taken) if not is_taken(name)
        )
        self._reserved.add(path.casefold())
        return path


def _reason_to_skip(path: str, included: Included) -> str:
    """Return why a file is imported only with an option; empty if it is always imported."""
    first, *rest = names_folded(path)
    if rest and first in _AGENTS_FOLDERS and not included.agents:
        return _OF_AGENTS
    read_as = "" if included.instructions else program_files.read_as(path)
    return _READ_AS.format(read_as) if read_as else ""


def source_hash(note: ImportedNote) -> str:
    """Return a hash of a note in the source, excluding its times, which differ between copies."""
    header = {key: note.header[key] for key in sorted(note.header) if key not in _TIMES}
    content: list[Any] = [note.text, header]
    return etag(json.dumps(content, default=str).encode("utf-8", "surrogatepass"))


def _join(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _safe(path: str) -> str:
    """Return a path in which invisible and forbidden characters are replaced.

    The path is valid on every file system and in Obsidian.
    """
    *folders, name = [part for part in path.split("/") if part.strip(". ")] or ["memory.md"]
    stem, suffix = posixpath.splitext(name)
    return "/".join([*(_safe_name(part) for part in folders), _safe_name(stem, suffix)])


def _safe_name(stem: str, suffix: str = "") -> str:
    stem = "".join(
        "-" if char in _NOT_IN_NAMES or not char.isprintable() else char for char in stem
    )
    stem = stem.strip(" .-") or "memory"
    stem = stem.encode("utf-8", "replace")[:_MAX_NAME].decode("utf-8", "ignore").rstrip()
    suffix = "".join(char for char in suffix[:20] if char.isalnum() or char == ".")
    return f"{stem}-memory{suffix}" if naming.is_reserved(stem) else f"{stem}{suffix}"
