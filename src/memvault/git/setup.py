"""Set up git for a vault: create and approve its repository, and register the merge driver."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from memvault import process
from memvault.call import Call
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.files import atomic, plain_files
from memvault.files.git_location import RepositoryLocation
from memvault.repository import approval
from memvault.repository.approved import NotAllowed
from memvault.repository.location import NoRepository, find_repository
from memvault.repository.program import LARGER, Git, Repository, open_repository

_IGNORED = ".gitignore", (".memvault/", ".*.tmp")
_ATTRIBUTES = ".gitattributes", ("*.md -text merge=memvault",)
_DRIVER = "merge.memvault.driver"
_ARGUMENTS = "git merge-file %O %A %B %L %P"


ConfirmApproval = Callable[[NotAllowed], None]
"""A function that asks the user for approval, and raises if the user refuses."""


def require_repository(call: Call, agree: ConfirmApproval | None = None) -> Repository:
    """Return the vault's repository, after asking ``agree`` to approve anything new in it.

    Raises:
        NotAllowed: the repository is not approved.
        Refused: the vault is not in a repository, or git is not installed.
    """
    Git(call.root)  # raises if git is not installed
    location = find_repository(call.root)
    if location is None:
        raise Refused(
            "The vault is not in a git repository", "run `memvault git init` to create one"
        )
    _allow(call, location, agree)
    return open_repository(call.root, location)


def init_repository(call: Call, agree: ConfirmApproval | None = None) -> tuple[Repository, bool]:
    """Return the vault's repository, creating it if missing, and whether it was created.

    Raises:
        Refused: the caller may not run programs, or git is not installed.
    """
    git = Git(call.root, {})
    on_new: ConfirmApproval | None = _agreed
    try:
        location = find_repository(call.root)
        if location is not None:
            _allow(call, location, agree)
            repository = open_repository(call.root, location)
            if repository.prefix:
                call.notes.append(LARGER)
            return repository, False
    except NoRepository:
        folder = call.root / ".git"
        if folder.is_symlink() or not folder.is_dir():
            raise
        folder = Path(os.path.realpath(folder))
        # ``git init`` may repair the repository.
        _allow(call, RepositoryLocation(folder.parent, folder, folder), agree)
        on_new = agree
    if not call.caller.may_run_programs:
        raise NotAllowed([], None)
    named = [] if Git(call.root).config("init.defaultBranch") else ["--initial-branch=main"]
    git.run("init", "--quiet", *named)
    return require_repository(call, on_new), True


def _agreed(_: NotAllowed) -> None:
    """Approve without asking: git just created the repository from the user's own settings."""


def _allow(call: Call, location: RepositoryLocation, agree: ConfirmApproval | None) -> None:
    """Store a repository's approval, after asking ``agree`` about anything new in it.

    Raises:
        NotAllowed: the user refused, or the caller may not approve.
    """
    before, now = approval.approved_items(call.root, location), approval.items_to_approve(location)
    if before is not None and approval.is_approved(now, before):
        return
    if not call.caller.may_run_programs or (now and agree is None):
        raise NotAllowed(now, before)
    if now and agree is not None:
        agree(NotAllowed(now, before))
    try:
        approval.store_approval(call.root, location, now)
    except MemvaultError as error:
        call.notes.append(f"Your approval of git could not be saved: {error.message}")


def write_git_files(call: Call, repository: Repository) -> list[str]:
    """Write a repository's missing lines and settings; return the names of changed files."""
    changed = [name for name, lines in (_IGNORED, _ATTRIBUTES) if _add_lines(call, name, lines)]
    if not is_registered(repository):
        repository.git.run("config", "merge.memvault.name", "memvault: front matter by key")
        repository.git.run("config", _DRIVER, driver_command(repository))
    return changed


def is_registered(repository: Repository) -> bool:
    """Return whether the merge driver for memories is set in this clone."""
    return repository.git.config(_DRIVER) == driver_command(repository)


def driver_command(repository: Repository) -> str:
    """Return the merge driver's command: ``memvault``, or this interpreter if not on PATH."""
    root = repository.git.folder
    try:
        process.find_program("memvault", root, process.environment(root))
    except UsageError:
        # With -P, modules in the vault's folder cannot replace memvault's modules.
        return f"{shlex.quote(sys.executable)} -P -m memvault {_ARGUMENTS}"
    return f"memvault {_ARGUMENTS}"


def _add_lines(call: Call, name: str, lines: tuple[str, ...]) -> bool:
    """Append lines that are missing from a file; return whether any were missing."""
    file = call.root / name
    if not os.path.lexists(file):
        atomic.create(file, "".join(f"{line}\n" for line in lines).encode())
        return True
    before = plain_files.read(file, plain_files.MAX_SETTING_BYTES)
    have = {line.strip() for line in before.decode("utf-8", "replace").splitlines()}
    missing = [line for line in lines if line not in have]
    if missing:
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        after = before + gap + "".join(f"{line}\n" for line in missing).encode()
        atomic.replace_unchanged(file, before, after)
    return bool(missing)
