"""Commit all changes in a vault, or exactly the files that one call wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from memvault.call import Call
from memvault.errors import MemvaultError
from memvault.files.lock import FileLock
from memvault.repository import submodules
from memvault.repository.approved import NotAllowed, approved_repository
from memvault.repository.location import find_repository
from memvault.repository.program import (
    QUIET_INSIDE,
    Git,
    GitError,
    Repository,
    null_separated,
    null_terminated,
    require_idle_branch,
)
from memvault.vault.private_folder import private_folder

Result = TypeVar("Result")

_SET = "git.autocommit is set"
_HELD = ("index.lock", "cannot lock ref", "Unable to create", "unable to create")
_PAUSE = 0.05
_SHORTLY = 1.0
"""Seconds that a call waits for another git process."""
_SECONDS = 20.0
"""Maximum seconds for one commit, including its hooks."""
_LONGEST = 72
_LISTED, _LONGEST_TITLE = 50, 200
_AT_ONCE = 1_000
"""Maximum number of paths on one command line."""
_NAMED_BELOW = ("--pathspec-from-file=-", "--pathspec-file-nul")


def lock(root: Path, seconds: float = 30.0) -> FileLock:
    """Return the lock that serializes memvault's changes to the repository."""
    return FileLock(private_folder(root) / "git.lock", seconds)


def message(tool: str, titles: Iterable[str], agent: str) -> str:
    """Return a commit message with the tool, the changed memories and the agent.

    A single title goes into the first line; several are listed below it.
    """
    short = (" ".join(title.split())[:_LONGEST_TITLE] for title in titles)
    named = [title for title in dict.fromkeys(short) if title]
    what = named[0] if len(named) == 1 else f"{len(named)} files" if named else ""
    first = f"{tool}: {what}" if what else tool
    if len(first) > _LONGEST:
        first = f"{first[: _LONGEST - 3].rstrip()}..."
    listed = "".join(f"- {title}\n" for title in named[:_LISTED]) if len(named) > 1 else ""
    if len(named) > _LISTED:
        listed += f"- and {len(named) - _LISTED:,} more\n"
    return f"{first}\n\n{listed}Agent: {agent}\n"


def commit_call(call: Call) -> list[str]:
    """Commit the files that a call wrote; return notes for the user."""
    files = call.change_set.files
    text = message(call.change_set.tool, [file.title for file in files], call.change_set.agent)
    problem = commit(call.root, [file.path for file in files], text)
    return [problem] if problem else []


def commit(root: Path, paths: Iterable[str], message: str) -> str:
    """Commit exactly these files in a vault in their current state; return a note on failure.

    Other staged changes stay staged and uncommitted. Nothing is raised, because the call has
    already written its files.
    """
    try:
        location = find_repository(root)
        if location is None:
            return f"{_SET}, but the vault is not in a git repository: run `memvault git init`"
        repository = approved_repository(root, location)
        require_idle_branch(repository)
        with lock(root, _SHORTLY):
            retry_while_locked(lambda: _commit(repository, list(dict.fromkeys(paths)), message))
    except NotAllowed as error:
        if not error.was_allowed:
            return f"{_SET}, but git is not set up on this machine: run `memvault git init`"
        return f"not committed to git: {error.message}: `memvault git init`"
    except (MemvaultError, OSError) as error:
        message = error.message if isinstance(error, MemvaultError) else str(error)
        return f"not committed to git: {message}"
    return ""


def commit_all(repository: Repository, subject: str, check_tree: Callable[[str], None]) -> int:
    """Commit all changes in the vault; return the number of changed files.

    ``check_tree`` is called with the id of the tree to commit. If it raises, or a hook
    refuses the commit, the previous index is restored.

    Raises:
        GitError: a hook refused the commit, or git failed.
    """
    git = repository.git
    staged = retry_while_locked(lambda: git.line("write-tree"))
    retry_while_locked(lambda: _add_all(git))
    try:
        tree = git.line("write-tree")
        before = git.commit_id("HEAD") or git.empty_tree()
        args = ("diff-tree", "-r", "--no-renames", "--name-only", "-z", before, tree)
        changed = git.run(*args).count(b"\0")
        if not changed:
            return 0
        check_tree(tree)
        files = "1 file" if changed == 1 else f"{changed:,} files"
        message = ("commit", "--quiet", "--message", f"{subject}: {files}")
        hint = "a hook may have rejected it; nothing was pulled or pushed"
        retry_while_locked(lambda: git.run(*message, env=git.identity(), hint=hint))
    except BaseException:
        git.run_unchecked("read-tree", staged)
        raise
    return changed


def _add_all(git: Git) -> None:
    """Stage all changes except nested repositories, for which git would store only a commit id.

    Deleted files are staged first: ``--remove`` fails for a file whose folder became a link.
    Private files are untracked, because a checkout would overwrite them.
    """
    deleted = git.run("diff-files", QUIET_INSIDE, "--diff-filter=D", "--name-only", "-z")
    private = git.run("ls-files", "-z", "--", ".memvault")
    git.run("update-index", "--force-remove", "-z", "--stdin", data=deleted + private)
    changed = git.run("diff-files", QUIET_INSIDE, "--name-only", "-z")
    new = null_terminated(submodules.new_files(git))
    git.run("update-index", "--add", "--remove", "-z", "--stdin", data=changed + new)


def retry_while_locked(action: Callable[[], Result]) -> Result:
    """Call ``action``, retrying for a second while another git process holds a lock.

    Raises:
        GitError: the action failed for another reason, or the lock was still held.
    """
    deadline = time.monotonic() + _SHORTLY
    while True:
        try:
            return action()
        except GitError as error:
            held = any(mark in error.stderr for mark in _HELD)
            if not held or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


def _commit(repository: Repository, paths: list[str], message: str) -> None:
    git = repository.git
    about = ("--porcelain", "-z", "--no-renames", "--untracked-files=all", QUIET_INSIDE)
    changed: dict[str, str] = {}
    for at in range(0, len(paths), _AT_ONCE):
        some = paths[at : at + _AT_ONCE]
        for part in null_separated(git.run("status", *about, "--", *some)):  # omits ignored files
            changed[part[3:].removeprefix(repository.prefix)] = part[:2]
    new = [path for path, state in changed.items() if state == "??"]
    if new:
        git.run("add", "--intent-to-add", *_NAMED_BELOW, data=null_terminated(new))
    if changed:
        args = ("commit", "--quiet", "--only", "--message", message, *_NAMED_BELOW)
        names = null_terminated(repository.prefix + path for path in changed)
        git.run(*args, data=names, env=git.identity(), seconds=_SECONDS)
