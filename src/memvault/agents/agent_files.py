"""Read and write an agent's values, goals, plans and skill requests, one file each.

``AgentFileStore`` reads and writes the files in one of an agent's folders, such as
``agents/<agent>/goals/<id>.md``.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memvault import clock
from memvault.agents.address import Address, agent_lock
from memvault.errors import Conflict, Refused, UsageError
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.files.plain_files import digest_of
from memvault.named_tuple import NamedTuple
from memvault.sanitize import replace_surrogates, shorten
from memvault.store.change_set import FileRef
from memvault.store.memory_store import MemoryStore
from memvault.vault import document
from memvault.vault.front_matter import dump_header
from memvault.vault.header_files import HeaderFile, read_header_file, read_header_files
from memvault.vault.names import normalize
from memvault.vault.naming import derived_id, slug
from memvault.vault.paths import require_plain_folders

_MAX_NAME = 1_000
_MAX_STEM = 80


def normalize_name(text: str) -> str:
    """Return a key, id or name in the form used for lookups."""
    return normalize("NFC", document.plain_text(text)).strip()


def one_line(text: str, label: str) -> str:
    """Return a key, id or name in its stored form: one line without surrounding whitespace.

    Raises:
        UsageError: the name is invalid.
    """
    line = normalize_name(text)
    if not line or "\n" in line or len(line) > _MAX_NAME:
        raise UsageError(
            f"{label} cannot be {shorten(line, 40)!r}",
            f"use a single line of up to {_MAX_NAME:,} characters that is not blank",
        )
    return line


class AgentFile(NamedTuple):
    """One file of an agent: its name, its header as JSON values, its text and its etag.

    ``modified`` is the file's modification time; a time in the header would cause conflicts between
    two machines that set the same value.
    """

    name: str
    path: str
    header: dict[str, Any]
    text: str
    etag: str
    modified: str


class AgentFiles(NamedTuple):
    """Entries sorted by name, and notes about skipped files.

    ``copies`` contains the entries that were skipped because an earlier file has the same name.
    """

    entries: dict[str, AgentFile]
    notes: list[str]
    copies: list[AgentFile]


class AgentFileUpdate(NamedTuple):
    """An entry to write; ``stem`` is used for a new file's name instead of the entry's name."""

    name: str
    old: AgentFile | None
    header: Mapping[str, Any]
    text: str
    stem: str = ""


class AgentFileStore:
    """Reads and writes the files in one of an agent's folders; ``key`` is the header key for names.

    Hold ``lock`` while you change files based on the result of ``read``.
    """

    def __init__(self, store: MemoryStore, owner: Address, folder: str, key: str) -> None:
        self._store = store
        self._owner = owner
        self._folder = (owner.folder(Path()) / folder).as_posix()
        self._key = key

    def lock(self) -> FileLock:
        """Return the agent's lock; it is not reentrant."""
        return agent_lock(self._store.root, self._owner)

    def read(self) -> AgentFiles:
        """Return all entries.

        A file that is broken, binary or unreadable is skipped; of two files with the same name, the
        file whose path sorts first is used.

        Raises:
            StorageError: the folder cannot be read.
            Refused: the folder is a link or a file.
        """
        entries: dict[str, AgentFile] = {}
        notes: list[str] = []
        copies: list[AgentFile] = []

        def skip(path: str, reason: str) -> None:
            notes.append(f"{path} is skipped: {reason}")

        for file in read_header_files(self._store.root, self._folder, skip, ours=True):
            entry = self._entry(file)
            shown = replace_surrogates(file.path)
            if file.document.in_conflict:
                notes.append(f"{shown} contains git conflict markers")
            first = entries.setdefault(entry.name, entry)
            if first is not entry:
                copies.append(entry)
                first_path = replace_surrogates(first.path)
                skip(shown, f"it has the same {self._key} as {first_path}")
        return AgentFiles(dict(sorted(entries.items())), notes, copies)

    def put(self, updates: Iterable[AgentFileUpdate]) -> list[str]:
        """Write entries one by one, replacing their ``old`` entries, and return their paths.

        Header keys that an update does not set stay as they are; None removes a key.

        Raises:
            StorageError: a file cannot be written; the files before it have been written.
            Refused: the folder is not inside the vault, or an entry is too large or contains a
            secret; nothing is written.
        """
        paths: list[str] = []
        entries = list(updates)
        for entry in entries:
            before, header = b"", entry.header
            if entry.old is not None:
                name, _, old, text, *_ = entry.old
                before, header = self._encode(name, old, text), {**old, **header}
            self._store.changes.policy.check(before, self._encode(entry.name, header, entry.text))
        for entry in entries:
            rewritten = entry.old is not None and self._rewrite(entry.old, entry)
            paths.append(entry.old.path if entry.old and rewritten else self._create(entry))
        return paths

    def update_header(self, entry: AgentFile, header: Mapping[str, Any]) -> None:
        """Change header keys of an entry for internal bookkeeping.

        Raises:
            Conflict: the file has changed since it was read.
            Refused: the header cannot be patched.
            StorageError: the file cannot be written.
        """
        with atomic.map_os_errors(entry.path), contextlib.suppress(FileNotFoundError):
            data = plain_files.read(self._store.root / entry.path)
            if document.etag(data) == entry.etag:
                # No user requested this change, so undo does not revert it.
                fresh = document.edit(data, header, None)
                mem_id = derived_id(entry.path)
                self._store.changes.replace_unrecorded(entry.path, data, fresh, mem_id)
                return
        raise Conflict.changed(entry.path)

    def delete(self, names: Iterable[str]) -> list[str]:
        """Delete entries and their copies under the agent's lock, keeping revisions.

        Returns the names that were missing.
        """
        with self.lock():
            return self.delete_locked(names)

    def delete_locked(self, names: Iterable[str]) -> list[str]:
        """Delete entries like ``delete``; the caller must hold the agent's lock."""
        current = self.read()
        files: dict[str, list[str]] = defaultdict(list)
        for entry in (*current.entries.values(), *current.copies):
            files[entry.name].append(entry.path)
        missing = []
        for name in dict.fromkeys(names):
            paths = files[normalize_name(name)]
            removed = [self._store.changes.remove(path, FileRef.at(path, name)) for path in paths]
            if not any(removed):
                missing.append(name)
        return missing

    def _rewrite(self, old: AgentFile, new: AgentFileUpdate) -> bool:
        """Replace the current content of an entry, and return whether it still exists."""
        with atomic.map_os_errors(old.path), contextlib.suppress(FileNotFoundError, ValueError):
            file = read_header_file(self._store.root, old.path, ours=True)
            now = self._entry(file)
            if now.name != old.name:
                return False
            changes = {
                key: value for key, value in new.header.items() if now.header.get(key) != value
            }
            # The name came from the file name; store it in the header too.
            if now.header.get(self._key) in (None, ""):
                changes = {self._key: now.name, **changes}
            text = document.plain_text(new.text)
            fresh = _edit_or_rewrite(file, changes, None if text == now.text else text)
            if fresh != file.data:
                subject = FileRef.at(old.path, old.name)
                self._store.changes.replace(old.path, file.data, fresh, subject)
            return True
        return False

    def _create(self, new: AgentFileUpdate) -> str:
        """Create a file under a free name, and return its path."""
        data = self._encode(new.name, new.header, new.text)
        require_plain_folders(self._store.root, self._folder)
        stem = slug(new.stem or new.name, _MAX_STEM)
        digest = digest_of(new.name.encode(), 3).hex()
        names = (stem, f"{stem}-{digest}", f"{stem}-{document.etag(data)}")
        try:
            return self._store.changes.create(
                (f"{self._folder}/{name}.md" for name in names), data, FileRef("", new.name)
            )
        except FileExistsError:
            raise Conflict(
                f"All file names for {new.name!r} in {self._folder} are taken", "rename one of them"
            ) from None

    def _encode(self, name: str, header: Mapping[str, Any], text: str) -> bytes:
        """Return the bytes of a new file."""
        named = {self._key: name, **header}
        lines = dump_header({key: value for key, value in named.items() if value is not None})
        return f"---\n{lines}---\n\n{document.plain_text(text)}\n".encode()

    def _entry(self, file: HeaderFile) -> AgentFile:
        """Parse a file as an entry."""
        header = file.document.header or {}
        body = file.document.parts.body.replace("\r\n", "\n").replace("\r", "\n")
        if file.document.header is not None:
            body = body.removeprefix("\n")  # Every header is followed by a blank line.
        named = header.get(self._key)
        if named in (None, ""):
            named = replace_surrogates(Path(file.path).stem)
        return AgentFile(
            normalize("NFC", str(named)).strip(),
            file.path,
            header,
            body.removesuffix("\n"),
            document.etag(file.data),
            clock.iso_from_ns(file.mtime),
        )


def _edit_or_rewrite(file: HeaderFile, changes: Mapping[str, Any], text: str | None) -> bytes:
    """Return a file's bytes with changes, rewriting a file that cannot be patched."""
    parts = file.document.parts
    body = parts.body
    if text is not None:
        # A newly added header already ends with a blank line.
        body = f"{text}\n" if not parts.before and changes else f"\n{text}\n"
        body = body.replace("\n", parts.newline)
    try:
        return document.edit(file.data, changes, body)
    except Refused:
        merged = {**(file.document.header or {}), **changes}
        for key in [key for key, value in changes.items() if value is None]:
            del merged[key]
        return f"---\n{dump_header(merged)}---\n{body}".encode("utf-8", "replace")
