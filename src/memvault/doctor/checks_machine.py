"""Check a vault's state on this machine: git, journal, revisions, index and models."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from memvault.call import Call
from memvault.doctor.file_problems import remove_temporary_files
from memvault.doctor.findings import Finding, Fix, check
from memvault.doctor.inspection import VaultInspection
from memvault.errors import MemvaultError
from memvault.files import atomic, plain_files, temporary_files
from memvault.recall.filters import Filters
from memvault.repository import submodules
from memvault.repository.approved import approved_repository
from memvault.repository.location import find_repository, has_stale_lock
from memvault.vault import document, paths
from memvault.vault.private_folder import HOOK_FAILURE, MOVE_INTENT, private_folder

_MAX_PATHS_SHOWN = 20
_GIT_SECONDS = 5.0


@check("temporary-left", "note", "A file left over from an interrupted write", fix="deletes it")
def left_over_files(vault: VaultInspection) -> Iterator[Finding]:
    fix = Fix("delete it", remove_temporary_files)
    for path in _relative(vault, temporary_files.abandoned_below(vault.call.root)):
        yield Finding(path, "Left over from an interrupted write", fix)


def _has_private_folder(vault: VaultInspection) -> bool:
    private = vault.call.root / ".memvault"
    return private.is_dir() and not private.is_symlink()


def _relative(vault: VaultInspection, files: Iterable[Path]) -> list[str]:
    return [file.relative_to(vault.call.root).as_posix() for file in files]


@check(
    "move-left",
    "warning",
    "An interrupted move to another type's folder that cannot be finished now",
)
def interrupted_move(vault: VaultInspection) -> Iterator[Finding]:
    """Find a move that a refresh of the index did not complete."""
    if os.path.lexists(vault.call.root / MOVE_INTENT):
        message = (
            "A move was interrupted and could not be finished; another memvault may be running"
        )
        yield Finding(MOVE_INTENT, message)


@check("hook-failed", "note", "An agent hook that printed nothing", fix="clears it")
def failed_hook(vault: VaultInspection) -> Iterator[Finding]:
    failure = plain_files.read_json(vault.call.root / HOOK_FAILURE)
    if _has_private_folder(vault) and failure:
        message = "At {time} the hook {event} printed nothing: {reason}".format_map(
            {key: str(failure.get(key)) for key in ("time", "event", "reason")}
        )
        fix = Fix("clear it", lambda call: (call.root / HOOK_FAILURE).unlink(missing_ok=True))
        yield Finding(HOOK_FAILURE, message, fix)


@check(
    "private-not-ignored",
    "warning",
    "`.memvault` without its `.gitignore`",
    fix="writes it",
)
def private_not_ignored(vault: VaultInspection) -> Iterator[Finding]:
    if _has_private_folder(vault) and not (vault.call.root / ".memvault/.gitignore").is_file():
        fix = Fix("write .memvault/.gitignore", lambda call: private_folder(call.root))
        yield Finding(".memvault", "It has no .gitignore, so git would track it", fix)


@check(
    "private-in-git", "error", "Git-tracked files in `.memvault` (checked only if git is approved)"
)
def private_in_git(vault: VaultInspection) -> Iterator[Finding]:
    """Find a file in ``.memvault`` that is tracked by git."""
    if path := _tracked_private_file(vault.call.root):
        message = "Tracked by git although it is machine-local: run `git rm -r --cached .memvault`"
        yield Finding(path, message)


def _tracked_private_file(root: Path) -> str:
    """Return a file in ``.memvault`` that git tracks; empty if git may not run in the vault."""
    with contextlib.suppress(MemvaultError):
        location = find_repository(root)
        if location is not None:
            repository = approved_repository(root, location)
            return next(iter(submodules.tracked(repository.git, ".memvault", _GIT_SECONDS)), "")
    return ""


@check("git-locked", "warning", "A git lock file older than an hour")
def locked_repository(vault: VaultInspection) -> Iterator[Finding]:
    if has_stale_lock(vault.call.root):
        message = "Git's lock file is older than an hour: delete it if git is not running"
        yield Finding(".git/index.lock", message)


@check("journal-unreadable", "note", "Lines of the journal that cannot be read")
def unreadable_journal(vault: VaultInspection) -> Iterator[Finding]:
    for name, count in vault.call.store.changes.journal.damaged_lines():
        message = f"{count} of its lines cannot be read, so undo cannot revert their changes"
        yield Finding(f".memvault/journal/{name}", message)


@check(
    "history-over-limit",
    "note",
    "Revisions and trash that exceed the limits in `[history]`",
    fix="deletes them permanently, only with `--only`",
)
def expired_history(vault: VaultInspection) -> Iterator[Finding]:
    store = vault.call.store
    if count := len(store.history.expired()) + len(store.trash.expired()):
        fix = Fix("delete them permanently", _prune_history, is_explicit=True)
        message = f"{count} revisions and trashed files exceed the limits in `[history]`"
        yield Finding(".memvault", message, fix)


def _prune_history(call: Call) -> None:
    call.store.history.prune()
    call.store.trash.prune()


@check(
    "revision-damaged", "warning", "A revision that cannot be read or does not match its checksum"
)
def damaged_revisions(vault: VaultInspection) -> Iterator[Finding]:
    for file, problem in vault.call.store.history.verify():
        (path,) = _relative(vault, [file])
        yield Finding(path, f"The revision {problem}, so restore and undo ignore it")


@check(
    "revision-linked",
    "warning",
    "A revision or trashed copy that an interrupted change left hard-linked to a vault file",
    fix="separates them",
)
def linked_revisions(vault: VaultInspection) -> Iterator[Finding]:
    if linked := _linked_revisions(vault.call, vault.tree["file"]):
        with vault.call.store.lock():  # The lock waits for any change in progress.
            linked = _linked_revisions(vault.call, vault.tree["file"])
    fix = Fix("separate them", lambda call: _separate_revisions(call, vault.tree["file"]))
    for path in _relative(vault, linked):
        message = "It is a hard link to a file in the vault, and would change with it"
        yield Finding(path, message, fix)


def _linked_revisions(call: Call, files: list[str]) -> list[Path]:
    paths = [f"{call.root}/{path}" for path in files]
    return [*call.store.history.linked(paths), *call.store.trash.linked(paths)]


def _separate_revisions(call: Call, files: list[str]) -> None:
    with call.store.lock():
        paths = [f"{call.root}/{path}" for path in files]
        for store in (call.store.history, call.store.trash):
            for path in list(store.linked(paths)):
                with atomic.map_os_errors(path), contextlib.suppress(FileNotFoundError):
                    store.separate(path)


@check("index-wrong", "error", "An index that differs from the files", fix="rebuilds it")
def wrong_index(vault: VaultInspection) -> Iterator[Finding]:
    """Find index entries that differ from their files, and changes to a published index."""
    fix = Fix("rebuild the index", lambda call: call.index.rebuild())
    stale = _stale_memories(vault)
    for path in stale[:_MAX_PATHS_SHOWN]:
        yield Finding(path, "The index differs from the file", fix)
    if len(stale) > _MAX_PATHS_SHOWN:
        remaining = len(stale) - _MAX_PATHS_SHOWN
        yield Finding("", f"The index differs from {remaining} more files", fix)
    if vault.call.settings.index.engine != "local":
        from memvault.publishing import publish

        if difference := publish.difference(vault.call.workspace):
            yield Finding("", f"The published index has changed: {difference}", fix)


@check(
    "index-unwritable",
    "warning",
    "An index that cannot be written, such as on a full disk; recall is slower",
)
def unwritable_index(vault: VaultInspection) -> Iterator[Finding]:
    if problem := vault.index_status.unwritable:
        message = f"{problem}: free some space, or set MEMVAULT_CACHE to another folder"
        yield Finding("", vault.call.hide_paths(message))


def _stale_memories(vault: VaultInspection) -> list[str]:
    """Return the memories whose index entry differs from their file, even in a second check.

    Files that changed around the second refresh are left out, because their difference does not
    show that the index is wrong.
    """
    call, indexed_paths = vault.call, vault.memory_paths
    present = {path for path in vault.tree["file"] if paths.is_memory_path(path)}
    hidden = tuple(f"{folder}/" for folder in (*vault.tree["unreadable"], *vault.tree["too deep"]))
    suspects = {
        memory.path
        for memory in vault.memories
        if memory.file.etag and memory.file.etag != memory.record.etag
    }
    suspects |= present - indexed_paths
    suspects |= {path for path in indexed_paths - present if not path.startswith(hidden)}
    if not suspects:
        return []
    before = {path: _etag(call, path) for path in suspects}
    # Files may have changed since the scan.
    records = call.engine.list_records(
        Filters(passes=lambda record: record.path in suspects), rescans=True
    )
    indexed = {record.path: record.etag for record in records}
    return sorted(
        path
        for path, etag in before.items()
        if etag != indexed.get(path, "") and etag == _etag(call, path)
    )


def _etag(call: Call, path: str) -> str:
    with contextlib.suppress(MemvaultError):
        return document.etag(call.store.read_bytes(path)[0])
    return ""


@check("model-missing", "warning", "An embedding model that cannot be used on this machine")
def missing_model(vault: VaultInspection) -> Iterator[Finding]:
    if problem := _model_problem(vault):
        yield Finding("", vault.call.hide_paths(problem))


def _model_problem(vault: VaultInspection) -> str:
    """Return why an embedder cannot be used; empty if there is no problem."""
    transformer = vault.index_status.transformer
    return vault.index_status.static.problem or transformer.note or transformer.problem


def _vectors_waiting(vault: VaultInspection) -> int | None:
    """Return how many memories lack transformer vectors; None if the transformer is not used.

    The number is 0 while a process is creating vectors.
    """
    transformer = vault.index_status.transformer
    if not vault.memories or transformer.mode == "off" or _model_problem(vault):
        return None
    return 0 if transformer.is_running else transformer.waiting


@check("vectors-missing", "note", "Memories without transformer vectors")
def missing_vectors(vault: VaultInspection) -> Iterator[Finding]:
    if waiting := _vectors_waiting(vault):
        counted = f"{waiting} {'memory has' if waiting == 1 else 'memories have'}"
        message = f"{counted} no transformer vectors yet"
        yield Finding("", f"{message}; the next recall or `memvault reindex` creates them")


@check(
    "vectors-old",
    "note",
    "Vectors for a model that is no longer used",
    fix="deletes them; they can be recomputed",
)
def old_vectors(vault: VaultInspection) -> Iterator[Finding]:
    """Find other models' vectors, once the vectors of the model in use are complete."""
    unused = vault.index_status.unused_models if _vectors_waiting(vault) == 0 else 0
    if unused:
        fix = Fix("delete them", lambda call: call.index.delete_unused_models())
        yield Finding("", f"There are vectors for {unused} models that are no longer used", fix)
