"""Search of episodes, facts and procedures.

The recall engine finds them, restricted to their type. Memories with ``status: archived`` in their
header are excluded here, but not from plain recall; those with ``status: example`` are excluded
from both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from memvault.errors import MemvaultError, UsageError
from memvault.model import Memory, is_example
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.recall.answer import RecallAnswer, RecallResult
    from memvault.recall.filters import Filters
    from memvault.recall.recall_engine import RecallEngine


ARCHIVED = "archived"
_MAX_LINE = 200

Test = Callable[["MemoryRecord"], bool]


def is_archived(metadata: dict[str, Any]) -> bool:
    """Return whether a header marks its memory as archived."""
    return str(metadata.get("status") or "").strip().casefold() == ARCHIVED


def is_put_aside(metadata: dict[str, Any]) -> bool:
    """Return whether a memory is archived or an example, so that searches leave it out."""
    return is_archived(metadata) or is_example(metadata)


def search(
    engine: RecallEngine,
    query: str,
    memory_type: str,
    limit: int,
    passes: Test,
    only_current: bool = False,
    strict: bool = True,
) -> RecallAnswer:
    """Search the memories of a type that are not archived and not examples, best match first.

    With ``only_current``, memories that are replaced, expired or not yet valid are excluded;
    without ``strict``, memories that are unlikely to answer are included.

    Raises:
        UsageError: the query is empty.
    """
    from memvault.recall.answer import RecallRequest

    if not query.strip():
        raise UsageError("The query is empty", "give search words")
    filters = _filters(memory_type, passes)
    return engine.search(
        RecallRequest(query, limit=limit, filters=filters, strict=strict, only_current=only_current)
    )


def records_of(engine: RecallEngine, memory_type: str, passes: Test) -> list[MemoryRecord]:
    """Return the records of the memories of a type, newest first.

    Archived memories and examples are left out.
    """
    records = engine.list_records(_filters(memory_type, passes))
    return sorted(records, key=lambda record: record.created, reverse=True)


def readable(store: MemoryStore, records: Iterable[MemoryRecord]) -> Iterator[Memory]:
    """Yield the memories of records as their files are now; unreadable ones are skipped."""
    for record in records:
        with contextlib.suppress(MemvaultError):  # deleted since the folder was scanned
            yield store.read(record.path)


def _filters(memory_type: str, passes: Test) -> Filters:
    from memvault.recall.filters import Filters

    return Filters(
        memory_type=memory_type,
        passes=lambda record: not is_put_aside(record.metadata) and passes(record),
    )


def unquoted(text: str) -> str:
    """Return a text without quotes, because quotes in a query request exact words."""
    return "".join(" " if char in '"“”„«»' else char for char in text)


def distance(result: RecallResult) -> float:
    """Return the semantic distance from the query: 0 for identical, 1 for nothing in common."""
    return round(1 - result.similarity, 4)


def one_line(text: str, label: str) -> str:
    """Return a short text as a header stores it: on one line, without surrounding blanks.

    Raises:
        UsageError: the text is longer than 200 characters.
    """
    plain = " ".join(text.split())
    if len(plain) > _MAX_LINE:
        raise UsageError(f"{label} is longer than {_MAX_LINE} characters", "use a few words")
    return plain
