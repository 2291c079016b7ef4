"""Tools for a vault's history: log, diff, undo, and the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from memvault.arguments.parameters import Arg
from memvault.call import Call
from memvault.errors import UsageError, exclusive
from memvault.tools.core.registry import ToolGroup
from memvault.tools.core.render import Result, Template, shortened
from memvault.tools.core.result_parts import paginate, trashed, without_none
from memvault.tools.core.shared_args import (
    LIMIT_ALIASES,
    LISTED,
    MEMORY_ARG,
    Confirm,
    Limit,
    Offset,
    require_text,
    token_to_confirm,
)

if TYPE_CHECKING:
    from memvault import results

group = ToolGroup("vault", place=101)

_WITHOUT_ID = "run `memvault undo --list` to list changes; omit the id to undo the last one"
_NO_TRASH = "The trash is empty"
_NOTHING_OLD = "The trash has no memories that old"


def _with_file_lines(result: Result) -> Result:
    """Add lines with the changed files to each change, or to the undone one."""
    if "changes" not in result:
        return {**result, "lines": _file_lines(result["files"])}
    changes = [{**entry, "lines": _file_lines(entry["files"])} for entry in result["changes"]]
    return {**result, "changes": changes}


def _file_lines(files: list[Result]) -> list[str]:
    """Format the changes to files, one line per file."""
    keys = ("change", "filePath", "title", "revision")
    return shortened("  ".join(filter(None, map(entry.get, keys))) for entry in files)


@group.tool(
    "log",
    paged_keys=("changes",),
    read_only=True,
    examples=("memvault log", 'memvault log "Deploy notes"', "memvault log --limit 5"),
    view=Template(
        """{memId}  {filePath}  {edited:edited outside memvault since then|}
        *changes | No tool has changed anything yet
        {when:second}  {tool}  by {agent}  {changeId}  undoes {undoes}  undone by {undoneBy}
           {lines:each}""",
        _with_file_lines,
    ),
)
def memory_log(
    call: Call,
    name: Annotated[
        str,
        MEMORY_ARG._replace(help="Memory id, path or title; omit to list all changes", key="memId"),
    ] = "",
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> results.ChangeLog:
    """List the changes, newest first, each with its time, tool and agent.

    A revision is the file as it was before that change; `memvault diff` compares it and
    `memvault restore` restores it. Edits in programs other than `memvault edit` are not listed;
    `edited` is true if the file has been edited that way since the newest listed change.
    """
    from memvault.history import log

    about: dict[Any, Any] = {}
    if name.strip():
        memory = log.resolve_logged(call, name)
        edited = log.is_edited(call, memory)
        about = {"memId": memory.mem_id, "filePath": memory.path, "edited": edited}
        changes = list(log.changes_of(call, memory.mem_id))
    else:
        changes = list(call.store.changes.journal.changes())
    shown, paging = paginate(changes, limit, offset)
    continuation = without_none(more=True if "next" in paging else None)
    return {
        **about,
        "changes": [log.change_item(change) for change in shown],
        **paging,
        **continuation,
    }


@group.tool(
    "diff",
    paged_keys=("diff",),
    read_only=True,
    examples=('memvault diff "Deploy notes"', 'memvault diff "Deploy notes" 20261122T0200'),
    view=Template(
        "{diff:diff}\n{same}\n--offset {next} shows the rest of {totalLength} characters",
        lambda result: {**result, "same": None if result["diff"] else "There are no differences"},
    ),
    reveals=True,
)
def memory_diff(
    call: Call,
    name: Annotated[str, MEMORY_ARG._replace(help="Memory id, path or exact title", key="memId")],
    revision: Annotated[
        str, Arg("The earlier revision; the last one by default", positional=True)
    ] = "",
    other: Annotated[
        str, Arg("The later revision; the current file by default", positional=True)
    ] = "",
) -> results.ComparedRevisions:
    """Compare two revisions of a memory, or a revision and the current file."""
    from memvault.history import log

    return log.compare_revisions(
        call, log.resolve_logged(call, name), revision.strip(), other.strip()
    )


@group.tool(
    "undo",
    paged_keys=("changes",),
    continuation_hint="memory_log lists the files",
    destructive=True,
    core_args={"change": "", "list": "List changes"},
    examples=("memvault undo", "memvault undo --list", "memvault undo 3k9x2m7q --keep-changed"),
    view=Template(
        """Undone {undone[tool]}  {undone[changeId]}
           {lines:each}
           not undone, because it has changed: {kept:each}
           `memvault undo {changeId}` reverts that
        *changes | There is nothing to undo
        {when:second}  {tool}  by {agent}  {changeId}  undoes {undoes}  undone by {undoneBy}
           {lines:each}
           cannot be undone: {obstacle}""",
        _with_file_lines,
    ),
)
def memory_undo(
    call: Call,
    change: Annotated[
        str | None,
        Arg(
            "Id of the change, from `memvault log`; the last one by default",
            positional=True,
            completes="change",
            json_aliases=("changeId", "id"),
        ),
    ] = None,
    listing: Annotated[
        bool, Arg("List the last changes and whether they can be undone", key="list")
    ] = False,
    keep_changed: Annotated[
        bool, Arg("Skip files that have changed since, and undo the rest")
    ] = False,
    limit: Annotated[
        int | None,
        Arg("Maximum number to list", minimum=1, default=LISTED, json_aliases=LIMIT_ALIASES),
    ] = None,
    offset: Annotated[
        int | None, Arg("Entries to skip in the listing", minimum=0, default=0)
    ] = None,
) -> results.UndoneChange:
    """Undo the last change by a tool: restore every file to its previous state.

    Called again, it undoes the change before that. An undo is itself a change that can be undone by
    its change id. If a file has changed since, nothing is undone.
    """
    from memvault.history import log, undo

    exclusive({"--list": listing, "--keep-changed": keep_changed})
    if listing:
        if change is not None:
            raise UsageError(
                "`--list` cannot be combined with a change",
                "run `memvault undo --list`, or pass only the change",
            )
        changes = list(call.store.changes.journal.changes())
        shown, paging = paginate(changes, limit or LISTED, offset or 0)
        return {
            "changes": [
                {**log.change_item(entry), **without_none(obstacle=obstacle or None)}
                for entry in shown
                for obstacle in [undo.why_not_undoable(call.store, entry)]
            ],
            **paging,
        }
    if limit is not None or offset is not None:
        raise UsageError(
            "`--limit` and `--offset` are for `--list`", "use them with `memvault undo --list`"
        )
    chosen = undo.select_change(call, require_text(change, "The change's id", _WITHOUT_ID))
    undone = undo.undo(call, chosen, keep_changed)
    return {
        "changeId": call.change_set.change_id,
        "undone": log.change_item(chosen),
        "files": [log.file_item(entry) for entry in undone.files],
        **without_none(kept=undone.kept or None),
    }


@group.tool(
    "trash list",
    paged_keys=("trash",),
    read_only=True,
    examples=("memvault trash list", "memvault trash list --limit 5"),
    view=Template(
        """*trash | The trash is empty
        {title}  {memId}  {filePath}  {discarded:second}

        {shown} of {total:file|files}""",
        lambda result: {**result, "shown": len(result["trash"]) or None},
    ),
)
def trash_list(call: Call, limit: Limit = LISTED, offset: Offset = 0) -> results.TrashListing:
    """List the forgotten memories that can be restored, newest first."""
    from memvault.memories import trash

    shown, paging = paginate(trash.list_trash(call.store), limit, offset)
    return {"trash": [trashed(entry) for entry in shown], **paging}


def _as_preview(result: Result) -> Result:
    """Show the token only if there is something to confirm; hide a count of zero."""
    shown = {**result, "deletedFiles": result.get("deletedFiles") or None}
    return {**shown, "token": result["confirmToken"]} if result.get("files") else shown


@group.tool(
    "trash empty",
    destructive=True,
    own_scope="all",
    examples=("memvault trash empty", "memvault trash empty --older 30d"),
    view=Template(
        """Permanently deleted: {deletedFiles:file|files}
        Would permanently delete {files:file|files}, {bytes} bytes, the oldest from {oldest:day}
        Nothing has been deleted yet; confirm with `--confirm {token}`""",
        _as_preview,
    ),
)
def trash_empty(
    call: Call,
    older: Annotated[
        str | None,
        Arg(
            "Only memories forgotten before a date, or longer ago than an age such as 30d",
            json_aliases=("olderThan",),
        ),
    ] = None,
    confirm: Confirm = None,
) -> results.EmptiedTrash:
    """Delete the trash permanently: preview it, and delete it once confirmed.

    The deleted files cannot be restored, not even with undo.
    """
    from memvault.memories import trash

    chosen = trash.trashed_before(call.store, older)
    size = sum(entry.size for entry in chosen)
    message = None if chosen else _NOTHING_OLD if older else _NO_TRASH
    nothing = without_none(message=message)
    items = [f"{entry.item.folder}/{entry.path}" for entry in chosen]
    if token := token_to_confirm(confirm, items, "the files in the trash now"):
        oldest = without_none(oldest=chosen[-1].when if chosen else None)
        return {
            "confirmRequired": True,
            "files": len(chosen),
            "bytes": size,
            **oldest,
            "confirmToken": token,
            **nothing,
        }
    call.store.trash.delete(entry.item for entry in chosen)
    return {"deletedFiles": len(chosen), "bytes": size, **nothing}
