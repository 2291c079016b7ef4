"""What was there before: revisions of changed files, and the trash.

Both live in ``.memvault`` and never travel with git. A revision is named by
its time and etag; a discarded file keeps its own path below a folder named by
the time it was discarded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from memvault import clock, plain_files
from memvault.errors import Ambiguous, NotFound, Refused
from memvault.vault import atomic, layout
from memvault.vault.codec import etag

_KEPT_REVISIONS = 50
_STAMPED = re.compile(r"\d{8}T\d{6}\.\d{3}Z-\w+")


class Discarded(NamedTuple):
    """A file in the trash: where it is, where it was, and since when it is there."""

    file: Path
    path: str
    when: str


class History:
    """Revisions and trash of one vault, below its ``.memvault`` folder."""

    def __init__(self, folder: Path) -> None:
        # Reading through a link would show files of others as one's own.
        own = (folder, folder / "history", folder / "trash")
        self._linked = any(path.is_symlink() for path in own)
        self._revisions = folder / "history"
        self._trash = folder / "trash"

    def keep(self, mem_id: str, data: bytes, file: Path | None = None) -> str:
        """Keep a file's bytes from before a change; return the revision's name.

        With ``file`` it is the file itself that is kept, under a second name.
        """
        folder = self._folder(mem_id)
        revision = f"{_stamp(self.revisions(mem_id))}-{etag(data)}"
        if file is None:
            atomic.create(folder / f"{revision}.md", data)
        else:
            atomic.name_too(file, folder / f"{revision}.md", data)
        for old in self.revisions(mem_id)[:-_KEPT_REVISIONS]:
            (folder / f"{old}.md").unlink(missing_ok=True)
        return revision

    def drop(self, mem_id: str, revision: str) -> None:
        """Forget a revision of a change that was not made after all."""
        (self._folder(mem_id) / f"{revision}.md").unlink(missing_ok=True)

    def revisions(self, mem_id: str) -> list[str]:
        """Name a memory's revisions, oldest first."""
        with contextlib.suppress(OSError):
            if not self._linked:
                return sorted(path.stem for path in self._folder(mem_id).glob("[0-9]*.md"))
        return []

    def read(self, mem_id: str, revision: str) -> bytes:
        """Return a revision's bytes; a beginning of its name is enough.

        Raises:
            NotFound: there is no such revision.
        """
        fitting = [name for name in self.revisions(mem_id) if name.startswith(revision)]
        if len(fitting) > 1 and revision not in fitting:
            raise Ambiguous(
                f"{revision!r} names {len(fitting)} revisions",
                "use more of a revision's name",
                {"revisions": fitting},
            )
        if revision and fitting:
            with contextlib.suppress(OSError), atomic.explained(self._folder(mem_id)):
                return plain_files.read(self._folder(mem_id) / f"{fitting[-1]}.md")
        known = ", ".join(self.revisions(mem_id)[-3:])
        raise NotFound(
            f"There is no revision {revision!r} of {mem_id}",
            f"the latest are {known}" if known else "it has no earlier revisions",
        )

    def replaced_since(
        self, mem_ids: Iterable[str], moment: datetime
    ) -> Iterator[tuple[str, bytes, str]]:
        """Yield, of the memories that were changed after a moment, the bytes that they had then.

        With them comes when the change before was made, empty where none is known.
        """
        folders = set() if self._linked else set(_names(self._revisions))
        for mem_id in mem_ids if folders else ():
            if _folder_name(mem_id) in folders:
                revisions = self.revisions(mem_id)
                later = [name for name in revisions if _moment(name) > moment]
                if later:
                    earlier = revisions[: -len(later)]
                    since = clock.iso(_moment(earlier[-1])) if earlier else ""
                    with contextlib.suppress(OSError, NotFound, Refused):
                        yield mem_id, self.read(mem_id, later[0]), since

    def discard(self, root: Path, path: str) -> Discarded:
        """Move a file of the vault into the trash.

        Raises:
            FileNotFoundError: it is gone already.
        """
        when = _stamp(sorted(_names(self._trash)))
        target = self._trash / f"{when}-{clock.nonce()}" / path
        atomic.move_new(root / path, target)
        return Discarded(target, path, when)

    def discarded(self) -> list[Discarded]:
        """List the trash, newest first."""
        found = []
        for folder in sorted(_names(self._trash), reverse=True):
            base = self._trash / folder
            if self._linked or base.is_symlink() or not _STAMPED.fullmatch(folder):
                continue
            for parent, _, names in os.walk(base):
                paths = [Path(parent, name) for name in sorted(names)]
                found += [
                    Discarded(path, path.relative_to(base).as_posix(), folder.rsplit("-", 1)[0])
                    for path in paths
                    if layout.is_memory_path(path.relative_to(base).as_posix())
                ]
        return found

    def put_back(self, root: Path, item: Discarded) -> str:
        """Move a file out of the trash to its old path, or beside it where that is taken."""
        for path in layout.names_beside(item.path, lambda path: os.path.lexists(root / path)):
            try:
                atomic.move_new(item.file, root / path)
            except FileExistsError:
                continue
            with contextlib.suppress(OSError):  # the folders above it stay where they hold more
                for folder in item.file.relative_to(self._trash).parents[:-1]:
                    (self._trash / folder).rmdir()
            return path
        raise AssertionError("there is always another number")

    def _folder(self, mem_id: str) -> Path:
        folder = self._revisions / _folder_name(mem_id)
        if folder.is_symlink():
            raise Refused(f"{folder} is a link", "remove the link")
        return folder


def _folder_name(mem_id: str) -> str:
    return hashlib.blake2b(mem_id.encode(), digest_size=8).hexdigest()


def _stamp(earlier: list[str]) -> str:
    """Return the present moment as a name that sorts behind all earlier ones."""
    moment = clock.now()
    last = max((_moment(name) for name in earlier), default=None)
    if last is not None and last >= moment.replace(microsecond=moment.microsecond // 1000 * 1000):
        moment = last + timedelta(milliseconds=1)
    return clock.iso(moment).replace("-", "").replace(":", "")


def _moment(name: str) -> datetime:
    """Return when a stamped name was made; one that lies ahead counts as long ago."""
    moment = clock.parse(name.split("-", maxsplit=1)[0])
    ahead = clock.now() + timedelta(days=1)
    return moment if moment is not None and moment < ahead else datetime.min.replace(tzinfo=UTC)


def _names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)
    return []
