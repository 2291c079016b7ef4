"""Changing a memory: which one is meant, and new text and headers in its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memvault.errors import Ambiguous, NotFound, UsageError
from memvault.memories import edit
from memvault.model import Memory
from memvault.vault.store import MemoryStore, WriteResult

if TYPE_CHECKING:  # a memory that is named needs no search
    from memvault.recall.engine import RecallEngine

_CLEAR_LEAD = 0.12


def target(engine: RecallEngine, query: str, notes: list[str]) -> Memory:
    """Return the one memory that a name or a search clearly means.

    ``notes`` gets what a search has to say.

    Raises:
        Ambiguous: none is clear; ``candidates`` are in its details.
        NotFound: nothing fits.
        UsageError: the query is empty.
    """
    exact = engine.try_resolve(query)
    if exact is not None:
        return exact
    if not query.strip():
        raise UsageError("The query is empty", "name a memory by memId, path, title or words")
    from memvault.recall.values import RecallRequest, memory_reference

    answer = engine.search(RecallRequest(query, limit=5, diverse=False))
    notes += answer.notes
    found = answer.found
    if not found:
        raise NotFound(f"No memory fits {query!r}", "memvault remember writes a new one")
    best = found[0]
    lead = best.score - (found[1].score if len(found) > 1 else 0.0)
    telling = best.strength == "strong" and (len(query.split()) > 1 or best.in_title)
    if telling and lead >= _CLEAR_LEAD:
        return best.memory
    candidates = [
        {
            **memory_reference(entry.memory),
            "score": round(entry.score, 4),
            "strength": entry.strength,
            **entry.standing.marks(),
        }
        for entry in found
    ]
    raise Ambiguous(
        f"{query!r} does not clearly name one memory",
        "name one of the candidates by its memId",
        {"candidates": candidates},
    )


def compound(
    store: MemoryStore, memory: Memory, text: str, mode: str, section: str, kind: str, if_match: str
) -> WriteResult:
    """Put a text into a memory, as ``edit.modified`` does, and change its type if one is given.

    Raises:
        Conflict: the file is not as it was read, or as ``if_match`` says.
        UsageError: there is no text, or no heading for a section.
    """
    if mode == "section" and not section.strip():
        raise UsageError("A section's heading is needed", "--section HEADING")
    if not text.strip() and mode != "section":
        raise UsageError("The text is empty", "give the text, - for standard input")

    def change(memory: Memory) -> WriteResult:
        body = edit.modified(memory.body, text, memory.newline, mode, section)
        return store.change(memory, _header(memory, kind), body, if_match or None, kind or None)

    if if_match or mode == "replace":  # what was changed is not replaced unseen
        return change(memory)
    return edit.retry_on_conflict(store, memory, change)


def update(
    store: MemoryStore, memory: Memory, title: str, text: str, kind: str, header: Mapping[str, Any]
) -> WriteResult:
    """Replace a memory's text and title, and what ``header`` and ``kind`` name.

    Raises:
        Conflict: the file was changed since the memory was read.
    """
    changes = {**header, **_header(memory, kind)}
    if title != memory.title:
        changes["title"] = title
    body = edit.replace_all(memory.body, text, memory.newline)
    return store.change(memory, changes, body, memory_type=kind or None)


def _header(memory: Memory, kind: str) -> dict[str, Any]:
    changed = {"memory_type": kind} if kind and kind != memory.memory_type else {}
    return {**edit.modified_now(memory), **changed}
