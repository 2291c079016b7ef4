"""The context tool: what an agent should know, as one block for its system prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from memvault.errors import MemvaultError
from memvault.tools.registry import Arg, tool
from memvault.tools.shapes import seen
from memvault.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from memvault.memories.prompt import Entry
    from memvault.recall.engine import Found
    from memvault.vault.store import Store
    from memvault.work.agents import Address

__all__ = ["context"]

Kept = TypeVar("Kept")

_DEFAULT_BUDGET = 2_000
_RECALLED = 10
_TELLING = 0.3
"""What fits the task less than this is left out, whatever the budget."""


@tool("context", "context", "brain")
def context(
    workspace: Workspace,
    task: Annotated[
        str, Arg("What is to be done; memories that fit it are recalled", positional=True)
    ] = "",
    budget: Annotated[
        int, Arg("Tokens that the block has at most, as the built-in tokenizer counts", least=0)
    ] = _DEFAULT_BUDGET,
) -> dict[str, Any]:
    """Write the block for a system prompt: memories, goals, due plans, inbox, recalled memories.

    Plans that are due become events of the inbox, from which nothing is taken.
    Sections come in this order of worth, dated and fenced as data. What does
    not fit the budget is left out from the end and named under cut. Where
    there is nothing to say the block is empty.
    """
    from memvault.index import tokens
    from memvault.memories import prompt

    plans, others = _events(workspace)
    recalled = _recalled(workspace, task) if task.strip() else []
    sections = [
        prompt.Section("MEMORIES", _memories(workspace)),
        prompt.Section("GOALS", _goals(workspace)),
        prompt.Section("DUE PLANS", plans),
        prompt.Section("INBOX", others),
        prompt.Section("RECALLED", [_entry(found) for found in recalled]),
    ]
    block = prompt.build(sections, budget, tokens.count)
    told = sum(len(kept.entries) for kept in block.kept if kept.title == "RECALLED")
    seen(workspace, (found.memory for found in recalled[:told]))
    if block.cut and not block.text:
        workspace.notes.append(f"not even the first entry fits into {budget} tokens")
    return {
        "context": block.text,
        "tokens": block.tokens,
        "budget": budget,
        "parts": [
            {"section": section.title, "entries": [entry._asdict() for entry in section.entries]}
            for section in block.kept
        ],
        "cut": [{"section": cut.title, "leftOut": cut.left_out, "of": cut.of} for cut in block.cut],
        **({"shortened": block.shortened} if block.shortened else {}),
    }


def _memories(workspace: Workspace) -> list[Entry]:
    """Return the agent's keys and values."""
    from memvault.memories.prompt import Entry
    from memvault.work import keyvalues

    values = _looked_at(workspace, "the memories", keyvalues.all_values)
    return [Entry(entry.modified[:10], f"{entry.key}: {entry.value}") for entry in values]


def _looked_at(
    workspace: Workspace,
    what: str,
    read: Callable[[Store, Address], tuple[list[Kept], list[str]]],
) -> list[Kept]:
    """Return what an agent keeps; where it cannot be read the block goes without it."""
    try:
        found, notes = read(workspace.store, workspace.address)
    except MemvaultError as error:
        found, notes = [], [f"{what} were not looked at: {error.message}"]
    workspace.notes += notes
    return found


def _goals(workspace: Workspace) -> list[Entry]:
    """Return the agent's active goals."""
    from memvault.memories.prompt import Entry
    from memvault.work import goals

    found = _looked_at(workspace, "the goals", goals.all_goals)
    return [
        Entry(goal.modified[:10], f"{goal.id}: {goal.description}")
        for goal in found
        if goal.status == goals.ACTIVE
    ]


def _events(workspace: Workspace) -> tuple[list[Entry], list[Entry]]:
    """Return the plans that are due and a preview of the rest of the inbox; nothing is taken."""
    from memvault.memories.prompt import Entry
    from memvault.work.services import PLAN, speaker

    try:
        events, _ = workspace.inbox.peek()
    except MemvaultError as error:  # a vault that cannot be written, say
        workspace.notes.append(f"the inbox was not looked at: {error.message}")
        return [], []
    workspace.notes += workspace.inbox.problems
    plans: list[Entry] = []
    others: list[Entry] = []
    for event in events:
        data = event.data
        sender = speaker(event.kind, data)
        where = f"[{' '.join(str(data['spaceName']).split())}] " if "spaceName" in data else ""
        text = data.get("message") or data.get("content") or data.get("instruction") or ""
        entry = Entry(event.timestamp[:16], f"{where}{sender}: {text}")
        (plans if event.kind == PLAN else others).append(entry)
    return plans, others


def _recalled(workspace: Workspace, task: str) -> list[Found]:
    """Return the memories that fit a task, best first; without a search the block stands alone."""
    from memvault.recall.engine import Request

    try:
        answer = workspace.engine.search(Request(task, limit=_RECALLED))
    except MemvaultError as error:
        workspace.notes.append(f"no memories were recalled: {error.message}")
        return []
    workspace.notes += answer.notes
    return [found for found in answer.found if found.strength >= _TELLING]


def _entry(found: Found) -> Entry:
    from memvault.memories.prompt import Entry

    return Entry(found.memory.modified[:10], _told(found))


def _told(found: Found) -> str:
    """Say what was found, under its title unless it begins so, and what loads the rest."""
    title, snippet = found.memory.title, found.snippet
    text = snippet if snippet.startswith(title) else f"{title}: {snippet}"
    return f"{text} ({found.memory.mem_id})"
