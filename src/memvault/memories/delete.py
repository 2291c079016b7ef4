"""Which memories a request to forget means, and taking them away."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from memvault.errors import Ambiguous, MemvaultError, NotFound
from memvault.model import Memory
from memvault.recall.engine import RecallEngine
from memvault.recall.filters import Filters
from memvault.recall.values import RecallRequest
from memvault.vault.deed import FileRef
from memvault.vault.history import TrashedFile
from memvault.vault.store import MemoryStore


class DeletionCandidate(NamedTuple):
    """A memory that would go, and how well it fits, in 0..1 and, if it was looked for, a word."""

    memory: Memory
    score: float
    strength: str = ""


def candidates(
    engine: RecallEngine,
    store: MemoryStore,
    query: str,
    filters: Filters,
    threshold: float,
    limit: int,
    notes: list[str],
) -> list[DeletionCandidate]:
    """Return the memories that a query means: named ones, else those that fit well enough.

    ``notes`` gets what a search has to say.

    Raises:
        Ambiguous: a name fits several memories.
    """
    if not query.strip():
        return [
            DeletionCandidate(store.read(record.path), 1.0)
            for record in engine.list_records(filters)
        ]
    named = _named(engine, query)
    if named:
        if filters.predicate() is not None:
            passing = {record.path for record in engine.list_records(filters)}
            named = [memory for memory in named if memory.path in passing]
        return [DeletionCandidate(memory, 1.0) for memory in named]
    request = RecallRequest(query, limit=limit, filters=filters, threshold=threshold, diverse=False)
    answer = engine.search(request)
    notes += answer.notes
    fitting = (
        DeletionCandidate(entry.memory, entry.probability, entry.strength) for entry in answer.found
    )
    return sorted(fitting, key=lambda entry: (-entry.score, entry.memory.path))


def _named(engine: RecallEngine, query: str) -> list[Memory]:
    """Return the memories that a query names one by one; none where any part is no name.

    Raises:
        Ambiguous: every part is a name, and one fits several memories.
    """
    whole = engine.try_resolve(query)
    if whole is not None:
        return [whole]
    parts = [part for part in re.split(r"[,\s]+", query) if part]
    if len(parts) < 2:
        return []
    found: dict[str, Memory] = {}
    several: Ambiguous | None = None
    for part in parts:
        try:
            memory = engine.try_resolve(part)
        except Ambiguous as error:
            several = several or error
            continue
        if memory is None:
            return []
        found[memory.path] = memory
    if several is not None:
        raise several
    return list(found.values())


def named(engine: RecallEngine, ids: Iterable[str]) -> tuple[list[Memory], list[str]]:
    """Return the memories that ids name, and the ids that name none.

    An id is split at commas, unless the whole is a path or title that holds commas.

    Raises:
        Ambiguous: an id fits several memories.
    """
    names: list[str] = []
    for entry in ids:
        whole = "," not in entry or engine.try_resolve(entry) is not None
        names += [entry] if whole else entry.split(",")
    chosen: dict[str, Memory] = {}
    missing: list[str] = []
    for name in dict.fromkeys(name.strip() for name in names if name.strip()):
        try:
            memory = engine.resolve(name)
        except Ambiguous:
            raise
        except NotFound:
            missing.append(name)
        else:
            chosen.setdefault(memory.path, memory)
    return list(chosen.values()), missing


def forget(store: MemoryStore, chosen: list[DeletionCandidate]) -> list[str]:
    """Move memories to the trash; return their paths.

    Raises:
        MemvaultError: one could not go; ``files`` in its details are gone already.
    """
    done: list[str] = []
    for entry in chosen:
        try:
            done.append(store.discard(entry.memory.path, entry.memory.etag).path)
        except MemvaultError as error:
            error.details.update(deletedFiles=len(done), files=done)
            raise
    return done


def delete(store: MemoryStore, memories: Iterable[Memory]) -> None:
    """Move memories to the trash, all of them or none.

    Raises:
        MemvaultError: one could not go; those that had gone are back, but for the
            ``files`` in its details, which something keeps in the trash.
    """
    done: list[tuple[TrashedFile, FileRef]] = []
    try:
        for memory in memories:
            discarded = store.discard(memory.path, memory.etag)
            # One by one: what is done when another fails goes back.
            done.append((discarded, FileRef(memory.mem_id, memory.title)))
    except BaseException as error:
        left = [item.path for item, what in reversed(done) if not _put_back(store, item, what)]
        if left and isinstance(error, MemvaultError):
            error.details.update(deletedFiles=len(left), files=left)
        raise


def _put_back(store: MemoryStore, item: TrashedFile, subject: FileRef) -> bool:
    try:
        store.put_back(item, subject)
    except (MemvaultError, OSError):
        return False
    return True
