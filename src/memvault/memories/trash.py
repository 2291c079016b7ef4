"""List the trash, and restore memories from it or from a revision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from memvault import clock
from memvault.errors import Ambiguous, Conflict, NotFound, UsageError
from memvault.files import plain_files
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.recall.filters import Filters
from memvault.recall.recall_engine import RecallEngine
from memvault.recall.resolve import closest, match_name, suggestion
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.store.trash import TrashedFile


class TrashedMemory(NamedTuple):
    """A memory in the trash; ``when`` is its deletion time in ISO format."""

    item: TrashedFile
    path: str
    mem_id: str
    title: str
    when: str
    size: int
    aliases: tuple[str, ...]


def list_trash(store: MemoryStore) -> list[TrashedMemory]:
    """Return the memories in the trash that the caller can see, newest first."""
    trashed = []
    for item in filter(lambda item: store.change_set.can_see(item.path), store.trash.files()):
        with contextlib.suppress(OSError):
            data = plain_files.read(item.file)
            memory = store.parse(data, FileState.of(item.path, data))
            moment = clock.parse(item.when)
            when = clock.iso(moment) if moment else item.when
            identity = (item.path, memory.mem_id, memory.title)
            trashed.append(TrashedMemory(item, *identity, when, len(data), memory.aliases))
    return trashed


def trashed_before(store: MemoryStore, moment: str | None) -> list[TrashedMemory]:
    """Return the memories deleted before a time, newest first; without a time, all of them.

    Raises:
        UsageError: the time is neither a date nor an age.
    """
    if moment is None:
        return list_trash(store)
    until = clock.parse_age(moment)
    if until is None:
        raise UsageError(
            f"{moment!r} is not a date or an age",
            "use a date such as 2026-03-01, or an age such as 30d",
        )
    return [entry for entry in list_trash(store) if entry.when < clock.iso(until)]


def restore(store: MemoryStore, engine: RecallEngine, name: str) -> Memory:
    """Restore the trashed memory with a memId, a prefix of a memId, a path or a title.

    If several had the same path, the most recently deleted one is restored.

    Raises:
        NotFound: no memory in the trash matches.
        Ambiguous: several memories with different paths match.
        Conflict: the memory already exists in the vault, for example if a sync kept another version
        of it.
    """
    trashed = list_trash(store)
    matches = match_name(name, trashed)
    if not matches:
        close = closest(name, trashed)
        hint = suggestion(name, close, "run `memvault trash list` to see its contents")
        details = {"candidates": _candidates(close)} if close else None
        raise NotFound(f"{name!r} is not in the trash", hint, details)
    if len({entry.path for entry in matches}) > 1:
        raise Ambiguous(
            f"{name!r} matches {len(matches)} memories in the trash",
            "use one of their paths",
            {"candidates": _candidates(matches)},
        )
    mem_id = matches[0].mem_id
    same = engine.list_records(Filters(passes=lambda record: record.mem_id == mem_id))
    existing = next((entry for entry in same if "id" in entry.metadata), None)
    if existing is not None:
        raise Conflict(
            f"{existing.title} is already in the vault, as {existing.path}",
            f"to restore the trashed one instead, first run `memvault forget {existing.mem_id}`",
        )
    subject = FileRef(matches[0].mem_id, matches[0].title)
    return store.read(store.put_back(matches[0].item, subject))


def _candidates(entries: Iterable[TrashedMemory]) -> list[dict[str, str]]:
    return [
        {"memId": entry.mem_id, "title": entry.title, "filePath": entry.path} for entry in entries
    ]


def restore_revision(store: MemoryStore, memory: Memory, revision: str) -> Memory:
    """Replace a memory with an earlier revision and its times; save the current one as a revision.

    Raises:
        NotFound: there is no such revision.
        Conflict: the revision is damaged.
    """
    earlier = store.history.read_verified(memory.mem_id, revision)
    times = store.history.times(memory.mem_id, revision)
    return store.rewrite(memory, earlier, times).memory
