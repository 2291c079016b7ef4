"""Build the parts of results that several tools share: entries, pages, lists and messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from memvault.arguments.parameters import to_camel
from memvault.call import Call
from memvault.model import MAX_RESULTS, Memory

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.memories.trash import TrashedMemory
    from memvault.recall.answer import RecallAnswer, RecallResult
    from memvault.recall.recall_engine import RecallEngine
    from memvault.results import (
        AsOfMark,
        CitedCode,
        CodeMarks,
        MemoryDescription,
        PageInfo,
        TrashEntry,
        UnmergedMarks,
    )


_Entry = TypeVar("_Entry")


def item(memory: Memory | MemoryRecord) -> MemoryDescription:
    """Return the fields of a memory that all listings include."""
    return {
        "memId": memory.mem_id,
        "title": memory.title,
        "filePath": memory.path,
        "memoryType": memory.memory_type,
        "tags": list(memory.tags),
        "created": memory.created,
        "modified": memory.modified,
    }


def trashed(entry: TrashedMemory) -> TrashEntry:
    """Return the fields of a memory in the trash that all listings include."""
    return {
        "memId": entry.mem_id,
        "title": entry.title,
        "filePath": entry.path,
        "discarded": entry.when,
    }


def list_result(key: str, entries: Sequence[Any], nothing: str, **extra: Any) -> dict[Any, Any]:
    """Return a list as a result, with the message ``nothing`` if it is empty."""
    return {key: entries, **extra, **({} if entries else {"message": nothing})}


def nothing_found(engine: RecallEngine, message: str) -> str:
    """Return a message for a search without results; another one if there are no memories."""
    if engine.latest_records(1, 0)[1]:
        return message
    return "There are no memories yet; add one with `memvault remember`"


def paginate(
    entries: Sequence[_Entry], limit: int, offset: int, nothing: str = ""
) -> tuple[Sequence[_Entry], PageInfo]:
    """Return one page of a listing, and the page information for its result."""
    page = entries[offset : offset + limit]
    return page, page_info(len(entries), offset, len(page), nothing)


def page_info(total: int, offset: int, shown: int, nothing: str = "") -> PageInfo:
    """Return the total of a listing, the next page's offset, and a message for an empty list."""
    if not shown and total and offset >= total:
        nothing = f"There are only {total:,}"
    end = offset + shown
    info: PageInfo = {"total": total}
    if shown and end < total:
        info["next"] = end
    if nothing and not shown:
        info["message"] = nothing
    return info


def past_end(count: int) -> str:
    """Return the message for an offset after the last of a search's results."""
    if count < MAX_RESULTS:
        return f"There are only {count:,} results"
    return f"The offset is after the last of the {MAX_RESULTS:,} results that a search returns"


def collect_hits(call: Call, answer: RecallAnswer) -> list[RecallResult]:
    """Return a search's results; add its notes and current memories to the call."""
    call.notes += answer.notes
    call.memories_read |= {
        entry.memory.path: entry.memory
        for entry in answer.found
        if not (entry.vault or entry.branch or entry.is_earlier)
    }
    return answer.found


def fields(entry: object, *names: str) -> dict[Any, Any]:
    """Return an object's attributes with camelCase keys, for use in a result."""
    return {to_camel(name): getattr(entry, name) for name in names}


def without_none(**values: Any) -> dict[Any, Any]:
    """Return the values that are not None, because optional keys are left out of results."""
    return {key: value for key, value in values.items() if value is not None}


_NOTICES = {"none": "No memory is likely to answer this", "weak": "No good match"}


def with_notice(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with a line that warns if none of its memories is a good match."""
    statements = [_NOTICES[best]] if (best := result.get("best")) in _NOTICES else []
    if absent := result.get("absentWords"):
        statements.append("no memory contains " + " or ".join(f'"{word}"' for word in absent))
    if not statements or not (result.get("memories") or result.get("results")):
        return {**result, "notice": None}
    notice = "; ".join(statements)
    return {**result, "notice": f"{notice[0].upper()}{notice[1:]}. Closest results:"}


def relevant(results: Iterable[RecallResult]) -> list[RecallResult]:
    """Return the results that count as retrievals: the likely answers to the query."""
    return [entry for entry in results if entry.is_relevant]


def unmerged_marks(call: Call, memory: Memory, is_unmerged: bool) -> UnmergedMarks:
    """Return the marks of a memory that another git worktree has, or has in a newer version.

    ``is_unmerged`` is whether ``memory`` is the version in the other worktree.
    """
    by_id = call.unmerged.by_id if call.unmerged is not None else {}
    item = by_id.get(memory.mem_id)
    if item is None:
        return {}
    worktree = {}
    if call.caller.may_see_paths:
        worktree = {"worktree": os.path.relpath(item.worktree.root, call.root)}
    branch = item.worktree.checked_out
    if is_unmerged:
        return cast("UnmergedMarks", {"unmergedBranch": branch, **worktree})
    return cast("UnmergedMarks", {"otherVersionOn": branch, **worktree})


def cites_field(memory: Memory) -> dict[Any, Any]:
    """Return the code that a memory cites, as its header refers to it."""
    value = memory.metadata.get("cites")
    cites = [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
    return {"cites": cites} if cites else {}


def outdated_code(cited: Sequence[CitedCode]) -> CodeMarks:
    """Return the cited code that has changed, moved or disappeared, if any."""
    different = [entry for entry in cited if entry["state"] != "same"]
    return {"cites": different} if different else {}


def with_code_lines(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an entry with a line for each piece of code that it cites."""
    if not entry.get("cites"):
        return entry
    from memvault.repository.citations import describe

    return {**entry, "code": list(map(describe, entry["cites"]))}


def as_of_field(sent: str) -> AsOfMark:
    """Return the time as of which a memory is shown, if another machine pushed it."""
    return {"asOf": sent} if sent else {}
