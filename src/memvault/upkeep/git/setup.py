"""Setting a repository up: what git passes over, how it merges, and whose word counts.

Git runs what a repository's own settings and hooks say, and a vault may come
from anyone with both. So nothing is run in a repository that was not set up by
somebody at this machine, which is written down outside of the vault.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys

from memvault import grants, plain_files, process
from memvault.call import Call
from memvault.errors import MemvaultError, Refused, UsageError
from memvault.upkeep.git.program import (
    LARGER,
    Git,
    NoRepository,
    Repository,
    opened,
    repository,
)
from memvault.vault import atomic

_IGNORED = ".gitignore", (".memvault/", ".*.tmp")
_ATTRIBUTES = ".gitattributes", ("*.md -text merge=memvault",)
_DRIVER = "merge.memvault.driver"
_ARGUMENTS = "git merge-file %O %A %B %L %P"
_KIND, _NAME = "git", "repository"


def begin(call: Call) -> tuple[Repository, bool]:
    """Make the vault's folder a repository where it lies in none; say whether it was made.

    Raises:
        Refused: the caller may not, or there is no git.
    """
    check_allowed(call)
    try:
        found = repository(call.root)
    except NoRepository:
        if not (call.root / ".git").is_dir():
            raise
        found = None  # git may mend it
    if found is not None:
        if found.prefix:
            call.notes.append(LARGER)
        return found, False
    git = Git(call.root)
    named = [] if git.config("init.defaultBranch") else ["--initial-branch=main"]
    git.run("init", "--quiet", *named)
    return opened(call.root), True


def prepare(call: Call, repository: Repository) -> list[str]:
    """Set a repository up where it is not; return the files that were written or changed."""
    changed = [name for name, lines in (_IGNORED, _ATTRIBUTES) if _add_lines(call, name, lines)]
    if not is_registered(repository):
        repository.git.run("config", "merge.memvault.name", "memvault: front matter by key")
        repository.git.run("config", _DRIVER, driver_command(repository))
    if call.caller.programs and not is_allowed(call):
        try:
            grants.grant(call.root, _KIND, _NAME, {"folder": str(repository.folder)})
        except MemvaultError as error:
            call.notes.append(f"that you allowed git here cannot be kept: {error.message}")
    return changed


def is_allowed(call: Call) -> bool:
    """Say whether somebody at this machine set the vault's repository up."""
    with contextlib.suppress(MemvaultError):
        return bool(grants.granted(call.root, _KIND, _NAME))
    return False


def check_allowed(call: Call) -> None:
    """Make sure that git may run what the repository says; else the call is ``Refused``."""
    if not call.caller.programs and not is_allowed(call):
        raise Refused(
            "Git runs programs that a repository names, and nobody at this machine allowed it",
            "run memvault git init there once",
        )


def is_registered(repository: Repository) -> bool:
    """Say whether git knows how to merge memories in this clone."""
    return repository.git.config(_DRIVER) == driver_command(repository)


def driver_command(repository: Repository) -> str:
    """Return the command of the merge driver: ``memvault``, or this interpreter where it has to."""
    root = repository.git.folder
    try:
        process.located("memvault", root, process.environment(root))
    except UsageError:
        # -P: a module in the vault's folder is none of memvault's.
        return f"{shlex.quote(sys.executable)} -P -m memvault {_ARGUMENTS}"
    return f"memvault {_ARGUMENTS}"


def _add_lines(call: Call, name: str, lines: tuple[str, ...]) -> bool:
    """Add the lines to a file that are not in it; say whether there were any."""
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
        atomic.replace(file, after)
    return bool(missing)
