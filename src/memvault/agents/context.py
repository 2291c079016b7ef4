"""What an agent should know now: its values and goals, events, and the memories that fit a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memvault.agents import goals, keyvalues
from memvault.agents.address import Address
from memvault.agents.messages.inbox import Event, Inbox
from memvault.agents.messages.services import PLAN, sender_label
from memvault.agents.prompt import PromptEntry, PromptSection
from memvault.errors import MemvaultError
from memvault.index.protocol import BEST_EFFORT
from memvault.secrets_found import detect
from memvault.vault.store import MemoryStore

if TYPE_CHECKING:
    from memvault.recall.engine import RecallEngine
    from memvault.recall.values import RecallResult

RECALLED = "RECALLED"
"""The title of the section of memories that fit the task."""
_MOST = 10
_Read = TypeVar("_Read")


class PromptContext(NamedTuple):
    """The sections of the block, the memories of the last one, and what to say besides."""

    sections: list[PromptSection]
    recalled: list[RecallResult]
    notes: list[str]


def gather(
    store: MemoryStore,
    address: Address,
    inbox: Callable[[], Inbox],
    engine: Callable[[], RecallEngine],
    task: str,
) -> PromptContext:
    """Gather what is known, the most important first; what cannot be read is left out with a note.

    Plans that are due become events of the ``inbox``, from which nothing is taken.
    """
    notes: list[str] = []

    def read(
        trouble: str, work: Callable[[], tuple[Sequence[_Read], Sequence[str]]]
    ) -> list[_Read]:
        try:
            found, more = work()
        except MemvaultError as error:
            found, more = [], [f"{trouble}: {error.message}"]
        notes.extend(more)
        return list(found)

    def peek() -> tuple[list[Event], list[str]]:
        box = inbox()
        return box.peek(), box.warnings

    events = read("the inbox was not looked at", peek)
    values = read("the memories were not looked at", lambda: keyvalues.all_values(store, address))
    wanted = read("the goals were not looked at", lambda: goals.all_goals(store, address))
    found: list[RecallResult] = []
    if task.strip():
        from memvault.recall.values import RecallRequest

        request = RecallRequest(task, limit=_MOST, only_current=True, patience=BEST_EFFORT)
        found = read("no memories were recalled", lambda: engine().search(request))
    recalled = [entry for entry in found if entry.strength != "weak"]
    if len(found) > len(recalled):
        left = len(found) - len(recalled)
        notes.append(f"left out, as they hardly fit: {left}; memvault recall shows them")
    return PromptContext(
        [
            PromptSection(
                "MEMORIES", [_dated(entry.modified, entry.name, entry.text) for entry in values]
            ),
            PromptSection(
                "GOALS",
                [
                    _dated(goal.modified, goal.id, goal.description)
                    for goal in wanted
                    if goal.status == goals.ACTIVE
                ],
            ),
            PromptSection("DUE PLANS", [_event(event) for event in events if event.kind == PLAN]),
            PromptSection("INBOX", [_event(event) for event in events if event.kind != PLAN]),
            PromptSection(RECALLED, [_memory(found) for found in recalled]),
        ],
        recalled,
        notes,
    )


def _dated(modified: str, name: str, text: str) -> PromptEntry:
    return PromptEntry(modified[:10], detect.masked(f"{name}: {text}"))


def _event(event: Event) -> PromptEntry:
    data = event.data
    where = f"[{' '.join(str(data['spaceName']).split())}] " if "spaceName" in data else ""
    text = data.get("message") or data.get("content") or data.get("instruction") or ""
    told = f"{where}{sender_label(event.kind, data)}: {text}"
    return PromptEntry(event.timestamp[:16], detect.masked(told))


def _memory(found: RecallResult) -> PromptEntry:
    """Say what was found, under its title unless it begins so, and what loads the rest.

    What is told here nobody asked for: secrets are masked, unless the memory allows them.
    """
    title, snippet = found.memory.title, found.snippet
    text = snippet if snippet.startswith(title) else f"{title}: {snippet}"
    memory = found.memory
    if not detect.allows(memory.metadata):
        text = detect.masked_part(text, detect.secret_values(f"{title}\n{memory.body}"))
    newer = f"; newer: {found.standing.newer}" if found.standing.newer else ""
    return PromptEntry(memory.modified[:10], f"{text} ({memory.mem_id}{newer})")
