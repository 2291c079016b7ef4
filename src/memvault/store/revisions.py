"""Old versions of changed files, named by time and etag.

Revisions are in ``.memvault/history`` and never synced by git.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from memvault import clock
from memvault.errors import Ambiguous, Conflict, NotFound, StorageError
from memvault.files import atomic, plain_files
from memvault.files.attributes import Attributes
from memvault.files.plain_files import digest_of
from memvault.lazy_pattern import lazy_pattern
from memvault.settings.vault_settings import DEFAULTS, HistorySettings
from memvault.store.stamps import format_stamp, new_stamp, trusted_stamp
from memvault.vault.document import etag
from memvault.vault.private_folder import list_private, private_folder

_REVISION_NAME = lazy_pattern(r"\d{8}T\d{6}\.\d{3}Z-([0-9a-f]{20})\.md", re.ASCII)
_ALWAYS_KEPT = 5
"""Number of a memory's newest revisions to keep regardless of age, because clocks can be wrong."""


class Revisions:
    """The revisions of one vault."""

    def __init__(self, root: Path, limits: HistorySettings = DEFAULTS.history) -> None:
        self._root = root
        self._folder = root / ".memvault" / "history"
        self.limits = limits

    @contextmanager
    def saved(
        self,
        mem_id: str,
        data: bytes,
        file: Path | None = None,
        like: Attributes | None = None,
    ) -> Iterator[str]:
        """Save a file's bytes as a revision before the ``with`` statement changes the file.

        Yields the revision's name. If the change fails and the file still exists, the revision is
        deleted; otherwise the oldest revisions over the limit are deleted.

        With ``file``, the revision is a hard link to the file, or a copy with its attributes if
        links are not possible. Without ``file``, it is written from ``data`` with the attributes
        ``like``.

        Raises:
            StorageError: the revision cannot be written.
        """
        folder = private_folder(self._root, f"history/{_folder_name(mem_id)}")
        earlier = self.revisions(mem_id)
        revision = f"{new_stamp(earlier)}-{etag(data)}"
        path = folder / f"{revision}.md"
        if file is None:
            atomic.create(path, data, like)
        else:
            self._separate(folder, earlier, file)
            atomic.hard_link(file, path, data)
        try:
            yield revision
        except BaseException:
            if file is None or os.path.lexists(file):
                path.unlink(missing_ok=True)
            raise
        for name in earlier[: max(0, len(earlier) + 1 - self.limits.revisions)]:
            with contextlib.suppress(OSError):
                (folder / f"{name}.md").unlink()

    def attributes(self, mem_id: str, revision: str) -> Attributes | None:
        """Return the attributes of the file at the time of a revision, or None if unknown."""
        with contextlib.suppress(OSError):
            return Attributes.of(self._path(mem_id, revision))
        return None

    def times(self, mem_id: str, revision: str) -> tuple[int, int] | None:
        """Return the times of the file at the time of a revision, or None if unknown.

        A prefix of the revision's name is enough.
        """
        names = (name for name in self.revisions(mem_id) if name.startswith(revision))
        attributes = self.attributes(mem_id, next(names, ""))
        return None if attributes is None else attributes.times

    def _separate(self, folder: Path, revisions: Iterable[str], file: Path) -> None:
        """Break a hard link between a file and a revision that a killed change left behind."""
        with atomic.best_effort():
            status = file.lstat()
            if status.st_nlink > 1:
                for name in revisions:
                    path = folder / f"{name}.md"
                    if os.path.samestat(path.lstat(), status):
                        self.separate(path)

    def linked(self, files: Iterable[Path | str]) -> Iterator[Path]:
        """Yield the revisions that are hard links to one of the vault's files.

        A killed change leaves such a link. An editor that then writes to the file in place changes
        the revision as well.
        """
        revisions = (self._folder / folder / name for folder, name in self._all_revisions())
        yield from files_linked_to(files, revisions)

    @staticmethod
    def separate(path: Path) -> None:
        """Replace a revision that is hard-linked to a file with a copy; requires the vault lock.

        A revision whose bytes do not match its name is deleted: its change was not completed, so
        the file still has these bytes.

        Raises:
            OSError: the revision cannot be changed.
            StorageError: the copy cannot be written.
        """
        data = plain_files.read(path)
        match = _REVISION_NAME.fullmatch(path.name)
        if match is not None and etag(data) == match[1]:
            atomic.write(path, data, like=Attributes.of(path))
        else:
            path.unlink()

    def _all_revisions(self) -> Iterator[tuple[str, str]]:
        """Yield the folder and the file name of every revision."""
        for folder in list_private(self._root, "history"):
            for name in list_private(self._root, f"history/{folder}"):
                if not name.startswith("."):
                    yield folder, name

    def revisions(self, mem_id: str) -> list[str]:
        """Return the names of a memory's revisions, oldest first."""
        names = list_private(self._root, f"history/{_folder_name(mem_id)}")
        return [name[:-3] for name in names if name.endswith(".md") and "0" <= name[0] <= "9"]

    def read(self, mem_id: str, revision: str) -> bytes:
        """Return a revision's bytes; a prefix of its name is enough.

        Raises:
            NotFound: there is no such revision.
            Ambiguous: the prefix matches several revisions.
            StorageError: the revision cannot be read.
        """
        matches = [name for name in self.revisions(mem_id) if name.startswith(revision)]
        if len(matches) > 1 and revision not in matches:
            raise Ambiguous(
                f"{revision!r} matches {len(matches)} revisions",
                "use more characters of the revision's name",
                {"revisions": matches},
            )
        if revision and matches:
            try:
                return plain_files.read(self._path(mem_id, matches[-1]))
            except OSError as error:
                raise StorageError(
                    f"The revision {matches[-1]} of {mem_id} cannot be read: {error.strerror}",
                    "`memvault doctor` lists damaged revisions; `memvault log` lists the rest",
                ) from error
        latest = ", ".join(self.revisions(mem_id)[-3:])
        raise NotFound(
            f"There is no revision {revision!r} of {mem_id}",
            f"latest revisions: {latest}" if latest else "it has no earlier revisions",
        )

    def verify(self) -> Iterator[tuple[Path, str]]:
        """Yield the path of each unusable file in the revisions folder, and its problem."""
        for folder, name in self._all_revisions():
            path = self._folder / folder / name
            if problem := _find_problem(path):
                yield path, problem

    def read_verified(self, mem_id: str, revision: str) -> bytes:
        """Return the bytes of a revision to restore.

        Raises:
            NotFound: there is no such revision.
            Ambiguous: the prefix matches several revisions.
            StorageError: the revision cannot be read.
            Conflict: the bytes do not match the etag in the revision's name.
        """
        data = self.read(mem_id, revision)
        revisions = self.revisions(mem_id)
        if not any(name.startswith(revision) and name.endswith(etag(data)) for name in revisions):
            raise Conflict(
                f"The revision {revision} of {mem_id} does not match its checksum",
                f"`memvault show {mem_id} --revision {revision}` shows its current text",
            )
        return data

    def versions_at(
        self, mem_ids: Iterable[str], moment: datetime
    ) -> Iterator[tuple[str, bytes, str]]:
        """Yield the bytes of memories at a given time, if they were changed after it.

        Each item is a memId, the bytes, and the time of the preceding change (empty if unknown).
        """
        folders = set(list_private(self._root, "history"))
        for mem_id in mem_ids if folders else ():
            if _folder_name(mem_id) in folders:
                revisions = self.revisions(mem_id)
                later = [name for name in revisions if trusted_stamp(name) > moment]
                if later:
                    earlier = revisions[: -len(later)]
                    since = clock.iso(trusted_stamp(earlier[-1])) if earlier else ""
                    with contextlib.suppress(NotFound, StorageError):
                        yield mem_id, self.read(mem_id, later[0]), since

    def prune(self) -> None:
        """Delete the expired revisions."""
        for path in self.expired():
            with contextlib.suppress(OSError):
                path.unlink()

    def expired(self) -> list[Path]:
        """Return the revisions that exceed the age or size limit of the settings, newest first."""
        oldest = format_stamp(clock.now() - timedelta(days=self.limits.days))
        saved = []
        for folder in list_private(self._root, "history"):
            for position, name in enumerate(
                reversed(list_private(self._root, f"history/{folder}"))
            ):
                path = self._folder / folder / name
                is_old = name < oldest and position >= _ALWAYS_KEPT
                with contextlib.suppress(OSError):
                    saved.append((name, path.lstat().st_size, path, is_old))
        total_bytes = 0
        revisions = []
        for _, size, path, is_old in sorted(saved, reverse=True):
            total_bytes += size
            if is_old or total_bytes > self.limits.megabytes << 20:
                revisions.append(path)
        return revisions

    def _path(self, mem_id: str, revision: str) -> Path:
        return self._folder / _folder_name(mem_id) / f"{revision}.md"


def files_linked_to(files: Iterable[Path | str], candidates: Iterable[Path]) -> Iterator[Path]:
    """Yield the candidates that are hard links to one of the files."""
    paths = list(candidates)
    shared = set()
    for file in files if paths else ():
        with contextlib.suppress(OSError):
            status = os.lstat(file)
            if status.st_nlink > 1:
                shared.add((status.st_dev, status.st_ino))
    for path in paths if shared else ():
        with contextlib.suppress(OSError):
            status = path.lstat()
            if (status.st_dev, status.st_ino) in shared:
                yield path


def _folder_name(mem_id: str) -> str:
    return digest_of(mem_id.encode(), 8).hex()


def _find_problem(path: Path) -> str:
    """Return the problem with a revision's file, or an empty string if there is none."""
    match = _REVISION_NAME.fullmatch(path.name)
    if match is None:
        return "has an invalid name"
    try:
        data = plain_files.read(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if etag(data) == match[1] else "does not match its checksum"
