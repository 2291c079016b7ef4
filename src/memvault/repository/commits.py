"""Read from git when the files of a vault were first and last committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from memvault import clock
from memvault.errors import TimedOut
from memvault.repository.program import GitError, Repository

_SECONDS = 60.0
"""Maximum seconds for reading all commits."""
_RENAME_LIMIT = 1_000
"""Maximum number of files of a commit that git compares to find renames."""


class FileCommits(NamedTuple):
    """When a file was first and last committed, as ISO 8601, and the id of its bytes in git.

    A time is empty if it is unknown, because a shallow clone lacks the commit.
    """

    created: str
    modified: str
    blob: str


def read_commits(
    repository: Repository,
    commit: str,
    shallow: Set[str],
    since: str = "",
    known: Mapping[str, FileCommits] | None = None,
) -> dict[str, FileCommits]:
    """Return the memories' files in a commit, by their paths in the vault.

    If ``commit`` follows ``since``, whose files are ``known``, only the commits between them are
    read. ``shallow`` are the commits whose parents a shallow clone lacks. A renamed file keeps its
    history. Times are those of the author, which a rebase keeps.

    Raises:
        GitError: git failed.
        TimedOut: it took too long.
    """
    prefix = repository.prefix
    if since:
        found = {f"{prefix}{path}": entry for path, entry in (known or {}).items()}
        try:
            if _CommitReader(found, shallow).read(_log(repository, f"{since}...{commit}")):
                return _in_tree(repository, commit, found)
        except GitError:  # the earlier commit no longer exists
            pass
    found = {}
    _CommitReader(found, shallow).read(_log(repository, commit))
    return _in_tree(repository, commit, found)


def _log(repository: Repository, commits: str) -> bytes:
    """Return the changed files of each commit, parents first."""
    words = (
        "log", "--reverse", "--topo-order", "--full-history", "-c", "--root", "--raw", "-z",
        "--no-abbrev", "--no-relative", f"-l{_RENAME_LIMIT}", "--format=%x01%m%H %at", commits,
        *(("--", ".") if repository.prefix else ("--",)),
    )  # fmt: skip
    try:
        return repository.git.run(words[0], "-M", *words[1:], seconds=_SECONDS)
    except TimedOut:
        raise
    except GitError:  # a partial clone lacks the bytes to compare
        return repository.git.run(words[0], "-M100%", *words[1:], seconds=_SECONDS)


def _in_tree(
    repository: Repository, commit: str, found: Mapping[str, FileCommits]
) -> dict[str, FileCommits]:
    """Return the found files that are memories of the vault and part of a commit's tree."""
    words = ("ls-tree", "-r", "-z", "--full-tree", commit)
    prefix = repository.prefix
    listed = repository.git.run(*words, *((prefix,) if prefix else ()))
    files = {}
    for line in listed.split(b"\0"):
        about, _, name = line.partition(b"\t")
        if name[-3:].lower() == b".md":
            path = name.decode("utf-8", "surrogateescape")
            entry = found.get(path)
            if entry is not None:
                blob = about.rpartition(b" ")[2].decode()
                files[path.removeprefix(prefix)] = entry._replace(blob=blob)
    return files


class _CommitReader:
    """Applies the output of ``git log`` to the files found so far."""

    def __init__(self, files: dict[str, FileCommits], shallow: Set[str]) -> None:
        self._files = files
        self._shallow = shallow
        self._deleted: set[str] = set()

    def read(self, output: bytes) -> bool:
        """Apply all commits; return False at one that only the earlier history has."""
        tokens = iter(output.split(b"\0"))
        when = ""
        for token in tokens:
            if token.startswith(b"\1"):
                if token[1:2] == b"<":
                    return False
                commit, _, seconds = token[2:].decode().partition(" ")
                is_known = commit not in self._shallow and seconds.isdigit()
                when = clock.iso_from_ns(int(seconds) * 10**9) if is_known else ""
            elif token.lstrip(b"\n").startswith(b":"):
                self._change(token.decode().split(), tokens, when)
        return True

    def _change(self, fields: list[str], tokens: Iterator[bytes], when: str) -> None:
        """Apply one change, whose paths follow in the output."""
        before, blob, status = fields[-3:]
        path = old = next(tokens, b"").decode("utf-8", "surrogateescape")
        if status[0] in "RC":
            path = next(tokens, b"").decode("utf-8", "surrogateescape")
        if not blob.strip("0"):
            self._deleted.add(path)
            return
        known = self._files.get(old)
        if status == "A" and path in self._deleted:
            known = None  # another file with the name of one that was deleted
        self._deleted.discard(path)
        if status[0] == "R":
            self._deleted.add(old)
        if known is None:
            self._files[path] = FileCommits(when, when, blob)
            return
        created = min(known.created, when) if status == "A" else known.created
        modified = known.modified if before == blob else max(known.modified, when)
        self._files[path] = FileCommits(created, modified, blob)
