"""Store each agent's events in an inbox folder, and hand each event to exactly one caller.

Delivering an event creates a file and needs no lock. Popping happens under the agent's lock and in
two steps with a lease, because a process can be killed at any time: events are deleted only once
the caller has received them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.agents.address import Address, agent_lock
from memvault.agents.messages import message_files
from memvault.agents.messages.leases import Lease, Leases
from memvault.agents.messages.service_names import (
    PLAN,
    SERVICE,
    SPACE_MESSAGE,
    TALK,
    UNNAMED,
    is_reserved,
    reserved_names,
)
from memvault.errors import MemvaultError, Unwritable, UsageError
from memvault.files import temporary_files
from memvault.named_tuple import NamedTuple
from memvault.vault import naming

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter

_BODIES = {SPACE_MESSAGE: "content", PLAN: "instruction"}
"""The key of the event data to store as the file's text, by kind; the default is ``message``."""
_OWN_KEYS = ("id", "type", "timestamp")


class Event(NamedTuple):
    """An event for an agent."""

    event_id: str
    kind: str
    timestamp: str
    data: dict[str, Any]


class EventBatch(NamedTuple):
    """Events of an inbox, and notes about files that are not events.

    ``remaining`` is the number of events left in the inbox; ``lease`` holds the popped events until
    they are acknowledged.
    """

    events: list[Event]
    notes: list[str]
    remaining: int = 0
    lease: Lease | None = None


class Inbox:
    """The inbox of one agent.

    With ``only_reads``, events are read without creating the lock file, and cannot be popped.
    """

    def __init__(self, root: Path, owner: Address, only_reads: bool = False) -> None:
        self.folder = owner.folder(root) / "inbox"
        self._only_reads = only_reads
        self._root = root
        self._owner = owner
        self._leases = Leases(root, owner, self.folder)

    def deliver(
        self,
        kind: str,
        data: Mapping[str, Any],
        event_id: str | None = None,
        timestamp: str | None = None,
        changes: VaultWriter | None = None,
    ) -> str:
        """Write an event to the inbox and return its id; ``changes`` is the sender's writer.

        Nothing happens if an event with the given id exists or was popped recently. No lock is
        needed or acquired.

        Raises:
            UsageError: the id is invalid.
            StorageError: the event cannot be written.
        """
        name = event_id or message_files.new_id()
        if event_id:
            if not naming.is_mem_id(event_id):
                raise UsageError(f"{event_id!r} is not a valid event id", "use letters and digits")
            if self._leases.contains(event_id):
                return event_id
        body = _BODIES.get(kind, "message")
        header = {"id": name, "type": kind, "timestamp": timestamp or clock.iso()}
        header |= {key: value for key, value in data.items() if key not in (body, *header)}
        message_files.inside(self._root, self.folder)
        with contextlib.suppress(FileExistsError):
            message_files.write(self.folder, name, header, str(data.get(body, "")), changes)
        return name

    def waiting(self) -> EventBatch:
        """Return the events in the inbox without waiting for the lock.

        If the lock is free, events that dead processes leased are put back first.
        """
        message_files.inside(self._root, self.folder)
        notes: list[str] = []
        if not self._only_reads and self._leases.has_any():
            with contextlib.suppress(MemvaultError), agent_lock(self._root, self._owner, 0.0):
                notes = self._leases.requeue_abandoned()
        return self._read_all(notes)

    def peek(self) -> EventBatch:
        """Return all events without popping them, oldest first."""
        if self._only_reads:
            return self.waiting()
        with self.locked() as notes:
            return self._read_all(notes)

    def pop(
        self,
        count: int = 1,
        kind: str | None = None,
        fits: Callable[[Event], bool] = lambda _: True,
    ) -> EventBatch:
        """Pop events, oldest first; each is handed to exactly one caller.

        The events are deleted by ``lease.acknowledge()``; if the process exits before that, the
        next caller gets them.
        """
        with self.locked() as notes:
            chosen, remaining = self._choose(count, kind, fits, notes)
            if not chosen:
                return EventBatch([], notes, remaining)
            lease = self._leases.begin()
            popped: list[Event] = []
            try:
                popped = [event for name, event in chosen if lease.add(name)]
            finally:
                if not popped:  # An error occurred, or the files were deleted.
                    lease.requeue_locked()
            return EventBatch(popped, notes, remaining, lease if popped else None)

    def _choose(
        self, count: int, kind: str | None, fits: Callable[[Event], bool], notes: list[str]
    ) -> tuple[list[tuple[str, Event]], int]:
        """Return the events to pop with their file names, and the number of all other events.

        Once ``count`` events are chosen, files whose names come from ``new_id`` are counted without
        being read.
        """
        read = self._reader(notes)
        chosen: list[tuple[str, Event]] = []
        remaining = 0
        for name in message_files.listed(self.folder):
            if len(chosen) == count:
                remaining += message_files.is_id(name[:-3]) or read(self.folder / name) is not None
            elif (event := read(self.folder / name)) is None:
                continue
            elif kind in (None, event.kind) and fits(event):
                chosen.append((name, event))
            else:
                remaining += 1
        return chosen, remaining

    def find(self, event_id: str) -> EventBatch:
        """Return the event with an id, which may have been popped recently; empty if not found.

        Raises:
            UsageError: the id is invalid.
        """
        if not naming.is_mem_id(event_id):
            raise UsageError(
                f"{event_id[:100]!r} is not an event id", "run `memvault inbox list` to see the ids"
            )
        message_files.inside(self._root, self.folder)
        notes: list[str] = []
        read = self._reader(notes)
        for folder in (self.folder, *self._leases.folders()):
            file = folder / f"{event_id}.md"
            if file.is_file() and (event := read(file)) is not None:
                return EventBatch([event], notes)
        return EventBatch([], notes)

    def pop_if_possible(
        self, count: int, kind: str | None, fits: Callable[[Event], bool] = lambda _: True
    ) -> EventBatch:
        """Pop events like ``pop``; a read-only vault is an error only if events match.

        Raises:
            Unwritable: there are matching events that cannot be popped.
        """
        try:
            return self.pop(count, kind, fits)
        except Unwritable as error:
            events, notes, *_ = self.waiting()
            matching = sum(kind in (None, event.kind) for event in events)
            if matching:
                waits = f"{matching} events are waiting" if matching > 1 else "1 event is waiting"
                error.hint = f"{waits} for a call that can write to the vault"
                raise
            return EventBatch([], [*notes, f"no plan was run: {error.message}"], len(events))

    def next_due(self) -> float:
        """Return the seconds until the next scheduled event is due; infinity if there is none."""
        return math.inf

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[str]]:
        """Hold the agent's lock after putting back abandoned leases; yield notes about failures."""
        lock = agent_lock(self._root, self._owner)
        message_files.inside(self._root, self.folder)
        with lock:
            notes = self._leases.requeue_abandoned()
            temporary_files.remove_stale_temp_files(self.folder)
            yield notes

    def _read_all(self, notes: list[str]) -> EventBatch:
        read = self._reader(notes)
        events = (read(self.folder / name) for name in message_files.listed(self.folder))
        return EventBatch([event for event in events if event is not None], notes)

    def _reader(self, notes: list[str]) -> Callable[[Path], Event | None]:
        """Return a function that reads an event file and adds notes about files it rejects.

        A service whose name could be mistaken for the user or an agent is shown as unnamed, with a
        note.
        """
        reserved = reserved_names(self._root)

        def read(path: Path) -> Event | None:
            message = message_files.read_or_warn(self._root, path, "an event", notes.append)
            if message is None:
                return None
            event = _event(message)
            name = str(event.data.get("name", ""))
            if event.kind == SERVICE and is_reserved(name, reserved):
                shown = path.relative_to(self._root).as_posix()
                notes.append(f"{shown} is from a service with the reserved name {name!r}")
                event.data["name"] = UNNAMED
            return event

        return read


def _event(message: message_files.MessageFile) -> Event:
    """Convert a message file to an event.

    An event of an unknown type is from a service; its name is the type or else the file's name.
    """
    given_type = str(message.header.get("type") or SERVICE)
    kind = given_type if given_type in (PLAN, SPACE_MESSAGE, TALK) else SERVICE
    data = {
        key: value
        for key, value in message.header.items()
        if key not in _OWN_KEYS and value is not None
    }
    if kind == SERVICE:
        original = message_files.original_name(message.name)
        data.setdefault("name", original if given_type == kind else given_type)
    data[_BODIES.get(kind, "message")] = message.text
    return Event(message.name, kind, message.timestamp, data)
