"""Inboxes: a folder of events for each agent, each event for exactly one taker.

Delivering is creating a file and needs no lock. Taking happens under the
agent's lock and in two steps, because a process may be killed at any moment:
the events move into a folder of ``claims/`` whose lock the taker holds, and
once its caller has them that folder moves to ``popped/``, at one stroke. A
claim whose lock is free belonged to a process that died: its events go back.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.vault import atomic, layout
from memvault.vault.lock import FileLock
from memvault.work import letters
from memvault.work.agents import Address
from memvault.work.locking import agent_lock

__all__ = ["PLAN", "SERVICE", "SPACE_MESSAGE", "TALK", "Claim", "Event", "Inbox", "Popped"]

SPACE_MESSAGE = "space_message"
PLAN = "plan"
SERVICE = "service"
TALK = "talk"
_BODIES = {SPACE_MESSAGE: "content", PLAN: "instruction"}
"""Which value of an event is the file's text; ``message`` for all other types."""
_OWN_KEYS = ("id", "type", "timestamp")
_KEPT = 100
"""How many of the last takings are kept on this machine."""


class Event(NamedTuple):
    """Something that an agent should hear of."""

    event_id: str
    kind: str
    timestamp: str
    data: dict[str, Any]


class Claim:
    """Events taken by a caller that may not have them yet."""

    def __init__(self, folder: Path, lock: FileLock, inbox: Path) -> None:
        self._folder = folder
        self._lock = lock
        self._inbox = inbox

    def settle(self) -> None:
        """The caller has them: let go of them for good."""
        popped = self._folder.parent.parent / "popped"
        with atomic.explained(popped):
            popped.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # someone emptied .memvault meanwhile
                self._folder.rename(popped / self._folder.name)
        self._release()
        earlier = sorted(path.name for path in popped.iterdir())
        for name in earlier[:-_KEPT]:
            shutil.rmtree(popped / name, ignore_errors=True)

    def put_back(self) -> None:
        """The caller will not have them: back into the inbox."""
        with atomic.explained(self._inbox):
            for name in letters.listed(self._folder):
                self._inbox.mkdir(parents=True, exist_ok=True)
                try:
                    atomic.move_new(self._folder / name, self._inbox / name)
                except FileExistsError:  # the same event, delivered again
                    (self._folder / name).unlink()
                except FileNotFoundError:
                    continue
            shutil.rmtree(self._folder, ignore_errors=True)
        self._release()

    def _release(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):
            self._lock.path.unlink()


class Popped(NamedTuple):
    """Events that were taken, how many are still there, and what settles the taking."""

    events: list[Event]
    remaining: int
    claim: Claim | None = None


class Inbox:
    """One agent's events.

    ``due`` is called under the agent's lock before events are looked at; it
    delivers what is due and returns what to say of plans. ``next_due`` says in
    how many seconds that is next.
    ``problems`` names what lay in the folder at the last look and is no event.
    """

    def __init__(
        self,
        root: Path,
        owner: Address,
        due: Callable[[], list[str]] | None = None,
        next_due: Callable[[], float | None] | None = None,
    ) -> None:
        self.folder = letters.inside(root, owner.folder(root) / "inbox")
        self.next_due = next_due
        self.problems: list[str] = []
        self._root = root
        self._owner = owner
        self._due = due

    def deliver(
        self,
        kind: str,
        data: Mapping[str, Any],
        event_id: str | None = None,
        timestamp: str | None = None,
    ) -> str:
        """Put an event into the inbox and return its id.

        Where an event of the given id is there, or was taken lately, nothing
        happens. No lock is needed, and none is taken.

        Raises:
            StorageError: the disk refused.
        """
        name = event_id or letters.new_id()
        if event_id is not None:
            if not layout.is_mem_id(event_id):
                raise UsageError(f"{event_id!r} cannot be an event's id", "use letters and digits")
            if self._was_taken(event_id):
                return event_id
        body = _BODIES.get(kind, "message")
        rest = {key: value for key, value in data.items() if key != body}
        assert not rest.keys() & set(_OWN_KEYS), "an event's data may not use the header's own keys"
        header = {"id": name, "type": kind, "timestamp": timestamp or clock.iso(), **rest}
        letters.inside(self._root, self.folder)
        with contextlib.suppress(FileExistsError):
            letters.write(self.folder, name, header, str(data.get(body, "")))
        return name

    def peek(self, count: int | None = None, kind: str | None = None) -> tuple[list[Event], int]:
        """Look at events without taking them, the oldest first.

        Of a ``kind`` only those; the number is that of all the others there are.
        """
        with self._lock():
            events = self._events()
        found = [event for event in events if kind in (None, event.kind)][:count]
        return found, len(events) - len(found)

    def pop(
        self,
        count: int = 1,
        kind: str | None = None,
        fits: Callable[[Event], bool] | None = None,
    ) -> Popped:
        """Take events, the oldest first; each is handed to exactly one caller.

        ``remaining`` counts all events that stay, whatever their kind. The
        taking holds once ``claim.settle()`` was called; a process that ends
        before that leaves the events to the next taker.
        """
        with self._lock():
            events = self._events()
            wanted = [
                event
                for event in events
                if kind in (None, event.kind) and (fits is None or fits(event))
            ]
            taken, claim = self._claim(wanted, count)
        return Popped(taken, len(events) - len(taken), claim)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """Hold the agent's lock; dead takers' events are back and due plans fired."""
        lock = agent_lock(self._root, self._owner)
        letters.inside(self._root, self.folder)
        self.problems = []
        with lock:
            self._recover(self._private / "claims")
            atomic.sweep(self.folder)
            if self._due is not None:  # where it fails, nothing may be taken: see ``work.firing``
                self.problems += self._due()
            yield

    def _events(self) -> list[Event]:
        found = []
        for name in letters.listed(self.folder):
            try:
                found.append(_event(letters.read(self.folder / name)))
            except FileNotFoundError:
                continue
            except ValueError as error:
                where = (self.folder / name).relative_to(self._root).as_posix()
                self.problems.append(f"{where} is no event: {error}")
        return found

    def _claim(self, wanted: list[Event], count: int) -> tuple[list[Event], Claim | None]:
        """Move up to ``count`` of the events into a claim of this process."""
        if not wanted:
            return [], None
        claims = self._private / "claims"
        name = letters.new_id()
        lock = FileLock(claims / f"{name}.lock")
        taken: list[Event] = []
        with atomic.explained(claims):
            lock.acquire(0)
            (claims / name).mkdir()
        claim = Claim(claims / name, lock, self.folder)
        try:
            for event in wanted:
                if len(taken) == count:
                    break
                with atomic.explained(self.folder), contextlib.suppress(FileNotFoundError):
                    file = f"{event.event_id}.md"
                    _move(self.folder / file, claims / name / file)
                    taken.append(event)
        except BaseException:
            claim.put_back()
            raise
        return taken, claim

    def _recover(self, claims: Path) -> None:
        """Put back what takers left that are no more; the agent's lock is held."""
        with contextlib.suppress(OSError):
            for folder in sorted(path for path in claims.iterdir() if path.suffix != ".lock"):
                lock = FileLock(claims / f"{folder.name}.lock")
                if folder.is_dir() and lock.acquire(0):
                    Claim(folder, lock, self.folder).put_back()
            for path in claims.glob("*.lock"):
                lock = FileLock(path)
                if not path.with_suffix("").exists() and lock.acquire(0):
                    lock.release()
                    path.unlink(missing_ok=True)

    def _was_taken(self, event_id: str) -> bool:
        return any(
            next((self._private / place).glob(f"*/{event_id}.md"), None) is not None
            for place in ("claims", "popped")
        )

    @property
    def _private(self) -> Path:
        return self._owner.private(self._root)


def _move(source: Path, target: Path) -> None:
    """Move an event out of the inbox; a link first, since watchers take 0.5 s to see a rename."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        source.rename(target)
    else:
        source.unlink()


def _event(letter: letters.Letter) -> Event:
    """Make an event of a file; one without a header is a service's, named like the file."""
    kind = str(letter.header.get("type") or SERVICE)
    data = {
        key: value
        for key, value in letter.header.items()
        if key not in _OWN_KEYS and value is not None
    }
    if kind == SERVICE:
        data.setdefault("name", letter.name)
    data[_BODIES.get(kind, "message")] = letter.text
    moment = clock.parse(str(letter.header.get("timestamp", "")))
    return Event(letter.name, kind, clock.iso(moment) if moment else letter.saved, data)
