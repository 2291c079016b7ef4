"""The plan of an import: where each item goes, and what is there already."""

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
from memvault.vault import decoding, document, naming, paths, program_files
from memvault.vault.document import etag
from memvault.vault.names import name_key, names_folded

Status = Literal["new", "changed", "edited", "unchanged"]
"""Of a note: not in the vault; changed in the source; changed in both; as it was imported."""
_NOT_IN_NAMES = frozenset('\\/:*?"<>|#^[]')
_MAX_NAME = 120
_MAX_NAME_OF_FILE = 255
"""Maximum number of bytes of a name in most file systems."""
_TIMES = frozenset({"created", "modified"})
_OTHER_NAME = "-memory"
"""Follows the name of a note that programs would read as instructions."""
_AGENTS_FOLDERS = ("agents", "spaces")


class PlannedNote(NamedTuple):
    """Where a note goes, and whether it is written."""

    path: str
    status: Status


class Included(NamedTuple):
    """Files that are imported only if the user asks for them.

    ``instructions`` are those that programs read by themselves as instructions or settings, and
    ``agents`` those below ``agents/`` and ``spaces/``: messages, plans and other state.
    """

    instructions: bool = False
    agents: bool = False


_DEFAULT = Included()
_OF_AGENTS = "agent state or messages; use `--agents` to import them"
_READ_AS = "programs read it as {}; use `--with-instructions` to import it unchanged"


class ImportPlan:
    """An import as planned. ``types`` counts the notes to write by their memory type."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind = kind
        self.folder = folder
        self.notes: dict[str, PlannedNote] = {}
        self.attachments: dict[str, tuple[str, bool]] = {}
        """By the path in the source: the path in the vault, and whether the file is there."""
        self.ids: dict[str, str] = {}
        """The ids in the headers of notes to write, folded, with the paths that they belong to."""
        self.new_ids: set[str] = set()
        """The keys of the notes that get a new id, as another memory has theirs."""
        self.names = LinkTargets()
        self.types: Counter[str] = Counter()
        self.unreadable: list[SkippedItem] = []
        self.warnings: list[ItemWarning] = []
        """What is imported in another form than the source has, or by a guess."""
        self.other_files: list[str] = []
        """The names of the files of the source that the kind does not read."""
        self.left_out: list[SkippedItem] = []
        """Files that are imported only with an option, and the reason."""
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
    """Return the plan of an import into a folder of the vault; empty for its root.

    ``progress`` is called with the number of items read so far. Keeps paths and ids in memory, and
    one item at a time.
    """
    made = ImportPlan(kind, folder)
    for path in state.paths:
        made.names.add_taken(path)
    claimed: set[str] = set()
    for count, item in enumerate(items):
        progress(count)
        if isinstance(item, SkippedItem):
            if item.reason == UNCLAIMED:
                made.other_files.append(item.what)
            else:
                made.unreadable.append(item)
            continue
        if isinstance(item, ItemWarning):
            made.warnings.append(item)
            continue
        if isinstance(item, TypeCount):
            counts = made.contents if item.is_converted else made.omitted
            counts[item.type_name] += item.number
            continue
        try:
            _place(made, item, state, claimed, included)
        except (OSError, ValueError, RecursionError) as error:  # a path that no system has
            made.unreadable.append(SkippedItem(item.path, records.reason_for(error)))
    return made


def _place(
    made: ImportPlan,
    item: ImportedNote | Attachment | VaultFile,
    state: VaultState,
    claimed: set[str],
    included: Included,
) -> None:
    if _is_settings(made, item):
        reason = "the settings of a vault, which are not copied into another"
        made.unreadable.append(SkippedItem(item.path, reason))
    elif isinstance(item, ImportedNote) and item.key in made.notes:
        made.unreadable.append(SkippedItem(item.path, f"another note has its id {item.key}"))
    elif reason := _why_left_out(wished := _wished(made, item, state, included), included):
        made.left_out.append(SkippedItem(item.path, reason))
    elif isinstance(item, Attachment):
        _place_attachment(made, item, wished, state, claimed)
    elif isinstance(item, VaultFile):
        _place_file(made, item, wished, state)
    else:
        note = _place_note(item, wished, state, claimed)
        made.notes[item.key] = note
        made.names.add(item.path, item.refs, note.path)
        if note.status == "new" and _OTHER_NAME in note.path:
            _note_new_name(made, item.path, note.path)
        if note.status in ("new", "changed"):
            made.types[_type_of(item, note.path, state)] += 1
            if owner := _owner_of_id(made, item.text, note.path, state):
                made.new_ids.add(item.key)
                made.warnings.append(ItemWarning(item.path, f"gets a new id: {owner} has the same"))


def _note_new_name(made: ImportPlan, name: str, path: str) -> None:
    if program_files.read_as(_safe(name)) == "instructions" != program_files.read_as(path):
        reason = f"imported as {path}: programs read {posixpath.basename(name)} as instructions"
        made.warnings.append(ItemWarning(name, reason))


def _owner_of_id(made: ImportPlan, text: str, path: str, state: VaultState) -> str:
    """Return the path of another memory with the id in the header of a note; empty if none has."""
    mem_id = document.given_id(text)
    if not mem_id:
        return ""
    key = name_key(mem_id)
    owner = made.ids.setdefault(key, state.ids.get(key, path))
    return owner if owner != path else ""


def _wished(
    made: ImportPlan,
    item: ImportedNote | Attachment | VaultFile,
    state: VaultState,
    included: Included,
) -> str:
    """Return the path of the vault that an item should have.

    A note that programs would read as instructions gets another name, unless they are included.
    """
    if isinstance(item, VaultFile):
        return _joined(made.folder, item.path)
    path = _joined(made.folder, _safe(item.path))
    if isinstance(item, Attachment):
        return path
    if item.key in state.imported:
        return state.imported[item.key].path
    if not included.instructions and program_files.read_as(path) == "instructions":
        stem, suffix = posixpath.splitext(path)
        return f"{stem}{_OTHER_NAME}{suffix}"
    return path


def _why_left_out(path: str, included: Included) -> str:
    """Return why a file at a path of the vault is imported with an option only; empty if not."""
    first, *rest = names_folded(path)
    if rest and first in _AGENTS_FOLDERS and not included.agents:
        return _OF_AGENTS
    read_as = "" if included.instructions else program_files.read_as(path)
    return _READ_AS.format(read_as) if read_as else ""


def source_hash(note: ImportedNote) -> str:
    """Return a hash of a note as it is in the source, whose times differ between its copies."""
    header = {key: note.header[key] for key in sorted(note.header) if key not in _TIMES}
    content: list[Any] = [note.text, header]
    return etag(json.dumps(content, default=str).encode("utf-8", "surrogatepass"))


def _is_settings(made: ImportPlan, item: Item) -> bool:
    """Return whether an item would make a vault within the vault."""
    if not isinstance(item, Attachment | VaultFile):
        return False
    path = _joined(made.folder, item.path) if isinstance(item, VaultFile) else f"/{item.path}"
    is_own = path == SETTINGS_FILE  # the vault has it already, and keeps it
    return names_folded(path)[-1] == SETTINGS_FILE and not is_own


def _type_of(note: ImportedNote, path: str, state: VaultState) -> str:
    own = state.type_of(path, note.text.encode("utf-8", "replace"))
    return own if own != FALLBACK_TYPE else str(note.header.get("memory_type") or FALLBACK_TYPE)


def _place_note(
    note: ImportedNote, wished: str, state: VaultState, claimed: set[str]
) -> PlannedNote:
    earlier = state.imported.get(note.key)
    if earlier is None and note.key in state.imported_otherwise:
        return PlannedNote(state.imported_otherwise[note.key], "unchanged")
    if earlier is not None:
        if earlier.source_hash == source_hash(note):
            return PlannedNote(earlier.path, "unchanged")
        return PlannedNote(earlier.path, "edited" if earlier.is_edited else "changed")
    if state.holds(wished, note.text.encode("utf-8", "replace")):
        return PlannedNote(wished, "unchanged")
    return PlannedNote(_claim(wished, state, claimed), "new")


def _place_attachment(
    made: ImportPlan, item: Attachment, wished: str, state: VaultState, claimed: set[str]
) -> None:
    if item.path in made.attachments:
        return
    path, is_there = wished, False
    if state.is_taken(wished):
        data = item.read()
        for path in paths.numbered_names(wished, state.is_taken):
            is_there = state.holds(path, data)
            if is_there or not state.is_taken(path):
                break
    if not is_there:
        path = _claim(path, state, claimed)
    made.attachments[item.path] = path, is_there
    made.names.add(item.path, item.refs, path)


def _place_file(made: ImportPlan, item: VaultFile, path: str, state: VaultState) -> None:
    """Plan a file of another vault: written if its path is free, kept if that has other bytes.

    Raises:
        ValueError: no file can have this name.
    """
    if "\0" in os.fsdecode(os.fsencode(path)):
        raise ValueError("no file can have this name")
    if any(len(os.fsencode(part)) > _MAX_NAME_OF_FILE for part in path.split("/")):
        raise ValueError(f"its name has more than {_MAX_NAME_OF_FILE} bytes")
    if not path.isprintable():
        raise ValueError("its name has a line end or another control character")
    if any(part.startswith(".") or not part for part in item.path.split("/")):
        made.unreadable.append(SkippedItem(item.path, "hidden, or outside of the vault"))
        return
    data = item.read()
    is_there = state.is_taken(path)
    status: Status = "new" if not is_there else "unchanged"
    if is_there and not state.holds(path, data):
        status = "edited"
    if not state.is_memory(path):
        if status == "edited":
            reason = "there with other contents, which are kept"
            made.unreadable.append(SkippedItem(item.path, reason))
        made.attachments[item.path] = path, is_there
        return
    made.notes[item.path] = PlannedNote(path, status)
    if status == "new":
        made.types[state.type_of(path, data)] += 1
        if owner := _owner_of_id(made, decoding.decode(data).text, path, state):
            made.warnings.append(
                ItemWarning(item.path, f"has the id of {owner}: change one of them")
            )


def _claim(wished: str, state: VaultState, claimed: set[str]) -> str:
    """Return the first free variant of a path, and let no other item have it."""

    def is_taken(path: str) -> bool:
        return path.casefold() in claimed or state.is_taken(path)

    path = next(name for name in paths.numbered_names(wished, is_taken) if not is_taken(name))
    claimed.add(path.casefold())
    return path


def _joined(folder: str, path: str) -> str:
    return f"{folder}/{path}" if folder else path


def _safe(path: str) -> str:
    """Return a path whose parts every system and Obsidian accept, none of them hidden."""
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
