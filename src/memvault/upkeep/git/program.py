"""The git program: run without a shell, and its refusals told in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from memvault import process
from memvault.errors import MemvaultError, Refused, TimedOut, UsageError
from memvault.vault.codec import printable

_MOST = 4 << 30
_SECONDS = 120.0
NETWORK_SECONDS = 600.0
"""How long a transfer may take."""
_OWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_NAMESPACE",
        "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS")  # fmt: skip
"""What git tells a hook of its repository, which is not the vault's."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_LEFT = ".lock': File exists"
_PASSED_OVER = "error: failed to push some refs"
"""What stands behind the reason for a push that failed."""
_FALLBACK = {"NAME": "memvault", "EMAIL": "memvault@localhost"}
_UNDER_WAY = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


_SHOWN = 3
LARGER = "The repository holds more than the vault, which sync would push along"


class GitFailed(MemvaultError):
    """Git did not do what it was asked for; ``said`` is all that it said of it."""

    def __init__(self, message: str, hint: str, said: str) -> None:
        super().__init__(message, hint)
        self.said = said


class NoRepository(Refused):
    """What git should keep its own in is there, and is none of git's."""


class Git:
    """Git in one folder."""

    def __init__(self, folder: Path, programs: bool = True) -> None:
        """Prepare to run git; without ``programs`` no hook or monitor of the repository is run.

        Raises:
            Refused: there is no git.
        """
        self.folder = folder
        quiet = [] if programs else ["-c", f"core.hooksPath={os.devnull}"]
        kept = process.environment(folder)
        try:
            program = process.located("git", folder, kept)
        except UsageError as error:
            raise Refused("There is no git program on this machine", "install git") from error
        self._prefix = [program, *quiet, "-c", "core.fsmonitor=false", "--literal-pathspecs"]
        self._environment = {key: value for key, value in kept.items() if key not in _OWN}
        self._environment.update(LC_ALL="C", LANGUAGE="C", GIT_TERMINAL_PROMPT="0")

    def tried(
        self,
        *words: str,
        data: bytes = b"",
        seconds: float = _SECONDS,
        more: Mapping[str, str] | None = None,
    ) -> process.Finished:
        """Run git, whatever comes of it.

        Raises:
            UsageError: it cannot be started.
            TimedOut: it took too long.
        """
        environment = {**self._environment, **(more or {})}
        command = [*self._prefix, *words]
        # Gently: git takes its locks away when it is asked to end.
        ran = process.run(command, data, seconds, _MOST, self.folder, environment, gently=True)
        if ran.timed_out:
            raise TimedOut(f"git {words[0]} took more than {seconds:.0f} seconds", "try again")
        return ran

    def run(
        self,
        *words: str,
        data: bytes = b"",
        good: tuple[int, ...] = (0,),
        seconds: float = _SECONDS,
        more: Mapping[str, str] | None = None,
        hint: str = "",
    ) -> bytes:
        """Run git and return what it prints; errors as for ``tried``, and besides.

        Raises:
            GitFailed: it ended with another code than the ``good`` ones.
        """
        ran = self.tried(*words, data=data, seconds=seconds, more=more)
        if ran.code not in good:
            raise self.failed(words[0], ran, hint)
        return ran.data

    def failed(self, what: str, ran: process.Finished, hint: str = "") -> GitFailed:
        """Return the error for one of git's commands that failed."""
        said, printed = map(without_credentials, (ran.complaint.strip(), ran.output.strip()))
        why = _reason(said) or _reason(printed) or "it does not say why"
        message = f"git {what} failed: {why}"
        if _LEFT in said:
            hint = "if no git is at work in the vault, delete that file"
        return GitFailed(message, hint or f"git {what} by hand says more", said or printed)

    def line(self, *words: str, good: tuple[int, ...] = (0,)) -> str:
        """Run git and return what it prints as text, without the line's end."""
        return self.run(*words, good=good).decode("utf-8", "surrogateescape").rstrip("\n")

    def config(self, name: str) -> str:
        """Return a setting of git's, empty where there is none."""
        return self.line("config", "--get", name, good=(0, 1))

    def commit_id(self, name: str) -> str:
        """Return the id of a commit, empty where there is none of that name."""
        return self.line("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", good=(0, 1))

    def empty_tree(self) -> str:
        """Return the name of the tree without files."""
        return self.line("hash-object", "-t", "tree", "-w", "--stdin")

    def identity(self) -> dict[str, str]:
        """Return what stands for whoever commits, in what nobody has said of them."""
        found = self.line("config", "--name-only", "--get-regexp", r"^user\.", good=(0, 1))
        return {
            name: value
            for what, value in _FALLBACK.items()
            if f"user.{what.lower()}" not in found.split("\n")
            for name in (f"GIT_AUTHOR_{what}", f"GIT_COMMITTER_{what}")
            if name not in self._environment and what not in self._environment
        }


class Repository(NamedTuple):
    """A repository that holds a vault: git in it, its top folder, and where git keeps its own.

    ``prefix`` is the way from the top to the vault, empty where they are one.
    """

    git: Git
    top: Path
    folder: Path
    prefix: str

    @property
    def branch(self) -> str:
        """The branch's name, empty where none is checked out."""
        return self.git.line("symbolic-ref", "--quiet", "--short", "HEAD", good=(0, 1))

    @property
    def under_way(self) -> str:
        """What git is in the middle of: rebase, merge and such, or nothing."""
        found = (what for name, what in _UNDER_WAY.items() if (self.folder / name).exists())
        return next(found, "")

    @property
    def unmerged(self) -> list[str]:
        """The files in conflict that a person has to settle."""
        listed = self.git.line("diff", "--name-only", "--diff-filter=U", "-z")
        return [path for path in listed.split("\0") if path]


def repository(root: Path, programs: bool = True) -> Repository | None:
    """Return the repository that a vault lies in, or None.

    Raises:
        GitFailed: git refuses to use it.
        NoRepository: the vault's .git is none.
        Refused: there is no git.
    """
    git = Git(root, programs)
    try:
        found = git.line("rev-parse", "--show-toplevel", "--absolute-git-dir", "--show-prefix")
    except GitFailed as error:
        if "not a git repository" not in error.said:
            raise
        if os.path.lexists(root / ".git"):
            hint = "git status says more; if nothing in it is needed, move it away"
            raise NoRepository("The vault's .git is no git repository", hint) from error
        return None
    top, folder, prefix = f"{found}\n".split("\n")[:3]
    return Repository(git, Path(top), Path(folder), prefix)


def opened(root: Path, programs: bool = True) -> Repository:
    """Return the repository that a vault lies in; without one it is ``Refused``."""
    found = repository(root, programs)
    if found is None:
        raise Refused("The vault is in no git repository", "memvault git init makes one")
    return found


def check_idle(repository: Repository) -> str:
    """Return the branch that is checked out, where git is not in the middle of something.

    Raises:
        Refused: it is, or no branch is checked out.
    """
    under_way = repository.under_way
    if under_way:
        hint = f"{to_go_on(repository)}; or give it up with git {under_way} --abort"
        raise Refused(f"A {under_way} is under way in the repository", hint)
    branch = repository.branch
    if not branch:
        raise Refused("No branch is checked out", "git switch BRANCH checks one out")
    return branch


def to_go_on(repository: Repository) -> str:
    """Return how a person ends what git is in the middle of."""
    files = repository.unmerged
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    named = ", ".join(map(printable, files[:_SHOWN])) + more
    settled = f"settle {named}, git add them, then " if files else ""
    return f"{settled}git {repository.under_way} --continue"


def without_credentials(text: str) -> str:
    """Return a text without the names and passwords in its addresses."""
    return _CREDENTIALS.sub("", text)


def _reason(said: str) -> str:
    told = (line.strip() for line in said.splitlines() if not line.startswith(_PASSED_OVER))
    lines = [line for line in told if line not in ("", "remote:")]
    for mark in ("fatal: ", "error: "):
        for line in lines:
            if line.startswith(mark):
                return line.removeprefix(mark).rstrip(".")
    return lines[-1].rstrip(".") if lines else ""
