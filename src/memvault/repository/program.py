"""Run the git program without a shell, and convert its failures to one-sentence errors.

Each ``Git`` is bound to one repository, which settings cannot change. Only ``setup`` opens a
repository, after its user has approved it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from memvault import process
from memvault.errors import MemvaultError, Refused, TimedOut, UsageError
from memvault.files.git_location import RepositoryLocation
from memvault.files.user_folders import is_owned
from memvault.named_tuple import NamedTuple
from memvault.repository.location import check_plain
from memvault.sanitize import replace_surrogates

_MAX_OUTPUT_BYTES = 4 << 30
_SECONDS = 120.0
NETWORK_SECONDS = 600.0
"""Maximum seconds for a network transfer."""
_LOCATION_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_NAMESPACE",
    "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_GRAFT_FILE", "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE", "GIT_QUARANTINE_PATH", "GIT_CONFIG",
)  # fmt: skip
"""Variables that git sets for another repository's hook, removed from the environment."""
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
_LOCK_EXISTS = ".lock': File exists"
_PASSED_OVER = "error: failed to push some refs"
"""The line that git prints after the reason for a failed push; it is omitted."""
_FALLBACK = {"NAME": "memvault", "EMAIL": "memvault@localhost"}
_SHOWN = 3
QUIET_INSIDE = "--ignore-submodules=dirty"
"""Keeps git out of nested repositories, which have their own settings."""
LARGER = "The repository contains more than the vault, which sync would push too"


class GitError(MemvaultError):
    """A git command failed; ``stderr`` is its complete error output."""

    def __init__(self, message: str, hint: str, stderr: str) -> None:
        super().__init__(message, hint)
        self.stderr = stderr


_SETTINGS = (
    "core.fsmonitor=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "fetch.fsckObjects=true",
    "transfer.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "submodule.recurse=false",
    "log.showSignature=false",
)
_HOOKED = "commit", "push"
"""Commands that run hooks; they run in the top folder."""
_NETWORK = "fetch", "push", "ls-remote"
_PROTOCOLS = "https:http:ssh:git:file"
_NO_REPOSITORY = {"GIT_DIR": os.devnull}


class Git:
    """The git program, run in a fixed folder."""

    def __init__(self, folder: Path, location: Mapping[str, str] = _NO_REPOSITORY) -> None:
        """Prepare to run git.

        ``location`` has the environment variables that select the repository; by default none is
        selected.

        Raises:
            Refused: git is not installed.
        """
        self.folder = folder
        inherited = process.environment(folder)
        try:
            program = process.find_program("git", folder, inherited)
        except UsageError as error:
            raise Refused("git is not installed on this machine", "install git") from error
        settings = [argument for setting in _SETTINGS for argument in ("-c", setting)]
        self._prefix = [program, "--no-pager", "--literal-pathspecs", *settings]
        self._environment = {
            key: value for key, value in inherited.items() if key not in _LOCATION_VARIABLES
        }
        # The user may choose a password prompt in the environment, but not in settings.
        askpass = inherited.get("GIT_ASKPASS", inherited.get("SSH_ASKPASS", ""))
        self._protocols = inherited.get("GIT_ALLOW_PROTOCOL", _PROTOCOLS)
        self._environment.update(
            LC_ALL="C", LANGUAGE="C", GIT_TERMINAL_PROMPT="0", GIT_ASKPASS=askpass,
            GIT_EDITOR=":", GIT_SEQUENCE_EDITOR=":", GIT_NO_LAZY_FETCH="1", **location,
        )  # fmt: skip

    def run_unchecked(
        self,
        *args: str,
        data: bytes = b"",
        seconds: float = 0,
        env: Mapping[str, str] | None = None,
    ) -> process.ProcessResult:
        """Run git and return its result, regardless of the exit code.

        Raises:
            UsageError: git cannot be started.
            TimedOut: git took longer than ``seconds`` (by default two minutes).
        """
        seconds = seconds or _SECONDS
        allowed = {"GIT_ALLOW_PROTOCOL": self._protocols if args[0] in _NETWORK else ""}
        environment = {**self._environment, **allowed, **(env or {})}
        folder, quiet = self.folder, ["-c", f"core.hooksPath={os.devnull}"]
        if args[0] in _HOOKED:  # A hook that uses another repository may unset only GIT_DIR.
            folder, quiet = Path(environment.pop("GIT_WORK_TREE", folder)), []
        command = [*self._prefix, *quiet, *args]
        # SIGTERM first: git then removes its lock files.
        result = process.run(
            command, data, seconds, _MAX_OUTPUT_BYTES, folder, environment, terminate_first=True
        )
        if result.timed_out:
            hint = "try again; if it recurs, check the vault and .git for a pipe, which blocks git"
            raise TimedOut(f"git {args[0]} took more than {seconds:.0f} seconds", hint)
        return result

    def run(
        self,
        *args: str,
        data: bytes = b"",
        ok_codes: tuple[int, ...] = (0,),
        seconds: float = 0,
        env: Mapping[str, str] | None = None,
        hint: str = "",
    ) -> bytes:
        """Run git and return its standard output.

        Raises:
            GitError: its exit code is not one of ``ok_codes``.
            TimedOut: git took longer than ``seconds`` (by default two minutes).
            UsageError: git cannot be started.
        """
        result = self.run_unchecked(*args, data=data, seconds=seconds, env=env)
        if result.code not in ok_codes:
            raise self.failed(args[0], result, hint)
        return result.stdout

    def failed(self, what: str, result: process.ProcessResult, hint: str = "") -> GitError:
        """Return the error for a failed git command."""
        stderr, printed = map(without_credentials, (result.stderr.strip(), result.output.strip()))
        why = _reason(stderr) or _reason(printed) or "no reason given"
        message = f"git {what} failed: {why}"
        if _LOCK_EXISTS in stderr:
            hint = "if no git process is running in the vault, delete that file"
        return GitError(message, hint or f"run `git {what}` for details", stderr or printed)

    def line(self, *args: str, ok_codes: tuple[int, ...] = (0,), seconds: float = 0) -> str:
        """Run git and return its standard output as text without trailing newlines."""
        output = self.run(*args, ok_codes=ok_codes, seconds=seconds)
        return output.decode("utf-8", "surrogateescape").rstrip("\n")

    def config(self, name: str) -> str:
        """Return the value of a git setting, or an empty string if it is not set."""
        return self.line("config", "--get", name, ok_codes=(0, 1))

    def commit_id(self, name: str, seconds: float = 0) -> str:
        """Return the id of the commit that a name refers to; empty if it does not exist."""
        args = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return self.line(*args, ok_codes=(0, 1), seconds=seconds)

    def empty_tree(self) -> str:
        """Return the id of the empty tree."""
        return self.line("hash-object", "-t", "tree", "-w", "--stdin")

    def identity(self) -> dict[str, str]:
        """Return environment variables for the author and committer fields that git cannot fill."""
        configured = self.line("config", "--name-only", "--get-regexp", r"^user\.", ok_codes=(0, 1))
        return {
            name: value
            for what, value in _FALLBACK.items()
            if f"user.{what.lower()}" not in configured.split("\n")
            for name in (f"GIT_AUTHOR_{what}", f"GIT_COMMITTER_{what}")
            if name not in self._environment and what not in self._environment
        }


class Repository(NamedTuple):
    """A repository that contains a vault: git bound to it, its top folder and git directory.

    ``prefix`` is the path from the top folder to the vault; empty if they are equal.
    ``operation_in_progress`` is, for example, ``rebase`` or ``merge``; empty if there is none.
    """

    git: Git
    top: Path
    folder: Path
    prefix: str
    operation_in_progress: str

    @property
    def branch(self) -> str:
        """The branch's name; empty if no branch is checked out."""
        return self.git.line("symbolic-ref", "--quiet", "--short", "HEAD", ok_codes=(0, 1))

    @property
    def unmerged(self) -> list[str]:
        """The files with conflicts that someone has to resolve."""
        args = ("diff", QUIET_INSIDE, "--name-only", "--diff-filter=U", "-z")
        return null_separated(self.git.run(*args))


def open_repository(root: Path, location: RepositoryLocation) -> Repository:
    """Return a vault's repository, which the user must have approved, with git bound to it.

    Raises:
        GitError: the repository belongs to another user, and git refuses to use it.
        Refused: git is not installed, or a pipe in the repository would block it.
    """
    root = Path(os.path.realpath(root))
    check_plain(location)
    if not all(is_owned(path.lstat()) for path in (location.top, location.folder)):
        # Git checks the owner only when it looks for the repository, not when GIT_DIR is set.
        Git(location.top, {}).run("rev-parse", "--git-dir")
    env = {"GIT_DIR": str(location.folder), "GIT_WORK_TREE": str(location.top)}
    return Repository(
        Git(root, env),
        location.top,
        location.folder,
        location.prefix_of(root),
        location.operation_in_progress,
    )


def require_idle_branch(repository: Repository) -> str:
    """Return the branch that is checked out.

    Raises:
        Refused: a merge, rebase or similar is in progress, or no branch is checked out.
    """
    operation_in_progress = repository.operation_in_progress
    if operation_in_progress:
        hint = f"{resume_hint(repository)}; or abort it with `git {operation_in_progress} --abort`"
        raise Refused(f"A {operation_in_progress} is in progress in the repository", hint)
    branch = repository.branch
    if not branch:
        raise Refused("No branch is checked out", "check one out with `git switch BRANCH`")
    return branch


def resume_hint(repository: Repository) -> str:
    """Return the steps that finish the operation in progress."""
    files = repository.unmerged
    others = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    named = ", ".join(map(replace_surrogates, files[:_SHOWN])) + others
    settled = f"resolve {named}, `git add` them, then " if files else ""
    return f"{settled}`git {repository.operation_in_progress} --continue`"


def without_credentials(text: str) -> str:
    """Return text without the usernames and passwords in its URLs."""
    return _CREDENTIALS.sub("", text)


def _reason(stderr: str) -> str:
    reasons = (line.strip() for line in stderr.splitlines() if not line.startswith(_PASSED_OVER))
    lines = [line for line in reasons if line not in ("", "remote:")]
    for mark in ("fatal: ", "error: "):
        for line in lines:
            if line.startswith(mark):
                return line.removeprefix(mark).rstrip(".")
    return lines[-1].rstrip(".") if lines else ""


def null_terminated(paths: Iterable[str]) -> bytes:
    """Return paths as git reads them from its standard input."""
    return "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")


def null_separated(data: bytes) -> list[str]:
    """Return the paths or records that git terminates with null bytes."""
    return [part.decode("utf-8", "surrogateescape") for part in data.split(b"\0") if part]
