"""Read from git when the files in a vault were first and last committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from itertools import islice

from memvault import clock
from memvault.errors import TimedOut
from memvault.model import FileCommits
from memvault.repository.program import GitError, Repository

_RENAME_LIMIT = 1_000
"""Maximum number of files in a commit that git compares to find renames."""
_DAY = 86_400
_SECONDS = 60.0
_LEAST = 0.01


def read_commits(
    repository: Repository,
    commit: str,
    shallow: Set[str],
    since: str = "",
    previous: Mapping[str, FileCommits] | None = None,
    seconds: float = _SECONDS,
) -> dict[str, FileCommits]:
    """Return when each memory's file in a commit was first and last changed, by path.

    If ``since`` is given, ``previous`` is its result, and only the commits after ``since`` are
    read, unless a merge or a rewritten history requires all of them. ``shallow`` contains the
    commits whose parents a shallow clone lacks. A renamed file keeps its history. Times are author
    times, which a rebase preserves; a time over a day in the future is treated as unknown.

    Raises:
        GitError: git failed.
        TimedOut: git took more than ``seconds``.
    """
    until = time.monotonic() + seconds
    prefix = repository.prefix
    if since:
        by_path = {f"{prefix}{path}": entry for path, entry in (previous or {}).items()}
        try:
            log = _log(repository, f"{since}...{commit}", until)
            if _CommitReader(by_path, shallow).read(log, since):
                return _in_tree(repository, commit, by_path, until)
        except GitError:  # the earlier commit no longer exists
            pass
    by_path = {}
    _CommitReader(by_path, shallow).read(_log(repository, commit, until))
    return _in_tree(repository, commit, by_path, until)


def _log(repository: Repository, commits: str, until: float) -> bytes:
    """Return the changed files of each commit, parents first."""
    args = (
        "log", "--reverse", "--topo-order", "--full-history", "-c", "--combined-all-paths",
        "--root", "--raw", "-z", "--no-abbrev", "--no-relative", f"-l{_RENAME_LIMIT}",
        "--format=%x01%m%H,%at,%P", commits, *(("--", ".") if repository.prefix else ("--",)),
    )  # fmt: skip
    try:
        return repository.git.run(args[0], "-M", *args[1:], seconds=_left(until))
    except TimedOut:
        raise
    except GitError:  # A partial clone lacks the blobs to compare.
        return repository.git.run(args[0], "-M100%", *args[1:], seconds=_left(until))


def _in_tree(
    repository: Repository, commit: str, by_path: Mapping[str, FileCommits], until: float
) -> dict[str, FileCommits]:
    """Return the files found so far that are memories in the vault and in a commit's tree."""
    args = ("ls-tree", "-r", "-z", "--full-tree", commit)
    prefix = repository.prefix
    listed = repository.git.run(*args, *((prefix,) if prefix else ()), seconds=_left(until))
    files = {}
    for line in listed.split(b"\0"):
        about, _, name = line.partition(b"\t")
        path = name.decode("utf-8", "surrogateescape")
        if _is_memory(path):
            entry = by_path.get(path)
            if entry is not None:
                blob = about.rpartition(b" ")[2].decode()
                files[path.removeprefix(prefix)] = entry._replace(blob=blob)
    return files


def _is_memory(path: str) -> bool:
    return path[-3:].lower() == ".md"


def _left(until: float) -> float:
    """Return the seconds until a monotonic deadline; never less than a small minimum."""
    return max(_LEAST, until - time.monotonic())


class _CommitReader:
    """Applies the output of ``git log`` to the files found so far."""

    def __init__(self, files: dict[str, FileCommits], shallow: Set[str]) -> None:
        self._files = files
        self._shallow = shallow
        self._deleted: set[str] = set()

    def read(self, output: bytes, since: str = "") -> bool:
        """Apply all commits; return False if the whole history must be read instead.

        ``since`` is the commit that the files found so far belong to. The whole history is needed
        if no commit continues ``since``, if ``since`` was merged into another branch instead of the
        reverse, or if a merged branch changes files that ``since`` does not have.
        """
        line = {since}
        tokens = iter(output.split(b"\0"))
        latest = time.time() + _DAY
        when = ""
        for token in tokens:
            if token.startswith(b"\1"):
                commit, seconds, parents = token[2:].decode().split(",")
                if parents and parents.partition(" ")[0] in line:
                    line.add(commit)
                elif since and (token[1:2] == b"<" or " " in parents):
                    return False
                is_known = commit not in self._shallow and seconds.isdigit()
                is_known = is_known and int(seconds) <= latest
                when = clock.iso_from_ns(int(seconds) * 10**9) if is_known else ""
            elif token.lstrip(b"\n").startswith(b":"):
                has_past = self._change(token.decode().split(), tokens, when)
                if since and not has_past:
                    return False
        return True

    def _change(self, fields: list[str], tokens: Iterator[bytes], when: str) -> bool:
        """Apply one change, whose paths follow in the output; return whether its history is known.

        For a merge that differs from each parent, git prints a colon, a mode, a blob id, a status
        letter and an earlier path per parent.
        """
        count = fields[0].count(":")
        *befores, blob, letters = fields[count + 1 :]
        letters = letters[:count]  # Drop the similarity score of a rename.
        named = count + 1 if count > 1 or letters in "RC" else 1
        paths = [name.decode("utf-8", "surrogateescape") for name in islice(tokens, named)]
        path, olds = paths[-1], paths[:count]
        if not blob.strip("0"):
            self._deleted.add(path)
            return True
        # Another file may have taken the name of a deleted one.
        is_other = path in self._deleted
        earlier = {
            before: self._files[old]
            for before, letter, old in zip(befores, letters, olds, strict=True)
            if old in self._files and not (letter == "A" and is_other)
        }
        self._deleted.discard(path)
        renamed = (old for letter, old in zip(letters, olds, strict=True) if letter == "R")
        self._deleted.update(renamed)
        is_added = not letters.strip("A")
        created = min(entry.created for entry in earlier.values()) if earlier else when
        if blob in earlier:
            modified = earlier[blob].modified
        elif when or is_added:
            modified = max([when, *(entry.modified for entry in earlier.values())])
        else:
            modified = ""
        self._files[path] = FileCommits(min(created, when) if is_added else created, modified, blob)
        return is_added or bool(earlier) or not _is_memory(path)
