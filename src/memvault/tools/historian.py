"""The historian's five tools: types, remember, recall, compound, forget."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from memvault.errors import UsageError
from memvault.tools.registry import Arg, tool
from memvault.tools.shapes import filters, item
from memvault.workspace import Workspace

__all__ = [
    "memory_compound",
    "memory_forget",
    "memory_list_types",
    "memory_recall",
    "memory_remember",
]

TYPE_HELP = "Type in kebab-case, such as design-decision; memvault types lists them"
TAGS_HELP = "Tags; all of them must be on a memory that is searched for"
FILTER_HELP = (
    "Expression over the front matter, such as area == 'main' and 'db' in tags "
    "and created < '2026-01-01'"
)
_DEFAULT_LIMIT = 10
_SIMILAR = 3
_SIMILAR_TEXT = 2_000
_CLEAR_STRENGTH = 0.6
_CLEAR_LEAD = 0.15
_MOST_FORGOTTEN = 1_000


@tool("memory_list_types", "types", "historian", read_only=True)
def memory_list_types(workspace: Workspace) -> dict[str, Any]:
    """List the types of memory, how many there are of each, and the fallback type.

    Types that only occur in the vault's files are listed too.
    """
    from memvault.model import FALLBACK_TYPE
    from memvault.recall.filters import Filters

    counts: dict[str, int] = {}
    for record in workspace.engine.listed(Filters()):
        counts[record.memory_type] = counts.get(record.memory_type, 0) + 1
    known = {entry.name: entry.description for entry in workspace.settings.types}
    names = [*known, *sorted(name for name in counts if name not in known)]
    return {
        "types": [
            {"name": name, "description": known.get(name, ""), "count": counts.get(name, 0)}
            for name in names
        ],
        "fallbackType": FALLBACK_TYPE,
        "fallbackDescription": known[FALLBACK_TYPE],
    }


@tool("memory_remember", "remember", "historian")
def memory_remember(
    workspace: Workspace,
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
    compounded instead when it says the same. With filePath that memory gets the
    new content; what it said before is kept as a revision.
    """
    from memvault import clock
    from memvault.model import FALLBACK_TYPE
    from memvault.vault import layout
    from memvault.vault.codec import plain_text

    told = plain_text(title)
    name = " ".join("".join(char for char in told if char.isprintable() or char.isspace()).split())
    if not name:
        raise UsageError("The title is empty", "say in a few words what the memory is about")
    kind = layout.normal_type(memory_type) if memory_type.strip() else ""
    header: dict[str, Any] = {}
    if tags is not None:
        header["tags"] = _clean_tags(tags)
    if importance is not None:
        header["importance"] = importance
    if source:
        header["source"] = source
    if supersedes:
        header["supersedes"] = workspace.engine.resolve(supersedes).mem_id
    if file_path:
        return _update(workspace, file_path, name, content, kind, header)
    stamp = clock.iso()
    kind = kind or FALLBACK_TYPE
    memory = workspace.store.add(
        kind,
        name,
        {
            "id": layout.new_id(name),
            "memory_type": kind,
            "tags": header.pop("tags", []),
            **header,
            "created": stamp,
            "modified": stamp,
        },
        content,
    )
    return {
        "filePath": memory.path,
        "memId": memory.mem_id,
        "memoryType": memory.memory_type,
        "tags": list(memory.tags),
        "isUpdate": False,
        "similar": _similar(workspace, name, content, memory.path),
    }


def _update(
    workspace: Workspace, named: str, title: str, content: str, kind: str, header: dict[str, Any]
) -> dict[str, Any]:
    from memvault.memories import compounding

    target = workspace.engine.resolve(named)
    changes = {**header, **_stamped(target.metadata)}
    if title != target.title:
        changes["title"] = title
    if kind and kind != target.memory_type:
        changes["memory_type"] = kind
    body = compounding.replace_all(target.body, content, target.newline)
    change = workspace.store.change(target, changes, body, memory_type=kind or None)
    return {
        "filePath": change.memory.path,
        "memId": change.memory.mem_id,
        "memoryType": change.memory.memory_type,
        "tags": list(change.memory.tags),
        "isUpdate": True,
        "similar": _similar(workspace, title, content, change.memory.path),
    }


def _clean_tags(tags: list[str]) -> list[str]:
    cleaned = ("-".join(tag.strip().lstrip("#").split()) for tag in tags)
    return list(dict.fromkeys(tag for tag in cleaned if tag))


def _stamped(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the new time of change for a header that keeps one."""
    from memvault import clock

    return {"modified": clock.iso()} if "modified" in metadata else {}


def _similar(workspace: Workspace, title: str, content: str, own_path: str) -> list[dict[str, Any]]:
    """Return the nearest memories; a memory is safe on disk before this is asked."""
    from memvault.errors import MemvaultError
    from memvault.recall.engine import Request

    text = f"{title}\n{content[:_SIMILAR_TEXT]}"
    for mode in ("vector", "keyword"):
        try:
            answer = workspace.engine.search(Request(text, mode=mode, limit=_SIMILAR + 1))
        except MemvaultError as error:
            workspace.notes.append(f"similar memories were not looked for: {error.message}")
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


@tool("memory_recall", "recall", "historian", read_only=True)
def memory_recall(
    workspace: Workspace,
    query: Annotated[
        str,
        Arg('What to look for; "quoted words" must be there as they are', positional=True),
    ] = "",
    memory_type: Annotated[str | None, Arg(TYPE_HELP, flag="--type")] = None,
    tags: Annotated[list[str] | None, Arg(TAGS_HELP)] = None,
    limit: Annotated[
        int | None, Arg("How many at most; with isAll no limit", least=1, assumed=_DEFAULT_LIMIT)
    ] = None,
    mode: Annotated[
        Literal["hybrid", "keyword", "vector", "tag"],
        Arg("How to search", key="type", flag="--mode"),
    ] = "hybrid",
    threshold: Annotated[float, Arg("Leave out lower scores", least=0, most=1)] = 0.0,
    expression: Annotated[str | None, Arg(FILTER_HELP, key="filter")] = None,
    since: Annotated[str | None, Arg("Changed since a date, a time, or an age such as 7d")] = None,
    until: Annotated[str | None, Arg("Changed until a date, a time, or an age")] = None,
    is_all: Annotated[bool, Arg("List every memory, newest change first", flag="--all")] = False,
    full: Annotated[bool, Arg("Give the whole content")] = False,
    explain: Annotated[bool, Arg("Say how each score came about")] = False,
) -> dict[str, Any]:
    """Recall memories: the best for a question, with the passage that fits.

    Edits, new files and deletions made by any program are seen at once. Scores
    rank within one answer: 1 is the best a memory could do for this query.
    """
    from memvault.recall.engine import Request

    chosen = filters(memory_type, tags, since, until, expression)
    if is_all:
        return _everything(workspace, chosen, query, limit, full)
    if not query.strip():
        raise UsageError("The query is empty", "say what to look for, or list all with --all")
    request = Request(query, mode, limit or _DEFAULT_LIMIT, chosen, threshold, explain)
    answer = workspace.engine.search(request)
    workspace.notes += answer.notes
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
    workspace: Workspace, chosen: Any, query: str, limit: int | None, full: bool
) -> dict[str, Any]:
    from memvault.errors import MemvaultError
    from memvault.recall import snippets

    if query.strip():
        raise UsageError("A query and isAll do not go together", "leave out one of them")
    memories = []
    for record in workspace.engine.listed(chosen)[:limit]:
        try:
            memory = workspace.store.read(record.path)
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


@tool("memory_compound", "compound", "historian")
def memory_compound(
    workspace: Workspace,
    query: Annotated[str, Arg("The memory: memId, path, title, or words", positional=True)],
    modifications: Annotated[str, Arg("Markdown text to put in", positional=True, text=True)],
    memory_type: Annotated[
        str | None,
        Arg("Change the type; a file in a type's folder moves to the other's", flag="--type"),
    ] = None,
    mode: Annotated[
        Literal["append", "replace", "section"],
        Arg("Add to the end, replace the content, or replace one section"),
    ] = "append",
    section: Annotated[
        str | None, Arg("Heading whose text is replaced; added at the end where it is missing")
    ] = None,
    if_match: Annotated[
        str | None, Arg("Only if the memory still has this etag, as memvault show gives it")
    ] = None,
) -> dict[str, Any]:
    """Compound a memory: add to what is known instead of writing it twice.

    Front matter, comments and whatever is not named stay byte for byte. Without
    a clear target nothing is written and the candidates are named.
    """
    from memvault.memories import compounding
    from memvault.vault import layout

    if section and mode == "append":
        mode = "section"
    if mode == "section" and not (section or "").strip():
        raise UsageError("A section's heading is needed", "--section HEADING")
    if not modifications.strip() and mode != "section":
        raise UsageError("There is nothing to put in", "give the text, - for standard input")
    target = _target(workspace, query)
    changes = _stamped(target.metadata)
    kind = layout.normal_type(memory_type) if memory_type else None
    if kind and kind != target.memory_type:
        changes["memory_type"] = kind
    if mode == "append":
        body = compounding.append(target.body, modifications, target.newline)
    elif mode == "replace":
        body = compounding.replace_all(target.body, modifications, target.newline)
    else:
        body = compounding.replace_section(
            target.body, section or "", modifications, target.newline
        )
    change = workspace.store.change(target, changes, body, if_match, kind)
    return {
        "filePath": change.memory.path,
        "memId": change.memory.mem_id,
        "memoryType": change.memory.memory_type,
        "etag": change.memory.etag,
        "previousRevision": change.previous_revision,
    }


def _target(workspace: Workspace, query: str) -> Any:
    """Return the one memory that a name or a search clearly means."""
    from memvault.errors import Ambiguous, NotFound
    from memvault.recall.engine import Request

    exact = workspace.engine.try_resolve(query)
    if exact is not None:
        return exact
    if not query.strip():
        raise UsageError("The query is empty", "name a memory by memId, path, title or words")
    found = workspace.engine.search(Request(query, limit=5)).found
    if not found:
        raise NotFound(f"No memory fits {query!r}", "memvault remember writes a new one")
    best = found[0]
    lead = best.score - (found[1].score if len(found) > 1 else 0.0)
    telling = best.strength >= _CLEAR_STRENGTH and (len(query.split()) > 1 or best.in_title)
    if telling and lead >= _CLEAR_LEAD:
        return best.memory
    raise Ambiguous(
        f"No memory is clearly meant by {query!r}",
        "name one of the candidates by its memId",
        {"candidates": [_candidate(entry.memory, entry.score) for entry in found]},
    )


def _candidate(memory: Any, score: float) -> dict[str, Any]:
    return {
        "memId": memory.mem_id,
        "title": memory.title,
        "filePath": memory.path,
        "score": round(score, 4),
    }


@tool("memory_forget", "forget", "historian", destructive=True)
def memory_forget(
    workspace: Workspace,
    query: Annotated[
        str, Arg("What to forget: words, or memIds separated by commas", positional=True)
    ],
    memory_type: Annotated[str | None, Arg(TYPE_HELP, flag="--type")] = None,
    threshold: Annotated[
        float, Arg("How well a memory must fit the query", least=0, most=1)
    ] = 0.75,
    expression: Annotated[str | None, Arg(FILTER_HELP, key="filter")] = None,
    confirm: Annotated[
        bool | str | None, Arg("true, or the token that the preview returned")
    ] = None,
) -> dict[str, Any]:
    """Forget memories: show what would go, and move it to the trash once confirmed.

    A token is good for exactly the files shown, with the contents they had.
    Forgotten files come back with memvault restore. An empty query with a
    filter means all that pass it.
    """
    from memvault.memories import forgetting

    chosen = filters(memory_type, None, None, None, expression)
    if not query.strip() and not (expression or "").strip():
        raise UsageError("The query is empty", "say what to forget, or give a filter")
    candidates = forgetting.candidates(
        workspace.engine, workspace.store, query, chosen, threshold, _MOST_FORGOTTEN
    )
    token = forgetting.token(candidates)
    if confirm is None or confirm is False or confirm == "":
        result: dict[str, Any] = {
            "confirmRequired": True,
            "candidates": [_candidate(entry.memory, entry.score) for entry in candidates],
            "confirmToken": token,
        }
        if not candidates:
            result["message"] = f"No memory fits with at least {threshold:g}; nothing to forget"
        return result
    given = str(confirm).strip().lower()
    if given not in ("true", "yes", token):
        from memvault.errors import Conflict

        raise Conflict(
            "The confirmation is for other files or other contents than those found now",
            "look at the preview again and confirm with its token",
        )
    files = forgetting.forget(workspace.store, candidates)
    return {"deletedFiles": len(files), "files": files}
