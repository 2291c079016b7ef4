"""Setting up git for a vault: creating and approving its repository, and its status."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from memvault import process
from memvault.call import Call
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.files import atomic, plain_files
from memvault.git.tree_merge import LINK
from memvault.repository import approval, program
from memvault.repository.approved import NotAllowed, approved_repository
from memvault.repository.location import NoRepository, RepositoryLocation, find
from memvault.repository.program import (
    LARGER,
    QUIET_INSIDE,
    Git,
    Repository,
    at,
    resume_hint,
    without_credentials,
)
from memvault.sanitize import replace_surrogates
from memvault.vault.file_names import referenced_names

if TYPE_CHECKING:
    from memvault.index.protocol import MemoryRecord
    from memvault.results import RepositoryStatus


_IGNORED = ".gitignore", (".memvault/", ".*.tmp")
_ATTRIBUTES = ".gitattributes", ("*.md -text merge=memvault",)
_DRIVER = "merge.memvault.driver"
_ARGUMENTS = "git merge-file %O %A %B %L %P"


Agree = Callable[[NotAllowed], None]
"""Asks the user to approve; raises if the user refuses."""


def require_repository(call: Call, agree: Agree | None = None) -> Repository:
    """Return the vault's repository, after asking ``agree`` to approve what is new in it.

    Raises:
        NotAllowed: it is not approved.
        Refused: the vault is in no repository, or git is not installed.
    """
    Git(call.root)  # raises if git is not installed
    found = find(call.root)
    if found is None:
        raise Refused("The vault is in no git repository", "`memvault git init` makes one")
    _allow(call, found, agree)
    return at(call.root, found)


def begin(call: Call, agree: Agree | None = None) -> tuple[Repository, bool]:
    """Return the vault's repository, created if it was missing, and whether it was created.

    Raises:
        Refused: the caller may not run programs, or git is not installed.
    """
    git = Git(call.root, {})
    on_new: Agree | None = _agreed
    try:
        place = find(call.root)
        if place is not None:
            _allow(call, place, agree)
            found = at(call.root, place)
            if found.prefix:
                call.notes.append(LARGER)
            return found, False
    except NoRepository:
        folder = call.root / ".git"
        if folder.is_symlink() or not folder.is_dir():
            raise
        folder = Path(os.path.realpath(folder))
        _allow(call, RepositoryLocation(folder.parent, folder, folder), agree)  # init may repair it
        on_new = agree
    if not call.caller.may_run_programs:
        raise NotAllowed([], None)
    named = [] if Git(call.root).config("init.defaultBranch") else ["--initial-branch=main"]
    git.run("init", "--quiet", *named)
    return require_repository(call, on_new), True


def _agreed(_: NotAllowed) -> None:
    """Approve a repository that git has just created from the user's own settings."""


def _allow(call: Call, place: RepositoryLocation, agree: Agree | None) -> None:
    """Store the approval of a repository, after asking ``agree`` about what is new in it.

    Raises:
        NotAllowed: it was refused, or the caller may not approve.
    """
    before, now = approval.allowed(call.root, place), approval.parts(place)
    if before is not None and approval.is_within(now, before):
        return
    if not call.caller.may_run_programs or (now and agree is None):
        raise NotAllowed(now, before)
    if now and agree is not None:
        agree(NotAllowed(now, before))
    try:
        approval.allow(call.root, place, now)
    except MemvaultError as error:
        call.notes.append(f"that you allowed git here cannot be kept: {error.message}")


def prepare(call: Call, repository: Repository) -> list[str]:
    """Write missing lines and settings of a repository; return the names of changed files."""
    changed = [name for name, lines in (_IGNORED, _ATTRIBUTES) if _add_lines(call, name, lines)]
    if not is_registered(repository):
        repository.git.run("config", "merge.memvault.name", "memvault: front matter by key")
        repository.git.run("config", _DRIVER, driver_command(repository))
    return changed


def is_registered(repository: Repository) -> bool:
    """Return whether the merge driver for memories is set in this clone."""
    return repository.git.config(_DRIVER) == driver_command(repository)


def driver_command(repository: Repository) -> str:
    """Return the merge driver's command: ``memvault``, or this interpreter if it is not found."""
    root = repository.git.folder
    try:
        process.find_program("memvault", root, process.environment(root))
    except UsageError:
        # -P: modules in the vault's folder must not replace those of memvault.
        return f"{shlex.quote(sys.executable)} -P -m memvault {_ARGUMENTS}"
    return f"memvault {_ARGUMENTS}"


def _add_lines(call: Call, name: str, lines: tuple[str, ...]) -> bool:
    """Append the missing ones of some lines to a file; return whether any were missing."""
    file = call.root / name
    if not os.path.lexists(file):
        atomic.create(file, "".join(f"{line}\n" for line in lines).encode())
        return True
    before = plain_files.read(file, plain_files.SETTING)
    have = {line.strip() for line in before.decode("utf-8", "replace").splitlines()}
    missing = [line for line in lines if line not in have]
    if missing:
        gap = b"" if not before or before.endswith(b"\n") else b"\n"
        after = before + gap + "".join(f"{line}\n" for line in missing).encode()
        atomic.replace_unchanged(file, before, after)
    return bool(missing)


class ConflictPair(NamedTuple):
    """The two files of a memory whose text both sides of a sync changed."""

    path: str
    other: str


def pairs(memories: Iterable[MemoryRecord]) -> list[ConflictPair]:
    """Return the memories that exist as two files, each pair once with the shorter path first."""
    known = sorted(memories, key=lambda memory: memory.path)
    paths: dict[str, str] = {}
    for memory in known:
        paths.setdefault(memory.mem_id, memory.path)
    found = {
        (memory.path, paths[link])
        for memory in known
        for link in referenced_names(memory.metadata, LINK)
        if link in paths and paths[link] != memory.path
    }
    return sorted(
        {ConflictPair(*sorted(pair, key=lambda path: (len(path), path))) for pair in found}
    )


def status(call: Call) -> RepositoryStatus:
    """Return the state of the vault's repository, pending changes, and the next commands.

    Without approval, return only what can be read without running git.
    """
    from memvault.recall.filters import Filters

    Git(call.root)  # raises if git is not installed
    place = find(call.root)
    twice = pairs(call.engine.list_records(Filters()))
    shown = {
        "autocommit": call.settings.git.autocommit,
        "keptTwice": [{"filePath": pair.path, "copyPath": pair.other} for pair in twice],
    }
    if place is None:
        return cast(
            "RepositoryStatus", {"repository": False, "todo": ["`memvault git init`"], **shown}
        )
    if place.prefix_of(call.root):
        call.notes.append(LARGER)
    try:
        found = approved_repository(call.root, place)
    except NotAllowed as error:
        if error.was_allowed:
            call.notes.append(f"{error.message}: `memvault git init`")
        return cast("RepositoryStatus", {"repository": True, **_without_git(call, place), **shown})
    return cast("RepositoryStatus", {"repository": True, **_about(call, found), **shown})


def _without_git(call: Call, place: RepositoryLocation) -> Mapping[str, Any]:
    known = approval.remotes(place)
    remote = "origin" if "origin" in known else next(iter(known), "")
    about: dict[str, Any] = {
        "branch": replace_surrogates(place.branch),
        "remote": replace_surrogates(remote),
    }
    if remote and call.caller.may_see_paths:
        about["url"] = replace_surrogates(without_credentials(known[remote]))
    if place.under_way:
        about["underWay"] = place.under_way
    return {**about, "driver": False, "todo": ["`memvault git init`"]}


def _about(call: Call, found: Repository) -> Mapping[str, Any]:
    git = found.git
    branch = found.branch
    name = git.config(f"branch.{branch}.remote") if branch else ""
    remotes = git.line("remote").split("\n")
    remote = name or ("origin" if "origin" in remotes else next(iter(remotes), ""))
    about: dict[str, Any] = {"branch": branch, "remote": remote}
    if remote and call.caller.may_see_paths:
        about["url"] = without_credentials(git.config(f"remote.{remote}.url"))
    others = git.commit_id(f"refs/remotes/{remote}/{branch}") if remote else ""
    head = git.commit_id("HEAD")
    if others and head:
        counted = git.line("rev-list", "--left-right", "--count", f"{head}...{others}")
        about["ahead"], about["behind"] = map(int, counted.split())
    listed = git.run(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", QUIET_INSIDE,
        "--", ".",
    )  # fmt: skip
    about["changed"] = sum(part[2:3] == b" " for part in listed.split(b"\0"))
    apart = [] if found.prefix else program.repositories(found)
    if apart:
        about["notSynced"] = list(map(replace_surrogates, apart))
    about["driver"] = is_registered(found)
    todo = [] if about["driver"] else ["`memvault git init`"]
    if found.under_way:
        about["underWay"] = found.under_way
        todo.insert(0, resume_hint(found))
    elif not branch:
        todo.append("`git switch BRANCH`")
    if not remote:
        todo.append("`git remote add origin URL`")
    return {**about, **({"todo": todo} if todo else {})}
