"""The one way in which a tool changes a file of the vault.

Each change keeps the bytes from before, in the history or in the trash, and is
then written down in the journal. The file counts: where the journal cannot be
written, the change stands and a note says so.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import Conflict, MemvaultError, NotFound, Refused
from memvault.files import atomic, plain_files
from memvault.secrets import detector
from memvault.secrets.detector import Secret
from memvault.settings.vault_settings import SecretSettings
from memvault.store.change_set import (
    FILE_MISSING_HINT,
    ChangeSet,
    FileChange,
    FileRef,
    Journal,
    JournalEntry,
    Kind,
)
from memvault.store.revisions import Revisions, TrashedFile
from memvault.vault import document
from memvault.vault.document import etag
from memvault.vault.paths import derived_id, is_memory_path, private_folder, require_plain_folders

_NAMED = 5
_REFUSED = "A secret is not written, as memvault.toml says: "
_PLAIN_KEY = re.compile(r"\w{1,19}")
"""A key that can be named: it is too short to be a secret itself."""


class SecretRejected(Refused):
    """A text with a secret, in a vault that takes none."""

    def locate_in_arguments(self, given: Mapping[str, Any]) -> None:
        """Say which of a tool's arguments hold a secret, where they do by themselves."""
        places = [
            f"{one.kind} in {f'line {one.line} of ' if chr(10) in text.strip() else ''}{name}"
            for name, text in _texts("", given)
            for one in detector.find_secrets(text)
        ]
        if places:
            self.message = _REFUSED + _few(places)


def added_secrets(before: bytes, after: bytes) -> list[Secret]:
    """Return the secrets that come with a file's new bytes, unless its header allows them."""
    text = document.decode(after).text
    secrets = detector.find_secrets(text)
    if not secrets or _are_fine(after):
        return []
    known = detector.secret_values(document.decode(before).text)
    return [one for one in secrets if text[one.start : one.end] not in known]


def in_file(path: str, data: bytes) -> str:
    """Say which secrets are in a file or its name, and where; nothing if its header allows them."""
    secrets = detector.find_secrets(f"{path}\n{document.decode(data).text}")
    if not secrets or _are_fine(data):
        return ""
    lines = ((one.kind, one.line - 1) for one in secrets)
    return _few([f"{kind} in {f'line {line}' if line else 'its name'}" for kind, line in lines])


def _are_fine(data: bytes) -> bool:
    """Say whether a file's header allows its secrets."""
    with contextlib.suppress(ValueError):
        return detector.allows(document.read_header(data)[0] or {})
    return False


def check_masks(before: bytes, after: bytes) -> Refused | None:
    """Return what stops a write that has a mask where the file has a secret.

    Who was shown a text with masks and sends it back whole would lose the secret.
    """
    text = document.decode(after).text
    if detector.MASK not in text:
        return None
    old, kept = document.decode(before).text, detector.secret_values(text)
    gone = {kind for value, kind in detector.secret_values(old).items() if value not in kept}
    for mask in map(detector.mask, sorted(gone)):
        if text.count(mask) > old.count(mask):
            return Refused(
                f"The text has {mask} where the file has the secret itself, which would be lost",
                "add to the text with compound, or let its owner edit the file",
            )
    return None


def refusal(secrets: Sequence[Secret]) -> SecretRejected:
    """Return what stops a write that brings secrets along, of a file that has no lines yet."""
    return SecretRejected(
        _REFUSED + _few([one.kind for one in secrets]),
        "say where it is kept instead; in a text, gitleaks:allow on its line says that it is fine",
    )


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield each text in a value, keys among them, and which argument it is in."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield name, str(key)
            inner = f"{name}.{key}" if name else str(key)
            yield from _texts(inner if _PLAIN_KEY.fullmatch(str(key)) else name, entry)
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield from _texts(f"{name}[{place}]", entry)


def warning(path: str, secrets: Sequence[Secret]) -> str:
    """Return what is said of secrets that were written."""
    return (
        f"{path} holds a secret now: {_told(secrets)}; keep it elsewhere, and revoke it if others "
        "can read the vault or its history; secrets: allowed in the header says that it is fine"
    )


def _told(secrets: Sequence[Secret]) -> str:
    """Say which kinds of secrets stand where, and not what they are."""
    return _few([f"{one.kind} in line {one.line}" for one in secrets])


def _few(places: Sequence[str]) -> str:
    """Name the first of several places, each once."""
    named = list(dict.fromkeys(places))
    more = f", and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more


FILE = ".memvault/moving.json"


class MoveIntent(NamedTuple):
    """One file's move: its path and etag before, and after."""

    source: str
    before: str
    target: str
    after: str


def write_intent(root: Path, move: MoveIntent) -> None:
    """Note what is about to be done; the caller holds the vault lock."""
    atomic.write(root / FILE, json.dumps(move._asdict()).encode())


def clear_intent(root: Path) -> None:
    """Take the note away; one that stays is believed no more than its etags are right."""
    with contextlib.suppress(OSError):
        (root / FILE).unlink(missing_ok=True)


def interrupted_move(root: Path) -> str | None:
    """Return the old file of a move that wrote the new one, where both are as noted."""
    try:
        move = MoveIntent(**json.loads(plain_files.read(root / FILE, 64 * 1024)))
        paths = (move.source, move.target)
        if not all(is_memory_path(path) for path in paths) or move.source == move.target:
            return None
        for path, etag in ((move.source, move.before), (move.target, move.after)):
            if PurePosixPath(path).is_absolute():
                return None
            require_plain_folders(root, PurePosixPath(path).parent.as_posix())
            if document.etag(plain_files.read(root / path)) != etag:
                return None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, MemvaultError):
        return None
    return move.source


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
        lost = check_masks(before, after)
        if lost is not None:
            raise lost
        if self._secrets.on_write == "off":
            return []
        secrets = added_secrets(before, after)
        if secrets and self._secrets.on_write == "refuse":
            raise refusal(secrets)
        return secrets

    def warn_secrets(self, path: str, secrets: list[Secret]) -> None:
        """Warn of secrets that a file has now."""
        if secrets:
            self._deed.warnings.append(warning(path, secrets))

    def create(self, paths: Iterable[str], data: bytes, subject: FileRef) -> str:
        """Write a new file under the first name that is free, and return it.

        Errors as for ``atomic.create_one_of``, and as for ``checked``.
        """
        secrets = self.check_secrets(b"", data)
        made = atomic.create_one_of((self.root / path for path in paths), data)
        path = made.relative_to(self.root).as_posix()
        named = subject if subject.mem_id else subject._replace(mem_id=derived_id(path))
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
        title = detector.masked(subject.title)
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
