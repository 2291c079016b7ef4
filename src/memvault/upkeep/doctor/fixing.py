"""Doing fixes: of memories through the vault's changes, so that undo takes them back."""

from __future__ import annotations

from memvault.call import Call
from memvault.errors import Conflict
from memvault.upkeep.doctor.findings import Fix
from memvault.vault import atomic, held_file
from memvault.vault.private import private_folder


def apply(call: Call, fix: Fix) -> None:
    """Do one fix.

    Raises:
        Conflict: the file has changed since it was looked at.
        MemvaultError: it cannot be done.
    """
    match fix.kind:
        case "header":
            memory = call.store.read(fix.path)
            if memory.etag != fix.etag:
                raise Conflict(f"{fix.path} was changed meanwhile", "run memvault doctor again")
            call.store.change(memory, dict(fix.changes), None)
        case "trash":
            call.store.discard(fix.path, fix.etag)
        case "sweep":
            atomic.sweep_below(call.root)
        case "unlock":
            held_file.sweep_below(private_folder(call.root))
        case "ignore":
            private_folder(call.root)
        case "prune":
            call.store.history.prune()
        case "reindex":
            call.index.rebuild()
        case "vectors":
            call.index.deep.delete_unused_models()
