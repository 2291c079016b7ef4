"""Writing files of a vault, with their previous bytes kept and each change in the journal.

Tools change files only through this module. Each change keeps the previous bytes, as a revision or
in the trash, and is then recorded in the journal. The file matters more: if the journal cannot be
written, the change is kept and a warning reports it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from memvault import clock
from memvault.errors import Conflict, MemvaultError
from memvault.files import atomic, plain_files
from memvault.model import FileState, Memory
from memvault.secrets.detector import Secret
from memvault.settings.vault_settings import Settings
from memvault.store.change_set import ChangeSet, FileRef, changed_meanwhile, missing_as_not_found
from memvault.store.journal import FileChange, Journal, JournalEntry, Kind
from memvault.store.moves import MOVE_INTENT, MoveIntent
from memvault.store.revisions import Revisions, TrashedFile
from memvault.store.secret_policy import SecretRejected, added_secrets, check_masks, warning
from memvault.vault import document
from memvault.vault.document import etag
from memvault.vault.file_names import normalize_title
from memvault.vault.paths import derived_id, is_memory_path, private_folder, require_plain_folders

_DAY = 24 * 3_600.0
_MAX_JOURNAL_BYTES = 16 * 1024 * 1024
"""Maximum size of the journal in bytes."""


class VaultWriter:
    """A writer of one vault's files for one change set; paths are relative to the vault."""

    def __init__(
        self, root: Path, history: Revisions, change_set: ChangeSet, settings: Settings
    ) -> None:
        self.root = root
        self.detector = settings.detector
        self._settings = settings
        self._history = history
        self._change_set = change_set

    @cached_property
    def journal(self) -> Journal:
        """The journal, limited to the changes that the call may see."""
        return Journal(self.root, self._change_set.can_see)

    def check(self, before: bytes, after: bytes) -> list[Secret]:
        """Return the secrets that a file is about to get, for ``warn_secrets`` after the write.

        Raises:
            Refused: the file would be too large to be read, the bytes add secrets and the settings
                refuse them, or a mask would replace a secret.
        """
        plain_files.check_size(after)
        if self._change_set.reverts:  # what undo restores was in the file before
            return []
        lost = check_masks(before, after, self._settings)
        if lost is not None:
            raise lost
        if self._settings.secrets.on_write == "off":
            return []
        secrets = added_secrets(before, after, self._settings)
        if secrets and self._settings.secrets.on_write == "refuse":
            raise SecretRejected(secrets, self.detector)
        return secrets

    def warn_secrets(self, path: str, secrets: list[Secret]) -> None:
        """Add a warning about secrets that a file now has."""
        if secrets:
            self._change_set.warnings.append(warning(path, secrets))

    def create(
        self,
        paths: Iterable[str],
        data: bytes,
        subject: FileRef,
        like: atomic.Attributes | None = None,
    ) -> str:
        """Write a new file under the first free name, and return its path.

        ``like`` are the attributes of the file that it continues. Raises as
        ``atomic.create_one_of`` and ``check`` do.
        """
        secrets = self.check(b"", data)
        created = atomic.create_one_of((self.root / path for path in paths), data, like)
        path = created.relative_to(self.root).as_posix()
        named = subject if subject.mem_id else subject._replace(mem_id=derived_id(path))
        self._record("created", path, named, "", etag(data))
        self.warn_secrets(path, secrets)
        return path

    def replace(
        self,
        path: str,
        before: bytes,
        after: bytes,
        subject: FileRef,
        times: tuple[int, int] | None = None,
    ) -> str:
        """Replace a file's bytes, and return the name of the revision that keeps the old ones.

        The file gets ``times``, as for ``atomic.replace``.

        Editors take no lock. The file is therefore read again after everything else is done, and is
        kept as a hard link: what an editor writes into it even later is in the revision.

        Raises:
            Conflict: the file's bytes differ from ``before``.
            NotFound: the file is missing.
            Refused: the new bytes are too many or hold secrets, as for ``check``.
            StorageError: the file cannot be written; the old file is unchanged.
        """
        secrets = self.check(before, after)
        revision = self.replace_unrecorded(path, before, after, subject.mem_id, times)
        self._record("changed", path, subject, revision, etag(after))
        self.warn_secrets(path, secrets)
        return revision

    def replace_unrecorded(
        self,
        path: str,
        before: bytes,
        after: bytes,
        mem_id: str,
        times: tuple[int, int] | None = None,
    ) -> str:
        """Replace a file's bytes as ``replace`` does, without recording the change for undo."""
        file = self.root / path
        saved: list[str] = []

        def save_and_check() -> None:
            saved.append(self._history.save(mem_id, before, file))
            self._require_unchanged(path, before)

        try:
            with missing_as_not_found(path):
                atomic.replace(file, after, save_and_check, times)
        except BaseException:
            for revision in saved:
                self._history.delete(mem_id, revision)
            raise
        return saved[0]

    def _require_unchanged(self, path: str, before: bytes) -> None:
        """Raise ``Conflict`` if a file's bytes are no longer ``before``."""
        if (now := plain_files.read(self.root / path)) != before:
            raise changed_meanwhile(path, now, etag(before))

    def remove(self, path: str, subject: FileRef) -> bool:
        """Delete a file, keeping its bytes as a revision, and return whether it existed.

        Raises:
            Conflict: the file was changed at that moment.
            StorageError: the file cannot be deleted.
        """
        file = self.root / path
        with atomic.map_os_errors(path), contextlib.suppress(FileNotFoundError):
            data = plain_files.read(file)
            revision = self._history.save(subject.mem_id, data, file)
            try:
                self._require_unchanged(path, data)
                file.unlink()
            except BaseException:
                if os.path.lexists(file):
                    self._history.delete(subject.mem_id, revision)
                raise
            self._record("removed", path, subject, revision, "")
            return True
        return False

    def record_edit(
        self,
        path: str,
        before: bytes,
        after: bytes | None,
        subject: FileRef,
        like: atomic.Attributes,
    ) -> None:
        """Record what a person's editor did to a file, and keep its bytes from before it.

        ``after`` is None if the file is gone, and ``like`` are the attributes that it had. The
        vault lock has to be held.

        Raises:
            StorageError: the revision cannot be written.
        """
        revision = self._history.save(subject.mem_id, before, like=like)
        if after is None:
            self._record("removed", path, subject, revision, "")
            return
        self._record("changed", path, subject, revision, etag(after))
        if self._settings.secrets.on_write != "off":
            self.warn_secrets(path, added_secrets(before, after, self._settings))

    def discard(self, path: str, subject: FileRef) -> TrashedFile:
        """Move a file to the trash; raises as ``Revisions.discard`` does."""
        item = self._history.discard(self.root, path)
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
        path = self._history.put_back(self.root, item, paths)
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

        The new file gets ``times``, as for ``atomic.replace``. Returns the new path, and the
        revision that keeps the old bytes. If the process is killed in between, ``complete_move``
        deletes the old file.

        Raises:
            Conflict: no path is free, or the old file has changed.
            NotFound: the old file is missing.
            Refused: the new bytes are too many or hold secrets, as for ``check``.
            StorageError: a file cannot be written; the old file is unchanged.
        """
        secrets = self.check(before, after)
        with missing_as_not_found(source), atomic.map_os_errors(source):
            revision = self._history.save(subject.mem_id, before, self.root / source)
        try:
            target = self._move(source, targets, before, after, times)
        except BaseException:
            self._history.delete(subject.mem_id, revision)
            raise
        finally:
            self.complete_move()
        self._record("created", target, subject, "", etag(after))
        self._record("removed", source, subject, revision, "")
        self.warn_secrets(target, secrets)
        return target, revision

    def _move(
        self,
        source: str,
        targets: Iterable[str],
        before: bytes,
        after: bytes,
        times: tuple[int, int] | None,
    ) -> str:
        old = self.root / source
        require_unchanged = partial(self._require_unchanged, source, before)
        with missing_as_not_found(source), atomic.map_os_errors(source):
            attributes = atomic.Attributes.of(old)._replace(times=times)
        for target in targets:
            if self.is_respelled(source, target):
                with missing_as_not_found(source), atomic.map_os_errors(source):
                    old.rename(self.root / target)
                    try:
                        atomic.replace(self.root / target, after, require_unchanged, times)
                    except BaseException:
                        (self.root / target).rename(old)
                        raise
                return target
            intent = MoveIntent(source, etag(before), target, etag(after))
            atomic.write(self.root / MOVE_INTENT, json.dumps(intent._asdict()).encode())
            with contextlib.suppress(FileExistsError):
                atomic.create(self.root / target, after, attributes)
                break
        else:
            raise Conflict(f"{target} is there already", "choose another name")
        try:
            with missing_as_not_found(source), atomic.map_os_errors(source):
                require_unchanged()
                old.unlink(missing_ok=True)
        except MemvaultError:
            (self.root / target).unlink(missing_ok=True)
            raise
        return target

    def is_respelled(self, path: str, other: str) -> bool:
        """Return whether two paths are one name in a folder that ignores case or composition."""
        one, two = (PurePosixPath(name) for name in (path, other))
        keys = {normalize_title(name.name) for name in (one, two)}
        if one == two or one.parent != two.parent or len(keys) > 1:
            return False
        with contextlib.suppress(OSError):
            names = os.listdir((self.root / one).parent)
            is_same = (self.root / one).samefile(self.root / two)
            return is_same and not {one.name, two.name}.issubset(names)
        return False

    def complete_move(self) -> None:
        """Delete the old file of a move that wrote the new one, under the vault lock.

        Raises:
            StorageError: the old file cannot be deleted.
        """
        old = self._interrupted_move()
        if old is not None:
            with atomic.map_os_errors(old):
                (self.root / old).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self.root / MOVE_INTENT).unlink(missing_ok=True)

    def _interrupted_move(self) -> str | None:
        """Return the old path of a move if both files are as recorded, and the old bytes kept."""
        with contextlib.suppress(OSError, ValueError, TypeError, MemvaultError):
            move = MoveIntent(**plain_files.read_json(self.root / MOVE_INTENT))
            if move.source == move.target or self.is_respelled(move.source, move.target):
                return None
            if self._holds(move.target, move.after):
                old = self._holds(move.source, move.before)
                revisions = self._history.revisions(old.mem_id) if old else []
                if any(name.endswith(move.before) for name in revisions):
                    return move.source
        return None

    def _holds(self, path: str, tag: str) -> Memory | None:
        """Return the memory at a path of the vault if its bytes have an etag."""
        if PurePosixPath(path).is_absolute() or not is_memory_path(path):
            return None
        require_plain_folders(self.root, PurePosixPath(path).parent.as_posix())
        data = plain_files.read(self.root / path)
        state = FileState(path, len(data), 0, 0, 0)
        if etag(data) != tag:
            return None
        return document.read_memory(data, state, frozenset(), self._settings.encoding)

    def _record(self, kind: Kind, path: str, subject: FileRef, before: str, after: str) -> None:
        change_set = self._change_set
        title = self.detector.masked(subject.title)
        file_change = FileChange(kind, path, subject.mem_id, title, before, after)
        change_set.files.append(file_change)
        if kind in ("changed", "removed"):
            self._history.trim(subject.mem_id, before)
        change = JournalEntry(
            change_set.change_id,
            clock.iso(),
            change_set.tool,
            change_set.agent,
            (file_change,),
            change_set.reverts,
        )
        try:
            private_folder(self.root)
            if change_set.part is None:
                change_set.part = self.journal.current_segment()
            self.journal.add(change_set.part, change)
        except MemvaultError as error:
            change_set.is_recorded = False
            change_set.warnings.append(
                f"undo does not know of {path}, which is written: {error.message}"
            )
        else:
            self._prune()

    def _prune(self) -> None:
        """Delete what the settings no longer keep, at most once a day."""
        marker = self.root / ".memvault" / "journal" / "pruned"
        with contextlib.suppress(OSError, MemvaultError):
            if not marker.exists() or not 0 <= time.time() - marker.stat().st_mtime <= _DAY:
                atomic.write(marker, b"", durable=False)
                self._history.prune()
                self.journal.prune(self._history.limits.days, _MAX_JOURNAL_BYTES)
