"""Search episodes, facts and procedures.

This is a recall restricted to their type. Memories with ``status: archived`` in their header are
left out here, but not in a plain recall; memories with ``status: example`` are left out of both.
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
    """Return whether a memory is archived or an example, which searches leave out."""
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
    """Search the memories of a type, without archived ones and examples, best match first.

    With ``only_current``, memories that are superseded, expired or not yet valid are left out;
    without ``strict``, weak matches are included.

    Raises:
        UsageError: the query is empty.
    """
    from memvault.recall.answer import RecallRequest

    if not query.strip():
        raise UsageError("The query is empty", "pass search words")
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
    """Yield the memories of records, read from their current files; unreadable ones are skipped."""
    for record in records:
        # The file may have been deleted since the folder was scanned.
        with contextlib.suppress(MemvaultError):
            data, state = store.read_bytes(record.path)
            yield record.memory_in(data, store.settings.encoding) or store.parse(data, state)


def _filters(memory_type: str, passes: Test) -> Filters:
    from memvault.recall.filters import Filters

    return Filters(
        memory_type=memory_type,
        passes=lambda record: not is_put_aside(record.metadata) and passes(record),
    )


def unquoted(text: str) -> str:
    """Return text without quotes, because quotes in a query require exact words."""
    return "".join(" " if char in '"“”„«»' else char for char in text)


def distance(result: RecallResult) -> float:
    """Return the semantic distance from the query: 0 for identical, 1 for unrelated."""
    return round(1 - result.similarity, 4)


def one_line(text: str, label: str) -> str:
    """Return a short text for a header: on one line, without surrounding spaces.

    Raises:
        UsageError: the text is longer than 200 characters.
    """
    plain = " ".join(text.split())
    if len(plain) > _MAX_LINE:
        raise UsageError(f"{label} is longer than {_MAX_LINE} characters", "use a few words")
    return plain
