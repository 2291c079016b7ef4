"""Write the notes and attachments of a plan as one change in the vault."""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memvault.errors import Conflict, MemvaultError, NotFound, Refused, StorageError
from memvault.files import plain_files
from memvault.importers import records
from memvault.importers.items import (
    Attachment,
    ImportedNote,
    Item,
    ItemWarning,
    SkippedItem,
    TypeCount,
    VaultFile,
)
from memvault.importers.links import LinkTargets, resolve_links, rewrite_links
from memvault.importers.planning import ImportPlan, source_hash
from memvault.importers.state import ID, KIND, VERSION, with_version
from memvault.lazy_pattern import lazy_pattern
from memvault.secrets.detector import SecretDetector
from memvault.store.memory_store import MemoryStore
from memvault.vault import document, header_dates, memory_file, naming
from memvault.vault.document import Document
from memvault.vault.front_matter import split_front_matter
from memvault.vault.names import normalize_title

_KEY = lazy_pattern(r"^[^\s:#-][^:\n]*+:(?=\s|\Z)", re.MULTILINE)
"""Matches a line with a header key."""
_FIRST_KEYS = ("id", "title", "aliases", "memory_type", "tags", "created", "modified")


def apply(
    store: MemoryStore,
    plan: ImportPlan,
    items: Iterable[Item],
    progress: Callable[[int, int], object] = lambda *_: None,
) -> list[SkippedItem]:
    """Write the new and changed items of a plan; return the items that could not be written.

    ``items`` come from a second pass over the source; items that are not in the plan are skipped.
    If the process is killed, complete files remain, and a second import continues.

    Raises:
        StorageError: if the vault or its journal cannot be written; the import stops.
    """
    failed: list[SkippedItem] = []
    done, total = 0, len(plan.notes) + len(plan.attachments)
    seen: set[str] = set()
    for item in items:
        if isinstance(item, SkippedItem | ItemWarning | TypeCount):
            continue
        identity = f"id {item.key}" if isinstance(item, ImportedNote) else item.path
        if identity in seen:  # the plan already lists it as skipped
            continue
        seen.add(identity)
        try:
            if isinstance(item, Attachment | VaultFile):
                _write_file(store, plan, item)
            else:
                _write_note(store, plan, item)
        except (Refused, Conflict, NotFound, FileExistsError, ValueError, RecursionError) as error:
            failed.append(SkippedItem(item.path, _why_not_written(error)))
        except StorageError as error:
            if not _is_name(error):
                raise
            failed.append(SkippedItem(item.path, error.message))
        if not store.change_set.is_recorded:
            raise StorageError(store.change_set.warnings[-1], "free some space and import again")
        done += 1
        progress(min(done, total), total)
    return failed


def _why_not_written(error: Exception) -> str:
    if isinstance(error, FileExistsError):
        return "a file with this name was created during the import"
    return error.message if isinstance(error, MemvaultError) else records.reason_for(error)


def _is_name(error: StorageError) -> bool:
    """Return whether a write failed only because the file name is not accepted."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENAMETOOLONG, errno.EILSEQ)


def _write_note(store: MemoryStore, plan: ImportPlan, note: ImportedNote) -> None:
    planned = plan.notes.get(note.key)
    if planned is None or planned.status in ("unchanged", "edited"):
        return
    has_new_id = note.key in plan.new_ids
    data = render_note(
        note, plan.kind, planned.path, plan.names, store.settings.detector, has_new_id
    )
    if planned.status == "changed":
        store.rewrite(store.read(planned.path), data)
    else:
        store.create(planned.path, data)


def _write_file(store: MemoryStore, plan: ImportPlan, item: Attachment | VaultFile) -> None:
    path, is_there = plan.attachments.get(item.path, ("", True))
    if item.path in plan.notes:
        path, status = plan.notes[item.path]
        is_there = status != "new"
    if not is_there:
        try:
            data = item.read()
        except OSError as error:
            raise Refused(error.strerror or str(error)) from error
        plain_files.check_size(data)
        store.create(path, data)


def render_note(
    note: ImportedNote,
    kind: str,
    target: str,
    names: LinkTargets,
    detector: SecretDetector,
    has_new_id: bool = False,
) -> bytes:
    """Return the bytes of a note's file; ``has_new_id`` replaces the id in its header."""
    text = rewrite_links(note.text, note.path, target, names)
    note_header = {key: resolve_links(value, names) for key, value in note.header.items() if value}
    if note.masked:
        text = detector.masked(text)
        note_header = detector.masked_values(note_header)
    if not text.endswith("\n"):
        text += "\n"
    data = document.with_closing_line(text.encode("utf-8", "replace"))
    file = Document.parse(data)
    own_header = dict(file.header or {})
    if has_new_id:
        own_header.pop("id", None)
    header = _header(note, kind, target, note_header, own_header, file.parts.body)
    between = split_front_matter(file.decoded.text).header
    if between.strip() and not file.header and _KEY.search(between) is None:
        # not a header, but text between two horizontal rules
        return with_version(document.encode_new(header, text), source_hash(note))
    try:
        data = document.edit(data, header, None)
    except MemvaultError:  # a header that cannot be edited, or conflict markers in the file
        data = document.with_lines(data, header) or document.encode_new(header, text)
    return with_version(data, source_hash(note))


def _listed(value: Any) -> list[str]:
    """Return a list of names; some programs write it as comma-separated text."""
    entries = value.split(",") if isinstance(value, str) else value
    return [name for entry in entries if (name := str(entry).strip())]


def _header(
    note: ImportedNote,
    kind: str,
    target: str,
    note_header: Mapping[str, Any],
    own_header: Mapping[str, Any],
    body: str,
) -> dict[str, Any]:
    """Return the header keys to set: the note's origin, and keys that its own header lacks."""
    title = str(note_header.get("title") or memory_file.title_of(own_header, body, note.path))
    mem_id = f"{naming.slug(title, 40)}-{naming.id_from_name(f'{kind}:{note.key}')[-6:]}"
    header = {**note_header, "id": mem_id}
    if "tags" in note_header:
        header["tags"] = _listed(note_header["tags"])
    header.pop("title", None)
    if memory_file.title_of(own_header, body, target) != title:
        header["title"] = title
    stem = posixpath.splitext(posixpath.basename(target))[0]
    wished = posixpath.splitext(posixpath.basename(note.path))[0]
    titles = [str(note_header["title"])] if "title" in note_header else []
    aliases = [*_listed(note_header.get("aliases", ())), *titles, wished]
    header["aliases"] = [
        name for name in dict.fromkeys(aliases) if normalize_title(name) != normalize_title(stem)
    ]
    for role in ("created", "modified"):
        # The note's own header contains this time, possibly under another key.
        if header_dates.time_in(own_header, role):
            header.pop(role, None)
    header = {key: value for key, value in header.items() if key not in own_header and value}
    first = {key: header.pop(key) for key in _FIRST_KEYS if key in header}
    return {**first, **header, KIND: kind, ID: note.key, VERSION: "0-0"}
