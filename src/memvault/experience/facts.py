"""Store statements without their context, as memories of the type ``fact``.

The header contains ``category``, ``confidence`` and ``source``; the body is the statement. A fact
without these keys, such as a fact written by a person, has the default values.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from memvault.errors import Refused, UsageError
from memvault.experience import provenance, search
from memvault.experience.episodes import number
from memvault.memories import create, edit
from memvault.model import CATEGORY, SOURCE, Memory
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryStore, WriteResult

if TYPE_CHECKING:
    from memvault.recall.answer import RecallAnswer
    from memvault.recall.recall_engine import RecallEngine

TYPE = "fact"


class Fact(NamedTuple):
    """A fact as parsed from its file."""

    fact_id: str
    text: str
    category: str
    confidence: float
    source: str


def fact_of(memory: Memory) -> Fact:
    """Parse a fact; missing header keys get default values."""
    header = memory.metadata
    return Fact(
        memory.mem_id,
        provenance.text_of(memory),
        str(header.get("category") or CATEGORY),
        number(header.get("confidence"), 1.0),
        str(header.get("source") or SOURCE),
    )


def _category_key(category: object) -> str:
    return " ".join(str(category or CATEGORY).split()).casefold()


def add(
    store: MemoryStore,
    text: str,
    category: str,
    confidence: float,
    source: str,
    origin: provenance.Provenance | None = None,
) -> Memory:
    """Write a new fact, with a title from its first words.

    With ``origin``, the fact links to its source episodes.

    Raises:
        UsageError: the text is empty, or the category or the source is too long.
    """
    title = create.title_of(text, detector=store.settings.detector)
    header = {
        "category": search.one_line(category, "The category") or CATEGORY,
        "confidence": confidence,
        "source": search.one_line(source, "The source") or SOURCE,
        **(origin.header if origin else {}),
    }
    body = provenance.linked(text, origin.paths) if origin else text
    return create.add(store, title, body, TYPE, header)


def change(
    store: MemoryStore, memory: Memory, text: str | None, confidence: float | None
) -> WriteResult:
    """Change the text or the confidence of a fact; the previous file is saved as a revision.

    A title derived from the old text is derived again from the new text.

    Raises:
        Refused: the memory is not a fact.
        UsageError: the new text is empty.
        Conflict: the file was changed since the memory was read.
    """
    if memory.memory_type != TYPE:
        raise Refused(
            f"{memory.mem_id} has the type {memory.memory_type}, not fact",
            f"use `memvault compound {memory.mem_id}`, which changes memories of any type",
        )
    changes: dict[str, object] = {}
    body = None
    if text is not None:
        title = create.title_of(text, detector=store.settings.detector)
        body = provenance.with_text(memory, text)
        with contextlib.suppress(UsageError):  # The old text may be empty.
            earlier = provenance.text_of(memory)
            derived = create.title_of(earlier, detector=store.settings.detector)
            if derived == memory.title != title:
                changes["title"] = title
    if confidence is not None:
        changes["confidence"] = confidence
    return store.change(memory, {**changes, **edit.modified_now(memory)}, body)


def similar(
    engine: RecallEngine, query: str, limit: int, category: str = "", only_current: bool = False
) -> RecallAnswer:
    """Search for facts that match a query.

    With ``category``, only facts of that category are returned.
    """
    category_key = _category_key(category) if category.strip() else ""
    return search.search(
        engine,
        query,
        TYPE,
        limit,
        lambda record: category_key in ("", _category_key(record.metadata.get("category"))),
        only_current,
    )
