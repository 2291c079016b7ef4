"""Inboxes: a folder of events for each agent, with each event handed to exactly one caller.

Delivering an event creates a file and needs no lock. Popping happens under the agent's lock and in
two steps with a lease, because a process may be killed at any time: events are removed for good
only once the caller has them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import clock
from memvault.agents.address import Address, agent_lock
from memvault.agents.messages import message_files
from memvault.errors import Unwritable, UsageError
from memvault.files import atomic
from memvault.vault import naming

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter
from memvault.agents.messages.leases import Lease, Leases, lease_folders
from memvault.agents.messages.service_names import (
    PLAN,
    SERVICE,
    SPACE_MESSAGE,
    TALK,
    UNNAMED,
    is_taken,
    reserved_names,
)

_BODIES = {SPACE_MESSAGE: "content", PLAN: "instruction"}
"""The key of an event's data that is the text of its file, by kind; else ``message``."""
_OWN_KEYS = ("id", "type", "timestamp")


class Event(NamedTuple):
    """An event for an agent."""

    event_id: str
    kind: str
    timestamp: str
    data: dict[str, Any]


class PoppedEvents(NamedTuple):
    """Events that were popped, the number of those left, and the lease of the popped ones."""

    events: list[Event]
    remaining: int
    lease: Lease | None = None


class Inbox:
    """The inbox of one agent.

    With ``only_reads``, events are read without the lock, which is a file, and none can be popped.
    ``warnings`` names files that were in the folder at the last read and are not events.
    """

    def __init__(self, root: Path, owner: Address, only_reads: bool = False) -> None:
        self.folder = owner.folder(root) / "inbox"
        self._only_reads = only_reads
        self.warnings: list[str] = []
        self._taken_names: frozenset[str] = frozenset()
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
        """Write an event to the inbox and return its id; ``changes`` is the writer of its sender.

        Nothing happens if an event of the given id exists or was popped recently. No lock is needed
        or taken.

        Raises:
            StorageError: the event cannot be written.
        """
        name = event_id or message_files.new_id()
        if event_id:
            if not naming.is_mem_id(event_id):
                raise UsageError(f"{event_id!r} cannot be an event's id", "use letters and digits")
            if self._leases.hold(event_id):
                return event_id
        body = _BODIES.get(kind, "message")
        header = {"id": name, "type": kind, "timestamp": timestamp or clock.iso()}
        header |= {key: value for key, value in data.items() if key not in (body, *header)}
        message_files.inside(self._root, self.folder)
        with contextlib.suppress(FileExistsError):
            message_files.write(self.folder, name, header, str(data.get(body, "")), changes)
        return name

    def waiting(self) -> list[Event]:
        """Return the events in the inbox, without the lock."""
        message_files.inside(self._root, self.folder)
        self._taken_names = reserved_names(self._root)
        return self._events()

    def peek(self) -> list[Event]:
        """Return all events without popping them, oldest first."""
        if self._only_reads:
            return self.waiting()
        with self.locked():
            return self._events()

    def pop(
        self,
        count: int = 1,
        kind: str | None = None,
        fits: Callable[[Event], bool] = lambda _: True,
    ) -> PoppedEvents:
        """Pop events, oldest first; each is handed to exactly one caller.

        ``remaining`` counts all events left, of any kind; files with a name made by a delivery are
        counted without being read. The events are removed for good by ``lease.acknowledge()``; if
        the process ends before, they are left for the next caller.
        """
        popped: list[Event] = []
        remaining = 0
        with self.locked(), contextlib.ExitStack() as undoing:
            lease: Lease | None = None
            for name in message_files.listed(self.folder):
                if len(popped) == count:
                    remaining += message_files.is_id(name[:-3]) or self._event(name) is not None
                elif (event := self._event(name)) is None:
                    continue
                elif kind not in (None, event.kind) or not fits(event):
                    remaining += 1
                else:
                    if lease is None:
                        lease = self._leases.begin()
                        undoing.callback(lease.requeue_locked)
                    if lease.add(name):
                        popped.append(event)
            if popped:  # otherwise the files were removed by others
                undoing.pop_all()
        return PoppedEvents(popped, remaining, lease if popped else None)

    def find(self, event_id: str) -> list[Event]:
        """Return the event of an id, waiting or taken out lately; an empty list if there is none.

        Raises:
            UsageError: the id is invalid.
        """
        if not naming.is_mem_id(event_id):
            raise UsageError(f"{event_id[:100]!r} is no event's id", "inbox list names the events")
        self._taken_names = reserved_names(self._root)
        folders = [message_files.inside(self._root, self.folder)]
        for name in ("claims", "popped"):
            folders += lease_folders(self._leases.place(name))
        found = (self._event(f"{event_id}.md", folder) for folder in folders)
        return [event for event in found if event is not None][:1]

    def pop_if_possible(
        self, count: int, kind: str | None, fits: Callable[[Event], bool] = lambda _: True
    ) -> PoppedEvents:
        """Pop events as ``pop`` does; if the vault cannot be written, return none if none match.

        Raises:
            Unwritable: there are matching events, and they cannot be popped.
        """
        try:
            return self.pop(count, kind, fits)
        except Unwritable as error:
            waiting = self._events()
            matching = sum(kind in (None, event.kind) for event in waiting)
            if matching:
                waits = f"{matching} wait" if matching > 1 else "1 waits"
                error.hint = f"{waits} there, for a call that can write to the vault"
                raise
            self.warnings.append(f"no plan was run: {error.message}")
            return PoppedEvents([], len(waiting))

    def next_due(self) -> float:
        """Return the seconds until an event may come that nobody delivers."""
        return math.inf

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the agent's lock, with abandoned leases put back."""
        lock = agent_lock(self._root, self._owner)
        message_files.inside(self._root, self.folder)
        with lock:
            self._taken_names = reserved_names(self._root)
            self.warnings = self._leases.requeue_abandoned()
            atomic.remove_stale_temp_files(self.folder)
            yield

    def _events(self) -> list[Event]:
        read = (self._event(name) for name in message_files.listed(self.folder))
        return [event for event in read if event is not None]

    def _event(self, name: str, folder: Path | None = None) -> Event | None:
        """Read a file of the inbox; a file that is not an event is noted in ``warnings``.

        So is a service whose name could be mistaken for the user or an agent; it is shown as
        unnamed.
        """
        path = (folder or self.folder) / name
        if folder is not None and not path.is_file():
            return None
        letter = message_files.read_or_warn(self._root, path, "an event", self.warnings.append)
        if letter is None:
            return None
        event = _event(letter)
        called = str(event.data.get("name", ""))
        if event.kind == SERVICE and is_taken(called, self._taken_names):
            where = path.relative_to(self._root).as_posix()
            self.warnings.append(
                f"{where} is the event of a service, which may not be called {called!r}"
            )
            event.data["name"] = UNNAMED
        return event


def _event(letter: message_files.MessageFile) -> Event:
    """Convert a message file to an event.

    An event without a type that memvault defines is one of a service, named by the type or the
    file.
    """
    given = str(letter.header.get("type") or SERVICE)
    kind = given if given in (PLAN, SPACE_MESSAGE, TALK) else SERVICE
    data = {
        key: value
        for key, value in letter.header.items()
        if key not in _OWN_KEYS and value is not None
    }
    if kind == SERVICE:
        data.setdefault("name", message_files.original(letter.name) if given == kind else given)
    data[_BODIES.get(kind, "message")] = letter.text
    return Event(letter.name, kind, letter.timestamp, data)
