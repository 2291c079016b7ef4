"""The context tool: what an agent should know, as one block for its system prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.tools.core.registry import Arg, Group
from memvault.tools.core.shapes import count_shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from memvault.agents.address import Address
    from memvault.agents.prompt import Entry
    from memvault.recall.values import Found
    from memvault.vault.store import Store

__all__ = ["context"]

group = Group("brain", place=21)

Kept = TypeVar("Kept")

_DEFAULT_BUDGET = 2_000
_RECALLED = 10
_TELLING = 0.3
"""What fits the task less than this is left out, whatever the budget."""


@group.tool("context", "context")
def context(
    call: Call,
    task: Annotated[
        str, Arg("What is to be done; memories that fit it are recalled", positional=True)
    ] = "",
    budget: Annotated[
        int, Arg("Tokens that the block has at most, as the built-in tokenizer counts", least=0)
    ] = _DEFAULT_BUDGET,
) -> dict[str, Any]:
    """Write the block for a system prompt: memories, goals, due plans, inbox, recalled memories.

    Due plans become events in the inbox; no event is taken out. Sections come in this order of
    importance, dated and fenced as data. What does not fit the budget is left out from the end
    and named under cut. With nothing to say, the block is empty.
    """
    from memvault.agents import prompt
    from memvault.index.embedding import tokens

    plans, others = _events(call)
    recalled = _recalled(call, task) if task.strip() else []
    sections = [
        prompt.Section("MEMORIES", _memories(call)),
        prompt.Section("GOALS", _goals(call)),
        prompt.Section("DUE PLANS", plans),
        prompt.Section("INBOX", others),
        prompt.Section("RECALLED", [_entry(found) for found in recalled]),
    ]
    block = prompt.build(sections, budget, tokens.count)
    count = sum(len(kept.entries) for kept in block.kept if kept.title == "RECALLED")
    count_shown(call, (found.memory for found in recalled[:count]))
    if block.cut and not block.text:
        call.notes.append(f"not even the first entry fits into {budget} tokens")
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


def _memories(call: Call) -> list[Entry]:
    """Return the agent's keys and values."""
    from memvault.agents import keyvalues
    from memvault.agents.prompt import Entry

    values = _looked_at(call, "the memories", keyvalues.all_values)
    return [Entry(entry.modified[:10], f"{entry.key}: {entry.value}") for entry in values]


def _looked_at(
    call: Call,
    what: str,
    read: Callable[[Store, Address], tuple[list[Kept], list[str]]],
) -> list[Kept]:
    """Return what an agent keeps; where it cannot be read the block goes without it."""
    try:
        found, notes = read(call.store, call.address)
    except MemvaultError as error:
        found, notes = [], [f"{what} were not looked at: {error.message}"]
    call.notes += notes
    return found


def _goals(call: Call) -> list[Entry]:
    """Return the agent's active goals."""
    from memvault.agents import goals
    from memvault.agents.prompt import Entry

    found = _looked_at(call, "the goals", goals.all_goals)
    return [
        Entry(goal.modified[:10], f"{goal.id}: {goal.description}")
        for goal in found
        if goal.status == goals.ACTIVE
    ]


def _events(call: Call) -> tuple[list[Entry], list[Entry]]:
    """Return the plans that are due and a preview of the rest of the inbox; nothing is taken."""
    from memvault.agents.messages.services import PLAN, speaker
    from memvault.agents.prompt import Entry

    try:
        events, _ = call.inbox.peek()
    except MemvaultError as error:  # a vault that cannot be written, say
        call.notes.append(f"the inbox was not looked at: {error.message}")
        return [], []
    call.notes += call.inbox.problems
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


def _recalled(call: Call, task: str) -> list[Found]:
    """Return the memories that fit a task, best first; without a search the block stands alone."""
    from memvault.index.protocol import READABLE
    from memvault.recall.values import Request

    try:
        answer = call.engine.search(Request(task, limit=_RECALLED, patience=READABLE))
    except MemvaultError as error:
        call.notes.append(f"no memories were recalled: {error.message}")
        return []
    call.notes += answer.notes
    return [found for found in answer.found if found.strength >= _TELLING]


def _entry(found: Found) -> Entry:
    from memvault.agents.prompt import Entry

    return Entry(found.memory.modified[:10], _line(found))


def _line(found: Found) -> str:
    """Say what was found, under its title unless it begins so, and what loads the rest."""
    title, snippet = found.memory.title, found.snippet
    text = snippet if snippet.startswith(title) else f"{title}: {snippet}"
    return f"{text} ({found.memory.mem_id})"
