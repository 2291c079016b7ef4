"""Move a memory's file so that a later call can complete an interrupted move.

The new file is written first. ``MOVE_INTENT`` records both paths until the old file is deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from memvault.errors import Conflict, MemvaultError
from memvault.files import atomic, plain_files
from memvault.files.attributes import Attributes
from memvault.model import FileState, Memory
from memvault.named_tuple import NamedTuple
from memvault.store.change_set import missing_as_not_found
from memvault.store.revisions import Revisions
from memvault.vault import memory_file
from memvault.vault.document import etag
from memvault.vault.names import normalize_title
from memvault.vault.paths import is_memory_path, require_plain_folders
from memvault.vault.private_folder import MOVE_INTENT


class MoveIntent(NamedTuple):
    """The old and new path and etag of a moved file, as recorded in ``MOVE_INTENT``."""

    source: str
    before: str
    target: str
    after: str


class FileMove(NamedTuple):
    """A move of a file that also changes its bytes; paths are relative to ``root``.

    ``check_unchanged`` raises ``Conflict`` if the old file's bytes are no longer ``before``.
    """

    root: Path
    source: str
    before: bytes
    after: bytes
    check_unchanged: Callable[[], None]

    def run(self, targets: Iterable[str], times: tuple[int, int] | None) -> str:
        """Write the new file at the first free path, delete the old one, and return the path.

        Raises:
            Conflict: no path is free, or the old file has changed.
            NotFound: the old file is missing.
            StorageError: a file cannot be written; the old file is unchanged.
        """
        old = self.root / self.source
        with missing_as_not_found(self.source), atomic.map_os_errors(self.source):
            attributes = Attributes.of(old)._replace(times=times)
        for target in targets:
            if is_respelled(self.root, self.source, target):
                self._respell(target, times)
                return target
            intent = MoveIntent(self.source, etag(self.before), target, etag(self.after))
            atomic.write(self.root / MOVE_INTENT, json.dumps(intent._asdict()).encode())
            with contextlib.suppress(FileExistsError):
                atomic.create(self.root / target, self.after, attributes)
                break
        else:
            raise Conflict(f"{target} already exists", "choose another name")
        try:
            with missing_as_not_found(self.source), atomic.map_os_errors(self.source):
                self.check_unchanged()
                old.unlink(missing_ok=True)
        except MemvaultError:
            (self.root / target).unlink(missing_ok=True)
            raise
        return target

    def _respell(self, target: str, times: tuple[int, int] | None) -> None:
        """Rename the file to another spelling of its name, then replace its bytes."""
        old, new = self.root / self.source, self.root / target
        with missing_as_not_found(self.source), atomic.map_os_errors(self.source):
            old.rename(new)
            try:
                atomic.replace(new, self.after, self.check_unchanged, times)
            except BaseException:
                new.rename(old)
                raise


def is_respelled(root: Path, path: str, other: str) -> bool:
    """Return whether two paths that differ in case or normalization are the same file."""
    first, second = PurePosixPath(path), PurePosixPath(other)
    keys = {normalize_title(name.name) for name in (first, second)}
    if first == second or first.parent != second.parent or len(keys) > 1:
        return False
    with contextlib.suppress(OSError):
        names = os.listdir((root / first).parent)
        is_same = (root / first).samefile(root / second)
        return is_same and not {first.name, second.name}.issubset(names)
    return False


def complete_move(root: Path, history: Revisions, encoding: str) -> None:
    """Complete an interrupted move by deleting the old file, under the vault lock.

    Raises:
        StorageError: the old file cannot be deleted.
    """
    old = _find_unfinished_move(root, history, encoding)
    if old is not None:
        with atomic.map_os_errors(old):
            (root / old).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (root / MOVE_INTENT).unlink(missing_ok=True)


def _find_unfinished_move(root: Path, history: Revisions, encoding: str) -> str | None:
    """Return the old path if both files are as recorded and a revision has the old bytes."""
    with contextlib.suppress(OSError, ValueError, TypeError, MemvaultError):
        move = MoveIntent(**plain_files.read_json(root / MOVE_INTENT))
        if move.source == move.target or is_respelled(root, move.source, move.target):
            return None
        if _memory_with_etag(root, move.target, move.after, encoding):
            old = _memory_with_etag(root, move.source, move.before, encoding)
            revisions = history.revisions(old.mem_id) if old else []
            if any(name.endswith(move.before) for name in revisions):
                return move.source
    return None


def _memory_with_etag(root: Path, path: str, expected_etag: str, encoding: str) -> Memory | None:
    """Return the memory at a path in the vault, or None if its etag differs."""
    if PurePosixPath(path).is_absolute() or not is_memory_path(path):
        return None
    require_plain_folders(root, PurePosixPath(path).parent.as_posix())
    data = plain_files.read(root / path)
    if etag(data) != expected_etag:
        return None
    return memory_file.read_memory(data, FileState.of(path, data), frozenset(), encoding)
