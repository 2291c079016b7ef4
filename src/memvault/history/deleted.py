"""Restore memories that another program deleted, from their revisions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from memvault.errors import Ambiguous, NotFound
from memvault.history.log import find_existing, find_logged
from memvault.recall.resolve import is_exact
from memvault.store.change_set import FileRef
from memvault.vault import paths

if TYPE_CHECKING:
    from memvault.call import Call
    from memvault.model import Memory


def restore_deleted(call: Call, name: str, revision: str = "") -> Memory | None:
    """Restore a deleted memory from a revision, by default the last one.

    Returns None if the journal has no deleted memory with this name. A forgotten memory whose trash
    was emptied is restored only if a revision is requested.

    Raises:
        Conflict: the revision is damaged.
        NotFound: the memory still exists, or it has no such revision.
        Refused: the revision contains secrets, or the path leads out of the vault.
    """
    _require_missing(_existing(call, name), name)
    entry = find_logged(call, name)
    if entry is None or (entry.kind == "forgotten" and not revision):
        return None
    store, history = call.store, call.store.history
    path = paths.resolve_inside(store.root, entry.path)
    if not paths.is_memory_path(path):
        return None
    _require_missing(find_existing(call, entry.mem_id), name)
    newest_first = reversed(history.revisions(entry.mem_id))
    chosen = next((saved for saved in newest_first if saved.startswith(revision)), revision)
    if not chosen:
        raise NotFound(
            f"{path} was deleted by another program and has no revisions",
            f"if it is in git, run `git restore {path}` in the vault",
        )
    data = history.read_verified(entry.mem_id, revision or chosen)
    like = history.attributes(entry.mem_id, chosen)
    path = store.create_near(path, data, FileRef(entry.mem_id, entry.title), like)
    if not revision and not chosen.endswith(entry.after):
        call.notes.append(f"restored from revision {chosen}; later changes are lost")
    return store.read(path)


def _existing(call: Call, name: str) -> Memory | None:
    """Return the memory with exactly this name, or None."""
    with contextlib.suppress(Ambiguous):
        memory = call.engine.names.try_resolve(name)
        if memory is not None and is_exact(name, memory):
            return memory
    return None


def _require_missing(existing: Memory | None, name: str) -> None:
    """Raise ``NotFound`` if a memory exists, so ``name`` was not deleted."""
    if existing is not None:
        raise NotFound(
            f"{name!r} is not in the trash",
            f"it is in the vault, as {existing.path}; "
            f"`memvault restore {existing.mem_id} --revision REVISION` reverts it, and "
            f"`memvault log {existing.mem_id}` lists its revisions",
        )
