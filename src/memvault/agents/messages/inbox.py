"""Inboxes: a folder of events for each agent, each event for exactly one taker.

Delivering is creating a file and needs no lock. Taking happens under the
agent's lock and in two steps (``leases``), because a process may be killed
at any moment: only once its caller has them are events gone for good.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.locking import agent_lock
from memvault.agents.messages import files as message_files
from memvault.agents.messages import services
from memvault.agents.messages.leases import Lease, Leases
from memvault.agents.messages.services import PLAN, SERVICE, SPACE_MESSAGE, TALK
from memvault.errors import Unwritable, UsageError
from memvault.vault import atomic, layout

if TYPE_CHECKING:
    from memvault.vault.changes import VaultWriter

_BODIES = {SPACE_MESSAGE: "content", PLAN: "instruction"}
"""Which value of an event is the file's text; ``message`` for all other types."""
_OWN_KEYS = ("id", "type", "timestamp")


class Event(NamedTuple):
    """Something that an agent should hear of."""

    event_id: str
    kind: str
    timestamp: str
    data: dict[str, Any]


class PoppedEvents(NamedTuple):
    """Events that were taken, how many are still there, and what settles the taking."""

    events: list[Event]
    remaining: int
    lease: Lease | None = None


class Inbox:
    """One agent's events.

    ``due`` is called under the agent's lock before events are looked at; it
    delivers what is due and returns what to say of plans. ``next_due`` says in
    how many seconds that is next.
    Who ``only_reads`` looks without the lock, which is a file, and takes nothing.
    ``problems`` names what lay in the folder at the last look and is no event.
    """

    def __init__(
        self,
        root: Path,
        owner: Address,
        due: Callable[[], list[str]] = list,
        next_due: Callable[[], float] = lambda: math.inf,
        only_reads: bool = False,
    ) -> None:
        self.folder = owner.folder(root) / "inbox"
        self._only_reads = only_reads
        self.next_due = next_due
        self.warnings: list[str] = []
        self._taken_names: frozenset[str] = frozenset()
        self._root = root
        self._owner = owner
        self._due = due
        self._leases = Leases(root, owner, self.folder)

    def deliver(
        self,
        kind: str,
        data: Mapping[str, Any],
        event_id: str | None = None,
        timestamp: str | None = None,
        changes: VaultWriter | None = None,
    ) -> str:
        """Put an event into the inbox and return its id; ``changes`` are those of who sends it.

        Where an event of the given id is there, or was taken lately, nothing
        happens. No lock is needed, and none is taken.

        Raises:
            StorageError: the disk refused.
        """
        name = event_id or message_files.new_id()
        if event_id:
            if not layout.is_mem_id(event_id):
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
        """Look at what lies there without a lock, and without having due plans delivered."""
        message_files.inside(self._root, self.folder)
        self._taken_names = services.reserved_names(self._root)
        read = [self._event(name) for name in message_files.listed(self.folder)]
        return [event for event in read if event is not None]

    def peek(self) -> list[Event]:
        """Look at all events without taking them, the oldest first."""
        if self._only_reads:
            return self.waiting()
        with self._lock():
            read = [self._event(name) for name in message_files.listed(self.folder)]
        return [event for event in read if event is not None]

    def pop(
        self,
        count: int = 1,
        kind: str | None = None,
        fits: Callable[[Event], bool] = lambda _: True,
    ) -> PoppedEvents:
        """Take events, the oldest first; each is handed to exactly one caller.

        ``remaining`` counts all events that stay, whatever their kind; files
        that deliveries named are counted unread. The taking holds once
        ``lease.settle()`` was called; a process that ends before that leaves
        the events to the next taker.
        """
        taken: list[Event] = []
        left = 0
        with self._lock(), contextlib.ExitStack() as undoing:
            lease: Lease | None = None
            for name in message_files.listed(self.folder):
                if len(taken) == count:
                    left += message_files.is_id(name[:-3]) or self._event(name) is not None
                elif (event := self._event(name)) is None:
                    continue
                elif kind not in (None, event.kind) or not fits(event):
                    left += 1
                else:
                    if lease is None:
                        lease = self._leases.begin()
                        undoing.callback(lease.requeue_locked)
                    if lease.add(name):
                        taken.append(event)
            if taken:  # else others took the files away by hand
                undoing.pop_all()
        return PoppedEvents(taken, left, lease if taken else None)

    def pop_if_possible(self, count: int, kind: str | None) -> PoppedEvents:
        """Take events as ``pop`` does; where nothing can be written, none if none is wanted.

        Raises:
            Unwritable: there are some, and they cannot be taken.
        """
        try:
            return self.pop(count, kind)
        except Unwritable as error:
            names = message_files.listed(self.folder)
            waiting = [event for event in map(self._event, names) if event is not None]
            wanted = sum(kind in (None, event.kind) for event in waiting)
            if wanted:
                waits = f"{wanted} wait" if wanted > 1 else "1 waits"
                error.hint = f"{waits} there, for a call that can write to the vault"
                raise
            self.warnings.append(f"no plan was run: {error.message}")
            return PoppedEvents([], len(waiting))

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the agent's lock; dead takers' events are back and due plans fired."""
        lock = agent_lock(self._root, self._owner)
        message_files.inside(self._root, self.folder)
        with lock:
            self._taken_names = services.reserved_names(self._root)
            self.warnings = self._leases.requeue_abandoned()
            atomic.remove_stale_temp_files(self.folder)
            self.warnings += self._due()  # where it fails, nothing may be taken: ``plans.firing``
            yield

    def _event(self, name: str) -> Event | None:
        """Read a file of the inbox; what is no event is named in ``problems``.

        So is a service that would pass for somebody; it is told as one without a name.
        """
        path = self.folder / name
        letter = message_files.read_or_note(self._root, path, "an event", self.warnings)
        if letter is None:
            return None
        event = _event(letter)
        called = str(event.data.get("name", ""))
        if event.kind == SERVICE and services.is_taken(called, self._taken_names):
            where = path.relative_to(self._root).as_posix()
            self.warnings.append(
                f"{where} is the event of a service, which may not be called {called!r}"
            )
            event.data["name"] = services.UNNAMED
        return event


def _event(letter: message_files.MessageFile) -> Event:
    """Make an event of a file.

    What has no type that memvault gives is a service's, named like the type or the file.
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
