"""Tools for tags in headers and texts of memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.results import (
    LISTED,
    MEMORY_HELP,
    Confirm,
    Limit,
    Offset,
    is_confirmed,
    paginate,
    token_of,
)

if TYPE_CHECKING:
    from memvault.model import Memory

group = ToolGroup("notes", place=96)


@group.tool("tag_list", "tags", read_only=True, sent=True)
def tag_list(
    call: Call,
    under: Annotated[
        str | None, Arg("Only this tag and those nested in it", positional=True)
    ] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> dict[str, Any]:
    """List the tags in headers and texts, with the number of memories that have each.

    count includes nested tags; own does not.
    """
    from memvault.memories import tagging
    from memvault.recall.filters import Filters

    found = tagging.counted(call.engine.list_records(Filters()))
    if under:
        parent = tagging.named(under)
        found = [entry for entry in found if tagging.is_under(entry.tag, parent)]
    shown, paging = paginate(
        found, limit, offset, "No memory has a tag" + (" of that name" if under else "")
    )
    return {
        "tags": [{"tag": entry.tag, "count": entry.memories, "own": entry.own} for entry in shown],
        **paging,
    }


@group.tool("tag_add", "tag add", idempotent=True)
def tag_add(
    call: Call,
    name: Annotated[str, Arg(MEMORY_HELP, key="memId", positional=True)],
    tags: Annotated[list[str], Arg("The tags", positional=True)],
) -> dict[str, Any]:
    """Add tags to a memory's header."""
    from memvault.memories import tagging

    cleaned_tags = tagging.cleaned(tags)
    return _tag_result(tagging.add(call.store, call.engine.resolve(name), cleaned_tags))


@group.tool("tag_remove", "tag remove", destructive=True)
def tag_remove(
    call: Call,
    name: Annotated[str, Arg(MEMORY_HELP, key="memId", positional=True)],
    tags: Annotated[list[str], Arg("The tags", positional=True)],
) -> dict[str, Any]:
    """Remove tags from a memory; a tag in its text loses the # and stays as a word."""
    from memvault.memories import tagging

    memory = call.engine.resolve(name)
    present_tags = tagging.present(tags, memory)
    header_tags = {tag.casefold() for tag in memory.tags}
    missing = [tag for tag in present_tags if tag.casefold() not in header_tags]
    result = _tag_result(tagging.remove(call.store, memory, present_tags))
    return {**result, **({"missing": missing} if missing else {})}


@group.tool("tag_rename", "tag rename", destructive=True)
def tag_rename(
    call: Call,
    old: Annotated[str, Arg("The current tag", positional=True)],
    new: Annotated[str, Arg("The new tag", positional=True)],
    confirm: Confirm = None,
) -> dict[str, Any]:
    """Rename a tag and the tags nested in it, in the headers and texts of all memories.

    The memories are shown first and written once confirmed. It is one change to undo.
    """
    from memvault.memories import tagging
    from memvault.recall.answer import memory_reference
    from memvault.recall.filters import Filters

    before, after = tagging.named(old), tagging.new(new)
    if before == after:
        raise UsageError("Both tags are the same", "give the tag a new name")
    records = [
        record
        for record in call.engine.list_records(Filters())
        if any(tagging.is_under(tag, before) for tag in record.tags)
    ]
    token = token_of([f"{before}\0{after}", *(f"{entry.path}\0{entry.etag}" for entry in records)])
    references = [memory_reference(entry) for entry in records]
    if not records:
        return {"changed": 0, "memories": [], "message": f"No memory has the tag {before}"}
    tagging.check_in_texts((call.store.read(entry.path) for entry in records), before, after)
    if not is_confirmed(confirm, token, "the memories found now"):
        return {"confirmRequired": True, "memories": references, "confirmToken": token}
    for entry in records:
        tagging.rename(call.store, call.store.read(entry.path), before, after)
    return {"changed": len(references), "memories": references}


def _tag_result(memory: Memory) -> dict[str, Any]:
    from memvault.recall.answer import memory_reference

    return {**memory_reference(memory), "tags": list(memory.tags), "etag": memory.etag}
