"""Bringing back what was forgotten or changed."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from memvault import clock, plain_files
from memvault.errors import Ambiguous, Conflict, NotFound, UsageError
from memvault.model import FileState, Memory
from memvault.recall.engine import RecallEngine
from memvault.recall.filters import Filters
from memvault.recall.resolve import match_name
from memvault.vault.deed import FileRef
from memvault.vault.history import TrashedFile
from memvault.vault.store import MemoryStore


class TrashedMemory(NamedTuple):
    """A memory in the trash; ``when`` says since when, as the rest of the program writes times."""

    item: TrashedFile
    path: str
    mem_id: str
    title: str
    when: str
    size: int
    aliases: tuple[str, ...]


def trash(store: MemoryStore) -> list[TrashedMemory]:
    """Return what is in the trash, newest first."""
    found = []
    for item in filter(lambda item: store.deed.can_see(item.path), store.history.discarded()):
        with contextlib.suppress(OSError):
            data = plain_files.read(item.file)
            memory = store.parse(data, FileState(item.path, len(data), 0, 0, 0))
            moment = clock.parse(item.when)
            when = clock.iso(moment) if moment else item.when
            named = (item.path, memory.mem_id, memory.title)
            found.append(TrashedMemory(item, *named, when, len(data), memory.aliases))
    return found


def older(store: MemoryStore, moment: str | None) -> list[TrashedMemory]:
    """Return what was forgotten before a moment, newest first; without one all of it.

    Raises:
        UsageError: the moment is none.
    """
    if moment is None:
        return trash(store)
    until = clock.parse_age(moment)
    if until is None:
        raise UsageError(f"{moment!r} is no date and no age", "2026-03-01, or 30d for 30 days ago")
    return [entry for entry in trash(store) if entry.when < clock.iso(until)]


def restore(store: MemoryStore, engine: RecallEngine, name: str) -> Memory:
    """Put back the memory that a memId or its beginning, a path or a title names.

    Of several with one path the one discarded last is meant.

    Raises:
        NotFound: there is none in the trash.
        Ambiguous: there are several with different paths.
        Conflict: it is in the vault already, as a sync may have kept what others changed.
    """
    fits = match_name(name, trash(store))
    if not fits:
        raise NotFound(f"{name!r} is not in the trash", "memvault trash list names what is there")
    if len({entry.path for entry in fits}) > 1:
        raise Ambiguous(
            f"{name!r} names {len(fits)} memories in the trash",
            "use one of their paths",
            {"candidates": [{"memId": entry.mem_id, "filePath": entry.path} for entry in fits]},
        )
    same = (entry for entry in engine.list_records(Filters()) if entry.mem_id == fits[0].mem_id)
    here = next((entry for entry in same if "id" in entry.metadata), None)
    if here is not None:
        raise Conflict(
            f"{here.title} is in the vault already, as {here.path}",
            f"memvault log {here.mem_id} names its revisions; to have the one in the trash "
            f"instead, forget {here.path} first",
        )
    subject = FileRef(fits[0].mem_id, fits[0].title)
    return store.read(store.put_back(fits[0].item, subject))


def restore_revision(store: MemoryStore, memory: Memory, revision: str) -> Memory:
    """Give a memory the bytes of an earlier revision; its present ones become a revision.

    Raises:
        NotFound: there is no such revision.
        Conflict: it is damaged.
    """
    earlier = store.history.read_verified(memory.mem_id, revision)
    return store.rewrite(memory, earlier).memory
