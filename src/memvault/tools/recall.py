"""Tools that add, recall, change and delete memories."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import Ambiguous, NotFound, UsageError, exclusive
from memvault.model import FALLBACK_TYPE, MAX_RESULTS
from memvault.tools.core.recall_budget import (
    RenderedMemory,
    ResultBudget,
    recall_for_people,
    recalled_entry,
    render_result,
)
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Template
from memvault.tools.core.result_parts import (
    as_of_field,
    cites_field,
    collect_hits,
    list_result,
    nothing_found,
    outdated_code,
    page_info,
    past_end,
    relevant,
    without_none,
)
from memvault.tools.core.shared_args import (
    CONTENT_ALIASES,
    LIMIT_ALIASES,
    LISTED,
    MEMORY_ARG,
    QUERY_FILTERS,
    QUERY_LINE_ARG,
    THRESHOLD_ARG,
    TYPE_ALIASES,
    TYPE_HELP,
    Confirm,
    Content,
    Expression,
    NewTags,
    Offset,
    Since,
    TagFilter,
    TypeName,
    Until,
    filters,
    parse_date_argument,
    tags_in,
    token_to_confirm,
    warn_unknown_filters,
)

if TYPE_CHECKING:
    from memvault import results
    from memvault.memories.rename import Retyping
    from memvault.model import Memory
    from memvault.recall.answer import RecallRequest
    from memvault.recall.filters import Filters
    from memvault.tools.core.vault_choice import VaultSelection

group = ToolGroup("historian", "Remember and recall", place=10)

_DEFAULT_LIMIT = 10
_NEW_TYPE_HELP = f"{TYPE_HELP}; {FALLBACK_TYPE} by default"


@group.tool(
    "recall",
    paged_keys=("memories", "brief"),
    openable_list="memories",
    read_only=True,
    works_without_files=True,
    core_args={
        "query": 'Use "exact words", -WORD, in:FOLDER',
        "memoryType": "",
        "tags": "",
        "since": "Date, 7d or last week",
        "until": "",
        "limit": "",
        "offset": "",
    },
    examples=(
        "memvault recall which database do we use",
        'memvault recall "lock timeout" --type issue -n 3',
        "memvault recall --tags network --since 2020-01-01",
    ),
    view=Template(
        """{notice}
        *memories
        {number}. {title}  {strength} {probability:floor}  {memoryType}  {tags}
           {vault}  {memId}  {place|filePath}  {modified:day}
           {marks}
           {code:each}
           > {content:each}
           > {snippet:passage}
           {explanation:each}

        *brief
        {text}

        {more:memory|memories} more; `--offset {next}` shows more
        *others Your own data:
        {number}. {name}  {score:.2f}  {kind}
           {filePath}  {modified:day}
           > {content:each}
           > {snippet:passage}""",
        recall_for_people,
    ),
    reveals=True,
)
def memory_recall(
    call: Call,
    query: Annotated[
        str,
        QUERY_LINE_ARG._replace(
            help='Search query; "quoted words" must occur exactly, unless no memory has them '
            f"or a long question only mentions them; {QUERY_FILTERS}; "
            "filters alone list the newest memories"
        ),
    ] = "",
    memory_type: TypeName = None,
    tags: TagFilter = None,
    limit: Annotated[
        int | None,
        Arg(
            f"Maximum results; {LISTED} with `--all`, {MAX_RESULTS:,} for a query",
            minimum=1,
            default=_DEFAULT_LIMIT,
            json_aliases=LIMIT_ALIASES,
        ),
    ] = None,
    offset: Offset = 0,
    mode: Annotated[
        Literal["hybrid", "keyword", "vector", "tag"],
        Arg(
            "Search mode; only hybrid considers dates, recency, importance and repetition",
            key="type",
            flag="--mode",
            synonyms={
                "semantic": "vector",
                **dict.fromkeys(("fulltext", "full-text", "bm25"), "keyword"),
            },
        ),
    ] = "hybrid",
    threshold: Annotated[
        float, THRESHOLD_ARG._replace(help="Minimum probability that a memory answers the query")
    ] = 0.0,
    strict: Annotated[bool, Arg("Omit memories that are unlikely to answer")] = False,
    specific: Annotated[
        bool,
        Arg(
            "Also omit results for generic lines such as `go on`; a query of two to eight lines is "
            "searched line by line"
        ),
    ] = False,
    expression: Expression = None,
    since: Since = None,
    until: Until = None,
    as_of: Annotated[
        str | None, Arg("Search the vault as it was at the end of a day, or at a time")
    ] = None,
    is_all: Annotated[bool, Arg("List every memory, newest change first", flag="--all")] = False,
    full: Annotated[bool, Arg("Include the whole content and the etag")] = False,
    explain: Annotated[bool, Arg("Explain each score")] = False,
    brief: Annotated[
        bool, Arg("Return one line per result: title, best sentence, memory id")
    ] = False,
    budget: Annotated[
        int | None,
        Arg(
            "Maximum tokens in the result: the best in full, then one line each; 0: no limit",
            minimum=0,
        ),
    ] = None,
    rerank: Annotated[
        bool, Arg("Reorder the best results with a cross-encoder, if the settings select one")
    ] = False,
    include: Annotated[
        list[str] | None,
        Arg("Also search the agent's own data, ignoring filters: state, messages or both"),
    ] = None,
    vaults: Annotated[
        list[str] | None,
        Arg("Names of vaults to search together; all: every vault, this: the current one"),
    ] = None,
) -> results.RecalledMemories:
    """Recall the memories that best answer a question, each with its best passage.

    strength is the match probability as a word: strong, fair or weak, comparable across vaults;
    best is the highest strength, or none if no memory is likely to answer. Superseded, expired and
    not yet valid memories are marked and listed after current ones.

    Scores are only comparable within one result. With `--as-of`, later memories are omitted, and
    content is as it was then, as far as revisions exist; memories deleted since are missing. With
    `--include`, the agent's own values, goals and plans (state), or its spaces and inbox
    (messages), are also searched by keyword and listed under others; their score is the share of
    the query's words that an entry contains.
    """
    from memvault import clock
    from memvault.recall import query_filters
    from memvault.recall.answer import RecallRequest
    from memvault.recall.filters import Filters
    from memvault.tools.core.vault_choice import VaultSelection

    exclusive({"--full": full, "--brief": brief})
    if rerank and (is_all or mode == "tag"):
        raise UsageError(
            "`--rerank` cannot be combined with `--all` or `--mode tag`",
            "omit it, or use `--mode hybrid`, `keyword` or `vector`",
        )
    line = query_filters.parse(query)
    query = line.words
    call.notes += line.notes
    search_filters = filters(memory_type, tags, since, until, expression, line.filters)
    as_of_time = parse_date_argument(as_of, "asOf", True)
    if as_of_time is not None and is_all:
        raise UsageError("`--as-of` and `--all` cannot be combined", "list with `--until` instead")
    if include and not query.strip():
        raise UsageError("`--include` needs a query", "pass a query")
    if is_all and query.strip():
        raise UsageError("A query and `--all` cannot be combined", "omit one of them")
    result_budget = ResultBudget.of(call, brief, budget)
    selection = VaultSelection.of(call, vaults or ())
    if is_all or (as_of_time is None and not query.strip() and search_filters != Filters()):
        return _list_all(
            call, selection, search_filters, limit or LISTED, offset, full, result_budget
        )
    if not query.strip():
        raise UsageError(
            "The query is empty", "pass search words or a filter, or list all memories with `--all`"
        )
    request = RecallRequest(
        query,
        mode,
        offset + (limit or _DEFAULT_LIMIT),
        search_filters,
        threshold,
        explain,
        rerank,
        strict=strict,
        specific=specific,
        unmerged=True,
        as_of=as_of_time,
        lines=result_budget.has_lines,
    )
    engine = selection.engine
    answer = engine.search_lines(request) if specific else engine.search(request)
    hits = collect_hits(call, answer)
    page = hits[offset:]
    as_of_text = clock.iso(as_of_time) if as_of_time else ""
    # The code is not compared as it was at another time, or is on another branch.
    headers = [
        (entry.vault, {} if as_of_text or entry.branch else entry.memory.metadata) for entry in page
    ]
    cited = selection.cited_code(headers)
    rendered = [
        render_result(call, entry, full, explain, as_of_text, states)
        for entry, states in zip(page, cited, strict=True)
    ]
    own_data = _own_data(call, query, include, limit or _DEFAULT_LIMIT, full)
    about = {"best": answer.best, **_absent_words(selection, request, answer.best)}
    result = result_budget.result(about, rendered, offset, own_data)
    selection.count(relevant(page[: result["count"]]))
    if not include:
        _suggest_include(call, query, answer.best)
    if page:
        return result
    if hits:
        return {**result, "message": past_end(len(hits))}
    warn_unknown_filters(
        call, tags_in(query) if mode == "tag" else search_filters, selection.engine
    )
    option = "strict" if strict else "specific" if specific else ""
    advice = " or fewer filters" if any(search_filters) else ""
    advice = " or a lower threshold" if threshold else f" or omit {option}" if option else advice
    message = f"No memories found; try other words{advice}"
    return {**result, "message": nothing_found(selection.engine, message)}


def _absent_words(selection: VaultSelection, request: RecallRequest, best: str) -> dict[str, Any]:
    """Return query words that no memory contains, unless there is a strong match or a past date."""
    is_wanted = best != "strong" and request.as_of is None
    absent = selection.engine.absent_words(request) if is_wanted else []
    return {"absentWords": absent} if absent else {}


def _suggest_include(call: Call, query: str, best: str) -> None:
    """Suggest including the agent's own state, if no memory is a good match."""
    if best in ("weak", "none"):
        from memvault.tools.core import agent_state

        agent_state.suggest_include(call, query)


def _list_all(
    call: Call,
    selection: VaultSelection,
    search_filters: Filters,
    limit: int,
    offset: int,
    full: bool,
    result_budget: ResultBudget,
) -> results.RecalledMemories:
    from memvault.model import is_example
    from memvault.recall import snippets
    from memvault.recall.filters import Filters

    not_examples = Filters(passes=lambda record: not is_example(record.metadata))
    shown, total = selection.engine.latest_records(limit, offset, search_filters.both(not_examples))
    nothing = "No memory matches the filters"
    if not shown:
        nothing = nothing_found(selection.engine, nothing)
    paging = page_info(total, offset, len(shown), nothing)
    if not shown:
        warn_unknown_filters(call, search_filters, selection.engine)
    rendered = []
    cited = selection.cited_code([(record.vault, record.metadata) for record in shown])
    validities = selection.engine.validities(shown)
    for record, standing, states in zip(shown, validities, cited, strict=True):
        memory = selection.read(record)
        if memory is None:
            continue
        marks: dict[Any, Any] = {
            **standing.marks(),
            **as_of_field(record.published_at),
            **outdated_code(states),
        }
        beginning = snippets.beginning(memory.body)
        entry: results.RecalledMemory = {
            **recalled_entry(memory, 1.0, None, beginning, full, record.vault),
            **marks,
        }
        rendered.append(
            RenderedMemory(memory, entry, beginning, marks, call.settings, vault=record.vault)
        )
    return result_budget.result(paging, rendered, offset)


def _own_data(
    call: Call, query: str, include: list[str] | None, limit: int, full: bool
) -> list[results.RecalledEntry] | None:
    """Return matching entries of the agent's own state, or None if none were requested."""
    if not include:
        return None
    from memvault.tools.core import agent_state

    return agent_state.search_agent_state(call, query, include, limit, full)


@group.tool(
    "remember",
    core_args={
        "title": "",
        "content": "",
        "memoryType": "e.g. design-decision; see memory_list_types",
        "tags": "",
        "supersedes": "Memory id",
    },
    examples=(
        'memvault remember "Retries need a cap" "Without one they storm." --type learning',
        'echo "Ask Husam before ten." | memvault remember "Deploys" --tags team,deploy',
        'memvault remember "Deploy log" @notes.txt --type issue',
    ),
    view="""{isUpdate:Updated|Remembered} {memId}  {filePath}
           cites {cites}
        *similar Similar memories:
           {similarity:.2f}  {title}  {memId}  {filePath}""",
)
def memory_remember(
    call: Call,
    title: Annotated[str, Arg("The memory's title", positional=True, json_aliases=("name",))],
    content: Content,
    memory_type: Annotated[
        str | None, Arg(_NEW_TYPE_HELP, flag="--type", completes="type", json_aliases=TYPE_ALIASES)
    ] = None,
    tags: NewTags = None,
    importance: Annotated[float | None, Arg("From 0 to 1", minimum=0, maximum=1)] = None,
    source: Annotated[str | None, Arg("The source of this knowledge")] = None,
    supersedes: Annotated[
        str | None, Arg("The memory that this one replaces", completes="memory")
    ] = None,
    file_path: Annotated[
        str | None,
        Arg(
            "Update this memory (path, memory id or title) instead of adding one",
            completes="memory",
        ),
    ] = None,
) -> results.RememberedMemory:
    """Remember something as a new memory; existing ones are never overwritten.

    The result lists similar memories, so that you can compound an existing one that says the same
    thing. Similarity is by meaning, without a minimum. With `--file-path`, the memory at that path
    gets the new content; the old content is kept as a revision.
    """
    from memvault.memories import create
    from memvault.tools.core.type_choice import choose_type

    name = create.clean_title(title)
    header = without_none(
        tags=None if tags is None else create.clean_tags(tags),
        importance=importance,
        source=source or None,
        supersedes=call.resolve(supersedes).mem_id if supersedes else None,
    )
    chosen = choose_type(call, memory_type)
    if file_path:
        from memvault.memories import edit

        target = call.resolve(file_path)
        moving = _plan_retyping(call, target, chosen.name)
        memory = edit.update(
            call.store, target, name, content, chosen.name, header, call.citations
        ).memory
        if moving is not None:
            moving.rewrite_links(call.store, memory)
    else:
        memory = create.add(
            call.store, name, content, chosen.name, header, call.citations, call.caller.template
        )
    chosen.warn(call, memory.mem_id)
    return remembered(call, memory, f"{name}\n{content}", bool(file_path))


def remembered(
    call: Call, memory: Memory, text: str, is_update: bool = False
) -> results.RememberedMemory:
    """Return the result for a written memory, with the memories similar to its text."""
    from memvault.recall.answer import memory_reference
    from memvault.tools.core.similar import similar_memories

    return {
        "filePath": memory.path,
        "memId": memory.mem_id,
        "memoryType": memory.memory_type,
        "tags": list(memory.tags),
        "isUpdate": is_update,
        **cites_field(memory),
        "similar": [
            {**memory_reference(similar_memory), "similarity": similarity}
            for similar_memory, similarity in similar_memories(call, text, memory.path)
        ],
    }


def _plan_retyping(call: Call, memory: Memory, kind: str) -> Retyping | None:
    """Plan changes to other memories if a new type moves a memory; return None if it does not.

    Raises:
        Refused: the folder of the type is ignored or leads through a link, or a memory with a link
        to this one cannot be changed.
    """
    from memvault.memories import rename

    path = call.store.path_of_type(memory, kind)
    if not path:
        return None
    return call.engine.on_view(
        lambda view: rename.plan_retyping(call.store, call.link_graph(view), memory, path)
    )


_DEFAULT_THRESHOLD = 0.25
"""Default threshold: that of a fair match, so that loosely related memories are not forgotten."""


@group.tool(
    "compound",
    destructive=True,
    core_args={
        "query": "Memory id, path or title",
        "modifications": "Markdown to insert",
        "mode": "",
        "section": "Heading to replace or add",
    },
    examples=(
        'memvault compound "Use PostgreSQL" "We have been running version 17 since March."',
        'memvault compound "Use PostgreSQL" "Easier backups." --section Reasons',
        'date | memvault compound "Deploy notes" -',
    ),
    view="""Compounded {memId}  {filePath}
           cites {cites}
        Previous revision: {previousRevision}""",
)
def memory_compound(
    call: Call,
    query: Annotated[str, MEMORY_ARG._replace(help="The memory: memory id, path, title, or words")],
    modifications: Annotated[
        str,
        Arg(
            "Markdown text to insert",
            positional=True,
            cli_optional=True,
            text=True,
            json_aliases=("changes", *CONTENT_ALIASES),
        ),
    ],
    memory_type: Annotated[
        str | None,
        Arg(
            "Change the type; a file in its type's folder moves to the new type's folder",
            flag="--type",
            completes="type",
            json_aliases=TYPE_ALIASES,
        ),
    ] = None,
    mode: Annotated[
        Literal["append", "replace", "section"],
        Arg("Add to the end, replace the content, or replace one section"),
    ] = "append",
    section: Annotated[
        str | None, Arg("Heading, such as Setup/Linux, whose text is replaced; added if missing")
    ] = None,
    if_match: Annotated[str | None, Arg("Only change it if it still has this etag")] = None,
) -> results.CompoundedMemory:
    """Compound a memory: add to it instead of writing a second one.

    Front matter, comments and all other text are preserved byte for byte. If the target is not
    clear, nothing is written and the candidates are listed. To replace text, pass a name.

    With a type and an empty text, only the type changes.
    """
    from memvault.memories import edit
    from memvault.memories.target import find_target
    from memvault.recall.resolve import is_name_of
    from memvault.tools.core.type_choice import choose_type

    edit_mode = "section" if section else mode
    try:
        target = find_target(call.engine, query, call.notes, edit_mode != "append")
    except (Ambiguous, NotFound) as error:
        call.require_merged(query, error)
        raise
    if not is_name_of(query, target):
        call.require_merged(query, similar=target)
    chosen = choose_type(call, memory_type)
    moving = _plan_retyping(call, target, chosen.name)
    change = edit.compound(
        call.store, target, modifications, edit_mode, section or "", chosen.name, if_match or "",
        call.citations,
    )  # fmt: skip
    if moving is not None:
        moving.rewrite_links(call.store, change.memory)
    chosen.warn(call, change.memory.mem_id)
    return {
        "filePath": change.memory.path,
        "memId": change.memory.mem_id,
        "memoryType": change.memory.memory_type,
        "etag": change.memory.etag,
        "previousRevision": change.previous_revision,
        **cites_field(change.memory),
    }


@group.tool(
    "forget",
    paged_keys=("candidates",),
    continuation_hint="trash_list lists the forgotten memories",
    destructive=True,
    core_args={"query": "Query or memory ids", "confirm": "preview's token, or true"},
    examples=(
        'memvault forget "Old notes"',
        'memvault forget "Old notes" --confirm true',
        'memvault forget "disk space" --type issue --threshold 0.9',
    ),
    view=Template(
        """Moved to the trash: {deletedFiles}
           {files:each}
        *candidates Would forget {candidates:#}:
           {score:.2f}  {strength}  {title}  {memoryType}  {memId}  {filePath}  {marks}

        Nothing has been deleted yet; confirm with `--confirm {token}`""",
        lambda result: {**result, "token": result.get("candidates") and result["confirmToken"]},
    ),
)
def memory_forget(
    call: Call,
    query: Annotated[
        str,
        MEMORY_ARG._replace(
            help="Memories to forget: a query, with filters, or memory ids separated by commas",
            join_words=True,
        ),
    ],
    memory_type: TypeName = None,
    threshold: Annotated[
        float, Arg("Minimum probability that the query refers to the memory", minimum=0, maximum=1)
    ] = _DEFAULT_THRESHOLD,
    expression: Expression = None,
    confirm: Confirm = None,
) -> results.ForgottenMemories:
    """Forget memories: preview them, and move them to the trash once confirmed.

    A token is valid only for the files shown, in their current state. `memvault restore` brings
    forgotten files back.

    A title that several memories share selects all of them, or only those with the given type.
    Quotes around the query and words such as "everything about" are dropped, unless they are part
    of a title. An empty query with a filter selects all memories that pass it.
    """
    from memvault.memories import delete
    from memvault.recall import query_filters
    from memvault.recall.answer import memory_candidate
    from memvault.recall.filters import Filters

    line = query_filters.parse(query)
    if line.filters != Filters() and call.engine.names.named(query, lambda _: True):
        line = query_filters.QueryLine(query)  # A title may contain what looks like a filter.
    call.notes += line.notes
    search_filters = filters(memory_type, None, None, None, expression, line.filters)
    if not line.words.strip() and not (expression or "").strip() and line.filters == Filters():
        raise UsageError("The query is empty", "pass a query or a filter")
    selected = delete.candidates(
        call.engine,
        call.store,
        line.words,
        search_filters,
        threshold,
        MAX_RESULTS,
        call.notes,
        call.require_merged,
    )
    if not selected:
        warn_unknown_filters(call, search_filters)
    nothing = f"No memory matches well enough (threshold {threshold:g}); nothing to forget"
    if len(selected) == MAX_RESULTS:
        call.notes.append(f"at most {MAX_RESULTS:,} are selected; run it again for the rest")
    items = [f"{entry.memory.path}\0{entry.memory.etag}" for entry in selected]
    if token := token_to_confirm(confirm, items, "the files found now"):
        standings = call.engine.validities([entry.memory for entry in selected])
        candidates = [
            {
                **memory_candidate(entry.memory),
                "score": round(entry.score, 4),
                **({"strength": entry.strength} if entry.strength else {}),
                **standing.marks(),
            }
            for entry, standing in zip(selected, standings, strict=True)
        ]
        return {
            "confirmRequired": True,
            **list_result("candidates", candidates, nothing, confirmToken=token),
        }
    files = delete.forget(call.store, selected)
    return {"deletedFiles": len(files), **list_result("files", files, nothing)}


@group.tool(
    "types",
    paged_keys=("types",),
    read_only=True,
    works_without_files=True,
    core_args={},
    examples=("memvault types", "memvault types --json"),
    view="""*types
        {name:<24}{count:>5}  {description}

        Default type: {fallbackType}""",
)
def memory_list_types(call: Call) -> results.MemoryTypes:
    """List the memory types with their counts, and the default type.

    It includes types that only occur in files.
    """
    counts = call.engine.visit_records(
        lambda records: Counter(record.memory_type for record in records)
    )
    descriptions = {entry.name: entry.description for entry in call.settings.types}
    names = [*descriptions, *sorted(name for name in counts if name not in descriptions)]
    return {
        "types": [
            {"name": name, "description": descriptions.get(name, ""), "count": counts[name]}
            for name in names
        ],
        "fallbackType": FALLBACK_TYPE,
        "fallbackDescription": descriptions[FALLBACK_TYPE],
    }
