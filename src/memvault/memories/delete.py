"""Delete memories: find the memories that a query refers to, and move them to the trash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from memvault.errors import Ambiguous, MemvaultError, NotFound
from memvault.model import Memory, is_document
from memvault.named_tuple import NamedTuple
from memvault.recall.answer import RecallRequest
from memvault.recall.filters import Filters
from memvault.recall.recall_engine import RecallEngine
from memvault.recall.resolve import is_file_name, may_be_path
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore, require_memory
from memvault.store.trash import TrashedFile

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord


_AROUND = " \t\r\n\"'`“”„«»‘’.,;:!?"
_QUOTE = re.compile('["“”„«»]')
_FRAMING = re.compile(
    r"((?:\w+\s+){1,10})(?:about|regarding|concerning|relat(?:ed|ing)\s+to)\s+", re.IGNORECASE
)
_FRAMING_WORDS = frozenset(
    "please forget delete remove erase all any every everything anything whatever what the of my "
    "our your memory memories information info knowledge facts notes details data that which is "
    "are there known stored saved i we you do know have remember learned".split()
)
"""Words before *about* that request everything on a topic."""


class DeletionCandidate(NamedTuple):
    """A memory to delete, and how well it matches the query, from 0 to 1.

    ``strength`` describes the match in one word; it is empty if no search was needed.
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
    require_merged: Callable[[str], object],
) -> list[DeletionCandidate]:
    """Return the memories that a query refers to: by name, or else above the threshold.

    A title that several memories share refers to all of them. Words such as "everything about" are
    dropped unless they are part of a name; the rest of the query refers to the memories with that
    name and to memories about it. An empty query refers to all memories that pass the filters.
    Notes of the search are appended to ``notes``. ``require_merged`` is called before the search
    if the query is not the name of a memory here.

    Raises:
        Ambiguous: a name other than a title matches several memories that pass the filters.
        Refused: the query names a document.
    """
    if not query.strip():
        return [
            DeletionCandidate(store.read(record.path), 1.0)
            for record in engine.list_records(filters)
            if not is_document(record.path)
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
    for memory in named:
        require_memory(memory.path)
    matching = [DeletionCandidate(memory, 1.0) for memory in named]
    if exact and not is_broad:
        return matching
    if not is_broad:
        require_merged(topic)
    request = RecallRequest(
        topic, limit=limit, filters=filters, threshold=threshold, diverse=False, exact=True
    )
    answer = engine.search(request)
    notes += answer.notes
    matches = (
        DeletionCandidate(entry.memory, entry.probability, entry.strength)
        for entry in answer.found
        if not is_document(entry.memory.path)
        and all(entry.memory.path != memory.path for memory in named)
    )
    return matching + sorted(matches, key=lambda entry: (-entry.score, entry.memory.path))


def _topic(query: str) -> tuple[str, bool]:
    """Return a query without quotes and framing words, and whether it had framing words."""
    bare = query.strip(_AROUND)
    if _QUOTE.search(bare):  # Only a phrase in the query is quoted.
        bare = query.strip()
    framing = _FRAMING.match(bare)
    if framing is None or not framing[1] or not set(framing[1].lower().split()) <= _FRAMING_WORDS:
        return bare or query, False
    topic = bare[framing.end() :].strip(_AROUND)
    return (topic, True) if topic else (query, False)


def _named_by_query(
    engine: RecallEngine, query: str, passes: Callable[[MemoryRecord], bool] | None
) -> list[Memory]:
    """Return the memories that a query lists by name or path.

    The list is empty if any part of the query is neither.

    Raises:
        Ambiguous: every part is a name, and one that is not a title matches several memories.
        NotFound: every part is a name or looks like a path, and no memory has one of the paths.
    """
    test = passes or (lambda _: True)
    exact = engine.names.named(query, test)
    if exact:
        return exact
    parts = [part for part in re.split(r"[,\s]+", query) if part]
    matches: dict[str, Memory] = {}
    ambiguity: Ambiguous | None = None
    other_parts: list[str] = []
    for part in parts if len(parts) > 1 else ():
        try:
            memories = engine.names.named(part, test)
        except Ambiguous as error:
            ambiguity = ambiguity or error
            continue
        if not memories:
            other_parts.append(part)
        matches |= {memory.path: memory for memory in memories}
    is_list = "," in query or (bool(matches) and all(map(is_file_name, other_parts)))
    # Otherwise it is one path that contains spaces, or words.
    paths = other_parts if is_list and all(map(may_be_path, other_parts)) else [query]
    for path in paths if other_parts or len(parts) < 2 else ():
        memory = engine.names.resolve_path(path)
        if memory is None:
            return []
        matches[memory.path] = memory
    if ambiguity is not None:
        raise ambiguity
    return list(matches.values())


def resolve_all(
    engine: RecallEngine, resolve: Callable[[str], Memory], ids: Iterable[str]
) -> tuple[list[Memory], list[str]]:
    """Return the memories that ids refer to by ``resolve``, and the ids without a memory.

    An id is split at commas, unless it is a path or title that contains commas.

    Raises:
        Ambiguous: an id matches several memories.
    """
    names: list[str] = []
    for entry in ids:
        is_one_name = "," not in entry or engine.names.try_resolve(entry) is not None
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
        MemvaultError: a memory could not be moved; ``files`` in its details are the paths of the
        memories moved before.
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
    """Move either all memories to the trash or none.

    Raises:
        MemvaultError: a memory could not be moved. The memories moved before are restored, except
        ``files`` in its details, which remain in the trash.
    """
    done: list[tuple[TrashedFile, FileRef]] = []
    try:
        for memory in memories:
            discarded = store.discard(memory.path, memory.etag)
            # Record it immediately, so it is restored if a later one fails.
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
