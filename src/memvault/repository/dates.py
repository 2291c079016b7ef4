"""Date a vault's files by git commits, cached next to the index.

Git runs only if the user has approved the vault's repository, and only after HEAD has moved.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import grants
from memvault.errors import MemvaultError, TimedOut
from memvault.files import plain_files
from memvault.files.git_location import RepositoryLocation
from memvault.model import CommitTimes, FileCommits
from memvault.named_tuple import NamedTuple
from memvault.repository.location import GRANT, find_repository

if TYPE_CHECKING:
    from memvault.repository.commit_cache import CacheState, CommitCache

_FILE = "commits-2.db"
"""The cache's name, with the version of its format."""
_MIN_PAUSE, _MAX_PAUSE = 60.0, 3_600.0
"""Seconds until git runs again after it failed or took too long, doubled each time."""
_SHA1_LENGTH = 40
_NO_TIMES = CommitTimes()


class _DatesState(NamedTuple):
    """The state of the repository and of the cache at one moment.

    ``stamp`` equals the cache's stamp if the cache is current.
    """

    location: RepositoryLocation | None
    stamp: str
    cached: CacheState | None

    @property
    def is_read(self) -> bool:
        """Whether the cache is current, or there is no repository to read."""
        return self.location is None or (
            self.cached is not None and self.cached.stamp == self.stamp
        )


class CommitDates:
    """Dates a vault's files by git commits; ``find_folder`` returns the folder of its index."""

    def __init__(self, root: Path, find_folder: Callable[[], Path | None]) -> None:
        self._root = root
        self._find_folder = find_folder
        self._opened: CommitCache | None = None
        self._file: Path | None = None
        self.is_delayed = False
        """Whether the last update skipped commits because git took too long."""
        self._known_source: tuple[object, int] = None, 0

    def times(self, path: str, data: bytes) -> CommitTimes:
        """Return git's times for a file in the vault with these bytes."""
        commits = None
        with self._reading() as cache:
            if cache is not None and self._source_of(cache):
                commits = cache.file(path)
        if commits is None:
            return _NO_TIMES
        modified = commits.modified if _is_blob(data, commits.blob) else ""
        return CommitTimes(commits.created, modified)

    def source(self) -> int:
        """Return the id of the cache that supplies the times, or 0 if no times come from git."""
        with self._reading() as cache:
            if cache is not None:
                return self._source_of(cache)
        return 0

    def is_current(self, source: int, seconds: float) -> bool:
        """Return whether an index with times from a cache is up to date.

        ``source`` is the cache's id, and ``seconds`` is the time limit for git.
        """
        self._file = None
        dates_state = self._look()
        is_read = dates_state.is_read or not self._may_run(dates_state, seconds)
        return is_read and source == self.source() and not self.pending()

    def update(self, seconds: float) -> None:
        """Read the commits since the last update; the caller must hold the index's lock.

        If git fails, or takes more than ``seconds``, the times stay as they are.
        """
        self._file = None
        dates_state = self._look()
        location = dates_state.location
        if location is None or dates_state.is_read or not self._may_run(dates_state, seconds):
            return
        try:
            cache = self._cache() or self._create()
        except OSError:  # The cache is damaged, or no file can be written.
            with contextlib.suppress(OSError):
                self._create()
            return
        try:
            self._read(cache, location, dates_state.stamp, seconds)
            self.is_delayed = False
        except (MemvaultError, OSError, ValueError) as error:
            self.is_delayed = isinstance(error, TimedOut)
            with contextlib.suppress(OSError, MemvaultError):
                self._note_failure(cache, seconds if self.is_delayed else 0.0)
                return
            with contextlib.suppress(OSError):
                self._create()

    def pending(self) -> set[str]:
        """Return the paths whose times have changed since they were indexed."""
        with self._reading() as cache:
            if cache is not None:
                return cache.pending()
        return set()

    def settle(self, paths: Iterable[str]) -> None:
        """Mark files whose times have changed as indexed."""
        with self._reading() as cache:
            if cache is not None:
                cache.settle(paths)

    def close(self) -> None:
        """Close the cache."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _look(self) -> _DatesState:
        cached = None
        with self._reading() as cache:
            if cache is not None:
                cached = cache.state()
        location, stamp = None, ""
        with contextlib.suppress(MemvaultError, OSError, ValueError):
            location = find_repository(self._root)
            stamp = "" if location is None else location.state
        dates_state = _DatesState(location, stamp, cached)
        self.is_delayed = not dates_state.is_read and cached is not None and cached.limit > 0
        return dates_state

    def _may_run(self, dates_state: _DatesState, seconds: float) -> bool:
        """Return whether git may read the commits now and could finish within ``seconds``."""
        with contextlib.suppress(MemvaultError, OSError, ValueError):
            grant = grants.get(self._root, *GRANT)
            state = dates_state.cached
            waits = state is not None and state.retry > time.time() and state.grant == _text(grant)
            if state is not None and waits and not 0 < state.limit < seconds:
                return False
            location = dates_state.location
            granted = location is not None and grant.get("folder") == str(location.folder)
            return granted and self._is_enabled() and self._find_folder() is not None
        return False

    def _read(
        self, cache: CommitCache, location: RepositoryLocation, stamp: str, seconds: float
    ) -> None:
        """Read the commits; ``stamp`` must be computed before HEAD is read, because it may move."""
        from memvault.repository.approved import approved_repository
        from memvault.repository.commit_cache import CacheState
        from memvault.repository.commits import read_commits

        until = time.monotonic() + seconds
        before, cached_files = cache.state(), cache.files()
        repository = approved_repository(self._root, location)
        commit = repository.git.commit_id("HEAD", seconds)
        folder, prefix = str(location.folder), repository.prefix
        state = CacheState(folder, prefix, _shallow(location), commit, stamp)
        since = before.commit if state[:3] == before[:3] else ""
        files: dict[str, FileCommits] = {}
        if commit and commit == since:
            files = cached_files
        elif commit:
            shallow, seconds = frozenset(state.shallow), until - time.monotonic()
            files = read_commits(repository, commit, shallow, since, cached_files, seconds)
        changed = {path: entry for path, entry in files.items() if cached_files.get(path) != entry}
        cache.write(state, cached_files.keys() - files.keys(), changed)

    def _note_failure(self, cache: CommitCache, limit: float) -> None:
        """Store when git may run again after a failure, and the time limit if it was exceeded."""
        before = cache.state()
        pause = min(max(_MIN_PAUSE, 2 * before.pause), _MAX_PAUSE)
        grant = _text(grants.get(self._root, *GRANT))
        retry = time.time() + pause
        cache.write(before._replace(retry=retry, grant=grant, pause=pause, limit=limit))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[CommitCache | None]:
        """Yield the cache, or None if it is missing or unreadable."""
        cache = None
        with contextlib.suppress(OSError, MemvaultError):
            cache = self._cache()
        with contextlib.suppress(OSError, MemvaultError):
            yield cache

    def _cache(self) -> CommitCache | None:
        if self._file is None:
            folder = self._find_folder()
            self._file = None if folder is None else folder / _FILE
        if self._file is None or not self._file.is_file():
            self.close()
            return None
        if self._opened is not None and not self._opened.is_there:
            self.close()
        if self._opened is None:
            from memvault.repository.commit_cache import CommitCache

            self._opened = CommitCache(self._file)
        return self._opened

    def _create(self) -> CommitCache:
        from memvault.repository.commit_cache import CommitCache

        folder = self._find_folder()
        if folder is None:
            raise FileNotFoundError
        self.close()
        self._file = folder / _FILE
        self._opened = CommitCache(self._file, new=True)
        return self._opened

    def _source_of(self, cache: CommitCache) -> int:
        """Return the cache's id, or 0 if the cache must not be used.

        It must not be used if it belongs to another repository or git dates are disabled. This is
        checked again when a file that it depends on changes.
        """
        stamps = map(plain_files.stamp_of, self._git_paths)
        files = self._settings_file, self._file or ""
        key = next(filter(None, stamps), None), *map(plain_files.stamp_of, files)
        if self._known_source[0] != key:
            location = None
            with contextlib.suppress(MemvaultError):
                location = find_repository(self._root)
            is_own = location is not None and cache.state().folder == str(location.folder)
            self._known_source = key, cache.identity() if is_own and self._is_enabled() else 0
        return self._known_source[1]

    @cached_property
    def _git_paths(self) -> list[str]:
        """Paths where the vault's repository may be."""
        root = Path(os.path.realpath(self._root))
        return [str(folder / ".git") for folder in (root, *root.parents)]

    @cached_property
    def _settings_file(self) -> Path | str:
        from memvault.settings import user_settings

        with contextlib.suppress(MemvaultError):
            return user_settings.file()
        return ""

    @staticmethod
    def _is_enabled() -> bool:
        from memvault.settings import user_settings

        with contextlib.suppress(MemvaultError):
            return user_settings.load().git.dates
        return False


def _text(grant: Mapping[str, Any]) -> str:
    return json.dumps(grant, sort_keys=True)


def _shallow(location: RepositoryLocation) -> tuple[str, ...]:
    """Return the commits whose parents a shallow clone lacks."""
    try:
        data = plain_files.read(location.common / "shallow", plain_files.MAX_STATE_BYTES)
    except FileNotFoundError:
        return ()
    return tuple(sorted(data.decode("ascii", "replace").split()))


def _is_blob(data: bytes, blob: str) -> bool:
    """Return whether git stores these bytes, possibly with other line endings, under a blob id."""
    import hashlib

    algorithm = "sha1" if len(blob) == _SHA1_LENGTH else "sha256"
    for content in {data, data.replace(b"\r\n", b"\n")}:
        digest = hashlib.new(algorithm, b"blob %d\0" % len(content), usedforsecurity=False)
        digest.update(content)
        if digest.hexdigest() == blob:
            return True
    return False
