"""Reading and changing memories, one file at a time, nothing ever overwritten unseen."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from memvault.errors import Conflict, MemvaultError, NotFound, Refused
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.model import FileState, Memory
from memvault.settings.vault_settings import Settings
from memvault.store import writer
from memvault.store.change_set import FILE_MISSING_HINT, ChangeSet, FileRef
from memvault.store.revisions import Revisions, TrashedFile
from memvault.vault import document, paths
from memvault.vault.markdown import first_heading
from memvault.vault.paths import private_folder
from memvault.vault.reader import Scan, listed, scan, state_of

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter


class WriteResult(NamedTuple):
    """A changed memory, and the name its earlier bytes are kept under."""

    memory: Memory
    previous_revision: str


class MemoryStore:
    """The memories of one vault as files."""

    def __init__(self, root: Path, settings: Settings, deed: ChangeSet | None = None) -> None:
        self.root = root
        self.settings = settings
        self.deed = deed or ChangeSet()
        # The types that a folder can stand for.
        self.known_types = frozenset(known.name for known in settings.types)

    @cached_property
    def history(self) -> Revisions:
        """Revisions and trash."""
        return Revisions(self.root / ".memvault", self.settings.history)

    @cached_property
    def changes(self) -> VaultWriter:
        """The way to change any file of the vault: what is done is written down."""
        from memvault.store.writer import VaultWriter

        return VaultWriter(self.root, self.history, self.deed, self.settings.secrets)

    def with_change_set(self, deed: ChangeSet) -> MemoryStore:
        """Return the same memories, changed by another call."""
        return MemoryStore(self.root, self.settings, deed)

    def scan(self) -> Scan:
        """List every memory's file without opening one; errors as for ``scan.scan``."""
        return scan(self.root, self.settings.ignore)

    def state(self) -> Hashable:
        """Return what is another value once any file has changed; errors as for ``scan``."""
        return frozenset(self.scan().files)

    def read_bytes(self, path: str) -> tuple[bytes, FileState]:
        """Return a file's bytes and a state taken before they were read.

        Raises:
            NotFound: there is no plain file of that name.
            StorageError: it cannot be read.
        """
        state = state_of(self.root, path)
        if state is None:
            what = "plain file" if os.path.lexists(self.root / path) else "file"
            raise NotFound(f"There is no {what} {path} in the vault", FILE_MISSING_HINT)
        with atomic.map_os_errors(path):
            try:
                return plain_files.read(self.root / path), state
            except FileNotFoundError as error:
                raise NotFound(
                    f"There is no file {path} in the vault", FILE_MISSING_HINT
                ) from error

    def read(self, path: str) -> Memory:
        """Read one memory; errors as for ``read_bytes``."""
        data, state = self.read_bytes(path)
        return document.read_memory(data, state, self.known_types)

    def read_listed(self, path: str) -> Memory | None:
        """Return the memory whose file has exactly this path, or None; errors as for ``read``."""
        if listed(self.root, path, self.settings.ignore):
            with contextlib.suppress(NotFound):
                return self.read(path)
        return None

    def parse(self, data: bytes, state: FileState) -> Memory:
        """Make a memory of bytes already read."""
        return document.read_memory(data, state, self.known_types)

    def add(self, memory_type: str, title: str, header: Mapping[str, Any], body: str) -> Memory:
        """Write a new memory under a free name of its type's folder.

        A title that the file's name and first heading do not give back is kept
        in the header, and is an alias where Obsidian would not find it by the name.
        """
        from memvault.secrets.detector import masked
        from memvault.vault import file_names

        stem = paths.slug(masked(title))
        heading = first_heading(body)
        private_folder(self.root)
        path = f"{memory_type}/{stem}.md"

        def encoded(name: str) -> bytes:
            told: dict[str, Any] = {} if title == (heading or name) else {"title": title}
            told |= file_names.of_new(title, name, header.get("aliases"))
            rest = {key: value for key, value in header.items() if key not in ("id", "aliases")}
            return document.encode_new({"id": header["id"], **told, **rest}, body)

        self._check_place(path)
        subject = FileRef(header["id"], title)
        data = encoded(stem)
        try:
            self.changes.create([path], data, subject)
        except FileExistsError:
            data = encoded("")  # whatever name is free, it does not give the title back
            path = self.changes.create(self._names_beside(path), data, subject)
        return self._written(path, data)

    def add_at(self, path: str, header: Mapping[str, Any], body: str) -> Memory:
        """Write a new memory under exactly this path.

        Raises:
            FileExistsError: it is taken.
        """
        private_folder(self.root)
        self._check_place(path)
        data = document.encode_new(header, body)
        title = self.parse(data, FileState(path, len(data), 0, 0, 0)).title
        self.changes.create([path], data, FileRef(header["id"], title))
        return self._written(path, data)

    def change(
        self,
        memory: Memory,
        changes: Mapping[str, Any],
        body: str | None,
        if_match: str | None = None,
        memory_type: str | None = None,
    ) -> WriteResult:
        """Set header keys and body of a memory whose bytes are still those last read.

        ``memory.etag`` is always checked; ``if_match`` is the etag a caller saw.
        With ``memory_type`` a file that lies in its type's folder moves to the
        other's. With another ``title`` the alias that was the old one follows.

        Raises:
            Conflict: the file has other bytes by now.
            Refused: the header cannot be patched.
        """
        named = dict(changes)
        if "title" in named and "aliases" not in named:
            from memvault.vault import file_names

            named |= file_names.retitled(memory, str(named["title"]))
        if self._moved(memory, memory_type) != memory.path and "id" not in memory.metadata:
            named["id"] = memory.mem_id  # one that is derived from the path would change with it
        edited = partial(self._edited, memory, named, body)
        path = self._moved(memory, memory_type)
        names = self._names_beside(path) if path != memory.path else ()
        return self._rewritten(memory, edited, names, if_match)

    def rename(
        self,
        memory: Memory,
        path: str,
        changes: Mapping[str, Any] | None = None,
        body: str | None = None,
    ) -> WriteResult:
        """Give a memory exactly this path, and set header keys and body; its memId stays.

        With another ``title`` the alias that was the old one follows.

        Raises:
            Conflict: the path is taken, or the file has other bytes by now.
            Refused: the header cannot be patched.
        """
        own = {} if "id" in memory.metadata else {"id": memory.mem_id}
        named = {**own, **(changes or {})}
        if "title" in named and "aliases" not in named:
            from memvault.vault import file_names

            named |= file_names.retitled(memory._replace(path=path), str(named["title"]))
        edited = partial(self._edited, memory, named, body)
        self._check_place(path)
        return self._rewritten(memory, edited, [path])

    def rewrite(self, memory: Memory, data: bytes) -> WriteResult:
        """Give a memory other bytes altogether; errors as for ``change``."""
        return self._rewritten(memory, lambda *_: data)

    def _rewritten(
        self,
        memory: Memory,
        edited: Callable[[bytes, FileState], bytes],
        names: Iterable[str] = (),
        if_match: str | None = None,
    ) -> WriteResult:
        """Give a memory new bytes, and where there are ``names`` the first that is free."""
        with self._lock():
            self._finish_move()
            data, state = self.read_bytes(memory.path)
            for seen in (if_match, memory.etag):
                _check_etag(memory, data, seen)
            after = edited(data, state)
            path = memory.path
            self._check_place(path)
            subject = FileRef(memory.mem_id, memory.title)
            if not names:
                check = partial(_check_etag, memory, seen=memory.etag)
                revision = self.changes.replace(path, data, after, subject, check)
            else:
                secrets = self.changes.check_secrets(data, after)
                revision = self.history.save(memory.mem_id, data)
                try:
                    path = self._move(memory, names, after)
                except BaseException:
                    self.history.delete(memory.mem_id, revision)
                    raise
                self.changes.record_move(memory.path, path, revision, document.etag(after), subject)
                self.changes.warn_secrets(path, secrets)
        return WriteResult(self._written(path, after), revision)

    def _written(self, path: str, data: bytes) -> Memory:
        """Return the memory just written, even if its file has gone since."""
        return self.parse(data, state_of(self.root, path) or FileState(path, len(data), 0, 0, 0))

    def _move(self, memory: Memory, names: Iterable[str], after: bytes) -> str:
        """Write a memory's new bytes under the first free name, and take the old file away.

        Raises:
            Conflict: none is free.
        """
        etag = document.etag(after)
        try:
            for target in names:
                writer.write_intent(
                    self.root, writer.MoveIntent(memory.path, memory.etag, target, etag)
                )
                with contextlib.suppress(FileExistsError):
                    atomic.create(self.root / target, after)
                    break
            else:
                raise Conflict(f"{target} is there already", "choose another name")
            try:
                _check_etag(memory, self.read_bytes(memory.path)[0], memory.etag)
                with atomic.map_os_errors(memory.path):
                    (self.root / memory.path).unlink(missing_ok=True)
            except MemvaultError:
                (self.root / target).unlink()
                raise
        finally:
            self._finish_move()
        return target

    def complete_interrupted_move(self, seconds: float = 1.0) -> None:
        """Take away the old file of a move that was killed before it did; its bytes are kept.

        A move under way has so many seconds to end. In a vault that cannot be
        written both files stay.
        """
        if os.path.lexists(self.root / writer.FILE):
            with contextlib.suppress(MemvaultError, OSError), self._lock(seconds):
                self._finish_move()

    def _finish_move(self) -> None:
        old = writer.interrupted_move(self.root)
        if old is not None:
            memory = self.read(old)
            if any(name.endswith(memory.etag) for name in self.history.revisions(memory.mem_id)):
                with atomic.map_os_errors(old):
                    (self.root / old).unlink(missing_ok=True)
        writer.clear_intent(self.root)

    def _edited(
        self,
        memory: Memory,
        changes: Mapping[str, Any],
        body: str | None,
        data: bytes,
        state: FileState,
    ) -> bytes:
        """Return the new bytes; a title or id that would be lost moves to the header."""
        edited = document.edit(data, changes, body)
        after = self.parse(edited, state)
        kept = {}
        if after.title != memory.title and "title" not in changes:
            kept["title"] = memory.title
        if after.mem_id != memory.mem_id and "id" not in changes:
            kept["id"] = memory.mem_id
        return document.edit(edited, kept, None) if kept and after.metadata else edited

    def _check_place(self, path: str) -> None:
        """Refuse a path that leads through a link or a file, or where no memory is looked for."""
        paths.require_plain_folders(self.root, PurePosixPath(path).parent.as_posix())
        if paths.is_ignored(path, self.settings.ignore):
            raise Refused(
                f"{path} is ignored by memvault.toml, so nothing would be found there",
                "choose another type, or change ignore",
            )

    def _moved(self, memory: Memory, memory_type: str | None) -> str:
        pure = PurePosixPath(memory.path)
        if memory_type is None or pure.parts[0] == memory_type:
            return memory.path
        if len(pure.parts) == 1:
            return f"{memory_type}/{memory.path}"
        if pure.parts[0] not in (memory.memory_type, *self.known_types):
            return memory.path  # a folder of the person's own
        return str(PurePosixPath(memory_type, *pure.parts[1:]))

    def _names_beside(self, path: str) -> Iterator[str]:
        for name in paths.numbered_names(path, lambda name: os.path.lexists(self.root / name)):
            self._check_place(name)
            yield name

    def discard(self, path: str, seen: str) -> TrashedFile:
        """Move a memory to the trash if its bytes are still those with etag ``seen``.

        Raises:
            Conflict: it has other bytes by now.
            NotFound: it is gone.
        """
        with self._lock():
            data, state = self.read_bytes(path)
            if document.etag(data) != seen:
                raise Conflict(f"{path} was changed meanwhile", "look at it again, then forget it")
            memory = self.parse(data, state)
            try:
                return self.changes.discard(path, FileRef(memory.mem_id, memory.title))
            except FileNotFoundError as error:
                raise NotFound(
                    f"There is no file {path} in the vault", FILE_MISSING_HINT
                ) from error

    def put_back(self, item: TrashedFile, subject: FileRef) -> str:
        """Move a file out of the trash to its path, or beside it where that is taken."""
        with self._lock():
            return self.changes.restore(item, self._names_for(item.path), subject)

    def _names_for(self, path: str) -> Iterator[str]:
        """Yield a path, and names beside it; one that is taken is passed over."""
        self._check_place(path)
        yield path
        yield from self._names_beside(path)

    def _lock(self, seconds: float = 30.0) -> FileLock:
        return FileLock(private_folder(self.root) / "lock", seconds)


def _check_etag(memory: Memory, data: bytes, seen: str | None) -> None:
    """Make sure that bytes are those that a caller saw; others are a ``Conflict``."""
    found = document.etag(data)
    if seen is not None and seen != found:
        raise Conflict(
            f"{memory.path} was changed meanwhile: its etag is {found}, not {seen}",
            f"memvault show {memory.mem_id} shows it as it is now",
        )
