"""Revisions, the old versions of changed files, and the trash.

Both are folders in ``.memvault`` and are never synced by git. A revision is named by its time and
etag; a discarded file keeps its own path below a folder named by the time it was discarded.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from memvault import clock
from memvault.errors import Ambiguous, Conflict, MemvaultError, NotFound, StorageError
from memvault.files import atomic, plain_files
from memvault.lazy_pattern import lazy_pattern
from memvault.settings.vault_settings import DEFAULTS, HistorySettings
from memvault.vault.document import etag
from memvault.vault.paths import existing_private, is_memory_path, private_folder

_STAMPED_NAME = lazy_pattern(r"\d{8}T\d{6}\.\d{3}Z-\w+")
_REVISION_NAME = lazy_pattern(r"\d{8}T\d{6}\.\d{3}Z-([0-9a-f]{20})\.md", re.ASCII)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_LAST_YEAR = 9_000
"""A name of this year or later is not from a clock, and no new name has to sort after it."""
_ALWAYS_KEPT = 5
"""Newest revisions of a memory kept whatever their age, as clocks are sometimes ahead."""


class TrashedFile(NamedTuple):
    """A file in the trash: its location, path in the vault, time of discarding and folder."""

    file: Path
    path: str
    when: str
    folder: str


class ExpiredHistory(NamedTuple):
    """Revisions and trash that exceed the age or size limits of the settings."""

    revisions: list[Path]
    trash: list[TrashedFile]

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self.revisions) + len(self.trash)


class Revisions:
    """The revisions and the trash of one vault, in its ``.memvault`` folder."""

    def __init__(self, root: Path, limits: HistorySettings = DEFAULTS.history) -> None:
        self._root = root
        self._revisions = root / ".memvault" / "history"
        self._trash = root / ".memvault" / "trash"
        self.limits = limits
        self._last_discarded = ""

    def save(
        self,
        mem_id: str,
        data: bytes,
        file: Path | None = None,
        like: atomic.Attributes | None = None,
    ) -> str:
        """Save a file's bytes before a change, and return the revision's name.

        With ``file``, the file itself is kept by a hard link, or else a copy with its attributes;
        without it, the bytes with the attributes ``like``. Old revisions beyond the limit are
        deleted by ``trim`` once the change is made.
        """
        folder = private_folder(self._root, f"history/{_folder_name(mem_id)}")
        self.trim(mem_id)
        revision = f"{_new_stamp(self.revisions(mem_id))}-{etag(data)}"
        if file is None:
            atomic.create(folder / f"{revision}.md", data, like)
        else:
            self._separate(mem_id, file)
            atomic.hard_link(file, folder / f"{revision}.md", data)
        return revision

    def attributes(self, mem_id: str, revision: str) -> atomic.Attributes | None:
        """Return the attributes of the file that a revision keeps; None if they are unknown."""
        with contextlib.suppress(OSError):
            return atomic.Attributes.of(self._folder(mem_id) / f"{revision}.md")
        return None

    def times(self, mem_id: str, revision: str) -> tuple[int, int] | None:
        """Return the times of the file that a revision keeps; None if they are unknown.

        A prefix of the revision's name is enough.
        """
        names = (name for name in self.revisions(mem_id) if name.startswith(revision))
        attributes = self.attributes(mem_id, next(names, ""))
        return None if attributes is None else attributes.times

    def _separate(self, mem_id: str, file: Path) -> None:
        """Separate a file from the revision to which a killed change has linked it."""
        with atomic.best_effort():
            status = file.lstat()
            if status.st_nlink > 1:
                for name in self.revisions(mem_id):
                    path = self._folder(mem_id) / f"{name}.md"
                    if os.path.samestat(path.lstat(), status):
                        _separate_revision(path)

    def linked(self, files: Iterable[Path]) -> Iterator[Path]:
        """Yield the revisions and trashed files that are the same file as one of the vault's.

        A change that was killed leaves one. An editor that writes to the file in place then changes
        both.
        """
        shared = set()
        for file in files:
            with contextlib.suppress(OSError):
                status = file.lstat()
                if status.st_nlink > 1:
                    shared.add((status.st_dev, status.st_ino))
        if not shared:
            return
        kept = [self._revisions / folder / name for folder, name in self._all_revisions()]
        for path in (*kept, *(item.file for item in self.discarded())):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if (status.st_dev, status.st_ino) in shared:
                    yield path

    def separate(self, path: Path) -> None:
        """Separate a file that ``linked`` has found; the vault lock has to be held.

        Raises:
            OSError: it cannot be changed.
            StorageError: it cannot be written.
        """
        if path.is_relative_to(
            self._trash
        ):  # a copy: the file is in the vault, never moved or back
            path.unlink()
            self._remove_empty_folders(path)
        else:
            _separate_revision(path)

    def _all_revisions(self) -> Iterator[tuple[str, str]]:
        """Yield the folder and the file name of every revision."""
        for folder in self._names("history"):
            for name in self._names(f"history/{folder}"):
                if not name.startswith("."):
                    yield folder, name

    def trim(self, mem_id: str, made: str = "") -> None:
        """Delete a memory's oldest revisions beyond the limit, except the one just made."""
        revisions = self.revisions(mem_id)
        others = [name for name in revisions if name != made]
        for old in others[: max(0, len(revisions) - self.limits.revisions)]:
            with contextlib.suppress(OSError):
                (self._folder(mem_id) / f"{old}.md").unlink()

    def delete(self, mem_id: str, revision: str) -> None:
        """Delete the revision of a change that was not made after all."""
        (self._folder(mem_id) / f"{revision}.md").unlink(missing_ok=True)

    def revisions(self, mem_id: str) -> list[str]:
        """Return the names of a memory's revisions, oldest first."""
        names = self._names(f"history/{_folder_name(mem_id)}")
        return [name[:-3] for name in names if name.endswith(".md") and "0" <= name[0] <= "9"]

    def read(self, mem_id: str, revision: str) -> bytes:
        """Return a revision's bytes; a prefix of its name is enough.

        Raises:
            NotFound: there is no such revision.
            Ambiguous: the prefix fits several revisions.
            StorageError: the revision cannot be read.
        """
        matches = [name for name in self.revisions(mem_id) if name.startswith(revision)]
        if len(matches) > 1 and revision not in matches:
            raise Ambiguous(
                f"{revision!r} names {len(matches)} revisions",
                "use more of a revision's name",
                {"revisions": matches},
            )
        if revision and matches:
            try:
                return plain_files.read(self._folder(mem_id) / f"{matches[-1]}.md")
            except OSError as error:
                raise StorageError(
                    f"The revision {matches[-1]} of {mem_id} cannot be read: {error.strerror}",
                    "`memvault doctor` names damaged revisions, `memvault log` the others",
                ) from error
        latest = ", ".join(self.revisions(mem_id)[-3:])
        raise NotFound(
            f"There is no revision {revision!r} of {mem_id}",
            f"the latest are {latest}" if latest else "it has no earlier revisions",
        )

    def verify(self) -> Iterator[tuple[Path, str]]:
        """Yield the files among the revisions that cannot be used, each with its problem."""
        for folder, name in self._all_revisions():
            path = self._revisions / folder / name
            if problem := _find_problem(path):
                yield path, problem

    def read_verified(self, mem_id: str, revision: str) -> bytes:
        """Return the bytes of a revision that is to be restored; raises as ``read`` does.

        Raises:
            Conflict: the bytes do not have the etag in the revision's name.
        """
        data = self.read(mem_id, revision)
        revisions = self.revisions(mem_id)
        if not any(name.startswith(revision) and name.endswith(etag(data)) for name in revisions):
            raise Conflict(
                f"The revision {revision} of {mem_id} is damaged: it has other bytes than it was "
                "kept with",
                f"`memvault show {mem_id} --revision {revision}` shows what it says now",
            )
        return data

    def versions_at(
        self, mem_ids: Iterable[str], moment: datetime
    ) -> Iterator[tuple[str, bytes, str]]:
        """Yield the bytes that memories had at a moment, for those that were changed after it.

        Each comes with its memId and the time of the change before, empty if unknown.
        """
        folders = set(self._names("history"))
        for mem_id in mem_ids if folders else ():
            if _folder_name(mem_id) in folders:
                revisions = self.revisions(mem_id)
                later = [name for name in revisions if _trusted_stamp(name) > moment]
                if later:
                    earlier = revisions[: -len(later)]
                    since = clock.iso(_trusted_stamp(earlier[-1])) if earlier else ""
                    with contextlib.suppress(NotFound, StorageError):
                        yield mem_id, self.read(mem_id, later[0]), since

    def discard(self, root: Path, path: str) -> TrashedFile:
        """Move a file of the vault to the trash.

        Raises:
            FileNotFoundError: the file is missing.
        """
        # A call may discard thousands of files; listing the trash for each would take minutes.
        last = self._last_discarded
        when = _new_stamp([last] if last else self._names("trash"))
        folder = self._last_discarded = f"{when}-{clock.random_id()}"
        target = self._trash / folder / path
        atomic.move_exclusive(root / path, target)
        return TrashedFile(target, path, when, folder)

    def discarded(self) -> list[TrashedFile]:
        """Return the files in the trash, newest first."""
        items = []
        for folder in reversed(self._names("trash")):
            items += self.discarded_in(folder)
        return items

    def discarded_in(self, folder: str) -> list[TrashedFile]:
        """Return the files in one folder of the trash: those discarded at one moment."""
        base = existing_private(self._root, f"trash/{folder}")
        if base is None or not _STAMPED_NAME.fullmatch(folder):
            return []
        when = folder.rsplit("-", 1)[0]
        from memvault.files.walk import walk

        paths = (Path(parent, name) for parent, _, names in walk(base) for name in sorted(names))
        files = ((path, path.relative_to(base).as_posix()) for path in paths)
        return [
            TrashedFile(path, name, when, folder) for path, name in files if is_memory_path(name)
        ]

    def put_back(self, root: Path, item: TrashedFile, paths: Iterable[str]) -> str:
        """Move a file out of the trash to the first path that is free, and return that path.

        Raises:
            FileExistsError: no path is free.
            StorageError: the file cannot be moved.
        """
        for path in paths:
            with contextlib.suppress(FileExistsError):
                atomic.move_exclusive(item.file, root / path)
                self._remove_empty_folders(item.file)
                return path
        raise FileExistsError(errno.EEXIST, "All names are taken", item.path)

    def empty(self, items: Iterable[TrashedFile]) -> None:
        """Delete files in the trash permanently.

        Raises:
            StorageError: a file cannot be deleted.
        """
        for item in items:
            with atomic.map_os_errors(item.path):
                item.file.unlink(missing_ok=True)
            self._remove_empty_folders(item.file)

    def _remove_empty_folders(self, file: Path) -> None:
        """Delete the folders that a file in the trash was in, unless they hold other files."""
        with contextlib.suppress(OSError):
            for folder in file.relative_to(self._trash).parents[:-1]:
                (self._trash / folder).rmdir()

    def prune(self) -> None:
        """Delete revisions beyond the age or size limit, oldest first, and old trashed files."""
        overdue = self.overdue()
        for path in overdue.revisions:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(MemvaultError):
            self.empty(overdue.trash)

    def overdue(self) -> ExpiredHistory:
        """Return what ``prune`` would delete."""
        oldest = _format_stamp(clock.now() - timedelta(days=self.limits.days))
        saved = []
        for folder in self._names("history"):
            for position, name in enumerate(reversed(self._names(f"history/{folder}"))):
                path = self._revisions / folder / name
                is_old = name < oldest and position >= _ALWAYS_KEPT
                with contextlib.suppress(OSError):
                    saved.append((name, path.lstat().st_size, path, is_old))
        total_bytes = 0
        revisions = []
        for _, size, path, is_old in sorted(saved, reverse=True):
            total_bytes += size
            if is_old or total_bytes > self.limits.megabytes << 20:
                revisions.append(path)
        if not self.limits.trash_days:
            return ExpiredHistory(revisions, [])
        until = _format_stamp(clock.now() - timedelta(days=self.limits.trash_days))
        return ExpiredHistory(revisions, [item for item in self.discarded() if item.when < until])

    def _folder(self, mem_id: str) -> Path:
        return self._revisions / _folder_name(mem_id)

    def _names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder of ``.memvault``; none if it is behind a link."""
        path = existing_private(self._root, folder)
        with contextlib.suppress(OSError):
            return sorted(os.listdir(path)) if path else []
        return []


def _folder_name(mem_id: str) -> str:
    return hashlib.blake2b(mem_id.encode(), digest_size=8).hexdigest()


def _separate_revision(path: Path) -> None:
    """Replace a revision that is linked to a file by a copy; delete one that has other bytes now.

    The change that it was made for was not completed, so these bytes are in the file alone.
    """
    data = plain_files.read(path)
    named = _REVISION_NAME.fullmatch(path.name)
    if named is not None and etag(data) == named[1]:
        atomic.write(path, data, like=atomic.Attributes.of(path))
    else:
        path.unlink()


def _find_problem(path: Path) -> str:
    """Return what is wrong with a revision's file, as a phrase that follows its name."""
    named = _REVISION_NAME.fullmatch(path.name)
    if named is None:
        return "has a name that is none of a revision"
    try:
        data = plain_files.read(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if etag(data) == named[1] else "has other bytes than it was kept with"


def _new_stamp(earlier: list[str]) -> str:
    """Return the current time as a name that sorts after all earlier ones, which are sorted.

    If the clock has gone back, that is one millisecond after the last name.
    """
    moment = clock.now()
    names = (
        name
        for name in reversed(earlier)
        if name < f"{_LAST_YEAR}" and _STAMPED_NAME.fullmatch(name)
    )
    last = _parse_stamp(next(names, ""))
    if last >= moment.replace(microsecond=moment.microsecond // 1000 * 1000):
        moment = last + timedelta(milliseconds=1)
    return _format_stamp(moment)


def _format_stamp(moment: datetime) -> str:
    return clock.iso(moment).replace("-", "").replace(":", "")


def _parse_stamp(name: str) -> datetime:
    """Return the time in a stamped name."""
    return clock.parse(name.split("-", maxsplit=1)[0]) or _LONG_AGO


def _trusted_stamp(name: str) -> datetime:
    """Return the time in a stamped name; one more than a day in the future counts as long ago."""
    moment = _parse_stamp(name)
    return moment if moment < clock.now() + timedelta(days=1) else _LONG_AGO
