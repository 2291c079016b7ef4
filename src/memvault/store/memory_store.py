"""Read and change memories one file at a time, without overwriting concurrent changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from memvault.errors import MemvaultError, NotFound, Refused
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.model import CommitTimes, FileState, Memory, is_document
from memvault.named_tuple import NamedTuple
from memvault.settings.vault_settings import Settings
from memvault.store.change_set import (
    FILE_MISSING_HINT,
    ChangeSet,
    FileRef,
    changed_meanwhile,
    missing_as_not_found,
)
from memvault.vault import document, naming, paths
from memvault.vault.markdown import first_heading
from memvault.vault.private_folder import MOVE_INTENT, private_folder
from memvault.vault.scan import Scan, file_state, is_listed, scan

if TYPE_CHECKING:
    from memvault.files.attributes import Attributes
    from memvault.repository.dates import CommitDates
    from memvault.store.document_reader import DocumentReader
    from memvault.store.revisions import Revisions
    from memvault.store.trash import Trash, TrashedFile
    from memvault.store.writer import VaultWriter
    from memvault.vault.folder_watch import FolderWatch

_MILLISECOND = 1_000_000
"""One millisecond in nanoseconds."""


def require_memory(path: str) -> None:
    """Raise ``Refused`` if the file at a path is a document, which is never changed."""
    if is_document(path):
        raise Refused(
            f"{path} is a document, which memvault never changes",
            "edit it in another program, or add a memory that links to it",
        )


class WriteResult(NamedTuple):
    """A changed memory, and the name of the revision with its previous bytes."""

    memory: Memory
    previous_revision: str


class MemoryReader(Protocol):
    """The memories of one vault, whose files may be on another machine."""

    @property
    def root(self) -> Path:
        """The vault's folder on this machine."""

    @property
    def settings(self) -> Settings:
        """The vault's settings."""

    def state(self) -> Hashable:
        """Return a value that changes whenever a file changes."""

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes and its state; raise ``NotFound`` if there is no such file."""

    def read(self, path: str) -> Memory:
        """Read one memory; raise ``NotFound`` if there is no such file."""

    def read_listed(self, path: str) -> Memory | None:
        """Return the memory with this path, or None if it is missing or only in an index."""


class MemoryStore:
    """The memories of one vault, stored as files."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        change_set: ChangeSet | None = None,
        open_dates: Callable[[], CommitDates | None] = lambda: None,
        find_index: Callable[[], Path | None] = lambda: None,
        open_documents: Callable[[], DocumentReader] | None = None,
    ) -> None:
        self.root = root
        self._open_dates = open_dates
        self._find_index = find_index
        self._open_documents = open_documents
        self.settings = settings
        self.change_set = change_set or ChangeSet()
        self.unlisted: list[str] = []
        """The folders that the last scan could not list."""
        # A folder with one of these names gives its memories that type.
        self.known_types = frozenset(memory_type.name for memory_type in settings.types)

    @cached_property
    def documents(self) -> DocumentReader:
        """The reader of documents, which caches their texts in the index's folder."""
        if self._open_documents is not None:
            return self._open_documents()
        from memvault.store.document_reader import DocumentReader

        return DocumentReader(self.root, self.settings, self._find_index)

    def has_documents(self) -> bool:
        """Return whether documents are read like memories."""
        return self.documents.is_on

    def may_list(self, path: str) -> bool:
        """Return whether a file at this path can be read, apart from exclusions."""
        is_document_read = paths.is_document_path(path) and self.has_documents()
        return paths.is_memory_path(path) or is_document_read

    def close(self) -> None:
        """Stop the process that reads documents, if it is running."""
        if "documents" in self.__dict__:
            self.documents.close()

    @property
    def dates(self) -> CommitDates | None:
        """The files' commit times in git, or None if the vault is not in a repository."""
        return self._open_dates()

    def _commit_times(self, path: str, data: bytes) -> CommitTimes:
        dates = self.dates
        return CommitTimes() if dates is None else dates.times(path, data)

    @cached_property
    def history(self) -> Revisions:
        """The revisions of the vault's files."""
        from memvault.store.revisions import Revisions

        return Revisions(self.root, self.settings.history)

    @cached_property
    def trash(self) -> Trash:
        """The vault's trash."""
        from memvault.store.trash import Trash

        return Trash(self.root, self.settings.history)

    @cached_property
    def changes(self) -> VaultWriter:
        """The writer for all files in the vault, which records each change in the journal."""
        return self._writer()

    def reverting(self, change_id: str) -> VaultWriter:
        """Return a writer for undoing a change; it does not check the bytes for secrets."""
        return self._writer(change_id)

    def _writer(self, reverts: str = "") -> VaultWriter:
        from memvault.store.writer import VaultWriter

        return VaultWriter(
            self.root, self.history, self.trash, self.change_set, self.settings, reverts
        )

    def with_change_set(self, change_set: ChangeSet) -> MemoryStore:
        """Return a store of the same memories that records its changes in another change set."""
        return MemoryStore(
            self.root,
            self.settings,
            change_set,
            self._open_dates,
            open_documents=lambda: self.documents,
        )

    def has_file(self, path: str) -> bool:
        """Return whether a file or folder exists at a path in the vault."""
        return os.path.lexists(self.root / path)

    def require_writable(self, path: str) -> None:
        """Raise ``StorageError`` if a file may not be written, ``NotFound`` if it is missing."""
        with missing_as_not_found(path), atomic.map_os_errors(path):
            atomic.require_writable(self.root / path)

    def scan(self, watch: FolderWatch | None = None) -> Scan:
        """List the files of all memories without opening them.

        Raises:
            VaultUnreadable: the root folder cannot be listed.
        """
        exclusions = self.settings.exclusions
        if watch is None:
            new_scan = scan(self.root, exclusions, has_documents=self.has_documents)
        else:
            new_scan = watch.scan(exclusions, self.has_documents)
        self.unlisted = new_scan.unreadable
        return new_scan

    def states_of(self, candidates: Iterable[str]) -> list[FileState]:
        """Return the states of the given paths, leaving out files that a scan would not list."""
        covers = self.settings.exclusions.covers
        listed = (path for path in candidates if not covers(path))
        return [state for path in listed if (state := file_state(self.root, path)) is not None]

    def state(self) -> Hashable:
        """Return a value that changes whenever a file changes.

        Raises:
            VaultUnreadable: the root folder cannot be listed.
        """
        return frozenset(self.scan().files)

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes and its state; the state is read before the bytes.

        For a document, the bytes are those of a markdown file with its text.

        Raises:
            NotFound: there is no regular file at that path.
            StorageError: the file cannot be read.
        """
        state = file_state(self.root, path)
        if state is None:
            what = "plain file" if os.path.lexists(self.root / path) else "file"
            raise NotFound(f"There is no {what} {path} in the vault", FILE_MISSING_HINT)
        with missing_as_not_found(path), atomic.map_os_errors(path):
            if is_document(path):
                return self.documents.read(path), state
            return plain_files.read(f"{self.root}/{path}"), state

    def read(self, path: str) -> Memory:
        """Read one memory.

        Raises:
            NotFound: there is no regular file at that path.
            StorageError: the file cannot be read.
        """
        memory = self.parse(*self.read_bytes(path))
        if is_document(path):
            self.documents.confirm(path)
        return memory

    def read_listed(self, path: str) -> Memory | None:
        """Return the memory with exactly this path, or None.

        An interrupted move is completed first.

        Raises:
            StorageError: the file cannot be read.
        """
        self.complete_interrupted_move()
        if is_listed(self.root, path, self.settings.exclusions, self.has_documents):
            with contextlib.suppress(NotFound):
                return self.read(path)
        return None

    def parse(self, data: bytes, state: FileState) -> Memory:
        """Parse a memory from its file's bytes and state."""
        # Agents' state does not need these modules.
        from memvault.vault.memory_file import read_document, read_memory

        if is_document(state.path):
            return read_document(data, state)
        return read_memory(
            data, state, self.known_types, self.settings.encoding, self._commit_times
        )

    def add(
        self, memory_type: str, title: str, header: Mapping[str, Any], body: str, base: str = ""
    ) -> Memory:
        """Write a new memory under a free file name in the folder of its type.

        The title is written to the header if it can be derived neither from the file name nor from
        the first heading. It also becomes an alias if Obsidian would not find the memory by its
        file name. ``base`` is passed to ``document.encode_new``.
        """
        stem = naming.slug(self.settings.detector.masked(title))
        heading = first_heading(body)
        private_folder(self.root)
        path = f"{memory_type}/{stem}.md"

        from memvault.vault import aliases

        def encode(name: str) -> bytes:
            title_keys: dict[str, Any] = {} if title == (heading or name) else {"title": title}
            title_keys |= aliases.aliases_for_new(title, name, header.get("aliases"))
            rest = {key: value for key, value in header.items() if key not in ("id", "aliases")}
            return document.encode_new({"id": header["id"], **title_keys, **rest}, body, base)

        self.check_path(path)
        subject = FileRef(header["id"], title)
        data = encode(stem)
        try:
            self.changes.create([path], data, subject)
        except FileExistsError:
            data = encode("")  # The title cannot be derived from a numbered name.
            path = self.changes.create(self._numbered_names(path), data, subject)
        return self._written_memory(path, data)

    def add_at(self, path: str, header: Mapping[str, Any], body: str, base: str = "") -> Memory:
        """Write a new memory at exactly this path; ``base`` is passed to ``document.encode_new``.

        Raises:
            FileExistsError: the path is taken.
        """
        data = document.encode_new(header, body, base)
        self.create(path, data)
        return self._written_memory(path, data)

    def create(self, path: str, data: bytes) -> None:
        """Write a new memory or attachment at exactly this path.

        Raises:
            FileExistsError: the path is taken.
        """
        private_folder(self.root)
        self.check_path(path)
        subject = FileRef.at(path, PurePosixPath(path).name)
        if paths.is_memory_path(path):
            memory = self.parse(data, FileState.of(path, data))
            subject = FileRef(memory.mem_id, memory.title)
        self.changes.create([path], data, subject)

    def change(
        self,
        memory: Memory,
        changes: Mapping[str, Any],
        body: str | None,
        if_match: str | None = None,
        memory_type: str | None = None,
    ) -> WriteResult:
        """Set header keys and the body of a memory whose file has not changed since it was read.

        The file must still have the etag ``memory.etag``, and also ``if_match`` if a caller passed
        one. With ``memory_type``, a file in its type's folder moves to the new type's folder, and
        its relative links are adjusted. If ``title`` changes, an alias equal to the old title is
        updated.

        Raises:
            Conflict: the file's bytes have changed since.
            Refused: the header cannot be patched.
        """
        named = dict(changes)
        if "title" in named and "aliases" not in named:
            from memvault.vault import aliases

            named |= aliases.aliases_after_rename(memory, str(named["title"]))
        path = self._path_for_type(memory, memory_type)
        if path != memory.path:
            if "id" not in memory.metadata:
                named["id"] = memory.mem_id  # An id derived from the path would change with it.
            from memvault.vault.markdown_inline import moved_targets, replaced

            text = memory.body if body is None else body
            moved = replaced(text, moved_targets(text, memory.path, path, self.has_file))
            body = body if moved == text else moved
        edited = partial(self._edit_bytes, memory, named, body)
        names = self._numbered_names(path) if path != memory.path else ()
        return self._replace_file(memory, edited, names, if_match)

    def path_of_type(self, memory: Memory, memory_type: str) -> str:
        """Return the path that a memory moves to when its type changes; empty if it stays."""
        path = self._path_for_type(memory, memory_type or None)
        return next(self._numbered_names(path)) if path != memory.path else ""

    def check_change(self, memory: Memory, changes: Mapping[str, Any], body: str | None) -> None:
        """Check that a memory's header keys and body can be set, without writing anything.

        Raises:
            Refused: the change is not possible; the message includes the path.
            StorageError: the file may not be written.
        """
        require_memory(memory.path)
        self.require_writable(memory.path)
        data, state = self.read_bytes(memory.path)
        try:
            self._edit_bytes(memory, changes, body, data, state)
        except Refused as error:
            raise Refused(f"{memory.path}: {error}", error.hint) from error

    def rename(
        self,
        memory: Memory,
        path: str,
        changes: Mapping[str, Any] | None = None,
        body: str | None = None,
    ) -> WriteResult:
        """Move a memory to exactly this path, keeping its memId, and set header keys and body.

        The file keeps its times. If ``title`` changes, an alias equal to the old title is
        updated.

        Raises:
            Conflict: the path is taken, or the file's bytes have changed since.
            Refused: the header cannot be patched.
        """
        id_header = {} if "id" in memory.metadata else {"id": memory.mem_id}
        named = {**id_header, **(changes or {})}
        if "title" in named and "aliases" not in named:
            from memvault.vault import aliases

            named |= aliases.aliases_after_rename(memory._replace(path=path), str(named["title"]))
        edited = partial(self._edit_bytes, memory, named, body)
        self.check_path(path)
        return self._replace_file(memory, edited, [path], times=self.times_of(memory.path))

    def rewrite(
        self, memory: Memory, data: bytes, times: tuple[int, int] | None = None
    ) -> WriteResult:
        """Replace all bytes of a memory's file.

        The file's times are set to ``times`` (see ``atomic.replace``).

        Raises:
            Conflict: the file's bytes have changed since.
        """
        return self._replace_file(memory, lambda *_: data, times=times)

    def rewrite_links(self, memory: Memory, data: bytes) -> WriteResult:
        """Replace the bytes of a memory when only its links change.

        The file keeps its times if they date the memory. If its size is also unchanged, the times
        are advanced by a millisecond, because many programs detect changes by size and time.

        Raises:
            Conflict: the file's bytes have changed since.
        """
        times = None
        if memory.modified_from == "file":
            with contextlib.suppress(OSError):
                status = (self.root / memory.path).lstat()
                increment = _MILLISECOND if len(data) == status.st_size else 0
                times = status.st_atime_ns, status.st_mtime_ns + increment
        return self.rewrite(memory, data, times)

    def times_of(self, path: str) -> tuple[int, int] | None:
        """Return a file's times in the format of ``atomic.replace``, or None if it is missing."""
        with contextlib.suppress(OSError):
            status = (self.root / path).lstat()
            return status.st_atime_ns, status.st_mtime_ns
        return None

    def _replace_file(
        self,
        memory: Memory,
        edited: Callable[[bytes, FileState], bytes],
        names: Iterable[str] = (),
        if_match: str | None = None,
        times: tuple[int, int] | None = None,
    ) -> WriteResult:
        """Write a memory's new bytes, at the first free path in ``names`` if it is not empty."""
        require_memory(memory.path)
        with self.lock():
            self.changes.complete_move()
            data, state = self.read_bytes(memory.path)
            for seen in (if_match, memory.etag):
                if seen not in (None, document.etag(data)):
                    raise changed_meanwhile(memory.path, data, seen)
            after = edited(data, state)
            path = memory.path
            self.check_path(path)
            subject = FileRef(memory.mem_id, memory.title)
            if not names:
                revision = self.changes.replace(path, data, after, subject, times)
            else:
                path, revision = self.changes.move(memory.path, names, data, after, subject, times)
        return WriteResult(self._written_memory(path, after), revision)

    def _written_memory(self, path: str, data: bytes) -> Memory:
        """Return the memory just written, even if its file has since been deleted."""
        return self.parse(data, file_state(self.root, path) or FileState.of(path, data))

    def complete_interrupted_move(self) -> None:
        """Delete the old file of an interrupted move; its bytes are already a revision.

        Waits up to a second for a move in progress. In a read-only vault, both files are kept.
        """
        if os.path.lexists(self.root / MOVE_INTENT):
            with contextlib.suppress(MemvaultError, OSError), self.lock(1.0):
                self.changes.complete_move()

    def _edit_bytes(
        self,
        memory: Memory,
        changes: Mapping[str, Any],
        body: str | None,
        data: bytes,
        state: FileState,
    ) -> bytes:
        """Return the new bytes; a title or id that would be lost is moved to the header."""
        encoding = self.settings.encoding
        edited = document.edit(data, changes, body, encoding)
        after = self.parse(edited, state)
        restored = {}
        if after.title != memory.title and "title" not in changes:
            restored["title"] = memory.title
        if after.mem_id != memory.mem_id and "id" not in changes:
            restored["id"] = memory.mem_id
        if not restored or not after.metadata:
            return edited
        return document.edit(edited, restored, None, encoding)

    def check_path(self, path: str) -> None:
        """Refuse a path that leads through a link or a file, or that is ignored by the settings."""
        paths.require_plain_folders(self.root, PurePosixPath(path).parent.as_posix())
        if self.settings.exclusions.covers(path):
            raise Refused(
                f"{path} is excluded from the vault by memvault.toml, an ignore file or "
                "Obsidian's settings",
                "choose another type or edit ignore in memvault.toml; to include a folder that "
                ".gitignore excludes, add !FOLDER/ to .ignore",
            )

    def _path_for_type(self, memory: Memory, memory_type: str | None) -> str:
        pure = PurePosixPath(memory.path)
        if memory_type is None or pure.parts[0] == memory_type:
            return memory.path
        if len(pure.parts) == 1:
            return f"{memory_type}/{memory.path}"
        if pure.parts[0] not in (memory.memory_type, *self.known_types):
            return memory.path  # The user created this folder.
        return str(PurePosixPath(memory_type, *pure.parts[1:]))

    def _numbered_names(self, path: str) -> Iterator[str]:
        """Yield a path, then numbered variants of it that are likely to be free."""
        for name in paths.numbered_names(path, self.has_file):
            self.check_path(name)
            yield name

    def discard(self, path: str, seen: str) -> TrashedFile:
        """Move a memory to the trash if its bytes still have the etag ``seen``.

        Raises:
            Conflict: the bytes have changed since.
            NotFound: the file is missing.
        """
        require_memory(path)
        with self.lock():
            data, state = self.read_bytes(path)
            if document.etag(data) != seen:
                raise changed_meanwhile(path, data, seen)
            memory = self.parse(data, state)
            with missing_as_not_found(path):
                return self.changes.discard(path, FileRef(memory.mem_id, memory.title))

    def create_near(
        self, path: str, data: bytes, subject: FileRef, like: Attributes | None = None
    ) -> str:
        """Write a new file at a path, or at a numbered name if that is taken; return its path.

        Raises:
            Refused: the data is too large or contains secrets, or the path leads through a link.
            StorageError: the file cannot be written.
        """
        return self.changes.create(self._numbered_names(path), data, subject, like)

    def put_back(self, item: TrashedFile, subject: FileRef) -> str:
        """Move a file out of the trash to its path, or to a numbered name if that is taken.

        Raises:
            NotFound: the file is no longer in the trash.
            StorageError: the file cannot be moved.
        """
        try:
            with self.lock():
                return self.changes.restore(item, self._numbered_names(item.path), subject)
        except FileNotFoundError as error:
            raise NotFound(
                f"{item.path} is no longer in the trash",
                "run `memvault trash list` to see its contents",
            ) from error

    def lock(self, seconds: float = 30.0) -> FileLock:
        """Return the vault lock, which must be held while changing a memory or a tool's file."""
        return FileLock(private_folder(self.root) / "lock", seconds)
