"""The historian's tools that change and take away: compound, forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from memvault.call import Call
from memvault.errors import Conflict, UsageError
from memvault.tools.core.registry import Arg, Group
from memvault.tools.core.shapes import FILTER_HELP, TYPE_HELP, candidate, filters, modified_now

if TYPE_CHECKING:
    from memvault.model import Memory
    from memvault.vault.store import Change

__all__ = ["memory_compound", "memory_forget"]

group = Group("historian", place=11)

_CLEAR_STRENGTH = 0.6
_CLEAR_LEAD = 0.12
_MOST_FORGOTTEN = 1_000
_TRIES = 5
"""Times that what is only added is added again, where an editor saved the file meanwhile."""


@group.tool("memory_compound", "compound", destructive=True)
def memory_compound(
    call: Call,
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
        str | None, Arg("Heading whose text is replaced; added at the end if missing")
    ] = None,
    if_match: Annotated[
        str | None, Arg("Only if the memory still has this etag, as memvault show gives it")
    ] = None,
) -> dict[str, Any]:
    """Compound a memory: add to what is known instead of writing it twice.

    Front matter, comments and whatever is not named stay byte for byte. Without
    a clear target nothing is written and the candidates are named.
    """
    from memvault.memories import edit
    from memvault.vault import layout

    if section and mode == "append":
        mode = "section"
    if mode == "section" and not (section or "").strip():
        raise UsageError("A section's heading is needed", "--section HEADING")
    if not modifications.strip() and mode != "section":
        raise UsageError("The text is empty", "give the text, - for standard input")
    target = _target(call, query)
    kind = layout.normal_type(memory_type) if memory_type else None

    def changed(memory: Memory) -> Change:
        changes = modified_now(memory.metadata)
        if kind and kind != memory.memory_type:
            changes["memory_type"] = kind
        how = (modifications, memory.newline, mode, section or "")
        body = edit.modified(memory.body, *how)
        return call.store.change(memory, changes, body, if_match, kind)

    for left in range(_TRIES, -1, -1):
        try:
            change = changed(target)
            break
        except Conflict:
            if if_match or mode == "replace" or not left:
                raise  # what was changed would be replaced unseen
            target = call.store.read(target.path)
    return {
        "filePath": change.memory.path,
        "memId": change.memory.mem_id,
        "memoryType": change.memory.memory_type,
        "etag": change.memory.etag,
        "previousRevision": change.previous_revision,
    }


def _target(call: Call, query: str) -> Any:
    """Return the one memory that a name or a search clearly means."""
    from memvault.errors import Ambiguous, NotFound
    from memvault.recall.values import Request

    exact = call.engine.try_resolve(query)
    if exact is not None:
        return exact
    if not query.strip():
        raise UsageError("The query is empty", "name a memory by memId, path, title or words")
    found = call.engine.search(Request(query, limit=5, diverse=False)).found
    if not found:
        raise NotFound(f"No memory fits {query!r}", "memvault remember writes a new one")
    best = found[0]
    lead = best.score - (found[1].score if len(found) > 1 else 0.0)
    telling = best.strength >= _CLEAR_STRENGTH and (len(query.split()) > 1 or best.in_title)
    if telling and lead >= _CLEAR_LEAD:
        return best.memory
    raise Ambiguous(
        f"{query!r} does not clearly name one memory",
        "name one of the candidates by its memId",
        {"candidates": [candidate(entry.memory, entry.score) for entry in found]},
    )


@group.tool("memory_forget", "forget", destructive=True)
def memory_forget(
    call: Call,
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
    from memvault.memories import delete

    chosen = filters(memory_type, None, None, None, expression)
    if not query.strip() and not (expression or "").strip():
        raise UsageError("The query is empty", "say what to forget, or give a filter")
    candidates = delete.candidates(
        call.engine, call.store, query, chosen, threshold, _MOST_FORGOTTEN
    )
    nothing = f"No memory fits with at least {threshold:g}; nothing to forget"
    token = delete.token(candidates)
    given = "" if confirm is None else str(confirm).strip().lower()
    if given in ("", "false", "no"):
        result: dict[str, Any] = {
            "confirmRequired": True,
            "candidates": [candidate(entry.memory, entry.score) for entry in candidates],
            "confirmToken": token,
        }
        if not candidates:
            result["message"] = nothing
        return result
    if given not in ("true", "yes", token):
        from memvault.errors import Conflict

        raise Conflict(
            "The confirmation does not match the files found now",
            "look at the preview again and confirm with its token",
        )
    files = delete.forget(call.store, candidates)
    message = {} if files else {"message": nothing}
    return {"deletedFiles": len(files), "files": files, **message}
