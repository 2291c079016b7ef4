"""Tools that change and delete memories: compound and forget."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import UsageError
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Template
from memvault.tools.core.results import (
    Confirm,
    Expression,
    TypeName,
    filters,
    list_result,
    token_to_confirm,
)

group = ToolGroup("historian", place=11)

_MAX_FORGOTTEN = 1_000
_DEFAULT_THRESHOLD = 0.12
"""Default threshold; higher than that of fair results, so that loosely related memories stay."""


@group.tool(
    "compound",
    destructive=True,
    core=True,
    examples=(
        'memvault compound "Use PostgreSQL" "We run version 17 since March."',
        'memvault compound "Use PostgreSQL" "Easier backups." --section Reasons',
        'date | memvault compound "Deploy notes" -',
    ),
    view="""
        Compounded {memId}  {filePath}
        Before: revision {previousRevision}
        """,
)
def memory_compound(
    call: Call,
    query: Annotated[
        str, Arg("The memory: memId, path, title, or words", positional=True, names="memory")
    ],
    modifications: Annotated[str, Arg("Markdown text to insert", positional=True, text=True)],
    memory_type: Annotated[
        str | None,
        Arg(
            "Change the type; a file in its type's folder moves to the new one's",
            flag="--type",
            names="type",
        ),
    ] = None,
    mode: Annotated[
        Literal["append", "replace", "section"],
        Arg("Add to the end, replace the content, or replace one section"),
    ] = "append",
    section: Annotated[
        str | None, Arg("Heading whose text is replaced; added at the end if missing")
    ] = None,
    if_match: Annotated[
        str | None, Arg("Only if the memory still has this etag, as returned by memvault show")
    ] = None,
) -> dict[str, Any]:
    """Compound a memory: add to what is known instead of writing it twice.

    Front matter, comments and all other text are preserved byte for byte. Without
    a clear target nothing is written and the candidates are listed.
    """
    from memvault.memories import edit
    from memvault.vault import paths

    new_type = paths.normal_type(memory_type) if memory_type else ""
    edit_mode = "section" if section and mode == "append" else mode
    target = edit.target(call.engine, query, call.notes)
    change = edit.compound(
        call.store, target, modifications, edit_mode, section or "", new_type, if_match or ""
    )
    return {
        "filePath": change.memory.path,
        "memId": change.memory.mem_id,
        "memoryType": change.memory.memory_type,
        "etag": change.memory.etag,
        "previousRevision": change.previous_revision,
    }


@group.tool(
    "forget",
    destructive=True,
    core=True,
    advanced=("threshold", "filter"),
    examples=(
        'memvault forget "Old notes"',
        'memvault forget "Old notes" --confirm true',
        'memvault forget "disk space" --type issue --threshold 0.9',
    ),
    view=Template(
        """
        Moved to the trash: {deletedFiles}
           {files:each}
        *candidates Would forget {candidates:#}:
           {score:.2f}  {strength}  {title}  {memId}  {filePath}  {marks}

        Nothing is gone yet; confirm with --confirm {token}
        """,
        lambda found: {**found, "token": found.get("candidates") and found["confirmToken"]},
    ),
)
def memory_forget(
    call: Call,
    query: Annotated[
        str,
        Arg(
            "What to forget: words, or memIds separated by commas", positional=True, names="memory"
        ),
    ],
    memory_type: TypeName = None,
    threshold: Annotated[
        float, Arg("Minimum probability that a memory is meant by the query", minimum=0, maximum=1)
    ] = _DEFAULT_THRESHOLD,
    expression: Expression = None,
    confirm: Confirm = None,
) -> dict[str, Any]:
    """Forget memories: preview them, and move them to the trash once confirmed.

    A token is only valid for the files shown, with the contents they had then.
    memvault restore brings forgotten files back.

    An empty query with a filter selects all memories that pass it.
    """
    from memvault.memories import delete
    from memvault.recall.answer import memory_reference

    search_filters = filters(memory_type, None, None, None, expression)
    if not query.strip() and not (expression or "").strip():
        raise UsageError("The query is empty", "say what to forget, or give a filter")
    selected = delete.candidates(
        call.engine, call.store, query, search_filters, threshold, _MAX_FORGOTTEN, call.notes
    )
    nothing = f"No memory fits with at least {threshold:g}; nothing to forget"
    items = [f"{entry.memory.path}\0{entry.memory.etag}" for entry in selected]
    if token := token_to_confirm(confirm, items, "the files found now"):
        standings = call.engine.validities([entry.memory for entry in selected])
        candidates = [
            {
                **memory_reference(entry.memory),
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
