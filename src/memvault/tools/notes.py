"""Tools for links between memories, names and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    without_none,
)

if TYPE_CHECKING:
    from memvault.memories.link_graph import LinkGraph, ResolvedLink
    from memvault.model import Memory
    from memvault.results import (
        BacklinkEntry,
        LinkEntry,
        MemoryBacklinks,
        MemoryLinks,
        MemoryPlace,
        OrphanedMemories,
        RenamedMemory,
        RenamedTag,
        RewrittenLinks,
        TaggedMemory,
        TagListing,
    )

group = ToolGroup("notes", "Links, tags and names", place=95)


@group.tool(
    "rename",
    pages=("rewritten",),
    destructive=True,
    examples=(
        'memvault rename "Deploy notes" "Deploy log"',
        'memvault rename "Old notes" --to archive/',
        'memvault rename "Use PostgreSQL" "Use PostgreSQL 17" --confirm true',
    ),
    view=Template(
        """{title}  {memId}  {filePath}
        *rewritten Links rewritten:
           {filePath}  {links:link|links}

        Nothing is changed yet; confirm with --confirm {confirmToken}""",
        lambda found: {**found, **found.get("after", {})},
    ),
)
def memory_rename(
    call: Call,
    name: MemoryRef,
    title: Annotated[
        str | None,
        Arg(
            "The new title; a file named after the title is renamed too",
            positional=True,
            cli_optional=True,
        ),
    ] = None,
    to: Annotated[str | None, Arg("A folder, or a whole path that ends with .md")] = None,
    confirm: Confirm = None,
) -> RenamedMemory:
    """Rename or move a memory, and rewrite the links to it.

    Its memId does not change, and its former title stays in its aliases. Links in texts and
    headers keep their form, alias and heading; links in code are not rewritten. If other memories
    change, they are shown first and written once confirmed. It is one change to undo.
    """
    from memvault.memories import rename
    from memvault.recall.answer import memory_reference

    if not (title or "").strip() and not (to or "").strip():
        raise UsageError("Neither a title nor a place is given", "give a new title, or --to FOLDER")
    memory = call.resolve(name)
    plan = rename.plan_rename(call.store, lambda: _graph(call), memory, title or "", to or "")
    links: list[RewrittenLinks] = [
        {"memId": entry.memory.mem_id, "filePath": entry.memory.path, "links": entry.links}
        for entry in plan.others
    ]
    others = [entry for entry in plan.others if entry.memory.path != memory.path]
    call.notes += [f"{path} cannot be read, so links in it stay" for path in plan.unread]
    before: MemoryPlace = {"title": memory.title, "filePath": memory.path}
    states = (f"{entry.memory.path}\0{entry.memory.etag}" for entry in plan.others)
    items = [plan.title, plan.path, *states]
    if others and (token := token_to_confirm(confirm, items, "what would change now")):
        after: MemoryPlace = {"title": plan.title, "filePath": plan.path}
        return {
            "confirmRequired": True,
            "before": before,
            "after": after,
            "rewritten": links,
            "confirmToken": token,
        }
    if plan.is_nothing:
        return {
            **memory_reference(memory),
            "before": before,
            "rewritten": [],
            "message": "It is called so already",
        }
    return {
        **memory_reference(rename.rename(call.store, plan)),
        "before": before,
        "rewritten": links,
    }


@group.tool(
    "links",
    pages=("links",),
    read_only=True,
    examples=('memvault links "Deploy notes"', "memvault links use-postgresql --json"),
    view="""*links
        {link}  {title}  {memId}  {filePath}  {problem}  {heading}  {key}  {embed:embedded|}""",
)
def memory_links(
    call: Call, name: MemoryRef, limit: Limit = LISTED, offset: Offset = 0
) -> MemoryLinks:
    """List the links of a memory: wikilinks, embeds, markdown links, and names in its header.

    A link whose target does not exist has no memId.
    """
    memory = call.resolve(name)
    shown, paging = paginate(_graph(call).outgoing(memory), limit, offset, "It links to nothing")
    return {"links": [_link_item(link) for link in shown], **paging}


@group.tool(
    "backlinks",
    pages=("backlinks",),
    read_only=True,
    examples=('memvault backlinks "Use PostgreSQL"', "memvault backlinks use-postgresql --limit 5"),
    view="""*backlinks
        {title}  {memId}  {filePath}  {key}
           {line}: {text}""",
)
def memory_backlinks(
    call: Call, name: MemoryRef, limit: Limit = LISTED, offset: Offset = 0
) -> MemoryBacklinks:
    """List the memories that link to a memory, with each line that contains a link."""
    from memvault.recall.answer import memory_reference

    memory = call.resolve(name)
    linking = _graph(call).backlinks(memory.path)
    lines = list({(link.source.path, link.key, _row(link)): link for link in linking}.values())
    shown, paging = paginate(lines, limit, offset, "Nothing links to it")
    backlinks: list[BacklinkEntry] = [
        {**memory_reference(link.source), **_link_position(call, link)} for link in shown
    ]
    return {"backlinks": backlinks, **paging}


@group.tool(
    "orphans",
    pages=("orphans",),
    read_only=True,
    examples=("memvault orphans", "memvault orphans --limit 5"),
    view="""*orphans
        {title}  {memId}  {filePath}""",
)
def memory_orphans(call: Call, limit: Limit = LISTED, offset: Offset = 0) -> OrphanedMemories:
    """List memories without links to or from other memories."""
    from memvault.model import is_example
    from memvault.recall.answer import memory_reference

    graph = _graph(call)
    linked: set[str] = set()
    for memory in graph.memories():
        for link in graph.outgoing(memory):
            if link.target is not None and link.target.path != memory.path:
                linked |= {memory.path, link.target.path}
    orphans = [
        entry
        for entry in graph.records
        if entry.path not in linked and not is_example(entry.metadata)
    ]
    shown, paging = paginate(orphans, limit, offset, "Every memory has a link")
    return {"orphans": [memory_reference(entry) for entry in shown], **paging}


def _graph(call: Call) -> LinkGraph:
    from memvault.memories.link_graph import LinkGraph
    from memvault.recall.filters import Filters

    return LinkGraph(call.engine.list_records(Filters()), call.store)


def _link_item(found: ResolvedLink) -> LinkEntry:
    from memvault.recall.answer import memory_reference

    target: dict[Any, Any] = (
        {**memory_reference(found.target)}
        if found.target is not None
        else {"problem": "leads to no memory"}
    )
    return {"link": found.name, **target, **_kind(found)}


def _kind(found: ResolvedLink) -> dict[Any, Any]:
    if found.link is None:
        return {"key": found.key}
    heading = {"heading": found.link.heading} if found.link.heading else {}
    return {**heading, **({"embed": True} if found.link.is_embed else {})}


def _row(found: ResolvedLink) -> int:
    """Return the index of a link's line in its text, from 0; -1 for a link in a header."""
    return -1 if found.link is None else found.source.body.count("\n", 0, found.link.span[0])


def _link_position(call: Call, found: ResolvedLink) -> dict[Any, Any]:
    """Return the line that contains a link, and its number in the file; or its header key."""
    if found.link is None:
        return {"key": found.key}
    from memvault.vault import document

    body, offset = found.source.body, found.link.span[0]
    text = document.decode(call.store.read_bytes(found.source.path)[0]).text
    above = text.count("\n", 0, max(0, len(text) - len(body)))
    start = body.rfind("\n", 0, offset) + 1
    line = body[start:].partition("\n")[0].strip()
    return {"line": above + _row(found) + 1, "text": line if len(line) <= 200 else f"{line[:200]}…"}


def _as_tree(found: Result) -> Result:
    """Indent nested tags below their parent, and shorten each to its last part."""
    entries = [
        {**entry, "name": "  " * entry["tag"].count("/") + entry["tag"].rpartition("/")[2]}
        for entry in found["tags"]
    ]
    return {**found, "tags": entries}


@group.tool(
    "tags",
    pages=("tags",),
    read_only=True,
    works_without_files=True,
    examples=("memvault tags", "memvault tags network", "memvault tags --sort name"),
    view=Template(
        """*tags
        {name:<32}{count:>6}""",
        _as_tree,
    ),
)
def tag_list(
    call: Call,
    under: Annotated[
        str | None, Arg("Only this tag and those nested in it", positional=True, names="tag")
    ] = None,
    sort: Annotated[
        Literal["count", "name"], Arg("Order of the tags of one level: most used first, or by name")
    ] = "count",
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> TagListing:
    """List the tags in headers and texts, with the number of memories that have each.

    count includes nested tags; own does not.
    """
    from memvault.memories import tagging
    from memvault.recall.filters import Filters

    found = tagging.counted(call.engine.list_records(Filters()), sort == "name")
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
) -> TaggedMemory:
    """Add tags to a memory's header."""
    from memvault.memories import tagging

    cleaned_tags = tagging.cleaned(tags)
    return _tag_result(tagging.add(call.store, call.resolve(name), cleaned_tags))


@group.tool(
    "tag remove",
    destructive=True,
    examples=(
        'memvault tag remove "Use PostgreSQL" database',
        'memvault tag remove "Deploy notes" team',
    ),
    view="""
        {title}  {memId}  {tags}
           it did not have: {missing}""",
)
def tag_remove(
    call: Call,
    name: MemoryRef,
    tags: Annotated[list[str], Arg("The tags", positional=True, names="tag")],
) -> TaggedMemory:
    """Remove tags from a memory; a tag in its text loses the # and stays as a word."""
    from memvault.memories import tagging

    memory = call.resolve(name)
    present_tags = tagging.present(tags, memory)
    header_tags = {tag.casefold() for tag in memory.tags}
    missing = [tag for tag in present_tags if tag.casefold() not in header_tags]
    result = _tag_result(tagging.remove(call.store, memory, present_tags))
    return {**result, **without_none(missing=missing or None)}


@group.tool(
    "tag rename",
    pages=("memories",),
    destructive=True,
    examples=("memvault tag rename network net", "memvault tag rename network net --confirm true"),
    view="""{changed:memory|memories} changed
        *memories
           {title}  {memId}  {filePath}

        Nothing is changed yet; confirm with --confirm {confirmToken}""",
)
def tag_rename(
    call: Call,
    old: Annotated[str, Arg("The current tag", positional=True, names="tag")],
    new: Annotated[str, Arg("The new tag", positional=True)],
    confirm: Confirm = None,
) -> RenamedTag:
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


def _tag_result(memory: Memory) -> TaggedMemory:
    from memvault.recall.answer import memory_reference

    return {**memory_reference(memory), "tags": list(memory.tags), "etag": memory.etag}
