"""Shapes that several tools' arguments and results share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from memvault.errors import UsageError
from memvault.model import EPISODE, FACT, PROCEDURE
from memvault.schema import Arg

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.index.protocol import MemoryRecord
    from memvault.memories.restore import TrashedMemory
    from memvault.model import Memory
    from memvault.recall.engine import RecallEngine
    from memvault.recall.filters import Filters
    from memvault.recall.values import RecallAnswer, RecallResult

MEMORY_HELP = "memId or its beginning, path, or exact title"
TYPE_HELP = "A type such as design-decision; memvault types lists them"
TAGS_HELP = "Tags that must all be on a memory"
FILTER_HELP = "What the front matter must say, such as area == 'main' and 'db' in tags"
SINCE_HELP = "Changed since a date, an age such as 7d, or words such as 'last week'"
UNTIL_HELP = "Changed until then, said in the same ways"
LISTED = 50
"""How many a listing gives where nobody says how many."""
Limit = Annotated[int, Arg("How many at most", minimum=1)]
Offset = Annotated[int, Arg("Where to go on: next of the result before", minimum=0)]
_Entry = TypeVar("_Entry")
_PATIENCE = 1.0
"""Seconds that an answer waits at most to be counted."""


def item(memory: Memory | MemoryRecord) -> dict[str, Any]:
    """Return what every list of memories says of each."""
    return {
        "memId": memory.mem_id,
        "title": memory.title,
        "filePath": memory.path,
        "memoryType": memory.memory_type,
        "tags": list(memory.tags),
        "created": memory.created,
        "modified": memory.modified,
    }


def require_text(text: str | None, name: str, hint: str) -> str:
    """Return a name that was given; empty where none was.

    Raises:
        UsageError: one was and is empty, as of a variable that is not set.
    """
    if text is not None and not text.strip():
        raise UsageError(f"{name} is empty", hint)
    return (text or "").strip()


def trashed(entry: TrashedMemory) -> dict[str, Any]:
    """Return what every list of the trash says of each memory."""
    return {
        "memId": entry.mem_id,
        "title": entry.title,
        "filePath": entry.path,
        "discarded": entry.when,
    }


def list_result(key: str, found: Sequence[Any], nothing: str, **more: Any) -> dict[str, Any]:
    """Return a list as a result, with a message where it is empty."""
    return {key: found, **more, **({} if found else {"message": nothing})}


def paginate(
    found: Sequence[_Entry], limit: int, offset: int, nothing: str = ""
) -> tuple[Sequence[_Entry], dict[str, Any]]:
    """Return the part of a listing that is asked for, and what its result says of the whole."""
    part = found[offset : offset + limit]
    return part, page_info(len(found), offset, len(part), nothing)


def page_info(total: int, offset: int, shown: int, nothing: str = "") -> dict[str, Any]:
    """Say of a part of a listing how many there are, and what offset goes on."""
    if not shown and total and offset >= total:
        nothing = f"There are {total:,}; none comes after them"
    end = offset + shown
    return {
        "total": total,
        **({"next": end} if shown and end < total else {}),
        **({"message": nothing} if nothing and not shown else {}),
    }


def collect_hits(call: Call, answer: RecallAnswer) -> list[RecallResult]:
    """Return what a search has found; what it says besides goes to the call's notes."""
    call.notes += answer.notes
    return answer.found


def without_none(**values: Any) -> dict[str, Any]:
    """Return the values that are there."""
    return {key: value for key, value in values.items() if value is not None}


def without_weak(found: Iterable[RecallResult]) -> list[RecallResult]:
    """Leave out what is weak: it tells little, and giving it is no recall that counts."""
    return [entry for entry in found if entry.strength != "weak"]


def count_accesses(call: Call, mem_ids: list[str]) -> dict[str, int]:
    """Count a recall of these memories; return how often any was recalled by now.

    Where that cannot be written, what was recalled is handed out all the same.
    """
    from memvault.errors import MemvaultError
    from memvault.memories import recall_counts

    try:
        if call.caller.scope != "read":  # who only reads changes no file
            recall_counts.count(call.root, mem_ids)
    except MemvaultError as error:
        call.notes.append(f"the access was not counted: {error.message}")
    return recall_counts.counts(call.root)


def as_of_field(sent: str) -> dict[str, str]:
    """Say as of when a memory is told, where another machine sent it."""
    return {"asOf": sent} if sent else {}


def count_retrievals(call: Call, memories: Iterable[Memory], root: Path | None = None) -> None:
    """Count that these memories were handed out, of the kinds whose recalls matter.

    ``root`` is that of their vault where it is not the call's. Nobody asked for the
    count, so what cannot be counted is passed over in silence, and who only reads counts nothing.
    """
    if call.caller.scope == "read":
        return
    kinds = (EPISODE, FACT, PROCEDURE)
    counted = [memory.mem_id for memory in memories if memory.memory_type in kinds]
    if not counted:
        return
    from memvault.errors import MemvaultError
    from memvault.memories import recall_counts

    with contextlib.suppress(MemvaultError):
        recall_counts.count(root or call.root, counted, seconds=_PATIENCE)


def filters(
    memory_type: str | None,
    tags: list[str] | None,
    since: str | None,
    until: str | None,
    expression: str | None,
) -> Filters:
    """Make filters of a tool's arguments.

    Raises:
        UsageError: one is not a date.
    """
    from memvault.recall.filters import Filters

    return Filters(
        memory_type=(memory_type or "").strip(),
        tags=tuple(tag for tag in tags or () if tag.strip()),
        since=parse_date_argument(since, "since", False),
        until=parse_date_argument(until, "until", True),
        expression=expression or "",
    )


def warn_unknown_filters(call: Call, chosen: Filters, engine: RecallEngine | None = None) -> None:
    """Note, where nothing was found, which type or tag of the filters no memory has."""
    if chosen.memory_type or chosen.tags:
        from memvault.recall.filters import Filters
        from memvault.recall.unknown import unknown_value_notes

        every = (engine or call.engine).list_records(Filters())
        call.notes += unknown_value_notes(every, chosen, call.settings.types)


def tags_in(query: str) -> Filters:
    """Return the filters that a search by tags alone stands for."""
    from memvault.recall.filters import Filters

    return Filters(tags=tuple(query.replace(",", " ").split()))


def parse_date_argument(text: str | None, name: str, end: bool) -> datetime | None:
    """Read an argument that is a date in some form: its first moment, or with ``end`` the last.

    Raises:
        UsageError: it is none.
    """
    from memvault.recall import dates

    if not text or not text.strip():
        return None
    found = dates.parse_moment(text, end)
    if found is None:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise UsageError(
            f"{name} must be a date, a time, an age, or words for one, not {shown!r}",
            "write 2026-01-31, 2026-01-31T12:00:00Z, 2026-W05, 7d, 12h, 2w, or such as 'last week'",
        )
    return found
