"""Checks of the vault's place: the folder, git, this machine's index, models and history."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from memvault.upkeep.doctor.findings import Finding, Fix
from memvault.upkeep.doctor.look import VaultInspection
from memvault.upkeep.git import inner
from memvault.user_folders import SETTINGS_FILE
from memvault.vault import moving

_SHOWN = 20


def nested_vaults(look: VaultInspection) -> Iterator[Finding]:
    """Find a vault inside another one."""
    for path in look.tree.files:
        folder, name = posixpath.split(path)
        if folder and name == SETTINGS_FILE:
            said = f"{folder} is a vault inside this one: move it out, or name it under ignore"
            yield Finding("vault-inside", path, said)
    if look.machine.vault_above:
        said = f"This vault lies inside another one, {look.machine.vault_above}"
        yield Finding("vault-inside", "", f"{said}: move it out, or name it under ignore there")


def repositories(look: VaultInspection) -> Iterator[Finding]:
    """Find git repositories inside of the one that the vault is in."""
    for path in look.machine.repositories:
        said = "It is a git repository of its own, so the vault's does not hold what is in it"
        yield Finding("repository-inside", path, f"{said}: {inner.HINT}")


def special_files(look: VaultInspection) -> Iterator[Finding]:
    """Find links of the file system that lead out of the vault or nowhere, pipes and devices."""
    for path in look.tree.links_out:
        said = "The link leads out of the vault, so memvault does not follow it"
        yield Finding("link-outside", path, said)
    for path in look.tree.dangling:
        yield Finding("link-dangling", path, "The link leads nowhere: what it names is gone")
    for path in look.tree.special:
        said = "It is a pipe, a socket or a device, so memvault does not read it"
        yield Finding("file-special", path, said)


def private(look: VaultInspection) -> Iterator[Finding]:
    """Find what is wrong with ``.memvault`` and what was left behind there."""
    machine = look.machine
    for path in machine.temporary:
        fix = Fix("sweep", "delete it")
        yield Finding("temporary-left", path, "A killed process left it half-written", fix)
    for path in machine.held:
        said = "The process that held this lock is gone"
        yield Finding("lock-left", path, said, Fix("unlock", "delete it"))
    if machine.move_left:
        said = "A move was cut off, and finishing it did not work: is another memvault running?"
        yield Finding("move-left", moving.FILE, said)
    for path, problem in machine.state_too_large:
        yield Finding("file-too-large", path, f"The file is {problem}")
    if machine.unignored:
        fix = Fix("ignore", "write .memvault/.gitignore")
        yield Finding("private-not-ignored", ".memvault", "Nothing keeps it out of git", fix)
    if machine.in_git:
        said = "git keeps it, and it is of this machine: git rm -r --cached .memvault"
        yield Finding("private-in-git", machine.in_git, said)
    if machine.git_locked:
        said = "git's lock is older than an hour: delete the file if no git is running"
        yield Finding("git-locked", ".git/index.lock", said)


def history_problems(look: VaultInspection) -> Iterator[Finding]:
    """Find what is wrong with the journal, the revisions and the trash."""
    machine = look.machine
    for name, count in machine.journal:
        said = f"{count} of its lines cannot be read, so undo knows nothing of what they say"
        yield Finding("journal-unreadable", f".memvault/journal/{name}", said)
    if machine.overdue:
        fix = Fix("prune", "delete them for good", for_good=True)
        said = f"{machine.overdue} revisions and trashed files are past the limits of [history]"
        yield Finding("history-over-limit", ".memvault", said, fix)
    for path, problem in machine.damaged:
        said = f"The revision {problem}, so restore and undo do not use it"
        yield Finding("revision-damaged", path, said)


def index(look: VaultInspection) -> Iterator[Finding]:
    """Find an index that is not as the files are, and what embedders lack."""
    machine = look.machine
    fix = Fix("reindex", "make the index anew")
    for path in machine.stale[:_SHOWN]:
        yield Finding("index-wrong", path, "The index has another text of it than the file", fix)
    if len(machine.stale) > _SHOWN:
        more = len(machine.stale) - _SHOWN
        yield Finding("index-wrong", "", f"The index has {more} more files otherwise", fix)
    if machine.engine:
        yield Finding("index-wrong", "", f"The engine is not as it was left: {machine.engine}", fix)
    if machine.model_problem:
        yield Finding("model-missing", "", machine.model_problem)
    if machine.waiting:
        said = f"{machine.waiting} memories have no deep vectors yet"
        yield Finding(
            "vectors-missing",
            "",
            f"{said}; the next recall begins to make them, or memvault reindex",
        )
    if machine.old_vectors:
        fix = Fix("vectors", "delete them")
        said = f"Vectors of {machine.old_vectors} models are kept that are no longer in use"
        yield Finding("vectors-old", "", said, fix)
