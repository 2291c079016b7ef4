"""Write a vault's files, keeping their previous bytes and journaling each change.

Tools change files only through this module. Each change stores the previous bytes as a revision or
in the trash, and is then recorded in the journal. If the journal cannot be written, the change
stands and a warning reports it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from memvault import clock
from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.attributes import Attributes
from memvault.settings.vault_settings import Settings
from memvault.store.change_set import ChangeSet, FileRef, changed_meanwhile, missing_as_not_found
from memvault.store.journal import FileChange, Journal, JournalEntry, Kind
from memvault.store.revisions import Revisions
from memvault.store.secret_policy import CheckedBytes, SecretPolicy, secret_warning
from memvault.vault.document import etag
from memvault.vault.naming import derived_id
from memvault.vault.private_folder import MOVE_INTENT, private_folder

if TYPE_CHECKING:
    from memvault.store.trash import Trash, TrashedFile

_DAY = 24 * 3_600.0
_MAX_JOURNAL_BYTES = 16 * 1024 * 1024
"""Maximum size of the journal in bytes."""


class VaultWriter:
    """Writes the vault's files for one change set; paths are relative to the vault."""

    def __init__(
        self,
        root: Path,
        history: Revisions,
        trash: Trash,
        change_set: ChangeSet,
        settings: Settings,
        reverts: str = "",
    ) -> None:
        """Create a writer.

        ``reverts`` is the id of the change to undo, if any: its files get their earlier bytes,
        which are not checked for secrets.
        """
        self.root = root
        self.detector = settings.detector
        self.policy = SecretPolicy(settings, restores=bool(reverts))
        self._settings = settings
        self._history = history
        self._trash = trash
        self._change_set = change_set
        self._reverts = reverts

    @cached_property
    def journal(self) -> Journal:
        """The journal, limited to the changes that the call may see."""
        return Journal(self.root, self._change_set.can_see)

    def create(
        self,
        paths: Iterable[str],
        data: bytes,
        subject: FileRef,
        like: Attributes | None = None,
    ) -> str:
        """Write a new file under the first free name, and return its path.

        The new file gets the attributes ``like``.

        Raises:
            FileExistsError: all names are taken.
            Refused: the data is too large or contains secrets (see ``SecretPolicy.check``).
            StorageError: the file cannot be written.
        """
        checked = self.policy.check(b"", data)
        created = atomic.create_one_of((self.root / path for path in paths), data, like)
        path = created.relative_to(self.root).as_posix()
        named = subject if subject.mem_id else subject._replace(mem_id=derived_id(path))
        self._record_bytes("created", path, named, "", checked)
        return path

    def replace(
        self,
        path: str,
        before: bytes,
        after: bytes,
        subject: FileRef,
        times: tuple[int, int] | None = None,
    ) -> str:
        """Replace a file's bytes, and return the name of the revision with the old ones.

        The file's times are set to ``times`` (see ``atomic.replace``).

        Editors do not lock files. The file is therefore read again just before it is replaced, and
        kept as a hard link, so text that an editor writes into the old file later ends up in the
        revision.

        Raises:
            Conflict: the file's bytes differ from ``before``.
            NotFound: the file is missing.
            Refused: the new data is too large or contains secrets (see ``SecretPolicy.check``).
            StorageError: the file cannot be written; the old file is unchanged.
        """
        checked = self.policy.check(before, after)
        revision = self.replace_unrecorded(path, before, after, subject.mem_id, times)
        self._record_bytes("changed", path, subject, revision, checked)
        return revision

    def replace_unrecorded(
        self,
        path: str,
        before: bytes,
        after: bytes,
        mem_id: str,
        times: tuple[int, int] | None = None,
    ) -> str:
        """Replace a file's bytes like ``replace``, without recording the change for undo."""
        file = self.root / path
        with contextlib.ExitStack() as saving:
            saved: list[str] = []

            def save_and_check() -> None:
                saved.append(saving.enter_context(self._history.saved(mem_id, before, file)))
                self._require_unchanged(path, before)

            with missing_as_not_found(path):
                atomic.replace(file, after, save_and_check, times)
            return saved[0]

    def _require_unchanged(self, path: str, before: bytes) -> None:
        """Raise ``Conflict`` if a file's bytes are no longer ``before``."""
        if (now := plain_files.read(self.root / path)) != before:
            raise changed_meanwhile(path, now, etag(before))

    def remove(self, path: str, subject: FileRef) -> bool:
        """Delete a file, storing its bytes as a revision, and return whether it existed.

        Raises:
            Conflict: the file was changed during the call.
            StorageError: the file cannot be deleted.
        """
        file = self.root / path
        with atomic.map_os_errors(path), contextlib.suppress(FileNotFoundError):
            data = plain_files.read(file)
            with self._history.saved(subject.mem_id, data, file) as revision:
                self._require_unchanged(path, data)
                file.unlink()
            self._record("removed", path, subject, revision, "")
            return True
        return False

    def record_edit(
        self,
        path: str,
        before: bytes,
        after: bytes | None,
        subject: FileRef,
        like: Attributes,
    ) -> None:
        """Record a change made in the user's editor, and store the file's previous bytes.

        ``after`` is None if the file was deleted; ``like`` is its previous attributes. The vault
        lock must be held.

        Raises:
            StorageError: the revision cannot be written.
        """
        with self._history.saved(subject.mem_id, before, like=like) as revision:
            pass
        if after is None:
            self._record("removed", path, subject, revision, "")
        else:
            checked = self.policy.inspect(before, after)
            self._record_bytes("changed", path, subject, revision, checked)

    def discard(self, path: str, subject: FileRef) -> TrashedFile:
        """Move a file to the trash.

        Raises:
            FileNotFoundError: the file is missing.
            StorageError: the file cannot be moved.
        """
        item = self._trash.discard(path)
        after = ""
        with contextlib.suppress(OSError):
            after = etag(plain_files.read(item.file))
        self._record("forgotten", path, subject, item.folder, after)
        return item

    def restore(self, item: TrashedFile, paths: Iterable[str], subject: FileRef) -> str:
        """Move a file out of the trash to the first path that is free, and return that path.

        Raises:
            FileExistsError: no path is free.
            StorageError: the file cannot be moved.
        """
        data = plain_files.read(item.file)
        path = self._trash.put_back(item, paths)
        self._record("restored", path, subject, item.folder, etag(data))
        return path

    def move(
        self,
        source: str,
        targets: Iterable[str],
        before: bytes,
        after: bytes,
        subject: FileRef,
        times: tuple[int, int] | None = None,
    ) -> tuple[str, str]:
        """Write new bytes at the first free path and delete the old file, under the vault lock.

        Returns the new path, and the revision with the old bytes. The new file's times are set to
        ``times`` (see ``atomic.replace``). If the process is killed in between, ``complete_move``
        deletes the old file.

        Raises:
            Conflict: no path is free, or the old file has changed.
            NotFound: the old file is missing.
            Refused: the new data is too large or contains secrets (see ``SecretPolicy.check``).
            StorageError: a file cannot be written; the old file is unchanged.
        """
        from memvault.store.moves import FileMove

        checked = self.policy.check(before, after)
        check_unchanged = partial(self._require_unchanged, source, before)
        move = FileMove(self.root, source, before, after, check_unchanged)
        with contextlib.ExitStack() as cleanup:
            with missing_as_not_found(source), atomic.map_os_errors(source):
                saved = self._history.saved(subject.mem_id, before, self.root / source)
                # Registered first, so it runs after a failed move's revision is deleted.
                cleanup.callback(self.complete_move)
                revision = cleanup.enter_context(saved)
            target = move.run(targets, times)
        self._record_bytes("created", target, subject, "", checked)
        self._record("removed", source, subject, revision, "")
        return target, revision

    def complete_move(self) -> None:
        """Complete an interrupted move by deleting the old file, under the vault lock.

        Raises:
            StorageError: the old file cannot be deleted.
        """
        if not os.path.lexists(self.root / MOVE_INTENT):
            return
        from memvault.store.moves import complete_move

        complete_move(self.root, self._history, self._settings.encoding)

    def _record_bytes(
        self, kind: Kind, path: str, subject: FileRef, backup: str, checked: CheckedBytes
    ) -> None:
        """Record a change to a file's bytes, and warn of secrets in them."""
        self._record(kind, path, subject, backup, etag(checked.data))
        if checked.secrets:
            self._change_set.warnings.append(secret_warning(path, checked.secrets))

    def _record(self, kind: Kind, path: str, subject: FileRef, before: str, after: str) -> None:
        change_set = self._change_set
        title = self._settings.detector.masked(subject.title)
        file_change = FileChange(kind, path, subject.mem_id, title, before, after)
        change_set.files.append(file_change)
        change = JournalEntry(
            change_set.change_id,
            clock.iso(),
            change_set.tool,
            change_set.agent,
            (file_change,),
            self._reverts,
        )
        try:
            private_folder(self.root)
            if change_set.journal_segment is None:
                change_set.journal_segment = self.journal.current_segment()
            self.journal.add(change_set.journal_segment, change)
        except MemvaultError as error:
            change_set.is_recorded = False
            change_set.warnings.append(
                f"{path} was written but is not in the journal, so undo cannot revert it: "
                f"{error.message}"
            )
        else:
            self._prune()
        if not self._settings.git.worktrees or not _may_be_linked_worktree(self.root):
            return
        from memvault.store import worktree_copies

        if reason := worktree_copies.update(self.root, path):
            change_set.warnings.append(
                f"{path} is not copied to the repository, so deleting the worktree would lose it: "
                f"{reason}"
            )

    def _prune(self) -> None:
        """Delete expired revisions, trash and journal segments, at most once a day."""
        marker = self.root / ".memvault" / "journal" / "pruned"
        with contextlib.suppress(OSError, MemvaultError):
            if not marker.exists() or not 0 <= time.time() - marker.stat().st_mtime <= _DAY:
                atomic.write(marker, b"", durable=False)
                self._history.prune()
                self._trash.prune()
                self.journal.prune(self._history.limits.days, _MAX_JOURNAL_BYTES)


def _may_be_linked_worktree(root: Path) -> bool:
    """Return whether the nearest ``.git`` above a vault is a file, as in a linked worktree."""
    for folder in (root, *root.parents):
        if os.path.lexists(folder / ".git"):
            return (folder / ".git").is_file()
    return False
