"""Tools for active memory (the memories in an agent's context) and for the prompt block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import (
    as_of_field,
    collect_hits,
    list_result,
    nothing_found,
    paginate,
    past_end,
    relevant,
    with_notice,
    without_none,
)
from memvault.tools.core.shared_args import (
    CONTENT_ARG,
    LIMIT_ALIASES,
    LISTED,
    MEMORY_ARG,
    MEMORY_NAMES,
    QUERY_ALIASES,
    QUERY_ARG,
    THRESHOLD_ARG,
    Content,
    Expression,
    Limit,
    NewTags,
    Offset,
    TypeName,
    filters,
    tags_in,
    warn_unknown_filters,
)
from memvault.tools.core.type_choice import choose_type
from memvault.tools.core.vault_choice import count_retrievals

if TYPE_CHECKING:
    from memvault import results
    from memvault.agents.active_memory import ActiveMemory, ActiveSet
    from memvault.agents.prompt_block import PromptBlock
    from memvault.model import Memory

group = ToolGroup("brain", "Active memory and context", place=20)

_MIN_SEARCHED = 100
"""Minimum number of memories to search for, because search results are not sorted by probability.
"""
_DEFAULT_LIMIT = 10
_DEFAULT_LOADED = 5
_LOAD_ROOM = 200
"""Tokens reserved for a loaded memory's other values."""


@group.tool(
    "create",
    examples=(
        'memvault create "Release checklist" "Run the tests, tag, publish."',
        "memvault create Findings @notes.txt --type learning",
    ),
    view="""
        Created {memId}  {filePath}
           evicted: {evicted:each}""",
)
def memory_create(
    call: Call,
    name: Annotated[
        str,
        Arg(
            "The memory's title; its memory id starts with it",
            positional=True,
            json_aliases=("title",),
        ),
    ],
    value: Content,
    memory_type: TypeName = None,
    tags: NewTags = None,
) -> results.CreatedMemory:
    """Create a memory and load it into active memory.

    It always gets a new memory id, even if another memory has the same name. Memories
    evicted from active memory to stay within the budget are listed under evicted.
    """
    from memvault.errors import MemvaultError
    from memvault.memories import create

    header = {"tags": create.clean_tags(tags or [])}
    chosen = choose_type(call, memory_type)
    template = call.caller.template
    memory = create.add(call.store, name, value, chosen.name, header, template=template)
    chosen.warn(call, memory.mem_id)
    result: results.CreatedMemory = {"memId": memory.mem_id, "filePath": memory.path}
    try:
        active_set = _active_memory(call).load(memory)[2]
    except MemvaultError as error:  # Raising would make the caller create a duplicate.
        call.notes.append(f"the memory is not in active memory: {error.message}")
        return result
    return {**result, "evicted": _evicted_ids(call, active_set)}


def _with_limit(result: Result) -> Result:
    """Add a loaded part's end, the reason for truncation, and the metadata of memories."""
    if "memories" in result:
        entries = [{**entry, "about": _about(entry["metadata"])} for entry in result["memories"]]
        return {**result, "memories": entries}
    limit = {
        "maximum": "the maximum of one load",
        "budget": f"the budget, {result.get('budget')} token{'s' * (result.get('budget') != 1)}",
    }
    return {
        **result,
        "end": result["offset"] + result["length"],
        "limit": limit.get(result.get("cutAt", "")),
    }


def _about(metadata: Result) -> Result:
    elsewhere = ("title", "created", "modified")
    return {key: part for key, part in metadata.items() if part and key not in elsewhere}


@group.tool(
    "load",
    paged_keys=("memories", "content"),
    examples=(
        'memvault load "Use PostgreSQL"',
        'memvault load "Use PostgreSQL" --offset 0 --length 500',
        'memvault load --query "which database" --limit 3',
    ),
    view=Template(
        """{memId}  {offset} to {end} of {totalLength} characters, {tokens:token|tokens}
           evicted: {evicted:each}
           cut at {limit}; `--offset {end}` loads the rest
           > {content:each}
        *memories
        {similarity:.2f}  {strength}  {id}
           superseded by {supersededBy}  expired {expired}  valid from {notYet}  newer: {newer}
           {about}
           > {text:each}""",
        _with_limit,
    ),
    reveals=True,
)
def memory_load(
    call: Call,
    mem_id: Annotated[
        str | None, MEMORY_ARG._replace(help=f"The memory to load: {MEMORY_NAMES}")
    ] = None,
    offset: Annotated[
        int | None,
        Arg("First character to load; with a query, entries to skip", minimum=0, default=0),
    ] = None,
    length: Annotated[
        int | None, Arg("Characters to load; 0: all, up to 20,000", minimum=0, default=0)
    ] = None,
    query: Annotated[
        str | None,
        Arg(
            "Instead return memories that match this query; active memory is not changed",
            completes="search",
            json_aliases=QUERY_ALIASES,
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        THRESHOLD_ARG._replace(help="Minimum similarity; by default unlikely matches are omitted"),
    ] = None,
    limit: Annotated[
        int | None,
        Arg("Maximum number", minimum=1, default=_DEFAULT_LOADED, json_aliases=LIMIT_ALIASES),
    ] = None,
    expression: Expression = None,
) -> results.LoadedMemory:
    """Load a memory into active memory by memory id, or load long-term memories by query.

    By memory id: replaces any part of the memory already loaded; if the budget is exceeded, the
    least recently used other memories are evicted. A part has at most 20,000 characters and never
    exceeds the budget; the result says where it was cut, and offset loads the rest. By query:
    returns full content, the most probable first. similarity is the probability that the memory
    answers the query; threshold applies to it. strength expresses the same probability as a word.
    Both are comparable across vaults.
    """
    if query is not None:
        _refuse_mix("--query", {"MEMORY": mem_id, "--length": length})
        window = (limit or _DEFAULT_LOADED, offset or 0)
        return _search_texts(call, query, threshold, window, expression)
    _refuse_mix("MEMORY", {"--threshold": threshold, "--limit": limit, "--filter": expression})
    if not (mem_id or "").strip():
        raise UsageError(
            "`memvault load` needs `MEMORY` or `--query`",
            "find memory ids with `memvault search QUERY`",
        )
    return _load(call, mem_id or "", offset or 0, length or 0)


def _refuse_mix(argument: str, others: Mapping[str, object]) -> None:
    names = [name for name, value in others.items() if value is not None]
    if names:
        raise UsageError(
            f"`{argument}` and `{names[0]}` cannot be combined",
            "load by `MEMORY` with `--offset` and `--length`, "
            "or by `--query` with `--threshold`, `--limit` and `--filter`",
        )


def _search_texts(
    call: Call, query: str, threshold: float | None, window: tuple[int, int], expression: str | None
) -> results.LoadedMemory:
    """Return the memories that match a query well enough, most probable first.

    ``window`` contains the maximum number of memories and the number to skip.
    """
    from memvault.index.protocol import BEST_EFFORT
    from memvault.recall.answer import RecallRequest, by_probability

    if not query.strip():
        raise UsageError("The query is empty", "pass search words")
    limit, offset = window
    search_filters = filters(None, None, None, None, expression)
    request = RecallRequest(
        query,
        limit=max(offset + limit, _MIN_SEARCHED),
        filters=search_filters,
        threshold=threshold or 0.0,
        strict=threshold is None,
        patience=BEST_EFFORT,
    )
    hits = collect_hits(call, call.engine.search(request))
    ranked = by_probability(hits)
    page = ranked[offset : offset + limit]
    count_retrievals(call, (entry.memory for entry in relevant(page)))
    memories: list[results.LoadedText] = [
        {
            "id": entry.memory.mem_id,
            "text": entry.memory.body.strip("\r\n"),
            "similarity": entry.probability,
            "strength": entry.strength,
            "metadata": _metadata(entry.memory),
            **entry.validity.marks(),
        }
        for entry in page
    ]
    if remaining := ranked[offset + limit :]:
        call.notes.append(f"{len(remaining)} more match; increase the limit to see them")
    passing = " that passes the filter" if expression else ""
    condition = "well enough" if threshold is None else f"with {threshold:g} or more"
    nothing = (
        f"No memory{passing} matches {condition}; search with `memvault recall` to see the closest"
    )
    if ranked:
        nothing = past_end(len(ranked))
    return cast("results.LoadedMemory", list_result("memories", memories, nothing))


def _metadata(memory: Memory) -> dict[str, Any]:
    """Return the metadata under the names used in filters, without an alias equal to the title."""
    hidden = {"id", "aliases"} if memory.aliases == (memory.title,) else {"id"}
    front_matter = {key: value for key, value in memory.metadata.items() if key not in hidden}
    return {
        "title": memory.title,
        **front_matter,
        "memory_type": memory.memory_type,
        "tags": list(memory.tags),
        "created": memory.created,
        "modified": memory.modified,
    }


def _load(call: Call, mem_id: str, offset: int, length: int) -> results.LoadedMemory:
    from memvault.agents.active_memory import MAX_LENGTH
    from memvault.errors import Unwritable

    memory = call.resolve(mem_id)
    active = _active_memory(call)
    evicted: list[str] = []
    requested_length = length
    body = memory.body.strip("\r\n")
    if call.budget:
        from memvault.tools.core import budget

        text = body[offset:][: min(length or MAX_LENGTH, MAX_LENGTH)]
        length = budget.prefix_length(text, max(1, call.budget - _LOAD_ROOM))
    if call.caller.mask_secrets and (offset or length):
        end = offset + length if length else len(body)
        offset, end = call.settings.detector.around(body, offset, min(end, len(body)))
        length = max(0, end - offset) if length else 0
    try:
        piece, text, active_set = active.load(memory, offset, length)
        evicted = _evicted_ids(call, active_set)
    except Unwritable as error:
        piece, text = active.cut(memory, offset, length)
        call.notes.append(f"the memory is not in active memory: {error.message}")
    count_retrievals(call, [memory])
    result: results.LoadedMemory = {
        "memId": piece.mem_id,
        "length": piece.length,
        "totalLength": piece.total,
        "offset": piece.offset,
        "content": text,
        "evicted": evicted,
        "tokens": piece.tokens,
        "etag": piece.etag,
    }
    requested = min(requested_length or piece.total, piece.total - piece.offset)
    if piece.length < requested:
        result["cutAt"] = "maximum" if piece.length == MAX_LENGTH else "budget"
        result["maximum"] = MAX_LENGTH
        result["budget"] = call.budget or call.settings.active.budget
        if call.budget:
            result["next"] = piece.offset + piece.length
    return result


@group.tool(
    "evict",
    idempotent=True,
    examples=('memvault evict "Deploy notes"', "memvault evict deploy-notes"),
    view="Evicted {memId}",
)
def memory_evict(
    call: Call,
    mem_id: Annotated[str, MEMORY_ARG._replace(help=f"The memory to evict: {MEMORY_NAMES}")],
) -> results.EvictedMemory:
    """Evict a memory from active memory; the memory itself stays in the vault."""
    piece = _active_memory(call).evict(mem_id)
    return {"memId": piece.mem_id}


@group.tool(
    "mutate",
    destructive=True,
    idempotent=True,
    examples=(
        'memvault mutate "Deploy notes" "Deploys run on Mondays."',
        'memvault mutate "Deploy notes" @notes.txt',
    ),
    view="""Changed {memId}
        Previous revision: {previousRevision}
           evicted: {evicted:each}""",
)
def memory_mutate(
    call: Call,
    mem_id: Annotated[str, MEMORY_ARG._replace(help=f"A memory in active memory: {MEMORY_NAMES}")],
    value: Annotated[
        str, CONTENT_ARG._replace(help="The new content, which replaces all of the old content")
    ],
    if_match: Annotated[
        str | None, Arg("Change it only if it still has this etag, as returned by `memvault load`")
    ] = None,
) -> results.MutatedMemory:
    """Replace a memory's content in active memory and in its file.

    The old content is kept as a revision; front matter is not changed. The memory must be in active
    memory. All of its content is then loaded.
    """
    from memvault.errors import MemvaultError
    from memvault.memories import edit

    result: dict[Any, Any] = {}

    def change(memory: Memory) -> Memory:
        body = edit.replace_all(memory.body, value, memory.newline)
        changed = call.store.change(memory, edit.modified_now(memory), body, if_match)
        result.update(memId=changed.memory.mem_id, etag=changed.memory.etag)
        result.update(previousRevision=changed.previous_revision)
        return changed.memory

    try:
        active_set = _active_memory(call).mutate(mem_id, change)
    except MemvaultError as error:
        if not result:
            raise
        # The file already has its new text, so an error would make the caller repeat the change.
        call.notes.append(f"active memory was not updated: {error.message}")
        return cast("results.MutatedMemory", result)
    return cast("results.MutatedMemory", {**result, "evicted": _evicted_ids(call, active_set)})


@group.tool(
    "search",
    paged_keys=("results",),
    read_only=True,
    works_without_files=True,
    examples=("memvault search database", 'memvault search "disk full" --mode keyword --limit 5'),
    view=Template(
        """{notice}
        *results
        {strength}  {memId}  {title}
           {marks}
           > {snippet:passage}""",
        with_notice,
    ),
    reveals=True,
)
def memory_search(
    call: Call,
    query: Annotated[str, QUERY_ARG._replace(help="Search query; with Tag, one or more tags")],
    mode: Annotated[
        Literal["Vector", "Keyword", "Tag", "Hybrid"], Arg("Search mode", key="type", flag="--mode")
    ] = "Hybrid",
    limit: Limit = _DEFAULT_LIMIT,
) -> results.FoundMemories:
    """Search for memories to load: memory ids with short snippets."""
    from memvault.recall.answer import RecallRequest

    if not query.strip():
        raise UsageError("The query is empty", "pass search words")
    answer = call.engine.search(RecallRequest(query, mode.lower(), limit))
    found: list[results.FoundMemory] = [
        {
            "memId": entry.memory.mem_id,
            "title": entry.memory.title,
            "snippet": entry.snippet,
            "score": round(entry.score, 4),
            "strength": entry.strength,
            **entry.validity.marks(),
            **as_of_field(entry.sent),
        }
        for entry in collect_hits(call, answer)
    ]
    if not found and mode == "Tag":
        warn_unknown_filters(call, tags_in(query))
    nothing = "No memories found; try other words"
    return {
        "best": answer.best,
        "results": found,
        **without_none(message=None if found else nothing_found(call.engine, nothing)),
    }


def _with_part_ends(result: Result) -> Result:
    """Add the end of each part of a memory that is not the whole memory."""
    entries = [
        {**entry, "end": entry["offset"] + entry["length"]}
        if entry["length"] < entry["totalLength"]
        else entry
        for entry in result["memories"]
    ]
    return {**result, "memories": entries}


@group.tool(
    "active",
    paged_keys=("memories",),
    read_only=True,
    examples=("memvault active", "memvault active --agent historian"),
    view=Template(
        """*memories
        {tokens:>6}  {memId}  {title}  {offset} to {end} of {totalLength}
           > {content:each}

        {tokens} of {budget:token|tokens}, {left} left""",
        _with_part_ends,
    ),
)
def memory_active(
    call: Call,
    full: Annotated[bool, Arg("Include the content")] = False,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.ActiveMemories:
    """List active memory, last used first, with sizes in tokens and the remaining budget.

    Sizes refer to the current files. A memory whose file is missing is removed from the set, with a
    warning; if a file has grown past the budget, other memories are evicted.
    """
    active = _active_memory(call)
    active_set = active.refresh()
    evicted = _evicted_ids(call, active_set)
    if evicted:
        call.notes.append(
            f"memories have grown; evicted to stay within the budget: {', '.join(evicted)}"
        )
    shown, paging = paginate(list(reversed(active_set.pieces)), limit, offset)
    memories: list[results.ActivePart] = [
        {
            "memId": piece.mem_id,
            "title": piece.title,
            "filePath": piece.path,
            "offset": piece.offset,
            "length": piece.length,
            "totalLength": piece.total,
            "tokens": piece.tokens,
            **without_none(content=active.text(piece) if full else None),
        }
        for piece in shown
    ]
    used = sum(piece.tokens for piece in active_set.pieces)
    budget = call.settings.active.budget
    return {
        "agent": call.caller.agent,
        "memories": memories,
        **paging,
        "tokens": used,
        "budget": budget,
        "left": budget - used,
    }


def _evicted_ids(call: Call, active_set: ActiveSet) -> list[str]:
    """Return the memIds evicted by the budget, and add the set's notes to the call's."""
    call.notes += active_set.notes()
    return [piece.mem_id for piece in active_set.evicted]


def _active_memory(call: Call) -> ActiveMemory:
    from memvault.agents.active_memory import ActiveMemory

    return ActiveMemory(call.store, call.engine, call.address)


_DEFAULT_BUDGET = 2_000
_CUT_ROOM = 100
"""Tokens reserved for a block's list of omitted entries over MCP, in five sections."""
_EMPTY_ROOM = 250
"""The minimum token budget of a block over MCP, which is enough for a block without entries."""
_MAX_NOTES, _MAX_NOTE = 20, 300
"""Maximum number and length of the warnings that count toward a block's budget over MCP."""


@group.tool(
    "context",
    paged_keys=(),
    own_scope="read",
    core_args={"task": ""},
    examples=(
        'memvault context "I am about to change the database"',
        'memvault context "fix the deploy" --budget 500',
    ),
    view="{context:each}",
)
def context(
    call: Call,
    task: Annotated[
        str,
        Arg(
            "The task; memories that match it or one of its lines are recalled",
            positional=True,
            join_words=True,
            completes="search",
            json_aliases=("query", "prompt", *QUERY_ALIASES),
        ),
    ] = "",
    budget: Annotated[
        int | None,
        Arg(
            "Maximum tokens in the block; over MCP, in the whole result",
            minimum=0,
            default=_DEFAULT_BUDGET,
        ),
    ] = None,
) -> results.PromptContextBlock:
    """Write a block for a system prompt: memories, goals, due plans, inbox, recalled memories.

    Entries that exceed the budget are omitted from the end and counted under cut.

    The sections have this order, and their entries are dated and marked as data. Due plans become
    events in the inbox; no event is removed. If there is nothing to include, the block is empty.
    """
    from memvault.agents import prompt_block, receipts
    from memvault.agents.context import RECALLED, gather
    from memvault.index.embedding import tokenizer

    may_give = receipts.may_give(call.root, call.settings) if call.caller.is_hook else None
    gathered = gather(
        call.store,
        call.address,
        lambda: call.inbox,
        lambda: call.engine,
        task,
        call.cited_code,
        may_give,
    )
    call.notes += gathered.notes
    limit = (call.budget if call.caller.has_token_budget else 0) or _DEFAULT_BUDGET
    limit = limit if budget is None else budget

    block = prompt_block.build(gathered.sections, limit, tokenizer.count_tokens)
    if call.caller.has_token_budget:  # The budget applies to the whole result, as JSON.
        from memvault.tools.core.budget import count

        notes = [note[:_MAX_NOTE] for note in call.all_notes()[:_MAX_NOTES]]
        empty = _context_result(block._replace(text="", sections=[]), limit)
        room = limit - count({**empty, "success": True, "warnings": notes}) - _CUT_ROOM
        block = prompt_block.build(gathered.sections, room, count)
        block = block._replace(tokens=tokenizer.count_tokens(block.text))
    result = _context_result(block, limit)
    if call.caller.has_token_budget:
        del result["parts"]  # ``parts`` repeats the text.
    shown = sum(len(section.entries) for section in block.sections if section.title == RECALLED)
    recalled = gathered.recalled[:shown]
    count_retrievals(call, (entry.memory for entry in recalled))
    memories: list[results.ContextMemory] = [
        {"memId": entry.memory.mem_id, "etag": entry.memory.etag, "probability": entry.probability}
        for entry in recalled
    ]
    if block.text and not call.caller.is_hook and call.caller.scope != "read":
        given = tuple(map(receipts.GivenMemory.of, memories))
        receipt = receipts.Receipt(
            "", call.caller.agent, "context", "", block.text, block.tokens, limit, memories=given
        )
        receipts.claim(call.root, call.settings, receipt)
    if not call.caller.has_token_budget:
        result["memories"] = memories
    if block.omitted and not block.text:
        tokens = f"{limit} token{'s' * (limit != 1)}"
        call.notes.insert(0, f"the first entry is longer than {tokens}")
        call.budget = max(call.budget, _EMPTY_ROOM)  # A smaller budget would omit this note.
    return result


def _context_result(block: PromptBlock, budget: int) -> results.PromptContextBlock:
    return {
        "context": block.text,
        "tokens": block.tokens,
        "budget": budget,
        "parts": [
            {
                "section": section.title,
                "entries": [{"date": date, "text": text} for date, text in section.entries],
            }
            for section in block.sections
        ],
        "cut": [
            {"section": cut.title, "leftOut": cut.omitted, "of": cut.of} for cut in block.omitted
        ],
        **without_none(shortened=block.shortened or None),
    }
