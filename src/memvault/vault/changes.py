"""The one way in which a tool changes a file of the vault.

Each change keeps the bytes from before, in the history or in the trash, and is
then written down in the journal. The file counts: where the journal cannot be
written, the change stands and a note says so.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path

from memvault import clock, plain_files
from memvault.config import SecretSettings
from memvault.errors import Conflict, MemvaultError, NotFound
from memvault.secrets_found import detect
from memvault.secrets_found.detect import Secret
from memvault.vault import atomic, layout, new_secrets
from memvault.vault.codec import etag
from memvault.vault.deed import (
    FILE_MISSING_HINT,
    ChangeSet,
    FileChange,
    FileRef,
    JournalEntry,
    Kind,
)
from memvault.vault.history import Revisions, TrashedFile
from memvault.vault.journal import Journal
from memvault.vault.private import private_folder

_DAY = 24 * 3_600.0
_JOURNAL = 16 * 1024 * 1024
"""Bytes that the journal has at most."""


class VaultWriter:
    """Changes files of one vault, for one deed; paths are relative to its root."""

    def __init__(
        self, root: Path, history: Revisions, deed: ChangeSet, secrets: SecretSettings
    ) -> None:
        self.root = root
        self._history = history
        self._deed = deed
        self._secrets = secrets

    @cached_property
    def journal(self) -> Journal:
        """The journal."""
        return Journal(self.root / ".memvault" / "journal", self._deed.can_see)

    def check_secrets(self, before: bytes, after: bytes) -> list[Secret]:
        """Return the secrets that a file is about to get, for ``tell`` once it has them.

        Raises:
            Refused: there are some, and the settings say no to that; or a mask
                would take a secret's place.
        """
        if self._deed.reverts:  # what is taken back was there before
            return []
        lost = new_secrets.check_masks(before, after)
        if lost is not None:
            raise lost
        if self._secrets.on_write == "off":
            return []
        secrets = new_secrets.added_secrets(before, after)
        if secrets and self._secrets.on_write == "refuse":
            raise new_secrets.refusal(secrets)
        return secrets

    def warn_secrets(self, path: str, secrets: list[Secret]) -> None:
        """Warn of secrets that a file has now."""
        if secrets:
            self._deed.warnings.append(new_secrets.warning(path, secrets))

    def create(self, paths: Iterable[str], data: bytes, subject: FileRef) -> str:
        """Write a new file under the first name that is free, and return it.

        Errors as for ``atomic.create_one_of``, and as for ``checked``.
        """
        secrets = self.check_secrets(b"", data)
        made = atomic.create_one_of((self.root / path for path in paths), data)
        path = made.relative_to(self.root).as_posix()
        named = subject if subject.mem_id else subject._replace(mem_id=layout.derived_id(path))
        self._note("created", path, named, "", etag(data))
        self.warn_secrets(path, secrets)
        return path

    def replace(
        self,
        path: str,
        before: bytes,
        after: bytes,
        subject: FileRef,
        check: Callable[[bytes], None] | None = None,
    ) -> str:
        """Put new bytes in a file's place; return the revision that the old ones are kept as.

        Editors take no lock. So the file is looked at again when all else is done,
        and keeps a second name: what an editor writes into it even then is in the
        history. ``check`` raises where what is there then is not as it was read.

        Raises:
            Conflict: the file has other bytes than ``before``.
            NotFound: it is gone.
            Refused: the new bytes hold secrets, as for ``checked``.
            StorageError: the disk refused; the old file is as it was.
        """
        file = self.root / path
        secrets = self.check_secrets(before, after)
        kept: list[str] = []

        def last_look() -> None:
            kept.append(self._history.save(subject.mem_id, before, file))
            now = plain_files.read(file)
            if check is not None:
                check(now)
            elif now != before:
                raise Conflict(f"{path} was changed meanwhile", "try again")

        try:
            atomic.replace(file, after, last_look)
        except BaseException as error:
            for revision in kept:
                self._history.delete(subject.mem_id, revision)
            if isinstance(error, FileNotFoundError):
                raise NotFound(
                    f"There is no file {path} in the vault", FILE_MISSING_HINT
                ) from error
            raise
        self._note("changed", path, subject, kept[0], etag(after))
        self.warn_secrets(path, secrets)
        return kept[0]

    def remove(self, path: str, subject: FileRef) -> bool:
        """Take a file away, its bytes kept as a revision; say whether it was still there.

        Raises:
            StorageError: the disk refused.
        """
        file = self.root / path
        with atomic.map_os_errors(path), contextlib.suppress(FileNotFoundError):
            revision = self._history.save(subject.mem_id, plain_files.read(file), file)
            file.unlink()
            self._note("removed", path, subject, revision, "")
            return True
        return False

    def discard(self, path: str, subject: FileRef) -> TrashedFile:
        """Move a file into the trash; errors as for ``History.discard``."""
        item = self._history.discard(self.root, path)
        after = ""
        with contextlib.suppress(OSError):
            after = etag(plain_files.read(item.file))
        self._note("forgotten", path, subject, item.folder, after)
        return item

    def restore(self, item: TrashedFile, paths: Iterable[str], subject: FileRef) -> str:
        """Move a file out of the trash to the first of its names that is free, and return it.

        Raises:
            FileExistsError: none is.
            StorageError: the disk refused.
        """
        data = plain_files.read(item.file)
        path = self._history.put_back(self.root, item, paths)
        self._note("restored", path, subject, item.folder, etag(data))
        return path

    def record_move(
        self, source: str, target: str, revision: str, after: str, subject: FileRef
    ) -> None:
        """Write down that a file was written under another name, and the old one taken away."""
        self._note("created", target, subject, "", after)
        self._note("removed", source, subject, revision, "")

    def _note(self, kind: Kind, path: str, subject: FileRef, before: str, after: str) -> None:
        deed = self._deed
        title = detect.masked(subject.title)
        made = FileChange(kind, path, subject.mem_id, title, before, after)
        deed.files.append(made)
        if kind in ("changed", "removed"):
            self._history.trim(subject.mem_id, before)
        change = JournalEntry(
            deed.change_id, clock.iso(), deed.tool, deed.agent, (made,), deed.reverts
        )
        try:
            private_folder(self.root)
            if deed.part is None:
                deed.part = self.journal.current_segment()
            self.journal.add(deed.part, change)
        except MemvaultError as error:
            deed.warnings.append(f"undo does not know of {path}, which is written: {error.message}")
        else:
            self._prune()

    def _prune(self) -> None:
        """Delete what the settings keep no longer, once a day."""
        marker = self.root / ".memvault" / "journal" / "pruned"
        with contextlib.suppress(OSError, MemvaultError):
            if not marker.exists() or not 0 <= time.time() - marker.stat().st_mtime <= _DAY:
                atomic.write(marker, b"", durable=False)
                self._history.prune()
                self.journal.prune(self._history.limits.days, _JOURNAL)
