"""Leases: events on their way from an inbox to a caller that may not have them yet.

A process may be killed at any moment. So the events it takes move into a folder
of ``claims/`` whose lock it holds, and once its caller has them that folder
moves to ``popped/``, at one stroke. A lease whose lock is free belonged to a
process that died: its events go back.

Both folders are of this machine, and a vault may come from anyone: they are
never links, and nothing in them is touched but folders named as leases are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from memvault import plain_files
from memvault.agents.address import Address
from memvault.agents.locking import agent_lock, private
from memvault.agents.messages import files as message_files
from memvault.errors import MemvaultError, StorageError
from memvault.vault import atomic
from memvault.vault.lock import FileLock

_KEPT = 100
"""How many of the last takings are kept on this machine."""
_PATIENCE = 2.0
"""Seconds to wait for the agent's lock before events are left to the next look."""


class Leases:
    """The leases of one agent. Whoever begins, fills or recovers them holds the agent's lock."""

    def __init__(self, root: Path, owner: Address, inbox: Path) -> None:
        self.inbox = inbox
        self.root = root
        self.owner = owner

    def begin(self) -> Lease:
        """Make an empty lease of this process; errors as for ``place``."""
        self.place("popped")  # what cannot be settled is better not taken
        folder = self.place("claims") / message_files.new_id()
        lock = FileLock(folder.with_name(f"{folder.name}.lock"))
        lease = Lease(self, folder, lock)
        try:
            with _mapped(folder):
                lock.acquire(0)
                folder.mkdir()
        except BaseException:
            lease.requeue_locked()
            raise
        return lease

    def requeue_abandoned(self) -> list[str]:
        """Put back what takers left that are no more; return what to say of the rest."""
        leases = self.place("claims")
        notes = []
        for folder in _folders(leases):
            lock = FileLock(leases / f"{folder.name}.lock")
            try:
                with _mapped(lock.path):
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
        """Say whether an event of that id was taken lately."""
        return any(
            os.path.lexists(folder / f"{event_id}.md")
            for name in ("claims", "popped")  # in the order in which events pass through them
            for folder in _folders(self.place(name))
        )

    def place(self, name: str) -> Path:
        """Return the folder ``claims`` or ``popped``; it may not be there yet.

        Raises:
            Refused: a link or a file is in the way.
            StorageError: the disk refused.
        """
        return message_files.inside(self.root, private(self.root, self.owner) / name)


class Lease:
    """Events taken by a caller that may not have them yet."""

    def __init__(self, home: Leases, folder: Path, lock: FileLock) -> None:
        self._home = home
        self._folder = folder
        self._lock = lock

    def add(self, name: str) -> bool:
        """Move an event's file out of the inbox; say whether it was still there."""
        try:
            with atomic.map_os_errors(self._home.inbox):
                _move(self._home.inbox / name, self._folder / name)
        except FileNotFoundError:
            return False
        return True

    def acknowledge(self) -> None:
        """The caller has them: let go of them for good.

        Raises:
            MemvaultError: that failed, and they come a second time.
        """
        try:
            popped = self._home.place("popped")
            with _mapped(popped):
                popped.mkdir(parents=True, exist_ok=True)
                with contextlib.suppress(FileNotFoundError):  # someone emptied .memvault meanwhile
                    self._folder.rename(popped / self._folder.name)
        finally:
            self._release()
        for folder in _folders(popped)[:-_KEPT]:
            from memvault.vault import walk

            walk.remove(folder)

    def requeue(self) -> None:
        """The caller will not have them: back into the inbox, by the next look at the latest."""
        home = self._home
        try:
            with (
                contextlib.suppress(MemvaultError, OSError),
                agent_lock(home.root, home.owner, _PATIENCE),
            ):
                self._restore()
        finally:
            self._release()

    def requeue_locked(self) -> None:
        """Put them back, with the agent's lock held already.

        Raises:
            MemvaultError: that failed; they are where they were.
        """
        try:
            self._restore()
        finally:
            self._release()

    def _restore(self) -> None:
        """Move the events back into the inbox, whose lock the caller holds."""
        inbox = message_files.inside(self._home.root, self._home.inbox)
        folder = message_files.inside(self._home.root, self._folder)
        with _mapped(folder):
            for name in message_files.listed(folder):
                _move_back(folder / name, inbox)
            with contextlib.suppress(OSError):  # gone, or something that is no event is in it
                folder.rmdir()

    def _release(self) -> None:
        self._lock.release()
        with contextlib.suppress(OSError):
            self._lock.path.unlink()


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[None]:
    """Turn all that the operating system says into a ``StorageError``."""
    try:
        with atomic.map_os_errors(path):
            yield
    except (FileExistsError, FileNotFoundError) as error:
        raise StorageError(f"{error.strerror}: {path}", "look at that folder, or remove it") from (
            error
        )


def _folders(place: Path) -> list[Path]:
    """Return the folders of leases in a place, the oldest first."""
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
    """Move an event out of the inbox; a link first, since watchers take 0.5 s to see a rename."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        source.rename(target)
    else:
        source.unlink()


def _move_back(source: Path, inbox: Path) -> None:
    """Move an event into the inbox; under another name where its own has a new event."""
    target = inbox / source.name
    while True:
        try:
            atomic.move_exclusive(source, target)
        except FileNotFoundError:
            return
        except FileExistsError:
            if _same(source, target):  # the same event, delivered again or half moved
                source.unlink(missing_ok=True)
                return
            target = inbox / f"{message_files.another(source.stem)}.md"
        else:
            return


def _same(one: Path, other: Path) -> bool:
    try:
        return plain_files.read(one) == plain_files.read(other)
    except OSError:
        return False
