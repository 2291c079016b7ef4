"""The command ``review``: answer each item with a key; one undo reverts all answers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from memvault import sanitize
from memvault.arguments.parameters import Arg
from memvault.cli import keys, output, run_command, run_editor
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import MemvaultError, Refused
from memvault.results.vault import ReviewKind
from memvault.tools.core.shared_args import LISTED, Limit, Offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from memvault.call import Call
    from memvault.insights.review import ReviewItem
    from memvault.model import Memory

_SHOWN_LINES = 12
"""Maximum number of lines of a memory to show; the editor shows the rest."""
_KEYS = {
    "conflict": "1 keep the first  2 keep the second  m merge in the editor  b keep both",
    "secret": "e edit  a allow it in this memory  t trash",
    "unmerged": "y copy it here  t trash",
    "duplicate": "1 keep the first  2 keep the second",
    "outdated": "t trash  e edit",
    "code": "y still true  e edit  r replace  t trash",
    "unused": "t trash  e edit",
    "proposal": "y write it",
    "finding": "f fix  e edit",
}


@command(
    "review",
    ("memvault review", "memvault review --kind conflict", "memvault review --json"),
    group="daily",
)
def review(
    options: GlobalOptions,
    kind: Annotated[ReviewKind | None, Arg("Only items of this kind")] = None,
    limit: Limit = LISTED,
    offset: Offset = 0,
) -> dict[str, Any] | None:
    """Review pending items: conflicts, secrets, duplicates, proposals and more.

    You answer each item with a key, without Enter; s skips an item, and q or Ctrl-C ends the
    review. `memvault undo` reverts all answers together. Without a terminal, the items are listed;
    `--limit` and `--offset` select them, by default the first 50.
    """
    if not options.may_ask:
        from memvault.tools.doctor import vault_review

        run_command.run_function(options, vault_review, kind=kind, limit=limit, offset=offset)
        return None
    output.require_terminal()
    from memvault.insights.review import review_items

    with run_editor.open_call(options, tool="review") as (call, _):
        items = review_items(call, kind)
        done = _walk(call, items)
        if call.change_set.files:
            from memvault.tools.core import invoke

            invoke.autocommit(call)
            _say(f"{done} of {len(items)} answered; `memvault undo` reverts them")
        else:
            _say("Nothing was changed" if items else "Nothing to review")
    return None


def _walk(call: Call, items: list[ReviewItem]) -> int:
    """Show each item and apply the answer; return the number of answers."""
    answered = 0
    for number, item in enumerate(items, 1):
        _show(call, item, f"{number}/{len(items)}")
        answers = _KEYS[item.kind]
        if item.kind == "finding" and not item.fix:
            answers = "e edit"
        while True:
            key = _ask(f"{answers}  s skip  q quit")
            if key == "s":
                break
            if key == "q":
                return answered
            action = _ACTIONS.get((item.kind, key))
            if action is None or f"{key} " not in f"{answers} ":
                _say("Press one of the keys above")
                continue
            try:
                action(call, item)
                answered += 1
            except MemvaultError as error:
                _say(f"{error.message}; {error.hint}".rstrip("; "))
                continue
            break
    return answered


def _show(call: Call, item: ReviewItem, position: str) -> None:
    masked = call.settings.detector.masked
    _say("")
    _say(masked(f"[{position}] {item.kind}: {item.title}  {item.path}"))
    _say(masked(f"   {item.reason}"))
    for number, path in enumerate(filter(None, (item.path, item.other_path)), 1):
        if item.kind == "finding" and item.memory is None:
            break
        _say(masked(f" {number}. {path}"))
        try:
            memory = item.unmerged.memory if item.unmerged else call.store.read(path)
        except MemvaultError as error:
            _say(masked(f"    {error.message}"))
            continue
        shown = call.settings.detector.masking(memory.metadata)(memory.body.strip()).splitlines()
        for line in shown[:_SHOWN_LINES]:
            _say(f"    | {line}")
        if len(shown) > _SHOWN_LINES:
            _say(f"    … {len(shown) - _SHOWN_LINES} more lines")


def _say(line: str) -> None:
    output.flush()
    sys.stdout.write(f"{sanitize.escape_line(line)}\n")
    sys.stdout.flush()


def _ask(question: str) -> str:
    """Return the pressed key in lower case; q at the end of the input."""
    key = keys.read_key(f"{question}: ")
    answer = "q" if key in keys.ENDS else key.lower()
    _say(answer if answer.isprintable() else "")
    return answer


def _memory(call: Call, item: ReviewItem, second: bool = False) -> Memory:
    return call.store.read(item.other_path if second else item.path)


def _trash(call: Call, item: ReviewItem, second: bool = False) -> None:
    memory = _memory(call, item, second)
    call.store.discard(memory.path, memory.etag)


def _keep(call: Call, item: ReviewItem, second: bool) -> None:
    """Move one of two memories to the trash, and mark their conflict as resolved."""
    _trash(call, item, second=not second)
    if item.kind == "conflict":
        _settle(call, item, second)


def _settle(call: Call, item: ReviewItem, second: bool) -> None:
    memory = _memory(call, item, second)
    if "conflict_with" in memory.metadata:
        call.store.change(memory, {"conflict_with": None}, None)


def _keep_both(call: Call, item: ReviewItem) -> None:
    for second in (False, True):
        _settle(call, item, second)


def _merge(call: Call, item: ReviewItem) -> None:
    """Put both bodies into the first memory, open it in the editor, and trash the second."""
    from memvault.memories import edit

    first, other = _memory(call, item), _memory(call, item, second=True)
    body = edit.append(first.body, other.body, first.newline)
    merged = call.store.change(first, {"conflict_with": None}, body).memory
    call.store.discard(other.path, other.etag)
    run_editor.edit_memory(call, merged, merged.line_at(len(first.body)))


def _edit(call: Call, item: ReviewItem) -> None:
    run_editor.edit_memory(call, _memory(call, item))


def _allow(call: Call, item: ReviewItem) -> None:
    """Mark the secrets of a memory as allowed in its header."""
    call.store.change(_memory(call, item), {"secrets": "allowed"}, None)


def _write_proposal(call: Call, item: ReviewItem) -> None:
    """Apply a consolidation proposal if it is still valid."""
    from memvault import clock
    from memvault.consolidation import apply
    from memvault.insights.review import EPISODE_DAYS

    assert item.proposals is not None
    with apply.locked(call.store, call.engine):
        inputs = apply.load_input(call.store, call.engine, EPISODE_DAYS, clock.now())
        proposals, _ = apply.propose(call.store, call.engine, inputs)
        made = proposals.only(item.proposals.ids())
        skipped = apply.apply_proposals(call.store, call.engine, made, inputs.episodes)[1]
    if skipped or not made.ids():
        raise Refused("The source memories have changed", "`memvault consolidate`")


def _copy_unmerged(call: Call, item: ReviewItem, discards: bool = False) -> None:
    assert item.unmerged is not None
    call.copy_unmerged(item.unmerged, discards)


def _edit_code(call: Call, item: ReviewItem) -> None:
    """Open a memory in the editor; if its text changes, cite the current code."""
    before = _memory(call, item)
    _edit(call, item)
    after = _memory(call, item)
    citations = call.citations
    if after.body != before.body and citations is not None:
        from memvault.repository.citations import KEY

        call.store.change(after, {KEY: citations.renewed([after.metadata])[0]}, None)


def _replace(call: Call, item: ReviewItem) -> None:
    """Write a memory that supersedes this one in the editor, starting from its text."""
    from memvault.memories import create

    old = _memory(call, item)
    with run_editor.draft(call.root, old.title, old.body.strip(), "remember TITLE") as text:
        header = {"tags": list(old.tags), "supersedes": old.mem_id}
        citations = call.citations
        create.add(call.store, old.title, text, old.memory_type, header, citations)


def _fix(call: Call, item: ReviewItem) -> None:
    """Apply the fix of a finding in its current state."""
    from memvault.insights.review import finding_at

    fix = finding_at(call, item.code, item.path).fix
    if fix is None:
        raise Refused("The fix no longer applies", "`memvault doctor`")
    fix.apply(call)


_ACTIONS: dict[tuple[str, str], Callable[[Call, ReviewItem], object]] = {
    ("conflict", "1"): lambda call, item: _keep(call, item, False),
    ("conflict", "2"): lambda call, item: _keep(call, item, True),
    ("conflict", "m"): _merge,
    ("conflict", "b"): _keep_both,
    ("secret", "e"): _edit,
    ("secret", "a"): _allow,
    ("secret", "t"): _trash,
    ("unmerged", "y"): _copy_unmerged,
    ("unmerged", "t"): lambda call, item: _copy_unmerged(call, item, True),
    ("duplicate", "1"): lambda call, item: _keep(call, item, False),
    ("duplicate", "2"): lambda call, item: _keep(call, item, True),
    ("outdated", "t"): _trash,
    ("outdated", "e"): _edit,
    ("code", "y"): _fix,
    ("code", "e"): _edit_code,
    ("code", "r"): _replace,
    ("code", "t"): _trash,
    ("unused", "t"): _trash,
    ("unused", "e"): _edit,
    ("proposal", "y"): _write_proposal,
    ("finding", "f"): _fix,
    ("finding", "e"): _edit,
}
"""The function for each kind of item and key."""
