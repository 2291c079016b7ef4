"""Deletion of memories to the trash, and restoration from the trash or from a revision."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from memvault import clock
from memvault.errors import Ambiguous, Conflict, MemvaultError, NotFound, UsageError
from memvault.files import plain_files
from memvault.model import FileState, Memory
from memvault.recall.answer import RecallRequest
from memvault.recall.filters import Filters
from memvault.recall.recall_engine import RecallEngine
from memvault.recall.resolve import match_name
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.store.revisions import TrashedFile

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord


_AROUND = " \t\r\n\"'`“”„«»‘’.,;:!?"
_FRAMING = re.compile(
    r"((?:\w+\s+){1,10})(?:about|regarding|concerning|relat(?:ed|ing)\s+to)\s+", re.IGNORECASE
)
_FRAMING_WORDS = frozenset(
    "please forget delete remove erase all any every everything anything whatever what the of my "
    "our your memory memories information info knowledge facts notes details data that which is "
    "are there known stored saved i we you do know have remember learned".split()
)
"""Words before *about* that ask for everything on a topic."""


class DeletionCandidate(NamedTuple):
    """A memory that would be deleted, and how well it fits the query, from 0 to 1.

    ``strength`` describes the fit in a word, and is empty if no search was needed.
    """

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
    """Return the memories that a query refers to: named ones, else those above the threshold.

    A title that several memories share refers to all of them. Words such as "everything about" are
    dropped if they are not part of a name: the query refers to the memories that the rest names,
    and to those about it. An empty query refers to all memories that pass the filters. Notes of the
    search are appended to ``notes``.

    Raises:
        Ambiguous: a name other than a title fits several memories that pass the filters.
    """
    if not query.strip():
        return [
            DeletionCandidate(store.read(record.path), 1.0)
            for record in engine.list_records(filters)
        ]
    passes = filters.predicate()
    topic, is_broad = query, False
    exact = _named_by_query(engine, query, passes)
    if not exact:
        topic, is_broad = _topic(query)
        exact = _named_by_query(engine, topic, passes) if topic != query else []
    if exact and passes is not None:
        passing = {record.path for record in engine.list_records(filters)}
        named = [memory for memory in exact if memory.path in passing]
    else:
        named = exact
    found = [DeletionCandidate(memory, 1.0) for memory in named]
    if exact and not is_broad:
        return found
    request = RecallRequest(topic, limit=limit, filters=filters, threshold=threshold, diverse=False)
    answer = engine.search(request)
    notes += answer.notes
    matches = (
        DeletionCandidate(entry.memory, entry.probability, entry.strength)
        for entry in answer.found
        if all(entry.memory.path != memory.path for memory in named)
    )
    return found + sorted(matches, key=lambda entry: (-entry.score, entry.memory.path))


def _topic(query: str) -> tuple[str, bool]:
    """Return a query without quotes and framing words, and whether it had such words."""
    bare = query.strip(_AROUND)
    framing = _FRAMING.match(bare)
    if framing is None or not framing[1] or not set(framing[1].lower().split()) <= _FRAMING_WORDS:
        return bare or query, False
    topic = bare[framing.end() :].strip(_AROUND)
    return (topic, True) if topic else (query, False)


def _named_by_query(
    engine: RecallEngine, query: str, passes: Callable[[MemoryRecord], bool] | None
) -> list[Memory]:
    """Return the memories that a query names one by one; none if any part is not a name.

    Raises:
        Ambiguous: every part is a name, and one that is not a title fits several memories.
    """
    test = passes or (lambda _: True)
    exact = engine.named(query, test)
    if exact:
        return exact
    parts = [part for part in re.split(r"[,\s]+", query) if part]
    if len(parts) < 2:
        return []
    found: dict[str, Memory] = {}
    ambiguity: Ambiguous | None = None
    for part in parts:
        try:
            memories = engine.named(part, test)
        except Ambiguous as error:
            ambiguity = ambiguity or error
            continue
        if not memories:
            return []
        found |= {memory.path: memory for memory in memories}
    if ambiguity is not None:
        raise ambiguity
    return list(found.values())


def named(
    engine: RecallEngine, resolve: Callable[[str], Memory], ids: Iterable[str]
) -> tuple[list[Memory], list[str]]:
    """Return the memories that ids refer to by ``resolve``, and the ids that refer to none.

    An id is split at commas, unless the whole is a path or title that contains commas.

    Raises:
        Ambiguous: an id fits several memories.
    """
    names: list[str] = []
    for entry in ids:
        is_one_name = "," not in entry or engine.try_resolve(entry) is not None
        names += [entry] if is_one_name else entry.split(",")
    chosen: dict[str, Memory] = {}
    missing: list[str] = []
    for name in dict.fromkeys(name.strip() for name in names if name.strip()):
        try:
            memory = resolve(name)
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
        MemvaultError: a memory could not be moved; ``files`` in the details of the error are the
            paths of those that were moved before.
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
    """Move memories to the trash, either all of them or none.

    Raises:
        MemvaultError: a memory could not be moved; those moved before are restored, except for
            ``files`` in the details of the error, which could not be and remain in the trash.
    """
    done: list[tuple[TrashedFile, FileRef]] = []
    try:
        for memory in memories:
            discarded = store.discard(memory.path, memory.etag)
            # Recorded at once, so that it is restored if a later one fails.
            done.append((discarded, FileRef(memory.mem_id, memory.title)))
    except BaseException as error:
        remaining = [item.path for item, what in reversed(done) if not _put_back(store, item, what)]
        if remaining and isinstance(error, MemvaultError):
            error.details.update(deletedFiles=len(remaining), files=remaining)
        raise


def _put_back(store: MemoryStore, item: TrashedFile, subject: FileRef) -> bool:
    try:
        store.put_back(item, subject)
    except (MemvaultError, OSError):
        return False
    return True


class TrashedMemory(NamedTuple):
    """A memory in the trash; ``when`` is the time of its deletion, in the usual format."""

    item: TrashedFile
    path: str
    mem_id: str
    title: str
    when: str
    size: int
    aliases: tuple[str, ...]


def trash(store: MemoryStore) -> list[TrashedMemory]:
    """Return the memories in the trash that the caller may see, newest first."""
    found = []
    for item in filter(lambda item: store.change_set.can_see(item.path), store.history.discarded()):
        with contextlib.suppress(OSError):
            data = plain_files.read(item.file)
            memory = store.parse(data, FileState(item.path, len(data), 0, 0, 0))
            moment = clock.parse(item.when)
            when = clock.iso(moment) if moment else item.when
            identity = (item.path, memory.mem_id, memory.title)
            found.append(TrashedMemory(item, *identity, when, len(data), memory.aliases))
    return found


def older(store: MemoryStore, moment: str | None) -> list[TrashedMemory]:
    """Return the memories deleted before a time, newest first; without a time, all of them.

    Raises:
        UsageError: the time is neither a date nor an age.
    """
    if moment is None:
        return trash(store)
    until = clock.parse_age(moment)
    if until is None:
        raise UsageError(f"{moment!r} is no date and no age", "2026-03-01, or 30d for 30 days ago")
    return [entry for entry in trash(store) if entry.when < clock.iso(until)]


def restore(store: MemoryStore, engine: RecallEngine, name: str) -> Memory:
    """Restore the memory that a memId, a prefix of a memId, a path or a title refers to.

    Of several with the same path, the one that was deleted last is restored.

    Raises:
        NotFound: no memory in the trash fits.
        Ambiguous: several memories with different paths fit.
        Conflict: the vault already contains the memory, as when a sync kept what others changed.
    """
    matches = match_name(name, trash(store))
    if not matches:
        raise NotFound(f"{name!r} is not in the trash", "`memvault trash list` names what is there")
    if len({entry.path for entry in matches}) > 1:
        raise Ambiguous(
            f"{name!r} names {len(matches)} memories in the trash",
            "use one of their paths",
            {
                "candidates": [
                    {"memId": entry.mem_id, "title": entry.title, "filePath": entry.path}
                    for entry in matches
                ]
            },
        )
    same = (entry for entry in engine.list_records(Filters()) if entry.mem_id == matches[0].mem_id)
    existing = next((entry for entry in same if "id" in entry.metadata), None)
    if existing is not None:
        raise Conflict(
            f"{existing.title} is in the vault already, as {existing.path}",
            f"`memvault log {existing.mem_id}` names its revisions; to have the one in the trash "
            f"instead, forget {existing.path} first",
        )
    subject = FileRef(matches[0].mem_id, matches[0].title)
    return store.read(store.put_back(matches[0].item, subject))


def restore_revision(store: MemoryStore, memory: Memory, revision: str) -> Memory:
    """Replace a memory by an earlier revision with its times; the present one becomes a revision.

    Raises:
        NotFound: there is no such revision.
        Conflict: the revision is damaged.
    """
    earlier = store.history.read_verified(memory.mem_id, revision)
    times = store.history.times(memory.mem_id, revision)
    return store.rewrite(memory, earlier, times).memory
