"""An index's files: open, lock and replace them.

The manifest lists the files of the keyword index. An index whose files differ from its last commit
is never used; the next process that can write rebuilds it. Vectors have a separate card
(``vectors``). All files are in one folder, so a new index can be built in a second folder while
other processes read the old one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from memvault.errors import MemvaultError, StorageError, TimedOut
from memvault.files import atomic
from memvault.files.lock import FileLock
from memvault.files.user_folders import make_private
from memvault.index.folder import IndexFolder, is_unused, mark_used
from memvault.index.local.folder_diff import is_settled
from memvault.index.local.manifest import IndexCommit, Manifest
from memvault.index.protocol import COMPLETE, IndexCorrupted, VectorsCorrupted
from memvault.index.text import analyzer, passages, sentence_blocks
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.settings.vault_settings import DEFAULTS, Settings
from memvault.vault.decoding import AUTO
from memvault.vault.scan import Scan

if TYPE_CHECKING:
    from memvault.index.local.stores import KeywordBackend, KeywordStore

Value = TypeVar("Value")

_FORMAT = 17
INDEX_VERSION = f"{_FORMAT}.{analyzer.VERSION}.{passages.VERSION}.{sentence_blocks.VERSION}"
"""The combined version of the file format, the analyzer, the passages and the sentence blocks."""
INDEX = f"index-{INDEX_VERSION}"
"""An index's folder. Each program version has a separate folder, so that two versions do not
keep rebuilding one index.
"""
_ANY_INDEX = lazy_pattern(r"index(-[\w.]+)?(\.new|\.old)?")
_RETRY_PAUSE = 0.02
_PROBE_BYTES = 4_096
_MAX_CHANGED = 500
"""The maximum number of changed files that are looked up one by one in the manifest."""


class OpenIndex(NamedTuple):
    """An open index: the manifest, the keyword index, and the commit of both."""

    manifest: Manifest
    keyword: KeywordStore
    commit: IndexCommit


class IndexFiles:
    """The files in an index's folder; ``opened`` is None if there is no usable index."""

    def __init__(
        self,
        settings: Settings,
        index_folder: IndexFolder,
        backend: KeywordBackend,
        name: str,
    ) -> None:
        self.backend = backend
        self.index_folder = index_folder
        self._root = index_folder.folder or Path(os.devnull)
        self.folder = self._root / name
        self._replacement, self._backup = (self._root / f"{name}{end}" for end in (".new", ".old"))
        self.opened: OpenIndex | None = None
        self._settings = settings
        self._lock = FileLock(self._root / "lock")
        self._manifest: Manifest | None = None
        self._manifest_file = self.folder / "manifest.db"
        self.keyword_folder = self.folder / "keyword"
        self.vectors_folder = self.folder / "vectors"
        self._scan_file = self.folder / "scan"

    @property
    def fingerprint(self) -> str:
        """Return the versions and settings with which a usable index must have been built."""
        types = sorted({memory_type.name for memory_type in self._settings.types})
        encoding = "" if self._settings.encoding == AUTO else f" {self._settings.encoding}"
        language, most = self._settings.language, self._settings.index.characters
        megabytes = self._settings.documents.megabytes
        documents = "" if megabytes == DEFAULTS.documents.megabytes else f" {megabytes} MB"
        return f"{INDEX_VERSION} {language} {most} {types}{encoding}{documents}"

    def open(self, writing: bool = False) -> OpenIndex | None:
        """Return the index, reopened if there is a newer commit, or None if it is incomplete."""
        for attempt in range(4):
            commit = self._committed(writing)
            if commit is None or commit.fingerprint != self.fingerprint:
                break
            if commit.holds(self.keyword_folder):
                self._mark_used()
                return self._use(commit)
            time.sleep(_RETRY_PAUSE * attempt)
        self.close()
        return None

    def _committed(self, writing: bool = False) -> IndexCommit | None:
        """Open the manifest if necessary and return the last commit, or None."""
        try:
            if self._manifest is None or not self._manifest.exists:
                self.close()
                self._manifest = Manifest(self._manifest_file)
            return self._manifest.committed()
        except (IndexCorrupted, OSError) as error:
            self.close()
            if writing and isinstance(error, OSError):
                raise
            return None

    def _use(self, commit: IndexCommit, keyword: KeywordStore | None = None) -> OpenIndex:
        """Use the files of a commit, and close the files of any other."""
        assert self._manifest is not None
        previous = self.opened
        if keyword is None and previous is not None and previous.commit.number == commit.number:
            keyword = previous.keyword
        if keyword is None:
            keyword = self.backend.open_keyword(self.keyword_folder, commit.files)
        if previous is not None and previous.keyword is not keyword:
            previous.keyword.close()
        self.opened = OpenIndex(self._manifest, keyword, commit)
        return self.opened

    def _mark_used(self) -> None:
        """Mark this index as used; once a day, delete indexes that are no longer used."""
        with atomic.best_effort(), contextlib.suppress(TimedOut):
            if mark_used(self.folder) and self.folder.name == INDEX:
                with FileLock(self._lock.path, 0.0):
                    for other in self._root.iterdir():
                        is_index = other.name != INDEX and _ANY_INDEX.fullmatch(other.name)
                        if is_index and is_unused(other):
                            _delete(other)

    def close(self) -> None:
        """Close the open files."""
        if self._manifest is not None:
            self._manifest.close()
        if self.opened is not None:
            self.opened.keyword.close()
        self._manifest = self.opened = None

    @contextmanager
    def locked(self, patience: float) -> Iterator[bool]:
        """Try to acquire the lock within ``patience`` seconds; yield whether that succeeded.

        Raises:
            StorageError: if the index's folder is not writable.
        """
        taken = False
        try:
            if self.index_folder.folder is None:
                raise OSError(errno.EROFS, "it is in memory")
            # These folders may have been deleted since.
            make_private(self.index_folder.folder.parent)
            make_private(self.index_folder.folder)
            taken = self._lock.acquire(patience)
            if taken:
                self._recover()
            yield taken
        except OSError as error:
            self.close()
            raise StorageError(
                f"The index cannot be written: {error.strerror or error}",
                f"{self._remedy(error)}; recall works without it, but more slowly",
            ) from error
        finally:
            if taken:
                self._lock.release()

    def _remedy(self, error: OSError) -> str:
        """Return how to make the index's folder writable after an error."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return "free some disk space"
        if error.errno in (errno.EACCES, errno.EPERM):
            return f"check the permissions of {error.filename or self._root}"
        if error.errno == errno.EROFS:
            return "set MEMVAULT_CACHE to a writable folder"
        return f"check {error.filename or self._root}"

    def write_problem(self) -> str:
        """Return why the index's folder is not writable, or an empty string if it is.

        Nothing is tested while another process writes, or for an index in memory.
        """
        probe = self._root / "probe"
        try:
            if self.index_folder.folder is not None:
                with self.locked(0.0) as locked:
                    if locked:
                        atomic.write(probe, bytes(_PROBE_BYTES), durable=False)
                        probe.unlink(missing_ok=True)
        except StorageError as error:
            return error.message
        return ""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock.

        Raises:
            StorageError: if the index's folder is not writable.
            TimedOut: if another process does not release it in time.
        """
        with self.locked(COMPLETE.indexing) as locked:
            if not locked:
                raise TimedOut(
                    "Another process is writing the index", "try again when it has finished"
                )
            yield

    def is_last(self, commit: IndexCommit) -> bool:
        """Return whether no other process has committed since a commit was opened."""
        last = self._committed()
        return last is not None and last.number == commit.number

    def is_remembered(self, scan: Scan) -> bool:
        """Return whether a scan equals the saved scan of the open commit.

        If so, no file has changed, and no comparison with the manifest is necessary.
        """
        if self.opened is None or scan.unreadable:
            return False
        try:
            remembered = self._scan_file.read_bytes()
        except OSError:
            return False
        return remembered == _scan_stamp(self.opened.commit, scan)

    def changed_since_scan(self, scan: Scan) -> set[str] | None:
        """Return the files that differ from the open commit's saved scan; None without one."""
        if self.opened is None or scan.unreadable:
            return None
        saved = self._saved_scan(self.opened.commit)
        changed = scan.paths_that_differ(saved) if saved is not None else None
        return changed if changed is not None and len(changed) <= _MAX_CHANGED else None

    def _saved_scan(self, commit: IndexCommit) -> Scan | None:
        """Return the saved scan of a commit, or None if there is none."""
        try:
            identity, commits, packed = self._scan_file.read_bytes().split(b" ", 2)
            is_saved = (int(identity), int(commits)) == commit.number
            return Scan.unpack(packed) if is_saved else None
        except (OSError, ValueError):
            return None

    def remember_scan(self, scan: Scan, changed: Collection[str] = ()) -> None:
        """Save a scan in which every file but the ``changed`` ones matches the open commit.

        The states of changed files are saved as unknown, so they are looked up in the manifest.
        Concurrent saves of the same scan are harmless; if saving fails, files are compared again.
        """
        if self.opened is not None and not scan.unreadable and len(changed) <= _MAX_CHANGED:
            with contextlib.suppress(OSError, MemvaultError):
                scan.forget_states(changed)
                stamp = _scan_stamp(self.opened.commit, scan)
                atomic.write(self._scan_file, stamp, durable=False, makes_folder=False)

    # Methods that require the lock

    def carry_scan(self, before: IndexCommit, changed: Set[str], scan: Scan | None) -> None:
        """Save the scan of the commit ``before`` for the open commit.

        ``changed`` contains the paths of all files that were indexed or removed since ``before``.
        If there are many, ``scan``, in which they differed from ``before``, is saved with the
        states in which they were indexed.
        """
        if self.opened is None or self.opened.commit.number == before.number:
            return
        if len(changed) <= _MAX_CHANGED:
            scan = self._saved_scan(before)
        elif scan is not None:
            indexed = self.opened.manifest.known_of(changed).values()
            settled = {file.state.path: file.state for file in indexed if is_settled(file)}
            scan.set_states(settled)
            changed = {path for path in scan.paths if path in changed and path not in settled}
        if scan is not None:
            self.remember_scan(scan, changed)

    def create_empty(self) -> OpenIndex:
        """Delete any existing index and create an empty one."""
        self.close()
        _delete(self.folder)
        self.folder.mkdir()
        self._manifest = Manifest(self._manifest_file, new=True)
        return self.commit(self.backend.create_keyword(self.keyword_folder))

    @contextmanager
    def build_replacement(self) -> Iterator[IndexFiles]:
        """Yield the files of a new index that replaces this one once the block completes.

        Until then, other processes read this index; if the build fails, this index is kept.
        """
        replacement = IndexFiles(
            self._settings, self.index_folder, self.backend, self._replacement.name
        )
        try:
            yield replacement
            replacement.close()
            self.close()
            with contextlib.suppress(FileNotFoundError):
                self.folder.rename(self._backup)
            replacement.folder.rename(self.folder)
        finally:
            replacement.close()
            self._recover()

    def _recover(self) -> None:
        """Clean up after a process that was killed while building a replacement."""
        if self._backup.is_dir() and not self.folder.exists():
            self._backup.rename(self.folder)
        for leftover in (self._replacement, self._backup):
            if leftover.exists():
                _delete(leftover)

    def commit(self, keyword: KeywordStore) -> OpenIndex:
        """Commit the written changes, so that every process opens them from now on."""
        assert self._manifest is not None
        self._manifest.commit(self.fingerprint, keyword.files())
        commit = self._manifest.committed()
        assert commit is not None
        return self._use(commit, keyword)

    def invalidate(self) -> None:
        """Delete the manifest, so that the index cannot be opened.

        The vectors are kept, but cannot be used without the manifest.
        """
        self.close()
        if not self._manifest_file.is_dir():  # a folder cannot be unlinked
            self._manifest_file.unlink(missing_ok=True)

    # Handling of read errors

    def rebuild_if_corrupted(self, refresh: Callable[[], Value]) -> Value:
        """Return the result of a refresh, which is repeated once if the index is corrupted.

        Raises:
            MemvaultError: if the index is corrupted again.
        """
        try:
            return refresh()
        except IndexCorrupted as error:
            self.discard(error)
        try:
            return refresh()
        except IndexCorrupted as error:
            raise self.discard(error) from error

    def discard(self, error: IndexCorrupted, commit: IndexCommit | None = None) -> MemvaultError:
        """Invalidate a commit, by default the open one, so that the next refresh rebuilds it.

        If another process or thread has committed since, the commit stays. Vectors are checked when
        opened and discarded separately. Returns the error to show to the user if the index is
        corrupted again.
        """
        if commit is None and self.opened is not None:
            commit = self.opened.commit
        self.close()
        if commit is not None and not isinstance(error, VectorsCorrupted):
            with contextlib.suppress(OSError, MemvaultError), FileLock(self._lock.path, 1.0):
                current = self._committed()
                if current is None or current.number == commit.number:
                    self.invalidate()
            self.close()
        return MemvaultError(
            f"The index was damaged again while it was being read: {error}",
            "rebuild it with `memvault reindex`",
        )


def _scan_stamp(commit: IndexCommit, scan: Scan) -> bytes:
    return scan.packed(b"%d %d " % commit.number)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        import shutil

        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
