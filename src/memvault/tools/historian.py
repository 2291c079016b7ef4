"""The historian's tools that look and add: types, remember, recall."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core.registry import Arg, Group
from memvault.tools.core.shapes import (
    FILTER_HELP,
    TAGS_HELP,
    TYPE_HELP,
    count_shown,
    filters,
    item,
    modified_now,
)

__all__ = [
    "memory_list_types",
    "memory_recall",
    "memory_remember",
]

group = Group("historian", "Remember and recall", place=10)

_DEFAULT_LIMIT = 10
_SIMILAR = 3
_SIMILAR_TEXT = 2_000


@group.tool("memory_list_types", "types", read_only=True)
def memory_list_types(call: Call) -> dict[str, Any]:
    """List the types of memory, how many there are of each, and the fallback type.

    Types that only occur in the vault's files are listed too.
    """
    from memvault.model import FALLBACK_TYPE
    from memvault.recall.filters import Filters

    counts: dict[str, int] = {}
    for record in call.engine.listed(Filters()):
        counts[record.memory_type] = counts.get(record.memory_type, 0) + 1
    known = {entry.name: entry.description for entry in call.settings.types}
    names = [*known, *sorted(name for name in counts if name not in known)]
    return {
        "types": [
            {"name": name, "description": known.get(name, ""), "count": counts.get(name, 0)}
            for name in names
        ],
        "fallbackType": FALLBACK_TYPE,
        "fallbackDescription": known[FALLBACK_TYPE],
    }


@group.tool("memory_remember", "remember")
def memory_remember(
    call: Call,
    title: Annotated[str, Arg("What the memory is called", positional=True)],
    content: Annotated[str, Arg("Markdown text", positional=True, cli_optional=True, text=True)],
    memory_type: Annotated[str, Arg(TYPE_HELP, flag="--type", cli_optional=True)],
    tags: Annotated[list[str] | None, Arg("Tags of the memory")] = None,
    importance: Annotated[float | None, Arg("From 0 to 1", least=0, most=1)] = None,
    source: Annotated[str | None, Arg("Where this is known from")] = None,
    supersedes: Annotated[str | None, Arg("The memory that this one replaces")] = None,
    file_path: Annotated[
        str | None, Arg("Update this memory (path, memId or title) instead of adding one")
    ] = None,
) -> dict[str, Any]:
    """Remember something: write a new memory, never over an existing one.

    The result names the nearest existing memories, so that one of them can be
    compounded instead if it says the same. With filePath that memory gets the new content; the
    old content is kept as a revision.
    """
    from memvault.memories import create
    from memvault.vault import layout

    name = create.clean_title(title)
    kind = layout.normal_type(memory_type) if memory_type.strip() else ""
    header: dict[str, Any] = {}
    if tags is not None:
        header["tags"] = create.clean_tags(tags)
    if importance is not None:
        header["importance"] = importance
    if source:
        header["source"] = source
    if supersedes:
        header["supersedes"] = call.engine.resolve(supersedes).mem_id
    if file_path:
        return _update(call, file_path, name, content, kind, header)
    memory = create.add(call.store, name, content, kind, header)
    return {
        "filePath": memory.path,
        "memId": memory.mem_id,
        "memoryType": memory.memory_type,
        "tags": list(memory.tags),
        "isUpdate": False,
        "similar": _similar(call, name, content, memory.path),
    }


def _update(
    call: Call, named: str, title: str, content: str, kind: str, header: dict[str, Any]
) -> dict[str, Any]:
    from memvault.memories import edit

    target = call.engine.resolve(named)
    changes = {**header, **modified_now(target.metadata)}
    if title != target.title:
        changes["title"] = title
    if kind and kind != target.memory_type:
        changes["memory_type"] = kind
    body = edit.replace_all(target.body, content, target.newline)
    change = call.store.change(target, changes, body, memory_type=kind or None)
    return {
        "filePath": change.memory.path,
        "memId": change.memory.mem_id,
        "memoryType": change.memory.memory_type,
        "tags": list(change.memory.tags),
        "isUpdate": True,
        "similar": _similar(call, title, content, change.memory.path),
    }


def _similar(call: Call, title: str, content: str, own_path: str) -> list[dict[str, Any]]:
    """Return the nearest memories; a memory is safe on disk before this is asked."""
    from memvault.errors import MemvaultError, TimedOut
    from memvault.index.protocol import AT_ONCE
    from memvault.recall.values import Request

    text = f"{title}\n{content[:_SIMILAR_TEXT]}"
    for mode in ("vector", "keyword"):
        try:
            request = Request(text, mode, _SIMILAR + 1, patience=AT_ONCE)
            answer = call.engine.search(request)
        except MemvaultError as error:
            call.notes.append(f"similar memories were not looked for: {error.message}")
            if isinstance(error, TimedOut):
                break
            continue
        return [
            {
                "memId": found.memory.mem_id,
                "title": found.memory.title,
                "similarity": round(found.similarity if mode == "vector" else found.coverage, 4),
                "filePath": found.memory.path,
            }
            for found in answer.found
            if found.memory.path != own_path
        ][:_SIMILAR]
    return []


@group.tool("memory_recall", "recall", read_only=True)
def memory_recall(
    call: Call,
    query: Annotated[
        str,
        Arg(
            'What to look for; "quoted words" must be there as they are, '
            "unless a long question only quotes them in passing",
            positional=True,
        ),
    ] = "",
    memory_type: Annotated[str | None, Arg(TYPE_HELP, flag="--type")] = None,
    tags: Annotated[list[str] | None, Arg(TAGS_HELP)] = None,
    limit: Annotated[
        int | None, Arg("How many at most; with isAll no limit", least=1, default=_DEFAULT_LIMIT)
    ] = None,
    mode: Annotated[
        Literal["hybrid", "keyword", "vector", "tag"],
        Arg(
            "How to search; only hybrid weighs dates, recency, importance and repeats",
            key="type",
            flag="--mode",
        ),
    ] = "hybrid",
    threshold: Annotated[
        float, Arg("Leave out lower scores; scores compare within one answer only", least=0, most=1)
    ] = 0.0,
    expression: Annotated[str | None, Arg(FILTER_HELP, key="filter")] = None,
    since: Annotated[str | None, Arg("Changed since a date, a time, or an age such as 7d")] = None,
    until: Annotated[str | None, Arg("Changed until a date, a time, or an age")] = None,
    is_all: Annotated[bool, Arg("List every memory, newest change first", flag="--all")] = False,
    full: Annotated[bool, Arg("Give the whole content")] = False,
    explain: Annotated[bool, Arg("Explain each score")] = False,
    rerank: Annotated[
        bool,
        Arg("Reorder the best with a cross-encoder; model use NAME --for rerank fetches one"),
    ] = False,
) -> dict[str, Any]:
    """Recall memories: the best for a question, with the passage that fits.

    Edits, new files and deletions by any program are seen at once. Scores compare within one
    answer only; 1 is the best possible.
    """
    from memvault.recall.values import Request

    if rerank and (is_all or mode == "tag"):
        raise UsageError(
            "rerank does not work with isAll or with tags",
            "leave it out, or ask with --mode hybrid, keyword or vector",
        )
    chosen = filters(memory_type, tags, since, until, expression)
    if is_all:
        return _everything(call, chosen, query, limit, full)
    if not query.strip():
        raise UsageError("The query is empty", "say what to look for, or list all with --all")
    request = Request(query, mode, limit or _DEFAULT_LIMIT, chosen, threshold, explain, rerank)
    answer = call.engine.search(request)
    call.notes += answer.notes
    count_shown(call, [found.memory for found in answer.found])
    memories = []
    for found in answer.found:
        entry = item(found.memory)
        entry["score"] = round(found.score, 4)
        entry["snippet"] = found.snippet
        if full:
            entry["content"] = found.memory.body
        if explain:
            entry["why"] = found.why
        memories.append(entry)
    result: dict[str, Any] = {"memories": memories, "count": len(memories)}
    if not memories:
        result["message"] = "No memory was found; other words or fewer filters may help"
    return result


def _everything(
    call: Call, chosen: Any, query: str, limit: int | None, full: bool
) -> dict[str, Any]:
    from memvault.errors import MemvaultError
    from memvault.recall import snippets

    if query.strip():
        raise UsageError("A query and isAll cannot be combined", "leave out one of them")
    memories = []
    for record in call.engine.listed(chosen)[:limit]:
        try:
            memory = call.store.read(record.path)
        except MemvaultError:
            continue
        entry = item(memory)
        entry["score"] = 1.0
        entry["snippet"] = snippets.beginning(memory.body)
        if full:
            entry["content"] = memory.body
        memories.append(entry)
    result: dict[str, Any] = {"memories": memories, "count": len(memories)}
    if not memories:
        result["message"] = "There are no memories that pass the filters"
    return result
