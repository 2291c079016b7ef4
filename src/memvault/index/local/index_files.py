"""The index's own files: opened only as one commit left them, locked to be written, thrown away.

The manifest names the files of the keyword index. An index that is not as its
last commit left it is never used; whoever may write makes it anew. Vectors have
a card of their own (``vectors``). All three lie in one folder, so that a new
index is made ``beside`` the old one, which others read until it takes its place.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from memvault.errors import MemvaultError, StorageError
from memvault.files.file_stamps import IndexCommit
from memvault.files.lock import FileLock
from memvault.files.user_folders import make_private
from memvault.index.folder import KEPT, IndexFolder
from memvault.index.local.backend import LOCAL, KeywordStore, KeywordStoreOpener
from memvault.index.local.manifest import Manifest
from memvault.index.protocol import IndexCorrupted, VectorsCorrupted
from memvault.index.text import analysis, indexed_text, passages
from memvault.settings.vault_settings import Settings

_FORMAT = 5
MADE = f"{_FORMAT}.{analysis.VERSION}.{passages.VERSION}.{indexed_text.VERSION}"
"""Which version of this program's terms, passages and files an index is of."""
INDEX = "index"
_OURS = ("index", "engine-")
"""What the names of indexes begin with, of which a vault may have several in one folder."""
_SETTLE = 0.02


class OpenIndex(NamedTuple):
    """A whole index: manifest, keyword index, and the commit that both belong to."""

    manifest: Manifest
    keyword: KeywordStore
    commit: IndexCommit


class IndexFiles:
    """The files in an index's folder; ``opened`` is None where none can be used."""

    def __init__(
        self,
        settings: Settings,
        place: IndexFolder,
        words: KeywordStoreOpener = LOCAL.words,
        name: str = INDEX,
    ) -> None:
        self._words = words
        self.place = place
        self._whole = place.folder or Path(os.devnull)
        self.folder = self._whole / name
        self._beside, self._before = (self._whole / f"{name}{end}" for end in (".new", ".old"))
        self.opened: OpenIndex | None = None
        self._settings = settings
        self._lock = FileLock(self._whole / "lock")
        self._manifest: Manifest | None = None
        self._manifest_file = self.folder / "manifest.db"
        self._keyword_folder = self.folder / "keyword"

    @property
    def fingerprint(self) -> str:
        """What an index must have been made for to be of use now."""
        types = sorted({known.name for known in self._settings.types})
        return f"{MADE} {self._settings.language} {types}"

    def open(self, writing: bool = False) -> OpenIndex | None:
        """Open the index, or keep it open, if it is whole.

        What the system refuses just now is no reason to begin with a new one: it
        is raised where the caller is ``writing``, else there is nothing to read.

        While a writer commits, the files are not those of the last commit for a
        moment, so they are looked at a few times.
        """
        for attempt in range(4):
            found = self._committed(writing)
            if found is None or found.fingerprint != self.fingerprint:
                break
            if found.holds(self._keyword_folder):
                return self._use(found)
            time.sleep(_SETTLE * attempt)
        self.close()
        return None

    def _committed(self, writing: bool = False) -> IndexCommit | None:
        """Return the last commit, the manifest opened or kept open for it; None where none is."""
        try:
            if self._manifest is None or not self._manifest.is_there:
                self.close()
                self._manifest = Manifest(self._manifest_file)
            return self._manifest.committed()
        except (IndexCorrupted, OSError) as error:
            self.close()
            if writing and isinstance(error, OSError):
                raise
            return None

    def _use(self, commit: IndexCommit, keyword: KeywordStore | None = None) -> OpenIndex:
        """Take the files of a commit for open; another commit's are let go of."""
        assert self._manifest is not None
        before = self.opened
        if keyword is None and before is not None and before.commit.number == commit.number:
            keyword = before.keyword
        if keyword is None:
            keyword = self._words(self._keyword_folder, commit.files)
        if before is not None and before.keyword is not keyword:
            before.keyword.close()
        self.opened = OpenIndex(self._manifest, keyword, commit)
        return self.opened

    def close(self) -> None:
        """Let go of open files."""
        if self._manifest is not None:
            self._manifest.close()
        if self.opened is not None:
            self.opened.keyword.close()
        self._manifest = self.opened = None

    @contextmanager
    def locked(self, patience: float) -> Iterator[bool]:
        """Try to take the lock; say whether that succeeded.

        Raises:
            StorageError: nothing can be written where the index lies.
        """
        taken = False
        try:
            if self.place.folder is None:
                raise OSError(errno.EROFS, "it is in memory")
            make_private(self.place.folder)  # someone may have deleted it
            taken = self._lock.acquire(patience)
            if taken:
                self._recover()
            yield taken
        except OSError as error:
            self.close()
            raise StorageError(
                f"The index cannot be written: {error.strerror or error}",
                "recall works without it, more slowly",
            ) from error
        finally:
            if taken:
                self._lock.release()

    # Under the lock

    def create_empty(self) -> OpenIndex:
        """Throw away whatever is there and begin with an empty index."""
        self.close()
        for entry in os.scandir(self._whole):  # an earlier version's index lay there
            if entry.name not in KEPT and not entry.name.startswith(_OURS):
                _delete(Path(entry.path))
        _delete(self.folder)
        self.folder.mkdir()
        self._manifest = Manifest(self._manifest_file, new=True)
        return self.commit(self._words.create(self._keyword_folder))

    @contextmanager
    def build_replacement(self) -> Iterator[IndexFiles]:
        """Let a new index be made, which takes the place of this one once it is whole.

        Until then others read this one, and where making it fails it stays.
        """
        made = IndexFiles(self._settings, self.place, self._words, self._beside.name)
        try:
            yield made
            made.close()
            self.close()
            with contextlib.suppress(FileNotFoundError):
                self.folder.rename(self._before)
            made.folder.rename(self.folder)
        finally:
            made.close()
            self._recover()

    def _recover(self) -> None:
        """Put right what a process left that was killed while it made an index beside."""
        if self._before.is_dir() and not self.folder.exists():
            self._before.rename(self.folder)
        for left in (self._beside, self._before):
            if left.exists():
                _delete(left)

    def commit(self, keyword: KeywordStore) -> OpenIndex:
        """Make what was written the index that every process opens from now on."""
        assert self._manifest is not None
        self._manifest.commit(self.fingerprint, keyword.files())
        commit = self._manifest.committed()
        assert commit is not None
        return self._use(commit, keyword)

    def invalidate(self) -> None:
        """Leave no index that could be opened; vectors stay, but mean nothing without it."""
        self.close()
        if not self._manifest_file.is_dir():  # such a one is no manifest either
            self._manifest_file.unlink(missing_ok=True)

    # Reading failed

    def discard(self, error: IndexCorrupted, commit: IndexCommit | None) -> None:
        """Have a commit of which reading failed made anew at the next look.

        Not so where another process or thread has committed meanwhile. Vectors are looked at
        again when they are opened, and go alone.
        """
        if commit is None and self.opened is not None:
            commit = self.opened.commit
        self.close()
        if commit is None or isinstance(error, VectorsCorrupted):
            return
        with contextlib.suppress(OSError, MemvaultError), FileLock(self._lock.path, 1.0):
            found = self._committed()
            if found is None or found.number == commit.number:
                self.invalidate()
        self.close()


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
