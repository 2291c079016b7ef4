"""Lease events to a caller until it acknowledges them.

A lease is a folder with its own lock, held by the process that has the events. The next caller puts
back the leases of killed processes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from memvault.agents.address import Address, agent_lock, private_folder_of
from memvault.agents.messages import message_files
from memvault.errors import MemvaultError, StorageError
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.vault.private_folder import existing_private

_LEASES, _POPPED = "leases", "popped"
"""The folders of held leases, and of the most recently acknowledged leases."""
_MAX_POPPED = 100
"""Number of acknowledged leases to keep on this machine."""
_LOCK_TIMEOUT = 2.0
"""Seconds to wait for the agent's lock; after that, the next call puts the events back."""


class Leases:
    """The leases of one agent, whose lock must be held to begin, fill or recover them."""

    def __init__(self, root: Path, owner: Address, inbox: Path) -> None:
        self.inbox = inbox
        self.root = root
        self.owner = owner

    def begin(self) -> Lease:
        """Create an empty lease held by this process.

        Raises:
            Refused: a part of the path is a link or a file.
            StorageError: the vault cannot be written.
        """
        self.folder(_POPPED)  # Fail before moving events that could not be acknowledged.
        folder = self.folder(_LEASES) / message_files.new_id()
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
        """Return the events leased by dead processes to the inbox; return notes about failures."""
        leases = self.folder(_LEASES)
        notes = []
        for folder in _lease_folders(leases):
            lock = FileLock(leases / f"{folder.name}.lock")
            try:
                with _map_all_os_errors(lock.path):
                    is_abandoned = lock.acquire(0)
                if is_abandoned:
                    Lease(self, folder, lock).requeue_locked()
            except MemvaultError as error:
                notes.append(f"events leased by a dead process were not returned: {error.message}")
        with contextlib.suppress(OSError):
            for path in leases.glob("*.lock"):
                lock = FileLock(path)
                name = path.name.removesuffix(".lock")
                if message_files.is_id(name) and not (leases / name).exists() and lock.acquire(0):
                    lock.release()
                    path.unlink(missing_ok=True)
        return notes

    def has_any(self) -> bool:
        """Return whether any events are leased, even by a dead process."""
        name = self.owner.folder(Path()) / _LEASES
        folder = existing_private(self.root, name.as_posix())
        return folder is not None and bool(_lease_folders(folder))

    def contains(self, event_id: str) -> bool:
        """Return whether an event with this id is leased or was popped recently."""
        return any(os.path.lexists(folder / f"{event_id}.md") for folder in self.folders())

    def folders(self) -> Iterator[Path]:
        """Yield the folders of events that are leased or were popped recently."""
        for name in (_LEASES, _POPPED):  # Events move through them in this order.
            yield from _lease_folders(self.folder(name))

    def folder(self, name: str) -> Path:
        """Return the folder ``leases`` or ``popped``, which may not exist yet.

        Raises:
            Refused: a part of the path is a link or a file.
            StorageError: the vault cannot be written.
        """
        return message_files.inside(self.root, private_folder_of(self.root, self.owner) / name)


class Lease:
    """A lease: events handed to a caller but not acknowledged."""

    def __init__(self, leases: Leases, folder: Path, lock: FileLock) -> None:
        self._leases = leases
        self._folder = folder
        self._lock = lock

    def add(self, name: str) -> bool:
        """Move an event's file from the inbox to the lease, and return whether it still existed."""
        try:
            with atomic.map_os_errors(self._leases.inbox):
                _move(self._leases.inbox / name, self._folder / name)
        except FileNotFoundError:
            return False
        return True

    def acknowledge(self) -> None:
        """Record that the caller has received the events, which deletes them.

        Raises:
            MemvaultError: the record could not be written; the events will be handed out again.
        """
        try:
            popped = self._leases.folder(_POPPED)
            with _map_all_os_errors(popped):
                atomic.make_folders(popped)
                with contextlib.suppress(FileNotFoundError):  # .memvault was emptied.
                    self._folder.rename(popped / self._folder.name)
        finally:
            self._release()
        for folder in _lease_folders(popped)[:-_MAX_POPPED]:
            import shutil

            with contextlib.suppress(RecursionError):
                shutil.rmtree(folder, ignore_errors=True)

    def requeue(self) -> None:
        """Put the events back, immediately or when the inbox is next read."""
        leases = self._leases
        try:
            with (
                contextlib.suppress(MemvaultError, OSError),
                agent_lock(leases.root, leases.owner, _LOCK_TIMEOUT),
            ):
                self._restore()
        finally:
            self._release()

    def requeue_locked(self) -> None:
        """Put the events back; the caller must hold the agent's lock.

        Raises:
            MemvaultError: a file could not be moved; it and later events stay in the lease.
        """
        try:
            self._restore()
        finally:
            self._release()

    def _restore(self) -> None:
        """Move the events back to the inbox; the caller must hold the agent's lock."""
        inbox = message_files.inside(self._leases.root, self._leases.inbox)
        folder = message_files.inside(self._leases.root, self._folder)
        with _map_all_os_errors(folder):
            for name in message_files.listed(folder):
                _move_back(folder / name, inbox)
            # The folder is missing, or contains a file that is not an event.
            with contextlib.suppress(OSError):
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
        raise StorageError(
            f"{error.strerror}: {path}", "check the permissions of that folder, or remove it"
        ) from (error)


def _lease_folders(folder: Path) -> list[Path]:
    """Return the lease folders in a folder, oldest first."""
    try:
        with atomic.map_os_errors(folder), os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if message_files.is_id(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []
    return [folder / name for name in sorted(names)]


def _move(source: Path, target: Path) -> None:
    """Move an event out of the inbox with a hard link, because renames are reported 0.5 s late."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links, or another mount
        atomic.move_exclusive(source, target)
    else:
        source.unlink()


def _move_back(source: Path, inbox: Path) -> None:
    """Move an event to the inbox, under another name if its own is taken."""
    target = inbox / source.name
    while True:
        try:
            atomic.move_exclusive(source, target)
        except FileNotFoundError:
            return
        except FileExistsError:
            if _same_bytes(source, target):  # The same event, delivered again or partly moved.
                source.unlink(missing_ok=True)
                return
            target = inbox / f"{message_files.alternative_name(source.stem)}.md"
        else:
            return


def _same_bytes(first: Path, second: Path) -> bool:
    try:
        return plain_files.read(first) == plain_files.read(second)
    except OSError:
        return False
