"""Tools for tags in headers and texts of memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.results import (
    LISTED,
    Confirm,
    Limit,
    MemoryRef,
    Offset,
    paginate,
    token_to_confirm,
)

if TYPE_CHECKING:
    from memvault.model import Memory

group = ToolGroup("notes", place=96)


def _as_tree(found: Result) -> Result:
    """Indent nested tags below their parent, and shorten each to its last part."""
    entries = [
        {**entry, "name": "  " * entry["tag"].count("/") + entry["tag"].rpartition("/")[2]}
        for entry in found["tags"]
    ]
    return {**found, "tags": entries}


@group.tool(
    "tags",
    read_only=True,
    sent=True,
    examples=("memvault tags", "memvault tags network", "memvault tags --json"),
    view=Template(
        """
        *tags
        {name:<32}{count:>6}
        """,
        _as_tree,
    ),
)
def tag_list(
    call: Call,
    under: Annotated[
        str | None, Arg("Only this tag and those nested in it", positional=True, names="tag")
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


@group.tool(
    "tag add",
    idempotent=True,
    examples=(
        'memvault tag add "Deploy notes" team/deploy',
        "memvault tag add use-postgresql database,sql",
    ),
    view="{title}  {memId}  {tags}",
)
def tag_add(
    call: Call,
    name: MemoryRef,
    tags: Annotated[list[str], Arg("The tags", positional=True, names="tag")],
) -> dict[str, Any]:
    """Add tags to a memory's header."""
    from memvault.memories import tagging

    cleaned_tags = tagging.cleaned(tags)
    return _tag_result(tagging.add(call.store, call.engine.resolve(name), cleaned_tags))


@group.tool(
    "tag remove",
    destructive=True,
    examples=(
        'memvault tag remove "Use PostgreSQL" database',
        'memvault tag remove "Deploy notes" team',
    ),
    view="""
        {title}  {memId}  {tags}
           it did not have: {missing}
        """,
)
def tag_remove(
    call: Call,
    name: MemoryRef,
    tags: Annotated[list[str], Arg("The tags", positional=True, names="tag")],
) -> dict[str, Any]:
    """Remove tags from a memory; a tag in its text loses the # and stays as a word."""
    from memvault.memories import tagging

    memory = call.engine.resolve(name)
    present_tags = tagging.present(tags, memory)
    header_tags = {tag.casefold() for tag in memory.tags}
    missing = [tag for tag in present_tags if tag.casefold() not in header_tags]
    result = _tag_result(tagging.remove(call.store, memory, present_tags))
    return {**result, **({"missing": missing} if missing else {})}


@group.tool(
    "tag rename",
    destructive=True,
    examples=("memvault tag rename network net", "memvault tag rename network net --confirm true"),
    view="""
        {changed:memory|memories} changed
        *memories
           {title}  {memId}  {filePath}

        Nothing is changed yet; confirm with --confirm {confirmToken}
        """,
)
def tag_rename(
    call: Call,
    old: Annotated[str, Arg("The current tag", positional=True, names="tag")],
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
    references = [memory_reference(entry) for entry in records]
    if not records:
        return {"changed": 0, "memories": [], "message": f"No memory has the tag {before}"}
    tagging.check_in_texts((call.store.read(entry.path) for entry in records), before, after)
    items = [f"{before}\0{after}", *(f"{entry.path}\0{entry.etag}" for entry in records)]
    if token := token_to_confirm(confirm, items, "the memories found now"):
        return {"confirmRequired": True, "memories": references, "confirmToken": token}
    for entry in records:
        tagging.rename(call.store, call.store.read(entry.path), before, after)
    return {"changed": len(references), "memories": references}


def _tag_result(memory: Memory) -> dict[str, Any]:
    from memvault.recall.answer import memory_reference

    return {**memory_reference(memory), "tags": list(memory.tags), "etag": memory.etag}
