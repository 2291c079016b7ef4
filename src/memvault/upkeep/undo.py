"""Taking back what a call changed: worked out first, then done, file by file.

What a call did to one file, in however many steps, is one step back: from the
bytes that it left to those that it found. A file that has other bytes by now
stays as it is, and so does everything else of that change. A step that is done
already, by an undo that was killed, is no obstacle.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from memvault import plain_files
from memvault.agents.locking import locks_of
from memvault.call import Call
from memvault.errors import Ambiguous, Conflict, MemvaultError, NotFound, Refused
from memvault.user_folders import SETTINGS_FILE
from memvault.vault import layout
from memvault.vault.codec import etag
from memvault.vault.deed import Change, FileChange, Subject
from memvault.vault.history import Discarded
from memvault.vault.store import Store

_GONE = ("removed", "forgotten")
_NEW = ("created", "restored")


class Step(NamedTuple):
    """One file on its way back: from the etag that the change left, to where its bytes are kept.

    ``left`` is empty where the change left no file. ``kept`` names a revision, or
    with ``trashed`` a folder of the trash; it is empty where there was no file.
    """

    path: str
    subject: Subject
    left: str
    kept: str
    trashed: bool

    @property
    def found(self) -> str:
        """The etag that the change found; empty where there was no file or it is in the trash."""
        return "" if self.trashed else self.kept.rpartition("-")[2]


def chosen(call: Call, wanted: str) -> Change:
    """Return the change that an id or its beginning names; without one the last of the caller's.

    Raises:
        NotFound: there is none.
        Ambiguous: there are several.
        Refused: the last change is another agent's.
    """
    changes = call.store.changes.journal.changes()
    if wanted:
        fits = [change for change in changes if change.change_id.startswith(wanted)]
        if not fits:
            raise NotFound(f"There is no change {wanted!r}", "memvault undo --list names them")
        if len(fits) > 1:
            raise Ambiguous(
                f"{wanted!r} names {len(fits)} changes",
                "use more of the id",
                {"changes": [change.change_id for change in fits]},
            )
        return fits[0]
    for change in changes:
        if not change.undoes and not change.undone_by and not _is_undone(call.store, change):
            if change.agent != call.address.agent:
                raise Refused(
                    f"The last change is by {change.agent}, not by {call.address.agent}",
                    f"memvault undo {change.change_id} takes it back all the same",
                )
            return change
    raise NotFound("There is nothing to undo", "memvault log shows what was changed")


def steps(files: Iterable[FileChange]) -> list[Step]:
    """Return the way back, the last file first."""
    found: dict[str, Step] = {}
    for change in files:
        earlier = found.pop(change.path, None)
        if earlier is None:
            kept = "" if change.kind in _NEW else change.before
            trashed = change.kind == "forgotten"
            earlier = Step(change.path, Subject(change.mem_id, change.title), "", kept, trashed)
        if change.kind == "restored" and earlier.trashed and change.before == earlier.kept:
            continue  # into the trash and out again
        found[change.path] = earlier._replace(left="" if change.kind in _GONE else change.after)
    return [step for step in reversed(found.values()) if step.left or step.kept]


def obstacle(store: Store, change: Change) -> str:
    """Say why a change cannot be taken back, in a few words; empty where it can."""
    try:
        _todo(store, change)
    except MemvaultError as error:
        return error.message
    return ""


def undo(call: Call, change: Change) -> list[FileChange]:
    """Take a change back; return what was done to which files.

    Raises:
        Conflict: a file has changed since.
        NotFound: earlier bytes are no longer kept.
        Refused: the change names what is no file of the vault's.
    """
    call.deed.undoes = change.change_id
    with contextlib.ExitStack() as locks:
        for lock in locks_of(call.root, [entry.path for entry in change.files]):
            locks.enter_context(lock)
        for step in _todo(call.store, change):
            _take(call.store, step)
    return call.deed.files


def _todo(store: Store, change: Change) -> list[Step]:
    """Return the steps that are still to be taken; errors as for ``undo``."""
    wanted = steps(change.files)
    open_steps = [step for step in wanted if not _is_done(store, step)]
    if not open_steps:
        where = wanted[0].path if wanted else "its files"
        raise Conflict(
            f"There is nothing left to undo: {where} is as it was before {change.change_id}",
            "memvault undo --list shows what can be undone",
        )
    for step in open_steps:
        _check(store, step, change)
    return open_steps


def _is_undone(store: Store, change: Change) -> bool:
    """Say whether each file is as it was before, by whatever way: there is nothing to undo."""
    try:
        return all(_is_done(store, step) for step in steps(change.files))
    except MemvaultError:
        return False


def _is_done(store: Store, step: Step) -> bool:
    now = _etag_of(store, step.path)
    if step.trashed:
        return bool(now) and not _trashed(store, step)
    return now == step.found


def _check(store: Store, step: Step, change: Change) -> None:
    if _etag_of(store, step.path) != step.left:
        raise Conflict(
            f"{step.path} has changed since {change.change_id}, so undoing would lose that",
            f"memvault log {step.subject.mem_id} names its revisions, memvault restore "
            "--revision puts one back",
        )
    if step.trashed:
        if not _trashed(store, step):
            raise NotFound(f"{step.path} is no longer in the trash", "it may have been restored")
    elif step.kept:
        mem_id = step.subject.mem_id
        if etag(store.history.read(mem_id, step.kept)) != step.found:
            raise Conflict(
                f"The revision {step.kept} of {step.path} was changed, so undo does not trust it",
                f"memvault show {mem_id} --revision {step.kept} shows it",
            )


def _etag_of(store: Store, path: str) -> str:
    """Return a file's etag; empty where there is none.

    Raises:
        Refused: it is no file that a tool writes, or leads out of the vault.
    """
    pure = PurePosixPath(path)
    hidden = any(part.startswith(".") or part == ".." for part in pure.parts)
    ours = path == SETTINGS_FILE or path.lower().endswith(".md")
    if pure.is_absolute() or hidden or not ours:
        raise Refused(f"{path} is no file of the vault's", "the journal is not as it was written")
    layout.check_folders(store.root, pure.parent.as_posix())
    try:
        return etag(plain_files.read(store.root / path))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Conflict(f"{path} cannot be read: {error.strerror}", "look at it") from error


def _trashed(store: Store, step: Step) -> Discarded | None:
    items = store.history.discarded_in(step.kept)
    return next((item for item in items if item.path == step.path), None)


def _take(store: Store, step: Step) -> None:
    changes, path = store.changes, step.path
    try:
        if step.trashed:
            item = _trashed(store, step)
            assert item is not None
            changes.put_back(item, [path], step.subject)
        elif not step.kept:
            if layout.is_memory_path(path):
                changes.discard(path, step.subject)
            else:
                changes.remove(path, step.subject)
        else:
            earlier = store.history.read(step.subject.mem_id, step.kept)
            if step.left:
                now = plain_files.read(store.root / path)
                if etag(now) != step.left:
                    raise Conflict(f"{path} was changed meanwhile", "try again")
                changes.replace(path, now, earlier, step.subject)
            else:
                changes.create([path], earlier, step.subject)
    except (FileNotFoundError, FileExistsError) as error:
        raise Conflict(f"{path} was changed meanwhile", "try again") from error
