"""Look up in git where code has moved and which commit changed it, in an approved repository."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memvault.errors import MemvaultError, TimedOut
from memvault.files import plain_files
from memvault.repository import definitions
from memvault.repository.program import Repository, null_separated

if TYPE_CHECKING:
    from memvault.repository.citations import Citation

_MAX_COMMITS = 100
"""Maximum number of commits in which to look for a change."""
_BATCHES = (4, 16, _MAX_COMMITS)
_MAX_RENAMES = 5
"""Maximum number of times that a file is followed to another name."""
_RENAME_LIMIT = 1_000
"""Maximum number of files in a commit that git compares to find renames."""
_MAX_FILES = 50
_MAX_BYTES = plain_files.MAX_SETTING_BYTES


class CodeHistory:
    """The history of a repository's files, read until a monotonic time.

    If git fails, the answer is empty and ``is_complete`` becomes False.
    """

    def __init__(self, repository: Repository, until: float) -> None:
        self._repository = repository
        self._until = until
        self.is_complete = True
        """Whether all of git's answers were found in time."""
        self._names: dict[str, list[str]] = {}
        self._outputs: dict[tuple[tuple[str, ...], bytes], bytes | None] = {}

    def names_of(self, path: str) -> list[str]:
        """Return a path and the paths to which git considers its file renamed, in order."""
        if path not in self._names:
            names = [path]
            while len(names) <= _MAX_RENAMES and not os.path.lexists(self._repository.top / path):
                path = self._new_name(path)
                if not path.isprintable() or path in ("", *names):
                    break
                names.append(path)
            self._names[names[0]] = names
            return names
        return self._names[path]

    def files_with(self, names: Sequence[str]) -> list[str]:
        """Return the files that contain at least one of the words."""
        patterns = [argument for name in names for argument in ("-e", name)]
        args = ("grep", "-l", "-z", "-w", "-I", "-F", "--full-name", "--no-textconv")
        output = self._run(*args, *patterns, "--", self._relative(""), ok_codes=(0, 1))
        return null_separated(output)[:_MAX_FILES]

    def changed_in(self, paths: Sequence[str], citation: Citation) -> str:
        """Return the commit since which a citation is no longer true; empty if it is unknown.

        It is unknown, for example, if the change is not committed. ``paths`` contains all paths of
        the code.
        """
        with contextlib.suppress(TimedOut):
            return self._changed_in(paths, citation)
        self.is_complete = False
        return ""

    def _changed_in(self, paths: Sequence[str], citation: Citation) -> str:
        relative = [self._relative(path) for path in paths]
        # Commits of merged branches have no linear order, so only the merges are read.
        log = self._run(
            "log", "--first-parent", f"-n{_MAX_COMMITS}", "--format=%h", "--", *relative
        )
        commits = log.decode().split()
        done = 0
        for size in _BATCHES:
            batch = commits[done:size]
            for number, has_code in enumerate(self._has_code(batch, paths, citation), done):
                if has_code:
                    return commits[number - 1] if number else ""
            done = size
        return ""

    def _has_code(
        self, commits: Sequence[str], paths: Sequence[str], citation: Citation
    ) -> Iterator[bool]:
        """Yield for each commit whether one of its files has the cited code."""
        names = [f"{commit}:{path}\n" for commit in commits for path in paths]
        data = "".join(names).encode("utf-8", "surrogateescape")
        output = self._run("cat-file", "--batch", data=data) if names else b""
        start, found = 0, []
        while (end := output.find(b"\n", start)) >= 0:
            kind, size = output[start:end].rsplit(b" ", 2)[-2:]
            start, has_code = end + 1, False
            if size.isdigit():  # A missing file has no content.
                text = output[start : start + int(size)]
                start += len(text) + 1
                if kind == b"blob" and len(text) <= _MAX_BYTES:
                    place = citation.place_in(definitions.lines_of(text), self._until)
                    has_code = bool(place)
            found.append(has_code)
            if len(found) == len(paths):
                yield any(found)
                found = []

    def _new_name(self, path: str) -> str:
        """Return the name that a commit or the changes since the last one gave to a file."""
        renames = ("-z", "-M", f"-l{_RENAME_LIMIT}", "--name-status", "--diff-filter=R")
        pending = self._run("diff", "--no-ext-diff", "--ignore-submodules", *renames, "HEAD", "--")
        if name := _renamed(pending, path):
            return name
        deleted = ("--first-parent", "-n1", "--format=%H", "--diff-filter=D")
        if commit := self._run("log", *deleted, "--", self._relative(path)).decode().strip():
            show = ("show", "--first-parent", "-m", "--format=", "--no-ext-diff")
            return _renamed(self._run(*show, *renames, commit, "--"), path)
        return ""

    def _relative(self, path: str) -> str:
        """Return a path relative to the vault's folder, in which git runs."""
        return os.path.relpath(self._repository.top / path, self._repository.git.folder)

    def _run(self, *args: str, data: bytes = b"", ok_codes: tuple[int, ...] = (0,)) -> bytes:
        """Return git's output, which citations of the same file share."""
        remaining = self._until - time.monotonic()
        if (args, data) not in self._outputs:
            if remaining > 0:
                with contextlib.suppress(MemvaultError):
                    self._outputs[args, data] = self._repository.git.run(
                        *args, data=data, ok_codes=ok_codes, seconds=remaining
                    )
            if self._outputs.setdefault((args, data), None) is None:
                self.is_complete = False
        return self._outputs[args, data] or b""


def _renamed(output: bytes, path: str) -> str:
    """Return the new name of a path in git's list of renames; empty if it is not in it."""
    fields = null_separated(output)
    for status, old, new in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if status.startswith("R") and old == path:
            return new
    return ""
