"""The plan of an import: where each item goes, and what is there already."""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from memvault.files.user_folders import SETTINGS_FILE
from memvault.importers.items import Attachment, ImportedNote, Item, Unreadable, VaultFile
from memvault.importers.links import Names
from memvault.importers.state import VaultState
from memvault.model import FALLBACK_TYPE
from memvault.vault import paths
from memvault.vault.document import etag

Status = Literal["new", "changed", "edited", "unchanged"]
"""Of a note: not in the vault; changed in the source; changed in both; as it was imported."""
_NOT_IN_NAMES = frozenset('\\/:*?"<>|#^[]')
_MAX_NAME = 120
_TIMES = frozenset({"created", "modified"})


class PlannedNote(NamedTuple):
    """Where a note goes, and whether it is written."""

    path: str
    status: Status


class ImportPlan:
    """An import as planned. ``types`` counts the notes to write by their memory type."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind = kind
        self.folder = folder
        self.notes: dict[str, PlannedNote] = {}
        self.attachments: dict[str, tuple[str, bool]] = {}
        """By the path in the source: the path in the vault, and whether the file is there."""
        self.names = Names()
        self.types: Counter[str] = Counter()
        self.unreadable: list[Unreadable] = []

    def paths(self, status: Status) -> list[str]:
        """Return the paths of the notes with a status, in the order of the source."""
        return [note.path for note in self.notes.values() if note.status == status]

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
        if isinstance(item, Unreadable):
            made.unreadable.append(item)
        elif _is_settings(made, item):
            reason = "the settings of a vault, which are not copied into another"
            made.unreadable.append(Unreadable(item.path, reason))
        elif isinstance(item, Attachment):
            _place_attachment(made, item, state, claimed)
        elif isinstance(item, VaultFile):
            _place_file(made, item, state)
        elif item.key in made.notes:
            made.unreadable.append(Unreadable(item.path, f"another note has its id {item.key}"))
        else:
            note = _place_note(made, item, state, claimed)
            made.notes[item.key] = note
            made.names.add(item.path, item.refs, note.path)
            if note.status in ("new", "changed"):
                made.types[_type_of(item, note.path, state)] += 1
    return made


def source_hash(note: ImportedNote) -> str:
    """Return a hash of a note as it is in the source, whose times differ between its copies."""
    header = {key: note.header[key] for key in sorted(note.header) if key not in _TIMES}
    content: list[Any] = [note.text, header]
    return etag(json.dumps(content, default=str).encode("utf-8", "surrogatepass"))


def _is_settings(made: ImportPlan, item: Item) -> bool:
    """Return whether an item would make a vault within the vault."""
    if isinstance(item, VaultFile):
        return _joined(made.folder, item.path).endswith(f"/{SETTINGS_FILE}")
    return isinstance(item, Attachment) and posixpath.basename(item.path) == SETTINGS_FILE


def _type_of(note: ImportedNote, path: str, state: VaultState) -> str:
    own = state.type_of(path, note.text.encode("utf-8", "replace"))
    return own if own != FALLBACK_TYPE else str(note.header.get("memory_type") or FALLBACK_TYPE)


def _place_note(
    made: ImportPlan, note: ImportedNote, state: VaultState, claimed: set[str]
) -> PlannedNote:
    earlier = state.imported.get(note.key)
    if earlier is not None:
        if earlier.source_hash == source_hash(note):
            return PlannedNote(earlier.path, "unchanged")
        return PlannedNote(earlier.path, "edited" if earlier.is_edited else "changed")
    wished = _joined(made.folder, _safe(note.path))
    if state.holds(wished, note.text.encode("utf-8", "replace")):
        return PlannedNote(wished, "unchanged")
    return PlannedNote(_claim(wished, state, claimed), "new")


def _place_attachment(
    made: ImportPlan, item: Attachment, state: VaultState, claimed: set[str]
) -> None:
    if item.path in made.attachments:
        return
    wished = _joined(made.folder, _safe(item.path))
    path, is_there = wished, False
    if state.is_taken(wished):
        try:
            data = item.read()
        except OSError as error:
            made.unreadable.append(Unreadable(item.path, error.strerror or str(error)))
            return
        for path in paths.numbered_names(wished, state.is_taken):
            is_there = state.holds(path, data)
            if is_there or not state.is_taken(path):
                break
    if not is_there:
        path = _claim(path, state, claimed)
    made.attachments[item.path] = path, is_there
    made.names.add(item.path, item.refs, path)


def _place_file(made: ImportPlan, item: VaultFile, state: VaultState) -> None:
    """Plan a file of another vault: written if its path is free, kept if that has other bytes."""
    path = _joined(made.folder, item.path)
    if any(part.startswith(".") or not part for part in item.path.split("/")):
        made.unreadable.append(Unreadable(item.path, "hidden, or outside of the vault"))
        return
    try:
        data = item.read()
    except OSError as error:
        made.unreadable.append(Unreadable(item.path, error.strerror or str(error)))
        return
    is_there = state.is_taken(path)
    status: Status = "new" if not is_there else "unchanged"
    if is_there and not state.holds(path, data):
        status = "edited"
    if not state.is_memory(path):
        if status == "edited":
            reason = "there with other contents, which are kept"
            made.unreadable.append(Unreadable(item.path, reason))
        made.attachments[item.path] = path, is_there
        return
    made.notes[item.path] = PlannedNote(path, status)
    if status == "new":
        made.types[state.type_of(path, data)] += 1


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
    return f"{stem}-memory{suffix}" if paths.is_reserved(stem) else f"{stem}{suffix}"
