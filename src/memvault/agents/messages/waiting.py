"""Wait for the first of several events, without holding a lock or polling."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

from memvault.agents.address import USER, Address, address
from memvault.agents.messages.folder_watcher import FolderWatcher
from memvault.agents.messages.inbox import Event, EventBatch, Inbox
from memvault.agents.messages.service_names import SERVICE, TALK
from memvault.agents.messages.talks import is_later
from memvault.errors import Refused, TimedOut, UsageError
from memvault.named_tuple import NamedTuple

_MIN_SLEEP = 0.01
_STUCK_SECONDS = 5.0
"""Seconds to sleep if a plan that cannot run now is still due after a read."""


class EventPattern(NamedTuple):
    """An event to wait for; ``talk_id`` 0 matches any talk."""

    kind: Literal["User", "Agent", "Time", "Hook"]
    parameter: str = ""
    talk_id: int = 0

    def __str__(self) -> str:
        tail = f"#{self.talk_id}" if self.talk_id else ""
        return f"{self.kind.lower()}{':' if self.parameter else ''}{self.parameter}{tail}"

    def checked(self) -> EventPattern:
        """Return the pattern with its parameter in the form used for comparison.

        Raises:
            UsageError: the parameter is not valid for the kind.
        """
        if self.kind == "User":
            if self.parameter:
                raise UsageError("A User event takes no parameter", "use user or user#TALKID")
            return self
        if self.kind == "Agent":
            return self._replace(parameter=str(address(self.parameter)))
        if self.talk_id:
            raise UsageError(f"{self.kind} events have no talk id", "omit it, or pass 0")
        if self.kind == "Time":
            return self._replace(parameter=f"{_seconds(self.parameter):g}")
        if not self.parameter.strip():
            raise UsageError("The hook's name is missing", "write hook:NAME")
        return self._replace(parameter=self.parameter.strip())

    @property
    def sender(self) -> Address | None:
        """The sender whose talk is awaited; None for another kind of event."""
        if self.kind == "User":
            return Address(USER)
        return address(self.parameter) if self.kind == "Agent" else None

    def matches(self, event: Event) -> bool:
        """Return whether an event of the inbox matches."""
        if self.kind == "Hook":
            return event.kind == SERVICE and str(event.data.get("name", "")) == self.parameter
        if self.sender is None or event.kind != TALK:
            return False
        return event.data.get("from") == str(self.sender) and (
            not self.talk_id or self.is_reply(event) or self._follows(event)
        )

    def is_reply(self, event: Event) -> bool:
        """Return whether an event of the sender is a reply to the awaited talk."""
        return bool(self.talk_id) and str(event.data.get("inReplyTo", "")) == str(self.talk_id)

    def _follows(self, event: Event) -> bool:
        """Return whether a talk was sent after the awaited one and is not a reply to any talk."""
        return "inReplyTo" not in event.data and is_later(event.data.get("talkId"), self.talk_id)


class WaitResult(NamedTuple):
    """The result of a wait: an event popped from the inbox, or a timeout."""

    wanted: EventPattern
    popped: EventBatch
    seconds: float


def wait(
    inbox: Inbox,
    patterns: Sequence[EventPattern],
    talked_to: Callable[[Address, int], bool],
    turn: threading.Condition,
    timeout: float | None = None,
    on_wait: Callable[[], None] = lambda: None,
    stopped: Callable[[], bool] = lambda: False,
) -> WaitResult:
    """Wait until one of the events happens, and pop and return exactly that one.

    The lock of ``turn``, which the caller must hold, is released while waiting; the agent's lock is
    held only during each read of the inbox. An event that is already in the inbox ends the wait
    immediately; otherwise ``on_wait`` is called first. ``stopped`` is called before each read, and
    ``turn.notify`` causes a read; if ``stopped`` returns true, the wait ends and nothing is popped.

    Raises:
        Refused: no talk, or not the talk with the given talkId, was sent to the awaited
        participant.
        TimedOut: nothing happened in time, or before the wait was stopped.
    """
    for entry in patterns:
        if entry.sender is not None and not talked_to(entry.sender, entry.talk_id):
            user = entry.kind == "User"
            participant = "the user" if user else entry.parameter
            talk = f"talk {entry.talk_id}" if entry.talk_id else "earlier talk"
            recipient = "user" if user else f"agent {participant}"
            raise Refused(
                f"There is no {talk} to {participant} to wait for",
                f"send one with `memvault talk {recipient} MESSAGE`",
            )
    started = time.monotonic()
    times = [entry for entry in patterns if entry.kind == "Time"]
    soonest = min(times, key=lambda entry: float(entry.parameter), default=None)
    until = float(soonest.parameter) if soonest else math.inf
    deadline = math.inf if timeout is None else timeout
    sleeper: FolderWatcher | None = None
    stuck = False
    try:
        while True:
            if stopped():
                raise TimedOut("The wait was canceled", "wait again")
            popped = _pop(inbox, patterns)
            passed = time.monotonic() - started
            if popped.events:
                return WaitResult(_matched(patterns, popped.events[0]), popped, passed)
            if soonest is not None and passed >= until:
                return WaitResult(soonest, popped, passed)
            if passed >= deadline:
                names = ", ".join(map(str, patterns))
                waited = f"{deadline:g} second{'s' * (deadline != 1)}"
                remaining_note = f"; {popped.remaining} in the inbox, see `memvault inbox list`"
                raise TimedOut(
                    f"No event from {names} within {waited}",
                    f"wait again, or set a longer timeout{remaining_note * bool(popped.remaining)}",
                )
            if sleeper is None:
                on_wait()
                sleeper = FolderWatcher(inbox.folder, turn)
                # Read again for events from before the watcher started.
                continue
            due = inbox.next_due()  # The next read picks up a plan due after this one.
            pause = due if due > 0 else _STUCK_SECONDS if stuck else _MIN_SLEEP
            stuck = due <= 0
            sleeper.sleep(max(_MIN_SLEEP, min(until - passed, deadline - passed, pause)))
    finally:
        if sleeper is not None:
            sleeper.close()


def _pop(inbox: Inbox, patterns: Sequence[EventPattern]) -> EventBatch:
    """Pop the oldest reply to an awaited talk, or else the oldest event that matches."""

    def pop(entries: Sequence[EventPattern], only_replies: bool) -> EventBatch:
        def is_match(event: Event) -> bool:
            return any(
                entry.matches(event) and (not only_replies or entry.is_reply(event))
                for entry in entries
            )

        return inbox.pop(fits=is_match)

    numbered = [entry for entry in patterns if entry.talk_id]
    replies = pop(numbered, True) if numbered else None
    return replies if replies and replies.events else pop(patterns, False)


def _matched(patterns: Sequence[EventPattern], event: Event) -> EventPattern:
    """Return the pattern that matches an event, preferring the pattern for its talk."""
    matching = (entry for entry in patterns if entry.matches(event))
    return min(matching, key=lambda e: (not e.is_reply(event), e.talk_id == 0, e.talk_id))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise UsageError(
            f"{text!r} is not a number of seconds", "pass a number of seconds, such as time:2.5"
        )
    return seconds
