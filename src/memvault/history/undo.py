"""Undo a change set: plan all steps first, then apply them file by file.

All steps of a call on one file are reverted together: the file's bytes from before the call are
restored. If a file has changed since the call, nothing is undone. Steps that an interrupted undo
has already reverted are skipped.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import PurePosixPath

from memvault.agents.address import locks_for_paths
from memvault.call import Call
from memvault.errors import Ambiguous, Conflict, MemvaultError, NotFound, Refused
from memvault.files import plain_files
from memvault.named_tuple import NamedTuple
from memvault.store.change_set import FileRef
from memvault.store.journal import FileChange, JournalEntry
from memvault.store.memory_store import MemoryStore
from memvault.store.moves import is_respelled
from memvault.store.trash import TrashedFile
from memvault.store.writer import VaultWriter
from memvault.vault import paths
from memvault.vault.document import etag
from memvault.vault.names import normalize_title

_GONE = ("removed", "forgotten")
_NEW = ("created", "restored")
_MAX_NAMED = 5
_IMPORT = "import"
"""The tool whose new, empty folders are removed on undo."""


class RevertStep(NamedTuple):
    """The reversal of a change to one file.

    The step applies only if the file's etag is ``etag_now``; afterward the etag is
    ``etag_restored``. An empty etag means that there is no file. ``backup`` is the revision with
    the earlier bytes or, if ``trashed`` is set, the folder in the trash. ``respelled`` is the path
    of another step whose path differs only in case, on a file system that ignores case.
    """

    path: str
    subject: FileRef
    etag_now: str
    backup: str
    trashed: bool
    etag_restored: str
    respelled: str = ""


def select_change(call: Call, prefix: str) -> JournalEntry:
    """Return the change with an id or id prefix; without one, the caller's last change.

    Raises:
        NotFound: there is no such change.
        Ambiguous: several changes match the prefix.
        Refused: no id is given, and the last change is another agent's.
    """
    changes = call.store.changes.journal.changes()
    if prefix:
        matches = [change for change in changes if change.change_id.startswith(prefix)]
        if not matches:
            raise NotFound(
                f"There is no change {prefix!r}", "run `memvault undo --list` to see all changes"
            )
        if len(matches) > 1:
            raise Ambiguous(
                f"{prefix!r} matches {len(matches)} changes",
                "use more characters of the id",
                {"changes": [change.change_id for change in matches]},
            )
        return matches[0]
    for change in changes:
        if not change.reverts and not change.reverted_by and not _is_undone(call, change):
            if change.agent != call.address.agent:
                raise Refused(
                    f"The last change is by {change.agent}, not by {call.address.agent}",
                    f"`memvault undo {change.change_id}` reverts it anyway",
                )
            return change
    raise NotFound("There is nothing to undo", "`memvault log` lists the changes")


def revert_steps(files: Iterable[FileChange]) -> list[RevertStep]:
    """Return the steps that revert changes to files, last file first.

    All changes to one path become one step, from the etag after the call to the etag before it.
    """
    steps: dict[str, RevertStep] = {}
    for change in files:
        earlier = steps.pop(change.path, None)
        if earlier is None:
            revision = "" if change.kind in _NEW else change.before
            trashed = change.kind == "forgotten"
            found_etag = change.after if trashed else revision.rpartition("-")[2]
            subject = FileRef(change.mem_id, change.title)
            earlier = RevertStep(change.path, subject, "", revision, trashed, found_etag)
        if change.kind == "restored" and earlier.trashed and change.before == earlier.backup:
            continue  # The file was moved to the trash and restored, so the call did not change it.
        steps[change.path] = earlier._replace(etag_now=change.etag_after)
    effective = [step for step in reversed(steps.values()) if step.etag_now or step.backup]
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for step in effective:
        spellings[normalize_title(step.path)].append(step.path)
    others = {
        path: other
        for pair in spellings.values()
        if len(pair) == 2
        for path, other in (pair, pair[::-1])
    }
    return [step._replace(respelled=others.get(step.path, "")) for step in effective]


def why_not_undoable(store: MemoryStore, change: JournalEntry) -> str:
    """Return why a change cannot be undone, as a short message; empty if it can."""
    try:
        _remaining_steps(store, change)
    except MemvaultError as error:
        return error.message
    return ""


class Undone(NamedTuple):
    """The files that an undo reverted, and the paths of files that it skipped as changed."""

    files: list[FileChange]
    kept: list[str]


def undo(call: Call, change: JournalEntry, keeps_changed: bool = False) -> Undone:
    """Undo a change; with ``keeps_changed``, files that have changed since stay as they are.

    Raises:
        Conflict: files have changed since; if there are several, its details list them under
        ``changedFiles``.
        NotFound: the earlier bytes no longer exist.
        Refused: a path in the change is not a file in the vault.
    """
    writer = call.store.reverting(change.change_id)
    with locks_for_paths(call.root, (entry.path for entry in change.files)):
        try:
            changes = list(call.store.changes.journal.changes())
            steps, kept_paths = _remaining_steps(call.store, change, changes, keeps_changed)
        except Conflict as error:
            moved = _find_moved(call, change)
            if moved is None or change.reverted_by:
                raise
            entry, now = moved
            raise Conflict(
                f"{entry.path} is {now} now, so {change.change_id} cannot be undone",
                f"check it with `memvault show {entry.mem_id}`; if it was moved manually, move "
                "it back and undo again",
            ) from error
        restored_ids = {step.subject.mem_id for step in steps if step.backup and not step.etag_now}
        by_path = {step.path: step for step in steps}
        for step in steps:
            other = by_path.get(step.respelled)
            if other is None or not is_respelled(call.root, step.path, other.path):
                _apply(call.store, writer, step, step.subject.mem_id in restored_ids)
            elif step.backup and not step.etag_now:
                _respell(call.store, writer, other, step)
    if change.tool == _IMPORT:
        _remove_empty_folders(call, steps)
    return Undone(call.change_set.files, kept_paths)


def _remove_empty_folders(call: Call, steps: Iterable[RevertStep]) -> None:
    """Remove the folders in the vault that became empty by removing files."""
    for path in sorted({step.path for step in steps if not step.backup}):
        with contextlib.suppress(OSError):  # A folder is not empty, or is a link.
            for folder in PurePosixPath(path).parents[:-1]:
                (call.root / folder).rmdir()


def _find_moved(call: Call, change: JournalEntry) -> tuple[FileChange, str] | None:
    """Return a file in a change and its memory's current path, if it was moved since."""
    for entry in change.files:
        if entry.kind in _GONE or not paths.is_memory_path(entry.path):
            continue
        with contextlib.suppress(MemvaultError):
            memory = call.engine.names.resolve(entry.mem_id)
            if memory.mem_id == entry.mem_id and memory.path != entry.path:
                return entry, memory.path
    return None


def _remaining_steps(
    store: MemoryStore,
    change: JournalEntry,
    changes: Sequence[JournalEntry] = (),
    keeps_changed: bool = False,
) -> tuple[list[RevertStep], list[str]]:
    """Return the steps that remain to be applied, and the files to keep.

    ``changes``, newest first, are used to suggest a command in the hint of an error.

    Raises:
        Conflict: files have changed since.
        NotFound: the earlier bytes no longer exist.
        Refused: a path in the change is not a file in the vault.
    """
    try:
        return _open_steps(store, change, changes, keeps_changed)
    except MemvaultError as error:
        if not change.reverted_by:
            raise
        raise Conflict(
            f"{change.change_id} was undone by {change.reverted_by}",
            f"`memvault undo {change.reverted_by}` reverts that",
        ) from error


def _open_steps(
    store: MemoryStore, change: JournalEntry, changes: Sequence[JournalEntry], keeps_changed: bool
) -> tuple[list[RevertStep], list[str]]:
    steps = revert_steps(change.files)
    open_steps = [step for step in steps if not _is_done(store, step)]
    if not open_steps:
        where = steps[0].path if steps else "its files"
        raise Conflict(
            f"There is nothing left to undo: {where} is as it was before {change.change_id}",
            "run `memvault undo --list` to see which changes can be undone",
        )
    problems: list[tuple[RevertStep, MemvaultError]] = []
    for step in open_steps:
        try:
            _check_step(store, step, change, changes)
        except (Conflict, NotFound) as error:
            problems.append((step, error))
    if not problems:
        return open_steps, []
    kept_paths = [step.path for step, _ in problems]
    kept_ids = {step.subject.mem_id for step, _ in problems}
    others = [step for step in open_steps if step.subject.mem_id not in kept_ids]
    sources = {step.subject.mem_id for step in steps if step.backup}
    targets = {step.subject.mem_id for step in steps if not step.backup}
    if kept_ids & sources & targets:  # The memory was moved, and other files link to its new path.
        others = []
    if not keeps_changed or not others:
        raise _conflict(change, [error for _, error in problems], kept_paths, others)
    return others, kept_paths


def _conflict(
    change: JournalEntry,
    errors: Sequence[MemvaultError],
    paths: list[str],
    others: Sequence[RevertStep],
) -> MemvaultError:
    """Return the error for files that cannot be reverted, with a hint to revert the rest."""
    name, error = change.change_id, errors[0]
    if len(errors) > 1:
        rest_count = len(paths) - _MAX_NAMED
        named = ", ".join(paths[:_MAX_NAMED]) + (
            f" and {rest_count} more" if rest_count > 0 else ""
        )
        error = Conflict(
            f"{len(paths)} files have changed since {name}, and undoing would lose the newer "
            f"content: {named}",
            error.hint if not others else "",
            {"changedFiles": paths},
        )
    if others:
        rest = f"`memvault undo {name} --keep-changed` reverts the rest"
        error.hint = f"{error.hint}, or {rest}" if error.hint else rest
    return error


def _is_undone(call: Call, change: JournalEntry) -> bool:
    """Return whether every file is as it was before a change, no matter how it was restored.

    A memory that was moved is missing at its old path but still exists, so its change is not
    undone.
    """
    try:
        is_done = all(_is_done(call.store, step) for step in revert_steps(change.files))
    except MemvaultError:
        return False
    return is_done and _find_moved(call, change) is None


def _is_done(store: MemoryStore, step: RevertStep) -> bool:
    return _etag_of(store, step.path, step.respelled) == step.etag_restored


def _check_step(
    store: MemoryStore, step: RevertStep, change: JournalEntry, changes: Iterable[JournalEntry]
) -> None:
    if step.trashed and not _find_trashed(store, step):
        raise NotFound(
            f"{step.path} is no longer in the trash, so {change.change_id} cannot be undone",
            "run `memvault undo --list` to see which changes can be undone",
        )
    now = _etag_of(store, step.path, step.respelled)
    if now != step.etag_now:
        raise Conflict(*_conflict_message(step, change, now, changes))
    if step.backup and not step.trashed:
        store.history.read_verified(step.subject.mem_id, step.backup)


def _conflict_message(
    step: RevertStep, change: JournalEntry, now: str, changes: Iterable[JournalEntry]
) -> tuple[str, str]:
    """Return why a file that has changed since cannot be reverted, and a hint."""
    path, mem_id, name = step.path, step.subject.mem_id, change.change_id
    if not now:
        message = f"{path} no longer exists, so {name} cannot be undone"
        hint = f"if `memvault show {mem_id}` finds it elsewhere, move it back and undo again"
        if step.backup and not step.trashed:
            hint += f"; if it was deleted, `memvault restore {mem_id}` restores its last revision"
    elif not step.etag_now:
        message = f"The path {path} has been taken by another file since {name}"
        alternative = f", or `memvault restore {mem_id}` restores the old one under another name"
        hint = f"move that file elsewhere and undo again{alternative if step.trashed else ''}"
    else:
        message = f"{path} has changed since {name}, and undoing would lose the newer content"
        hint = f"`memvault log {mem_id}` lists its revisions"
        if step.backup:
            hint += f", `memvault restore {mem_id} --revision REVISION` restores one"
        elif paths.is_memory_path(path):
            hint = f"`memvault forget {mem_id}` moves the current file to the trash"
    for later in takewhile(lambda entry: entry.change_id != name, changes):
        file_changes = [entry for entry in later.files if entry.path == path]
        if file_changes and not later.reverts and not later.reverted_by:
            if now == file_changes[-1].etag_after:
                hint = f"first undo the later change with `memvault undo {later.change_id}`"
            break
    return message, hint


def _etag_of(store: MemoryStore, path: str, respelled: str) -> str:
    """Return a file's etag; empty if it is missing, or its name differs in case.

    Raises:
        Refused: tools cannot write to the path, or it leads out of the vault.
        Conflict: the file cannot be read.
    """
    pure = PurePosixPath(path)
    hidden = any(part.startswith(".") or part == ".." for part in pure.parts)
    if pure.is_absolute() or hidden:
        raise Refused(f"{path} is not in this vault", "the journal was modified")
    paths.require_plain_folders(store.root, pure.parent.as_posix())
    try:
        folder = (store.root / path).parent
        is_one = respelled and is_respelled(store.root, path, respelled)
        if is_one and pure.name not in os.listdir(folder):
            return ""
        return etag(plain_files.read(store.root / path))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Conflict(
            f"{path} cannot be read: {error.strerror}", "check its permissions"
        ) from error


def _find_trashed(store: MemoryStore, step: RevertStep) -> TrashedFile | None:
    """Return the trashed file with a step's bytes, or None if it is gone.

    The file is in the folder of the change or, if it was trashed again later, in another folder.
    """
    item = _first_with_bytes(store.trash.files_in(step.backup), step)
    return item or _first_with_bytes(store.trash.files(), step)


def _first_with_bytes(items: Iterable[TrashedFile], step: RevertStep) -> TrashedFile | None:
    for item in items:
        with contextlib.suppress(OSError, MemvaultError):
            if item.path == step.path:
                data = plain_files.read(item.file)
                if etag(data) == step.etag_restored:
                    return item
    return None


def _respell(store: MemoryStore, writer: VaultWriter, old: RevertStep, new: RevertStep) -> None:
    """Restore the case of a file's name."""
    try:
        earlier = store.history.read(new.subject.mem_id, new.backup)
        now = plain_files.read(store.root / old.path)
        times = store.history.times(new.subject.mem_id, new.backup)
        writer.move(old.path, [new.path], now, earlier, new.subject, times)
    except (FileNotFoundError, NotFound) as error:
        raise Conflict.changed(old.path) from error


def _apply(store: MemoryStore, writer: VaultWriter, step: RevertStep, moves: bool) -> None:
    """Apply a step.

    If ``moves`` is set, another step restores the same memory at its old path; the file at the new
    path is then deleted instead of moved to the trash.
    """
    path = step.path
    try:
        if step.trashed:
            item = _find_trashed(store, step)
            assert item is not None
            writer.restore(item, [path], step.subject)
        elif not step.backup:
            if paths.is_memory_path(path) and not moves:
                writer.discard(path, step.subject)
            else:
                writer.remove(path, step.subject)
        else:
            earlier = store.history.read(step.subject.mem_id, step.backup)
            if step.etag_now:
                now = plain_files.read(store.root / path)
                if etag(now) != step.etag_now:
                    raise Conflict.changed(path)
                times = store.history.times(step.subject.mem_id, step.backup)
                writer.replace(path, now, earlier, step.subject, times)
            else:
                like = store.history.attributes(step.subject.mem_id, step.backup)
                writer.create([path], earlier, step.subject, like)
    except (FileNotFoundError, FileExistsError) as error:
        raise Conflict.changed(path) from error
