"""Inboxes: a folder of events for each agent, with each event handed to exactly one caller.

Delivering an event creates a file and needs no lock. Popping happens under the agent's lock and in
two steps with a lease, because a process may be killed at any time: events are removed for good
only once the caller has them.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault import clock
from memvault.agents.address import PRIMARY, USER, Address, agent_lock, known, private
from memvault.agents.messages import message_files
from memvault.errors import MemvaultError, StorageError, Unwritable, UsageError
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.vault import paths
from memvault.vault.file_names import normalize

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter


SPACE_MESSAGE = "space_message"
PLAN = "plan"
SERVICE = "service"
TALK = "talk"
UNNAMED = "unnamed"
"""The name shown for a service that was found under a name it may not have."""
_TAKEN = (USER, "agent", "main", PRIMARY)
_SENDERS = {TALK: "from", SPACE_MESSAGE: "senderName", PLAN: "planName"}
"""The key of an event's data that names its sender, by kind."""


def checked(root: Path, name: str) -> str:
    """Return a service's name without surrounding whitespace.

    Raises:
        UsageError: it is empty, has invisible characters, or could be mistaken for the user or an
            agent of the vault.
    """
    service = name.strip()
    if not service:
        raise UsageError("The hook's name is empty", "memvault inbox push NAME")
    if not service.isprintable():
        raise UsageError("The hook's name has invisible characters", "use letters and digits")
    if is_taken(service, reserved_names(root)):
        raise UsageError(
            f"{service!r} is not a service name: it would pass for a person or an agent",
            "name it by what it is, such as ci or deployed",
        )
    return service


def reserved_names(root: Path) -> frozenset[str]:
    """Return the names of the user and of the vault's agents, in the form used for comparison."""
    return frozenset((*_TAKEN, *map(_comparable, known(root))))


def is_taken(name: str, names: frozenset[str]) -> bool:
    """Return whether a name could be mistaken for one of ``names``, or for a brain of theirs."""
    return _comparable(name.partition("/")[0]) in names


def _comparable(name: str) -> str:
    """Return a name in the form used for comparison: ignoring case and invisible characters."""
    seen = "".join(char for char in normalize("NFKC", name) if char.isprintable())
    return seen.casefold().strip()


def sender_label(kind: str, data: Mapping[str, Any]) -> str:
    """Return the sender of an event in one line; services are marked as such."""
    if kind not in _SENDERS:
        return " ".join(f"{SERVICE} {data.get('name', UNNAMED)}".split())
    return " ".join(str(data.get(_SENDERS[kind]) or kind).split())


_MAX_POPPED = 100
"""Number of the latest acknowledged leases kept on this machine."""
_LOCK_TIMEOUT = 2.0
"""Seconds to wait for the agent's lock before the events are left for the next call to put back."""


class Leases:
    """The leases of one agent; its lock is held while they are begun, filled or recovered."""

    def __init__(self, root: Path, owner: Address, inbox: Path) -> None:
        self.inbox = inbox
        self.root = root
        self.owner = owner

    def begin(self) -> Lease:
        """Create an empty lease of this process; raises as ``place`` does."""
        self.place("popped")  # fail before taking events that could not be acknowledged
        folder = self.place("claims") / message_files.new_id()
        lock = FileLock(folder.with_name(f"{folder.name}.lock"))
        lease = Lease(self, folder, lock)
        try:
            with _map_all_os_errors(folder):
                lock.acquire(0)
                atomic.make_folders(folder)
        except BaseException:
            lease.requeue_locked()
            raise
        return lease

    def requeue_abandoned(self) -> list[str]:
        """Put back the leases of processes that ended, and return notes about failures."""
        leases = self.place("claims")
        notes = []
        for folder in _lease_folders(leases):
            lock = FileLock(leases / f"{folder.name}.lock")
            try:
                with _map_all_os_errors(lock.path):
                    free = lock.acquire(0)
                if free:
                    Lease(self, folder, lock).requeue_locked()
            except MemvaultError as error:
                notes.append(f"events that were taken and not read are not back: {error.message}")
        with contextlib.suppress(OSError):
            for path in leases.glob("*.lock"):
                lock = FileLock(path)
                name = path.name.removesuffix(".lock")
                if message_files.is_id(name) and not (leases / name).exists() and lock.acquire(0):
                    lock.release()
                    path.unlink(missing_ok=True)
        return notes

    def hold(self, event_id: str) -> bool:
        """Return whether an event of that id is leased or was popped recently."""
        return any(
            os.path.lexists(folder / f"{event_id}.md")
            for name in ("claims", "popped")  # in the order in which events pass through them
            for folder in _lease_folders(self.place(name))
        )

    def place(self, name: str) -> Path:
        """Return the folder ``claims`` or ``popped``, which may not exist yet.

        Raises:
            Refused: a part of the path is a link or a file.
            StorageError: the vault cannot be written.
        """
        return message_files.inside(self.root, private(self.root, self.owner) / name)


class Lease:
    """A lease: events handed to a caller but not acknowledged."""

    def __init__(self, home: Leases, folder: Path, lock: FileLock) -> None:
        self._home = home
        self._folder = folder
        self._lock = lock

    def add(self, name: str) -> bool:
        """Move an event's file from the inbox to the lease, and return whether it still existed."""
        try:
            with atomic.map_os_errors(self._home.inbox):
                _move(self._home.inbox / name, self._folder / name)
        except FileNotFoundError:
            return False
        return True

    def acknowledge(self) -> None:
        """Acknowledge that the caller has the events, which removes them for good.

        Raises:
            MemvaultError: that failed, and the events will be handed out again.
        """
        try:
            popped = self._home.place("popped")
            with _map_all_os_errors(popped):
                atomic.make_folders(popped)
                with contextlib.suppress(FileNotFoundError):  # .memvault was emptied
                    self._folder.rename(popped / self._folder.name)
        finally:
            self._release()
        for folder in _lease_folders(popped)[:-_MAX_POPPED]:
            import shutil

            with contextlib.suppress(RecursionError):
                shutil.rmtree(folder, ignore_errors=True)

    def requeue(self) -> None:
        """Put the events back, now or at the latest when the inbox is next read."""
        home = self._home
        try:
            with (
                contextlib.suppress(MemvaultError, OSError),
                agent_lock(home.root, home.owner, _LOCK_TIMEOUT),
            ):
                self._restore()
        finally:
            self._release()

    def requeue_locked(self) -> None:
        """Put the events back; the caller holds the agent's lock.

        Raises:
            MemvaultError: that failed; the events are where they were.
        """
        try:
            self._restore()
        finally:
            self._release()

    def _restore(self) -> None:
        """Move the events back to the inbox; the caller holds the agent's lock."""
        inbox = message_files.inside(self._home.root, self._home.inbox)
        folder = message_files.inside(self._home.root, self._folder)
        with _map_all_os_errors(folder):
            for name in message_files.listed(folder):
                _move_back(folder / name, inbox)
            with contextlib.suppress(OSError):  # missing, or with a file in it that is not an event
                folder.rmdir()

    def _release(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):
            self._lock.path.unlink()


@contextlib.contextmanager
def _map_all_os_errors(path: Path) -> Iterator[None]:
    """Convert every ``OSError`` to a ``StorageError``."""
    try:
        with atomic.map_os_errors(path):
            yield
    except (FileExistsError, FileNotFoundError) as error:
        raise StorageError(f"{error.strerror}: {path}", "look at that folder, or remove it") from (
            error
        )


def _lease_folders(place: Path) -> list[Path]:
    """Return the folders of leases in a folder, oldest first."""
    try:
        with atomic.map_os_errors(place), os.scandir(place) as entries:
            names = [
                entry.name
                for entry in entries
                if message_files.is_id(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    return [place / name for name in sorted(names)]


def _move(source: Path, target: Path) -> None:
    """Move an event out of the inbox, by a link: watchers take 0.5 s to report a rename."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links, or another mount
        atomic.move_exclusive(source, target)
    else:
        source.unlink()


def _move_back(source: Path, inbox: Path) -> None:
    """Move an event to the inbox, under another name if a new event has its name."""
    target = inbox / source.name
    while True:
        try:
            atomic.move_exclusive(source, target)
        except FileNotFoundError:
            return
        except FileExistsError:
            if _same_bytes(source, target):  # the same event, delivered again or half moved
                source.unlink(missing_ok=True)
                return
            target = inbox / f"{message_files.another(source.stem)}.md"
        else:
            return


def _same_bytes(one: Path, other: Path) -> bool:
    try:
        return plain_files.read(one) == plain_files.read(other)
    except OSError:
        return False


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
            if not paths.is_mem_id(event_id):
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
        if not paths.is_mem_id(event_id):
            raise UsageError(f"{event_id[:100]!r} is no event's id", "inbox list names the events")
        self._taken_names = reserved_names(self._root)
        folders = [message_files.inside(self._root, self.folder)]
        for name in ("claims", "popped"):
            folders += _lease_folders(self._leases.place(name))
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
