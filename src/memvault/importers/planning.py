"""The plan of an import: the path of each item, and what the vault already has."""

from __future__ import annotations

import json
import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

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
from memvault.vault import document, paths, program_files
from memvault.vault.document import etag
from memvault.vault.file_names import name_key, names_folded

Status = Literal["new", "changed", "edited", "unchanged"]
"""Of a note: not in the vault; changed in the source; edited in the vault, too; unchanged."""
_NOT_IN_NAMES = frozenset('\\/:*?"<>|#^[]')
_MAX_NAME = 120
_MAX_NAME_OF_FILE = 255
"""Maximum length of a file name, in bytes, in most file systems."""
_TIMES = frozenset({"created", "modified"})
_OTHER_NAME = "-memory"
"""Appended to the name of a note that programs would read as instructions."""
_AGENTS_FOLDERS = ("agents", "spaces")


class PlannedNote(NamedTuple):
    """The path of a note in the vault, and its status."""

    path: str
    status: Status


class Included(NamedTuple):
    """Files that are imported only on request.

    ``instructions`` are files that programs read automatically as instructions or settings;
    ``agents`` are those in ``agents/`` and ``spaces/``: messages, plans and other state.
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
        """The paths of notes to write by the folded ids in their headers."""
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
        """Files that are imported only with an option, with the reason."""
        self.contents: Counter[str] = Counter()
        """Counts of imported content, by type."""
        self.omitted: Counter[str] = Counter()
        """Counts of unconverted content, by type."""

    def paths(self, status: Status) -> list[str]:
        """Return the paths of the notes with a status, in the order of the source."""
        return [note.path for note in self.notes.values() if note.status == status]

    @property
    def root_files(self) -> list[str]:
        """The paths of the files to write that are at the root of the vault."""
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
    """Plan an import into a folder of the vault; "" is its root.

    ``progress`` is called with the number of items read so far. Memory holds the paths and ids, but
    only one item at a time.
    """
    result = ImportPlan(kind, folder)
    for path in state.paths:
        result.names.add_existing(path)
    reserved: set[str] = set()
    for count, item in enumerate(items):
        progress(count)
        if isinstance(item, SkippedItem):
            if item.reason == UNCLAIMED:
                result.other_files.append(item.what)
            else:
                result.unreadable.append(item)
            continue
        if isinstance(item, ItemWarning):
            result.warnings.append(item)
            continue
        if isinstance(item, TypeCount):
            counts = result.contents if item.is_converted else result.omitted
            counts[item.type_name] += item.number
            continue
        try:
            _plan_item(result, item, state, reserved, included)
        except (OSError, ValueError, RecursionError) as error:  # no file system allows the path
            result.unreadable.append(SkippedItem(item.path, records.reason_for(error)))
    return result


def _plan_item(
    result: ImportPlan,
    item: ImportedNote | Attachment | VaultFile,
    state: VaultState,
    reserved: set[str],
    included: Included,
) -> None:
    if _is_settings(result, item):
        reason = "settings of another vault are not imported"
        result.unreadable.append(SkippedItem(item.path, reason))
    elif isinstance(item, ImportedNote) and item.key in result.notes:
        result.unreadable.append(SkippedItem(item.path, f"duplicate id {item.key}"))
    elif reason := _reason_to_skip(wanted := _wanted_path(result, item, state, included), included):
        result.left_out.append(SkippedItem(item.path, reason))
    elif isinstance(item, Attachment):
        _plan_attachment(result, item, wanted, state, reserved)
    elif isinstance(item, VaultFile):
        _plan_vault_file(result, item, wanted, state)
    else:
        note = _plan_note(item, wanted, state, reserved)
        result.notes[item.key] = note
        result.names.add(item.path, item.refs, note.path)
        if note.status == "new" and _OTHER_NAME in note.path:
            _warn_of_new_name(result, item.path, note.path)
        if note.status in ("new", "changed"):
            result.types[_type_of(item, note.path, state)] += 1
            if owner := _owner_of_id(result, item.text, note.path, state):
                result.new_ids.add(item.key)
                result.warnings.append(
                    ItemWarning(item.path, f"gets a new id, since {owner} has the same")
                )


def _warn_of_new_name(result: ImportPlan, name: str, path: str) -> None:
    if program_files.read_as(_safe(name)) == "instructions" != program_files.read_as(path):
        reason = f"imported as {path}: programs read {posixpath.basename(name)} as instructions"
        result.warnings.append(ItemWarning(name, reason))


def _owner_of_id(result: ImportPlan, text: str, path: str, state: VaultState) -> str:
    """Return the path of another memory with the same id as a note; empty if there is none."""
    mem_id = document.given_id(text)
    if not mem_id:
        return ""
    key = name_key(mem_id)
    owner = result.ids.setdefault(key, state.ids.get(key, path))
    return owner if owner != path else ""


def _wanted_path(
    result: ImportPlan,
    item: ImportedNote | Attachment | VaultFile,
    state: VaultState,
    included: Included,
) -> str:
    """Return the path in the vault that an item should get.

    A note that programs would read as instructions gets another name, unless these are included.
    """
    if isinstance(item, VaultFile):
        return _join(result.folder, item.path)
    path = _join(result.folder, _safe(item.path))
    if isinstance(item, Attachment):
        return path
    if item.key in state.imported:
        return state.imported[item.key].path
    if not included.instructions and program_files.read_as(path) == "instructions":
        stem, suffix = posixpath.splitext(path)
        return f"{stem}{_OTHER_NAME}{suffix}"
    return path


def _reason_to_skip(path: str, included: Included) -> str:
    """Return why a file is imported only with an option; empty if it is always imported."""
    first, *rest = names_folded(path)
    if rest and first in _AGENTS_FOLDERS and not included.agents:
        return _OF_AGENTS
    read_as = "" if included.instructions else program_files.read_as(path)
    return _READ_AS.format(read_as) if read_as else ""


def source_hash(note: ImportedNote) -> str:
    """Return a hash of a note in the source, without its times, which differ between copies."""
    header = {key: note.header[key] for key in sorted(note.header) if key not in _TIMES}
    content: list[Any] = [note.text, header]
    return etag(json.dumps(content, default=str).encode("utf-8", "surrogatepass"))


def _is_settings(result: ImportPlan, item: Item) -> bool:
    """Return whether an item would create a vault inside the vault."""
    if not isinstance(item, Attachment | VaultFile):
        return False
    path = _join(result.folder, item.path) if isinstance(item, VaultFile) else f"/{item.path}"
    is_own = path == SETTINGS_FILE  # the vault keeps its own settings
    return names_folded(path)[-1] == SETTINGS_FILE and not is_own


def _type_of(note: ImportedNote, path: str, state: VaultState) -> str:
    own_type = state.files.type_of(path, note.text.encode("utf-8", "replace"))
    return (
        own_type
        if own_type != FALLBACK_TYPE
        else str(note.header.get("memory_type") or FALLBACK_TYPE)
    )


def _plan_note(
    note: ImportedNote, wanted: str, state: VaultState, reserved: set[str]
) -> PlannedNote:
    earlier = state.imported.get(note.key)
    if earlier is None and note.key in state.imported_otherwise:
        return PlannedNote(state.imported_otherwise[note.key], "unchanged")
    if earlier is not None:
        if earlier.source_hash == source_hash(note):
            return PlannedNote(earlier.path, "unchanged")
        return PlannedNote(earlier.path, "edited" if earlier.is_edited else "changed")
    if state.files.has_content(wanted, note.text.encode("utf-8", "replace")):
        return PlannedNote(wanted, "unchanged")
    return PlannedNote(_reserve(wanted, state, reserved), "new")


def _plan_attachment(
    result: ImportPlan, item: Attachment, wanted: str, state: VaultState, reserved: set[str]
) -> None:
    if item.path in result.attachments:
        return
    path, is_there = wanted, False
    if state.files.exists(wanted):
        data = item.read()
        for path in paths.numbered_names(wanted, state.files.exists):
            is_there = state.files.has_content(path, data)
            if is_there or not state.files.exists(path):
                break
    if not is_there:
        path = _reserve(path, state, reserved)
    result.attachments[item.path] = path, is_there
    result.names.add(item.path, item.refs, path)


def _plan_vault_file(result: ImportPlan, item: VaultFile, path: str, state: VaultState) -> None:
    """Plan a file of another vault, which is written only if its path is free.

    Raises:
        ValueError: the name is not a valid file name.
    """
    if "\0" in os.fsdecode(os.fsencode(path)):
        raise ValueError("not a valid file name")
    if any(len(os.fsencode(part)) > _MAX_NAME_OF_FILE for part in path.split("/")):
        raise ValueError(f"the name is longer than {_MAX_NAME_OF_FILE} bytes")
    if not path.isprintable():
        raise ValueError("the name contains a control character")
    if any(part.startswith(".") or not part for part in item.path.split("/")):
        result.unreadable.append(SkippedItem(item.path, "hidden or outside the vault"))
        return
    data = item.read()
    is_there = state.files.exists(path)
    status: Status = "new" if not is_there else "unchanged"
    if is_there and not state.files.has_content(path, data):
        status = "edited"
    if not state.files.is_memory(path):
        if status == "edited":
            reason = "the vault has a different file at this path"
            result.unreadable.append(SkippedItem(item.path, reason))
        result.attachments[item.path] = path, is_there
        return
    result.notes[item.path] = PlannedNote(path, status)
    if status == "new":
        result.types[state.files.type_of(path, data)] += 1
        if owner := _owner_of_id(result, document.decode(data).text, path, state):
            result.warnings.append(
                ItemWarning(item.path, f"has the same id as {owner}; change one of them")
            )


def _reserve(wanted: str, state: VaultState, reserved: set[str]) -> str:
    """Return the first free variant of a path, and reserve it."""

    def is_taken(path: str) -> bool:
        return path.casefold() in reserved or state.files.exists(path)

    path = next(name for name in paths.numbered_names(wanted, is_taken) if not is_taken(name))
    reserved.add(path.casefold())
    return path


def _join(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _safe(path: str) -> str:
    """Return a path of visible names that every file system and Obsidian accept."""
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
    return f"{stem}-memory{suffix}" if paths.is_reserved(stem) else f"{stem}{suffix}"
