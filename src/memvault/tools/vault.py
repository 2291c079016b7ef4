"""Tools for the vault itself: show, list, restore, status, reindex and models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from memvault import clock
from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import Ambiguous, NotFound, Refused, UsageError, exclusive
from memvault.model import is_document, is_example
from memvault.tools.core import shown_part
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template
from memvault.tools.core.result_parts import (
    as_of_field,
    item,
    page_info,
    paginate,
    trashed,
    unmerged_marks,
    with_code_lines,
    without_none,
)
from memvault.tools.core.shared_args import (
    LISTED,
    MEMORY_ALIASES,
    Expression,
    Limit,
    MemoryRef,
    Offset,
    QueryLine,
    Since,
    TagFilter,
    TypeName,
    Until,
    filters,
    require_text,
    warn_unknown_filters,
)
from memvault.tools.core.vault_choice import count_retrievals
from memvault.vault.header_links import is_wikilink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memvault import results
    from memvault.index.protocol import MemoryRecord
    from memvault.model import Memory

group = ToolGroup("vault", "The vault", place=100)


Purpose = Annotated[
    Literal["embed", "rerank"],
    Arg("The model's purpose: vectors, or `memvault recall --rerank`", key="for"),
]


def _with_part_ends(result: Result) -> Result:
    """Add each part's end offset and the memory's total length to the parts."""
    parts = [
        {**part, "end": part["offset"] + part["length"], "whole": result["wholeLength"]}
        for part in result.get("parts", ())
    ]
    return {**with_code_lines(result), "parts": parts}


@group.tool(
    "show",
    paged_keys=("content",),
    read_only=True,
    works_without_files=True,
    core_args={"memId": "Id, path or title", "section": "", "offset": ""},
    examples=(
        'memvault show "Use PostgreSQL"',
        "memvault show use-postgresql",
        "memvault show architectural-decision/use-postgresql.md --json",
    ),
    view=Template(
        """{title}  {memoryType}  {tags}  {example:example|}
           {memId}  {filePath}  {modified:day}
           {marks}
           {code:each}
           problem: {problem}
           `--offset {next}` shows the rest of {totalLength} characters
        *parts
           {heading}  {offset} to {end} of {whole} characters


        {content:markdown}""",
        _with_part_ends,
    ),
    reveals=True,
)
def memory_show(
    call: Call,
    name: MemoryRef,
    revision: Annotated[
        str | None, Arg("Show this revision, given by its name or a prefix of it")
    ] = None,
    section: Annotated[
        str | None,
        Arg(
            "Only this heading and the text below it, such as Setup or Setup/Linux",
            json_aliases=("heading",),
        ),
    ] = None,
    around: Annotated[str | None, Arg("Only the passages that contain most of these words")] = None,
    page: Annotated[
        int | None, Arg("Only this page of a PDF document or slide of a presentation", minimum=1)
    ] = None,
) -> results.ShownMemory:
    """Show a memory in full, or part of it.

    The name may end with a heading, as in plan#Setup. A document is shown as text; its name may end
    with a page or section, as in report.pdf#page=3.

    JSON results include its etag and revisions. parts has the position of each part in the memory,
    in characters as in `memvault load`. The etag belongs to the memory; total length and next refer
    to the part.
    """
    options = {"--section": section, "--around": around, "--page": page}
    parts = {name: True for name, value in options.items() if value is not None}
    exclusive(parts)
    memory, is_unmerged, anchor = shown_part.resolve_with_anchor(call, name, not revision)
    history = call.store.history
    if revision:
        from memvault.history import log
        from memvault.model import FileState

        data = history.read(memory.mem_id, revision)
        mask = log.masking(call, memory)  # A part may contain only part of a secret.
        memory = call.store.parse(data, FileState.of(memory.path, data))
        memory = memory._replace(body=mask(memory.body))
    cited = [] if revision or is_unmerged else call.cited_code([memory.metadata])[0]
    result: dict[Any, Any] = {
        **_item(memory),
        **call.engine.validities([memory])[0].marks(),
        **unmerged_marks(call, memory, is_unmerged),
        **({"cites": cited} if cited else {}),
        **as_of_field(call.engine.published_at),
        "etag": memory.etag,
    }
    if page and (revision or not is_document(memory.path)):
        raise UsageError(f"{memory.path} has no pages", "pass `--section HEADING`")
    if page or (anchor and not parts):
        section = shown_part.heading_for_anchor(
            call, memory, f"page={page}" if page else anchor, is_wikilink(name)
        )
    if section is not None or around is not None:
        result |= shown_part.cut_part(call, memory, section, around or "")
    else:
        revisions = history.revisions(memory.mem_id)
        result |= {"content": memory.body, "metadata": memory.metadata, "revisions": revisions}
    if is_document(memory.path) and (part := memory.metadata.get("partly_read")):
        call.notes.append(f"Only {part} are read")
    count_retrievals(call, [memory])
    return cast("results.ShownMemory", result)


def _item(memory: Memory | MemoryRecord) -> results.ListedMemory:
    result: results.ListedMemory = {**item(memory)}
    if is_example(memory.metadata):
        result["example"] = True
    if memory.problem:
        result["problem"] = memory.problem
    return result


_SORT_KEYS: dict[str, Callable[[MemoryRecord], str]] = {
    "created": lambda record: record.created,
    "title": lambda record: record.title.casefold(),
    "type": lambda record: record.memory_type,
    "path": lambda record: record.path.casefold(),
}


@group.tool(
    "list",
    paged_keys=("memories",),
    read_only=True,
    works_without_files=True,
    core_args={"memoryType": "", "tags": "", "limit": "", "offset": "next from a result"},
    examples=(
        "memvault list",
        "memvault list --type issue --since 2020-01-01",
        "memvault list tag:network in:archive -draft --sort title",
    ),
    view=Template(
        """*memories | No memories found
        {title}  {memoryType}  {tags}  {example:example|}
           {memId}  {filePath}  {modified:day}
           {marks}
           problem: {problem}

        {count} of {total:memory|memories}""",
        lambda result: {**result, "total": result["total"] or None},
    ),
)
def memory_list(
    call: Call,
    query: QueryLine = "",
    memory_type: TypeName = None,
    tags: TagFilter = None,
    expression: Expression = None,
    since: Since = None,
    until: Until = None,
    sort: Annotated[
        Literal["modified", "created", "title", "type", "path"],
        Arg("Sort order: by time, newest first, or alphabetical"),
    ] = "modified",
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.ListedMemories:
    """List memories without their content, last changed first; examples are marked."""
    from memvault.index.protocol import latest_first, page_of
    from memvault.recall import query_filters

    def ordered(records: Iterable[MemoryRecord]) -> list[MemoryRecord]:
        return sorted(latest_first(records), key=_SORT_KEYS[sort], reverse=sort == "created")

    line = query_filters.parse(query)
    call.notes += line.notes
    also = query_filters.listing(line)
    search_filters = filters(memory_type, tags, since, until, expression, also)
    if sort == "modified":
        shown, total = call.engine.latest_records(limit, offset, search_filters)
    else:
        shown, total = call.engine.visit_records(
            lambda records: page_of(records, limit, offset, ordered), search_filters
        )
    if not total:
        warn_unknown_filters(call, search_filters)
    paging = page_info(total, offset, len(shown))
    standings = call.engine.validities(shown)
    memories: list[results.ListedMemory] = [
        {**_item(record), **standing.marks(), **as_of_field(record.published_at)}
        for record, standing in zip(shown, standings, strict=True)
    ]
    return {"memories": memories, "count": len(memories), **paging}


@group.tool(
    "restore",
    continuation_hint="trash_list lists the rest",
    destructive=True,
    core_args={"memId": "Omit to list the trash", "revision": ""},
    examples=(
        "memvault restore",
        'memvault restore "Thrown away"',
        'memvault restore "Deploy notes" --revision 20261122T0200',
    ),
    view="""Restored {memId}  {filePath}
        *trash | The trash is empty
           {title}  {memId}  {filePath}  {discarded:second}""",
)
def memory_restore(
    call: Call,
    name: Annotated[
        str,
        Arg(
            "Memory id, path or title; omit it to list the trash",
            key="memId",
            positional=True,
            completes="trash",
            json_aliases=MEMORY_ALIASES,
        ),
    ] = "",
    revision: Annotated[
        str | None, Arg("Revert an existing memory to this revision instead")
    ] = None,
) -> results.RestoredMemory:
    """Restore a memory from the trash, or revert one to an earlier revision.

    A file returns to its old path, or to a similar one if that is taken. The content replaced by a
    revision becomes a revision itself. If another git worktree has the only copy or a newer version
    of a memory, that copy is restored. A file that another program deleted is restored from its
    last revision, if it has any.
    """
    from memvault.memories import trash
    from memvault.recall.answer import memory_reference

    hint = "run `memvault log MEMORY` to list a memory's revisions"
    earlier = require_text(revision, "The revision", hint)
    if not name.strip():
        if earlier:
            raise UsageError(
                "`--revision` needs a memory", "`memvault restore MEMORY --revision REVISION`"
            )
        entries, paging = paginate(trash.list_trash(call.store), LISTED, 0)
        if next_offset := paging.pop("next", None):
            call.notes.append(f"run `memvault trash list --offset {next_offset}` to see the rest")
        return cast(
            "results.RestoredMemory", {"trash": [trashed(entry) for entry in entries], **paging}
        )
    restored = _restored(call, name, earlier)
    return {**memory_reference(restored), "etag": restored.etag}


def _restored(call: Call, name: str, revision: str) -> Memory:
    """Restore a memory from the trash, another worktree or a revision."""
    from memvault.memories import trash

    try:
        if not revision:
            return trash.restore(call.store, call.engine, name)
        memory = call.resolve(name)
    except Ambiguous:
        raise
    except NotFound:
        from memvault.history.deleted import restore_deleted

        unmerged = None if revision else call.find_unmerged(name)
        if unmerged is not None:
            return call.copy_unmerged(unmerged)
        restored = restore_deleted(call, name, revision)
        if restored is None:
            raise
        return restored
    return trash.restore_revision(call.store, memory, revision)


def _for_people(result: Result) -> Result:
    """Format the parts of a status as text: sizes, pending vectors, events, the user's settings."""
    sizes = {
        key: f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{-(-size // 1000)} kB"
        for key, size in result["sizes"].items()
    }
    deep, events = result["deep"], result["events"]
    worker = "at the next recall"
    if deep.get("working"):
        process = f"process {deep['process']}" if "process" in deep else "a process"
        worker = f"by {process}" + (f" since {_minute(deep['since'])}" if "since" in deep else "")
    static_state = _vectors(result["embedder"], result["pending"], "at the next recall")
    deep_state = _vectors(deep, deep.get("waiting", 0), worker)
    waiting = f"{events['waiting']} waiting"
    waiting += f" since {_minute(events['since'])}" if "since" in events else ""
    if "nextPlan" in events:
        waiting += f", a plan {'due since' if events['planIsDue'] else 'due at'} "
        waiting += _minute(events["nextPlan"])
    changed_settings = [
        f"{key} {', '.join(value) if isinstance(value := setting['value'], list) else value}"
        for key, setting in result["settings"].items()
        if setting["from"] != "default"
    ]
    return {
        **result,
        "sizes": sizes,
        "static": static_state,
        "transformer": f"{deep['name']}, off" if deep["mode"] == "off" else deep_state,
        "events": waiting,
        "changed": ", ".join(changed_settings),
    }


def _minute(moment: str) -> str:
    """Return a time in the user's time zone, to the minute."""
    return clock.local(moment, len("2026-01-31T00:00:00"))[:-3]


def _vectors(embedder: Result, waiting: int, worker: str) -> str:
    """Return how many files lack an embedder's vectors, and when the vectors are computed."""
    if "problem" in embedder:
        return f"{embedder['name']}, {embedder['problem']}"
    state = f"{waiting} pending, {worker}" if waiting else "complete"
    if embedder.get("working") and "secondsLeft" in embedder:
        state += f", about {_duration(embedder['secondsLeft'])} left"
    return f"{embedder['name']}, {state}"


def _duration(seconds: int) -> str:
    """Return a duration in words, rounded up."""
    for size, name in ((3_600, "hours"), (60, "minutes")):
        if seconds > 2 * size:
            return f"{-(-seconds // size)} {name}"
    return f"{seconds} second" + ("s" if seconds != 1 else "")


@group.tool(
    "status",
    paged_keys=(),
    read_only=True,
    own_scope="all",
    examples=("memvault status", "memvault status --json"),
    view=Template(
        """
        vault: {vault}
        memories: {memories}  {sizes[memories]}  {tags:tag|tags}
        types: {types}
        index: {index[state]}  {sizes[index]}  {index[folder]}
        static vectors: {static}
        transformer: {transformer}
        reranker: {reranker[name]}
        events: {events}
        history: {sizes[history]}
        trash: {trash:file|files}  {sizes[trash]}
        settings: {changed}
        *problems Problems:
           {filePath}  {problem}""",
        _for_people,
    ),
)
def vault_status(call: Call) -> results.VaultStatus:
    """Show the vault's state: counts, index, embedder, sizes, and pending work."""
    from memvault.insights.status import status

    return status(call)


@group.tool(
    "reindex",
    takes_long=True,
    idempotent=True,
    own_scope="all",
    examples=("memvault reindex", "memvault reindex --quiet"),
    view="Indexed {indexed:memory|memories} for the model {embedder}",
)
def vault_reindex(call: Call) -> results.RebuiltIndex:
    """Rebuild the index, and embed the memories without vectors with both embedders.

    Edits are indexed automatically; this command also does pending background work immediately. An
    interrupted run can be resumed. Other processes read the old index until the new one is
    complete.
    """
    from memvault.doctor.file_problems import remove_temporary_files, unlisted

    remove_temporary_files(call)
    call.notes += [
        f"{entry['filePath']} is skipped: {entry['problem']}"
        for entry in unlisted(call, call.store.scan().unreadable)
    ]
    call.index.rebuild()
    call.index.embed_all()
    return {
        "indexed": call.engine.latest_records(1, 0)[1],
        "embedder": call.hide_paths(_model_in_use(call)),
    }


def _model_in_use(call: Call) -> str:
    """Return the name of the transformer in use, as in the settings."""
    from memvault.index.embedding.embedder import BUILTIN, MULTILINGUAL
    from memvault.index.embedding.model_settings import choose_embedder
    from memvault.index.embedding.transformer import card_of

    name = choose_embedder(call.settings, call.root).name
    card = card_of(MULTILINGUAL)
    if name == BUILTIN and card is not None and call.index.status().transformer.name == card.name:
        return MULTILINGUAL
    return name


@group.tool(
    "model list",
    paged_keys=("models", "rerankers"),
    read_only=True,
    own_scope="all",
    examples=("memvault model list", "memvault model list --json"),
    view="""*models
        {name}  {dimension} dimensions  {sizeInGb:g} GB  {description}

        In use: {inUse}
        *rerankers Cross-encoders (`memvault model use NAME --for rerank` chooses one):
        {name}  {dimension} dimensions  {sizeInGb:g} GB  {description}

        In use: {rerankerInUse}""",
)
def model_list(call: Call) -> results.AvailableModels:
    """List the available models for embedding and reranking, and the models in use."""
    from memvault.index.embedding.fastembed_models import CROSS_ENCODER, EMBEDDING, known_models
    from memvault.index.embedding.transformer import builtin_models

    return {
        "inUse": call.hide_paths(_model_in_use(call)),
        "models": [*builtin_models(), *known_models(EMBEDDING)],
        "rerankerInUse": call.hide_paths(call.settings.rerank.model),
        "rerankers": known_models(CROSS_ENCODER),
    }


@group.tool(
    "model use",
    takes_long=True,
    open_world=True,
    idempotent=True,
    own_scope="all",
    examples=(
        "memvault model use BAAI/bge-small-en-v1.5",
        "memvault model use Xenova/ms-marco-MiniLM-L-6-v2 --for rerank",
    ),
    view="""
        Using {name}  version {version}  embedded {embedded:memory|memories}
           before: {previous}""",
)
def model_use(
    call: Call,
    name: Annotated[
        str,
        Arg(
            "auto, builtin, multilingual, a fastembed model, or a folder with model.onnx",
            positional=True,
        ),
    ],
    purpose: Purpose = "embed",
) -> results.ChosenModel:
    """Use another model: download it if needed, and embed every memory with it.

    auto removes the setting: builtin or multilingual is then selected by the vault's languages.

    The model is used in addition to the built-in static embeddings, which are used alone until the
    candidate memories are embedded. With `--for rerank` the model becomes the cross-encoder of
    `memvault recall --rerank`, and nothing is embedded. The network is only used to download a
    model that is not on this machine.

    Ranking weights are fitted to the built-in models. For another model, set
    vectors in the [ranking] section of memvault.toml.
    """
    from memvault.index.embedding import model_check

    _check_may_name_model(call, name)
    is_automatic = purpose == "embed" and name.strip() == model_check.AUTOMATIC
    before = call.settings.rerank.model if purpose == "rerank" else _model_in_use(call)
    if is_automatic:
        model_check.use_automatic_model(call.store)
        call.workspace.reload()
        name = _model_in_use(call)
        chosen = model_check.check(call.store.root, name)
    else:
        chosen = model_check.select_model(call.store, name, purpose)
        # The settings may contain a model that was previously only the default.
        call.workspace.reload()
    result: results.ChosenModel = {
        "name": call.hide_paths(chosen.name),
        "version": chosen.version,
        **without_none(dimension=chosen.dimension),
        "previous": call.hide_paths(before),
    }
    if purpose == "embed":
        result["embedded"] = call.index.embed_all()
    return result


@group.tool(
    "model verify",
    takes_long=True,
    read_only=True,
    own_scope="all",
    examples=("memvault model verify", "memvault model verify --json"),
    view="""
        {name} works  version {version}  {seconds:.1f} s
           similarity of related passages {related}, of unrelated passages {unrelated}""",
)
def model_verify(
    call: Call,
    name: Annotated[
        str | None, Arg("A model or folder (default: the one in use)", positional=True)
    ] = None,
    purpose: Purpose = "embed",
) -> results.VerifiedModel:
    """Check that a model loads here and can tell related passages from unrelated ones."""
    import time

    from memvault.index.embedding import model_check

    _check_may_name_model(call, name or "")
    started = time.perf_counter()
    checked = model_check.verify(call.root, call.settings, name, purpose)
    return {
        "name": call.hide_paths(checked.name),
        "version": checked.version,
        **without_none(dimension=checked.dimension),
        "related": round(checked.related, 4),
        "unrelated": round(checked.unrelated, 4),
        "seconds": round(time.perf_counter() - started, 3),
        "works": True,
    }


def _check_may_name_model(call: Call, name: str) -> None:
    """Check that the caller may choose a model, which can run code and may be given as a path."""
    from memvault.index.embedding import model_settings

    if not call.caller.may_run_programs:
        raise Refused(
            "This caller is not allowed to run programs, and models can run code",
            "run `memvault model use` in a shell, or start `memvault mcp --programs`",
        )
    if not call.caller.may_see_paths and model_settings.is_path(name.strip(), call.root):
        raise Refused(
            "This caller may not use folders on this machine", "use one of fastembed's models"
        )
