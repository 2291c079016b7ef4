"""Tools that rename and tag memories, and list their links and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import NotFound, UsageError, did_you_mean, suggestion
from memvault.model import is_document
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import page_info, paginate, without_none
from memvault.tools.core.shared_args import (
    LISTED,
    TAG_ALIASES,
    Confirm,
    Limit,
    MemoryRef,
    Offset,
    token_to_confirm,
)

if TYPE_CHECKING:
    from memvault import results
    from memvault.index.protocol import MemoryRecord, StoredLink, View
    from memvault.memories.link_graph import ResolvedLink
    from memvault.model import Memory
    from memvault.vault.linked_files import LinkedFiles

group = ToolGroup("notes", "Links, tags and names", place=95)
_OF_AGENTS = ("agents/", "spaces/")

_Tags = Annotated[
    list[str], Arg("The tags", positional=True, completes="tag", json_aliases=TAG_ALIASES)
]


@group.tool(
    "rename",
    paged_keys=("rewritten",),
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

        Nothing has been changed yet; confirm with `--confirm {confirmToken}`""",
        lambda result: {**result, **result.get("after", {})},
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
            json_aliases=("newTitle", "newName"),
        ),
    ] = None,
    to: Annotated[
        str | None,
        Arg(
            "A folder, or a whole path that ends with .md",
            json_aliases=("newPath", "destination", "folder"),
        ),
    ] = None,
    confirm: Confirm = None,
) -> results.RenamedMemory:
    """Rename or move a memory, and rewrite the links to it.

    Its memory id does not change, and its former title stays in its aliases. Links in bodies and
    headers keep their form, alias and heading; links in code are not rewritten. If links in other
    memories would change, the call only lists these memories until you confirm it. One undo reverts
    all changes.
    """
    from memvault.memories import rename
    from memvault.recall.answer import memory_reference

    if not (title or "").strip() and not (to or "").strip():
        raise UsageError(
            "Neither a title nor a folder is given", "pass a new title, or `--to FOLDER`"
        )
    memory = call.resolve(name)

    def planned(view: View) -> tuple[rename.RenamePlan, list[str]]:
        plan = rename.plan_rename(
            call.store, lambda: call.link_graph(view), memory, title or "", to or ""
        )
        return plan, sorted(
            entry.path for entry in view.records() if not entry.etag and not is_document(entry.path)
        )

    plan, unread = call.engine.on_view(planned)
    links: list[results.RewrittenLinks] = [
        {"memId": entry.memory.mem_id, "filePath": entry.memory.path, "links": entry.links}
        for entry in plan.others
    ]
    others = [entry for entry in plan.others if entry.memory.path != memory.path]
    call.notes += [f"{path} cannot be read, so its links were not changed" for path in unread]
    before: results.MemoryPlace = {"title": memory.title, "filePath": memory.path}
    states = (f"{entry.memory.path}\0{entry.memory.etag}" for entry in plan.others)
    items = [plan.title, plan.path, *states]
    token = token_to_confirm(confirm, items, "the files that would change now")
    if others and token:
        rename.edited_files(call.store, plan)  # Fail here if the rename would.
        after: results.MemoryPlace = {"title": plan.title, "filePath": plan.path}
        return {
            "confirmRequired": True,
            "before": before,
            "after": after,
            "rewritten": links,
            "confirmToken": token,
        }
    if plan.changes_nothing:
        return {
            **memory_reference(memory),
            "before": before,
            "rewritten": [],
            "message": "It already has this title",
        }
    return {
        **memory_reference(rename.rename(call.store, plan)),
        "before": before,
        "rewritten": links,
    }


@group.tool(
    "links",
    paged_keys=("links",),
    read_only=True,
    examples=('memvault links "Deploy notes"', "memvault links use-postgresql --json"),
    view="""*links
        {link}  {title}  {memId}  {filePath}  {problem}  {heading}  {key}  {embed:embedded|}""",
)
def memory_links(
    call: Call, name: MemoryRef, limit: Limit = LISTED, offset: Offset = 0
) -> results.MemoryLinks:
    """List a memory's links: wikilinks, embeds, markdown links, and links in its header.

    A link with a problem is broken: its target does not exist. A link to a file that is not a
    memory has only its path.
    """
    from memvault.vault.linked_files import LinkedFiles

    memory = call.resolve(name)
    outgoing = call.engine.on_view(lambda view: call.link_graph(view).outgoing(memory))
    shown, paging = paginate(outgoing, limit, offset, "It has no links")
    files = LinkedFiles(call.root)
    return {"links": [_link_item(link, files, memory.path) for link in shown], **paging}


@group.tool(
    "backlinks",
    paged_keys=("backlinks",),
    read_only=True,
    examples=('memvault backlinks "Use PostgreSQL"', "memvault backlinks use-postgresql --limit 5"),
    view="""*backlinks
        {title}  {memId}  {filePath}  {key}
           {line}: {text}""",
)
def memory_backlinks(
    call: Call, name: MemoryRef, limit: Limit = LISTED, offset: Offset = 0
) -> results.MemoryBacklinks:
    """List the memories that link to a memory, with each line that contains a link."""
    memory = call.resolve(name)

    def backlinks_page(view: View) -> results.MemoryBacklinks:
        graph = call.link_graph(view)
        linking = graph.backlinks(memory.path)
        lines = {(link.source, link.stored.key, link.stored.line): link for link in linking}
        shown, paging = paginate([*lines.values()], limit, offset, "No memory links to it")
        backlinks: list[results.BacklinkEntry] = [
            _backlink_item(view, graph.record(link.source), link.stored) for link in shown
        ]
        return {"backlinks": backlinks, **paging}

    return call.engine.on_view(backlinks_page)


@group.tool(
    "orphans",
    paged_keys=("orphans",),
    read_only=True,
    examples=("memvault orphans", "memvault orphans --limit 5"),
    view="""*orphans
        {title}  {memId}  {filePath}""",
)
def memory_orphans(
    call: Call, limit: Limit = LISTED, offset: Offset = 0
) -> results.OrphanedMemories:
    """List memories without links to or from other memories."""
    from memvault.index.protocol import page_of, without_documents
    from memvault.memories.link_graph import LinkGraph
    from memvault.recall.answer import memory_reference

    def find_orphans(view: View) -> tuple[list[MemoryRecord], int]:
        graph = LinkGraph.without_unlinked(view, view.record)
        return view.visit_records(
            lambda records: page_of(graph.orphans(without_documents(records)), limit, offset)
        )

    orphans, total = call.engine.on_view(find_orphans)
    paging = page_info(total, offset, len(orphans), "Every memory has a link")
    return {"orphans": [memory_reference(entry) for entry in orphans], **paging}


def _link_item(resolved: ResolvedLink, files: LinkedFiles, source: str) -> results.OutgoingLink:
    from memvault.recall.answer import memory_reference

    target: dict[Any, Any] = {"problem": "no such memory"}
    if resolved.target is not None:
        target = {**memory_reference(resolved.target)}
    elif resolved.link is not None:
        path = files.target(resolved.link, source)
        # Another agent's files are not revealed.
        if path and not path.lower().endswith(".md") and not path.startswith(_OF_AGENTS):
            target = {"filePath": path}
    return {"link": resolved.name, **target, **_kind(resolved)}


def _kind(resolved: ResolvedLink) -> dict[Any, Any]:
    if resolved.link is None:
        return {"key": resolved.key}
    heading = {"heading": resolved.link.heading} if resolved.link.heading else {}
    return {**heading, **({"embed": True} if resolved.link.is_embed else {})}


def _backlink_item(view: View, source: MemoryRecord, link: StoredLink) -> results.BacklinkEntry:
    """Return the memory that contains a link, with the link's line and line number in the file.

    For a link in a header, its key is returned instead of the line.

    Raises:
        StaleView: the memory has changed since the view was created.
    """
    from memvault.memories.link_graph import line_of
    from memvault.recall.answer import memory_reference

    reference = memory_reference(source)
    if link.key:
        return {**reference, "key": link.key}
    memory = view.text(source.uid)
    if memory is None:
        return {**reference}
    line, text = line_of(memory, link)
    return {**reference, "line": line, "text": text if len(text) <= 200 else f"{text[:200]}…"}


def _as_tree(result: Result) -> Result:
    """Indent nested tags below their parent, and shorten each to its last part."""
    entries = [
        {**entry, "name": "  " * entry["tag"].count("/") + entry["tag"].rpartition("/")[2]}
        for entry in result["tags"]
    ]
    return {**result, "tags": entries}


@group.tool(
    "tags",
    paged_keys=("tags",),
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
        str | None, Arg("Only this tag and tags nested in it", positional=True, completes="tag")
    ] = None,
    sort: Annotated[
        Literal["count", "name"], Arg("Order of the tags at each level: by count or by name")
    ] = "count",
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.TagListing:
    """List the tags in headers and bodies, with the number of memories for each tag.

    count includes nested tags; own does not.
    """
    from memvault.memories import tagging

    counted_tags = call.engine.visit_records(
        lambda records: tagging.counted(records, sort == "name")
    )
    every_tag = [entry.tag for entry in counted_tags]
    if under:
        parent = tagging.parse_tag(under)
        counted_tags = [entry for entry in counted_tags if tagging.is_under(entry.tag, parent)]
    nothing = "No memory has a tag"
    if under:
        nothing = f"No memory has the tag {parent!r}{did_you_mean(parent, every_tag)}"
    shown, paging = paginate(counted_tags, limit, offset, nothing)
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
def tag_add(call: Call, name: MemoryRef, tags: _Tags) -> results.TaggedMemory:
    """Add tags to a memory's header."""
    from memvault.memories import tagging

    cleaned_tags = tagging.parse_new_tags(tags)
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
           not present: {missing}""",
)
def tag_remove(call: Call, name: MemoryRef, tags: _Tags) -> results.TaggedMemory:
    """Remove tags from a memory; a tag in its text loses the # and stays as a word.

    Tags that the memory does not have are listed under missing; if it has none of the tags, the
    call fails.
    """
    from memvault.memories import tagging
    from memvault.vault import names

    memory = call.resolve(name)
    present_tags = tagging.parse_existing_tags(tags, memory)
    present_keys = set(map(names.tag_key, memory.tags))
    missing = [tag for tag in present_tags if names.tag_key(tag) not in present_keys]
    if missing == present_tags:
        raise NotFound(
            f"{memory.title!r} does not have the tag {' or '.join(map(repr, missing))}",
            suggestion(missing[0], memory.tags, f"`memvault show {memory.mem_id}` lists its tags"),
        )
    result = _tag_result(tagging.remove(call.store, memory, present_tags))
    return {**result, **without_none(missing=missing or None)}


@group.tool(
    "tag rename",
    paged_keys=("memories",),
    destructive=True,
    examples=("memvault tag rename network net", "memvault tag rename network net --confirm true"),
    view="""{changed:memory|memories} changed
        *memories
           {title}  {memId}  {filePath}

        Nothing has been changed yet; confirm with `--confirm {confirmToken}`""",
)
def tag_rename(
    call: Call,
    old: Annotated[
        str,
        Arg("The current tag", positional=True, completes="tag", json_aliases=("from", "oldTag")),
    ],
    new: Annotated[str, Arg("The new tag", positional=True, json_aliases=("to", "newTag"))],
    confirm: Confirm = None,
) -> results.RenamedTag:
    """Rename a tag and the tags nested in it, in the headers and bodies of all memories.

    The call only lists the memories that would change until you confirm it. One undo reverts all
    changes.
    """
    from memvault.memories import tagging
    from memvault.recall.answer import memory_reference
    from memvault.recall.filters import Filters

    before, after = tagging.parse_tag(old), tagging.validate_tag(new)
    if before == after:
        raise UsageError("Both tags are the same", "pass a different new tag")
    records = call.engine.list_records(
        Filters(passes=lambda record: any(tagging.is_under(tag, before) for tag in record.tags))
    )
    references = [memory_reference(entry) for entry in records]
    if not records:
        tags = [count.tag for count in call.engine.visit_records(tagging.counted)]
        hint = suggestion(before, tags, "`memvault tags` lists the existing ones")
        raise NotFound(f"No memory has the tag {before!r}", hint)
    memories = [call.store.read(entry.path) for entry in records]
    tagging.check_in_texts(memories, before, after)
    for memory in memories:  # Everything is read before the first write.
        tagging.rename(call.store, memory, before, after, only_check=True)
    items = [f"{before}\0{after}", *(f"{entry.path}\0{entry.etag}" for entry in records)]
    if token := token_to_confirm(confirm, items, "the memories found now"):
        return {"confirmRequired": True, "memories": references, "confirmToken": token}
    for memory in memories:
        tagging.rename(call.store, memory, before, after)
    return {"changed": len(references), "memories": references}


def _tag_result(memory: Memory) -> results.TaggedMemory:
    from memvault.recall.answer import memory_reference

    return {**memory_reference(memory), "tags": list(memory.tags), "etag": memory.etag}
