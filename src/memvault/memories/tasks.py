"""Find and complete tasks in notes: list items such as ``- [ ] call Ana``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import Literal

from memvault.errors import MemvaultError, NotFound, UsageError
from memvault.index.protocol import MemoryRecord
from memvault.lazy_pattern import lazy_pattern
from memvault.memories import edit
from memvault.model import Memory
from memvault.named_tuple import NamedTuple
from memvault.store.memory_store import MemoryReader, MemoryStore, WriteResult
from memvault.vault.decoding import decode
from memvault.vault.markdown import tasks

_REST = lazy_pattern(r"[^\r\n]*")
_DUE = lazy_pattern(r"(?:📅 ?|\bdue::? ?)(\d{4}-\d\d-\d\d)")
_CANCELLED = "-"
"""The mark of a canceled task in Obsidian's themes and in Logseq."""
_DONE_MARKS = frozenset(("x", "X", _CANCELLED))
_WEEK = timedelta(days=7)
Period = Literal["overdue", "today", "week"]
_SIGN = lazy_pattern(r"\[[^\]\r\n]\][ \t]")
"""Matches in every file that has tasks; other files are not parsed."""


class Task(NamedTuple):
    """A task in a memory: ``line`` is its line in the file, ``due`` is an ISO date or empty.

    ``mark_at`` is the position of its mark in the body.
    """

    memory: Memory
    line: int
    mark: str
    text: str
    due: str
    mark_at: int

    @property
    def is_done(self) -> bool:
        """Whether the task is done or canceled."""
        return self.mark in _DONE_MARKS

    @property
    def is_cancelled(self) -> bool:
        """Whether the task is canceled."""
        return self.mark == _CANCELLED

    def is_due(self, period: Period, today: date) -> bool:
        """Return whether the task is due in a period; a week is today and the 7 days after it."""
        if not self.due:
            return False
        day = date.fromisoformat(self.due)
        if period == "overdue":
            return day < today
        try:
            last = today + _WEEK if period == "week" else today
        except OverflowError:
            last = date.max
        return today <= day <= last


def tasks_of(memory: Memory) -> Iterator[Task]:
    """Yield a memory's tasks in the order of its text, ignoring tasks in code."""
    body, line, position = memory.body, memory.body_line, 0
    for box_position in tasks(body):
        line += body.count(memory.newline[-1:], position, box_position)
        position = box_position
        text = _REST.match(body, box_position + len("x]"))
        assert text is not None, "add the task's text"
        yield Task(
            memory, line, body[box_position], text[0].strip(), _due_day(text[0]), box_position
        )


def _due_day(text: str) -> str:
    """Return the first valid due date in text, or an empty string."""
    for day in _DUE.findall(text):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(day).isoformat()
    return ""


def may_have_tasks(store: MemoryReader, record: MemoryRecord) -> bool:
    """Return whether a memory's file may have tasks; an unreadable file has none."""
    try:
        data, _ = store.read_bytes(record.path)
    except MemvaultError:
        return False
    return _SIGN.search(decode(data, store.settings.encoding).text) is not None


def tasks_in(store: MemoryReader, records: Iterable[MemoryRecord]) -> Iterator[Task]:
    """Yield the tasks of memories; unreadable memories are omitted."""
    for record in records:
        with contextlib.suppress(MemvaultError):
            yield from tasks_of(store.read(record.path))


def complete(store: MemoryStore, memory: Memory, line: int) -> tuple[Task, WriteResult]:
    """Mark the open task on a line of a memory's file as done.

    Raises:
        Conflict: the file was changed since it was read.
        NotFound: there is no task on that line.
        UsageError: the task is already done.
    """
    task = next((task for task in tasks_of(memory) if task.line == line), None)
    if task is None:
        raise NotFound(
            f"{memory.path} has no task on line {line}",
            "run `memvault tasks` to list tasks with their lines",
        )
    if task.is_done:
        raise UsageError(
            f"The task on line {line} of {memory.path} is "
            + ("canceled" if task.is_cancelled else "done already"),
            "run `memvault tasks` to list the open tasks",
        )
    body = f"{memory.body[: task.mark_at]}x{memory.body[task.mark_at + 1 :]}"
    done = store.change(memory, edit.modified_now(memory), body)
    return task._replace(memory=done.memory, mark="x"), done
