"""Collect the notes for an agent's prompt: values, goals, events and matching memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.goals import ACTIVE, all_goals
from memvault.agents.messages.inbox import Event, Inbox
from memvault.agents.messages.service_names import PLAN, sender_label
from memvault.agents.values import all_values
from memvault.errors import MemvaultError
from memvault.index.protocol import BEST_EFFORT
from memvault.named_tuple import NamedTuple
from memvault.secrets.detector import SecretDetector, allows
from memvault.store.memory_store import MemoryStore

if TYPE_CHECKING:
    from memvault.recall.answer import RecallResult
    from memvault.recall.recall_engine import RecallEngine
    from memvault.results import CitedCode
from memvault.agents.prompt_block import PromptEntry, PromptSection, code_note

RECALLED = "RECALLED"
"""The title of the section of memories that match the task."""
_MAX_RECALLED = 10
_MAX_SECONDS = 2.5
"""Time limit for recall in seconds; agent programs wait at most 5 seconds for a hook."""
_Read = TypeVar("_Read")


class PromptContext(NamedTuple):
    """The sections of the prompt block, the memories in the last section, and notes."""

    sections: list[PromptSection]
    recalled: list[RecallResult]
    notes: list[str]


def gather(
    store: MemoryStore,
    address: Address,
    inbox: Callable[[], Inbox],
    engine: Callable[[], RecallEngine],
    task: str,
    cited_code: Callable[[Sequence[Mapping[str, Any]]], list[list[CitedCode]]],
    may_give: Callable[[str, str, float], bool] | None = None,
) -> PromptContext:
    """Collect the sections, most important first; unreadable parts are left out with a note.

    Each line of a short task is a separate query, because a memory covers one topic. Due plans are
    delivered to the ``inbox`` as events; nothing is removed from it. ``cited_code`` returns the
    state of the code that memories cite, by their headers. ``may_give`` decides by memId, etag
    and match probability whether to include a memory; by default, all are included.
    """
    notes: list[str] = []
    detector = store.settings.detector

    def dated_entry(modified: str, name: str, text: str) -> PromptEntry:
        return PromptEntry(clock.local(modified), detector.masked(f"{name}: {text}"))

    def read(
        trouble: str, work: Callable[[], tuple[Sequence[_Read], Sequence[str]]]
    ) -> list[_Read]:
        try:
            items, new_notes = work()
        except MemvaultError as error:
            items, new_notes = [], [f"{trouble}: {error.message}"]
        notes.extend(new_notes)
        return list(items)

    def peek() -> tuple[list[Event], list[str]]:
        batch = inbox().peek()
        return batch.events, batch.notes

    events = read("the inbox could not be read", peek)
    values = read("the agent's values could not be read", lambda: all_values(store, address))
    goals = read("the goals could not be read", lambda: all_goals(store, address))
    results: list[RecallResult] = []
    if task.strip():
        results = read("no memories were recalled", lambda: _recalled(engine(), task))
    recalled = [entry for entry in results if entry.is_specific]
    if may_give is not None:
        recalled = [
            entry
            for entry in recalled
            if may_give(entry.memory.mem_id, entry.memory.etag, entry.probability)
        ]
    if len(results) > len(recalled):
        omitted = len(results) - len(recalled)
        notes.append(
            f"unlikely matches omitted: {omitted}; search with `memvault recall` to see them"
        )
    cited = cited_code([entry.memory.metadata for entry in recalled])
    return PromptContext(
        [
            PromptSection(
                "MEMORIES",
                [dated_entry(entry.modified, entry.name, entry.text) for entry in values],
            ),
            PromptSection(
                "GOALS",
                [
                    dated_entry(goal.modified, goal.id, goal.description)
                    for goal in goals
                    if goal.status == ACTIVE
                ],
            ),
            PromptSection(
                "DUE PLANS",
                [_event_entry(event, detector) for event in events if event.kind == PLAN],
            ),
            PromptSection(
                "INBOX", [_event_entry(event, detector) for event in events if event.kind != PLAN]
            ),
            PromptSection(
                RECALLED,
                [
                    _memory_entry(result, detector, states)
                    for result, states in zip(recalled, cited, strict=True)
                ],
            ),
        ],
        recalled,
        notes,
    )


def _recalled(engine: RecallEngine, task: str) -> tuple[list[RecallResult], list[str]]:
    """Return the memories that may match a task, best first, and the notes from the search."""
    from memvault.recall.answer import RecallRequest

    request = RecallRequest(
        task,
        limit=_MAX_RECALLED,
        marks_specific=True,
        only_current=True,
        unmerged=True,
        patience=BEST_EFFORT,
    )
    answer = engine.search_lines(request, _MAX_SECONDS)
    return answer.found, answer.notes


def _event_entry(event: Event, detector: SecretDetector) -> PromptEntry:
    data = event.data
    space = f"[{' '.join(str(data['spaceName']).split())}] " if "spaceName" in data else ""
    text = data.get("message") or data.get("content") or data.get("instruction") or ""
    line = f"{space}{sender_label(event.kind, data)}: {text}"
    return PromptEntry(clock.local(event.timestamp, 16), detector.masked(line))


def _memory_entry(
    result: RecallResult, detector: SecretDetector, cited: Sequence[CitedCode]
) -> PromptEntry:
    """Return an entry for a search result: its title, snippet, memId, and what outdates it.

    The title is left out if the snippet starts with it. Because nobody asked for the entry, its
    secrets are masked unless the memory allows them.
    """
    title, snippet = result.memory.title, result.snippet
    text = snippet if snippet.startswith(title) else f"{title}: {snippet}"
    memory = result.memory
    if not allows(memory.metadata):
        text = detector.masked_part(text, detector.values(f"{title}\n{memory.body}"))
    notes = f"; newer: {result.validity.newer}" if result.validity.newer else ""
    notes += f"; not merged, from {result.branch}" if result.branch else ""
    notes += code_note(cited)
    return PromptEntry(clock.local(memory.modified), f"{text} ({memory.mem_id}{notes})")
