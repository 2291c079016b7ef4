"""The times of a vault's files in git, read from its commits and cached beside the index.

Git runs only if the user has approved it in the vault's repository, and only after HEAD has moved.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.errors import MemvaultError, TimedOut
from memvault.files import plain_files
from memvault.model import CommitTimes, FileCommits
from memvault.repository.location import GRANT, RepositoryLocation, find
from memvault.settings import grants

if TYPE_CHECKING:
    from memvault.repository.commit_cache import CacheState, CommitCache

_FILE = "commits-1.db"
"""The name of the cache, with the version of its format."""
_RETRY_SECONDS, _SLOW_RETRY_SECONDS = 60.0, 3_600.0
"""Seconds until git runs again after it failed, or after it took too long."""
_SHA1_LENGTH = 40
_NO_TIMES = CommitTimes()


class CommitDates:
    """The times of a vault's files in git; ``find_folder`` returns the folder of its index."""

    def __init__(self, root: Path, find_folder: Callable[[], Path | None]) -> None:
        self._root = root
        self._find_folder = find_folder
        self._opened: CommitCache | None = None

    def times(self, path: str, data: bytes) -> CommitTimes:
        """Return the times that git has for a file of the vault with these bytes."""
        with self._reading() as cache:
            known = cache.file(path) if cache is not None and self._is_enabled else None
            if known is not None:
                modified = known.modified if _is_blob(data, known.blob) else ""
                return CommitTimes(known.created, modified)
        return _NO_TIMES

    def is_current(self) -> bool:
        """Return whether the index needs no update because of git's commits."""
        return self._is_read() and not self.pending()

    def update(self) -> None:
        """Read the commits since the last update; the caller must hold the index's lock.

        If git fails, the times are left as they are.
        """
        if self._is_read():
            return
        try:
            self._read()
        except (MemvaultError, OSError, ValueError) as error:
            pause = _SLOW_RETRY_SECONDS if isinstance(error, TimedOut) else _RETRY_SECONDS
            with contextlib.suppress(OSError, MemvaultError):
                cache = self._cache() or self._create()
                grant = _text(grants.get(self._root, *GRANT))
                cache.write(cache.state()._replace(retry=time.time() + pause, grant=grant))
                return
            self.close()
            with contextlib.suppress(OSError):
                self._create()

    def pending(self) -> set[str]:
        """Return the paths whose times have changed and that were not indexed since."""
        with self._reading() as cache:
            if cache is not None:
                return cache.pending()
        return set()

    def settle(self, paths: Iterable[str]) -> None:
        """Note that files whose times have changed were indexed."""
        with self._reading() as cache:
            if cache is not None:
                cache.settle(paths)

    def close(self) -> None:
        """Close the cache."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _is_read(self) -> bool:
        """Return whether the cache is of the current commit, or git may not run now."""
        with contextlib.suppress(MemvaultError, OSError, ValueError):
            place = find(self._root)
            if place is None:
                return True
            state = self._state()
            if state is not None and state.stamp == _stamp(place):
                return True
            grant = grants.get(self._root, *GRANT)
            if state is not None and state.retry > time.time() and state.grant == _text(grant):
                return True
            granted = grant.get("folder") == str(place.folder)
            return not (granted and self._is_enabled and self._find_folder() is not None)
        return True

    def _read(self) -> None:
        from memvault.repository.approved import approved_repository
        from memvault.repository.commit_cache import CacheState
        from memvault.repository.commits import read_commits

        place = find(self._root)
        assert place is not None
        stamp = _stamp(place)  # before HEAD is read, as it may move in between
        repository = approved_repository(self._root, place)
        commit = repository.git.commit_id("HEAD")
        state = CacheState(str(place.folder), repository.prefix, _shallow(place), commit, stamp)
        cache = self._cache() or self._create()
        before, known = cache.state(), cache.files()
        since = before.commit if state[:3] == before[:3] else ""
        files: dict[str, FileCommits] = {}
        if commit and commit == since:
            files = known
        elif commit:
            files = read_commits(repository, commit, frozenset(state.shallow), since, known)
        changed = {path: entry for path, entry in files.items() if known.get(path) != entry}
        cache.write(state, known.keys() - files.keys(), changed)

    def _state(self) -> CacheState | None:
        with self._reading() as cache:
            if cache is not None:
                return cache.state()
        return None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[CommitCache | None]:
        """Yield the cache, None if there is none; an unreadable one is as good as none."""
        with contextlib.suppress(OSError):
            yield self._cache()

    def _cache(self) -> CommitCache | None:
        if self._opened is None and self._file is not None and self._file.is_file():
            from memvault.repository.commit_cache import CommitCache

            self._opened = CommitCache(self._file)
        return self._opened

    def _create(self) -> CommitCache:
        from memvault.repository.commit_cache import CommitCache

        folder = self._find_folder()
        if folder is None:
            raise FileNotFoundError
        self.close()
        self.__dict__.pop("_file", None)
        self._opened = CommitCache(folder / _FILE, new=True)
        return self._opened

    @cached_property
    def _file(self) -> Path | None:
        folder = self._find_folder()
        return None if folder is None else folder / _FILE

    @cached_property
    def _is_enabled(self) -> bool:
        from memvault.settings import user_settings

        with contextlib.suppress(MemvaultError):
            return user_settings.load().git.dates
        return False


def _text(grant: Mapping[str, Any]) -> str:
    return json.dumps(grant, sort_keys=True)


def _stamp(place: RepositoryLocation) -> str:
    """Return a text that differs once HEAD may have moved, without running git."""
    shared = ("packed-refs", "reftable/tables.list", "shallow", f"refs/heads/{place.branch}")
    files = [place.folder / "HEAD", *(place.common / name for name in shared)]
    return json.dumps([str(place.folder), [plain_files.state_of(file) for file in files]])


def _shallow(place: RepositoryLocation) -> tuple[str, ...]:
    """Return the commits whose parents a shallow clone lacks."""
    try:
        data = plain_files.read(place.common / "shallow", plain_files.STATE)
    except FileNotFoundError:
        return ()
    return tuple(sorted(data.decode("ascii", "replace").split()))


def _is_blob(data: bytes, blob: str) -> bool:
    """Return whether git stores these bytes, or the same with other line ends, under an id."""
    import hashlib

    algorithm = "sha1" if len(blob) == _SHA1_LENGTH else "sha256"
    for content in {data, data.replace(b"\r\n", b"\n")}:
        found = hashlib.new(algorithm, b"blob %d\0" % len(content), usedforsecurity=False)
        found.update(content)
        if found.hexdigest() == blob:
            return True
    return False
