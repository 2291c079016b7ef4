"""Sync: commit local changes, replay them onto the remote branch, and push.

Nothing is force-pushed. Both lines of commits are merged outside the vault's folder,
whose files then change from one complete state to the other. The next sync recovers
from one that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from memvault.agents.address import locks_for_paths
from memvault.call import Call
from memvault.errors import Conflict, MemvaultError, Refused
from memvault.files import atomic, plain_files
from memvault.files.walk import remove, walk
from memvault.git import approval, program, setup
from memvault.git.commit import commit_all, lock
from memvault.git.merge import MemoryMerger
from memvault.git.program import (
    LARGER,
    NETWORK_SECONDS,
    QUIET_INSIDE,
    Git,
    GitError,
    Repository,
    require_idle_branch,
)
from memvault.git.repository import find
from memvault.git.tree_merge import SCRATCH, ChangedPath, Commit, Objects, Replay, is_private
from memvault.model import FileState
from memvault.store import writer
from memvault.store.memory_store import MemoryStore
from memvault.vault import paths
from memvault.vault.document import decode, replace_surrogates
from memvault.vault.markdown import has_conflict_markers
from memvault.vault.paths import require_plain_folders

_NOTE = "memvault-sync.json"
"""File in the git directory that names the two commits while files change between them."""
_NAME = re.compile(r"[0-9a-f]{40,64}")


class ConcurrentEdit(Conflict):
    """A file changed during the sync; nothing is lost, and a retry includes the change."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile", "try again")


def switch(
    repository: Repository, objects: Objects, store: MemoryStore, branch: str, old: str, new: str
) -> None:
    """Move the folder, index and branch from one commit to another; ``old`` may be empty.

    Raises:
        ConcurrentEdit: a file differs from the old commit, or the branch has moved.
        Refused: a change is staged in a file that has to change.
        GitError: git failed.
    """
    git = repository.git
    before = old or git.empty_tree()
    objects.check_names(new)
    try:
        git.run("read-tree", "-m", "-i", "--dry-run", before, new)
    except GitError as error:
        hint = "commit it, or take it back with git restore --staged"
        raise Refused(f"What is staged is in the way: {error.message}", hint) from error
    found = _shared(objects, before, new)
    memories = _memories(repository, store, found)
    with _held(store, found):
        if git.commit_id("HEAD") != old:
            raise ConcurrentEdit(branch)
        _check(repository, found, memories)
        noted = json.dumps({"before": before, "new": new}).encode()
        atomic.write(repository.folder / _NOTE, noted)
        _change(repository, objects, store, new, found, memories)
        git.run("read-tree", "-m", "-i", before, new)
        try:
            git.run("update-ref", "-m", "memvault git sync", f"refs/heads/{branch}", new, old)
        except GitError as error:
            raise ConcurrentEdit(branch) from error
        (repository.folder / _NOTE).unlink(missing_ok=True)
    git.run("update-index", "-q", "--refresh", good=(0, 1))


def recover(repository: Repository, objects: Objects, store: MemoryStore) -> None:
    """Revert the file changes of a sync that was killed.

    Files that were edited since are left as they are, and so are files that git may run
    or read settings from: the note may be forged, and only their current contents are approved.

    Raises:
        GitError: git failed.
        Refused: a part of the repository cannot be read.
    """
    note = repository.folder / _NOTE
    try:
        noted = json.loads(plain_files.read(note, plain_files.SETTING))
        before, new = str(noted["before"]), str(noted["new"])
        if not (_NAME.fullmatch(before) and _NAME.fullmatch(new)):
            raise ValueError("not the name of a commit")  # may be a command-line option
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        note.unlink(missing_ok=True)
        return
    git = repository.git
    head = git.commit_id("HEAD")
    with _held(store, _shared(objects, new, before)):
        if not head or git.run_unchecked("merge-base", "--is-ancestor", new, head).code:
            git.run("read-tree", head or before)
            files = objects.files(head or before)
            found = [
                entry
                for entry in _shared(objects, new, before)
                if files.get(entry.path) == entry.after  # otherwise it was committed since
            ]
            used = set(_used(store.root, found))
            found = [entry for entry in found if entry.path not in used]
            memories = _memories(repository, store, found)
            changed = git.run("diff", QUIET_INSIDE, "--no-renames", "--name-only", "-z", new).split(
                b"\0"
            )
            found = [
                entry
                for entry in found
                if entry.path in memories
                or entry.path.encode("utf-8", "surrogateescape") not in changed
            ]
            _change(repository, objects, store, before, found, memories, is_recovery=True)
        note.unlink(missing_ok=True)


@contextlib.contextmanager
def _held(store: MemoryStore, found: list[ChangedPath]) -> Iterator[None]:
    """Hold the locks of all writers of these files."""
    with contextlib.ExitStack() as locks:
        for lock in locks_for_paths(store.root, [entry.path for entry in found]):
            locks.enter_context(lock)
        yield


def _shared(objects: Objects, before: str, after: str) -> list[ChangedPath]:
    """Return the paths that differ between two trees, without private ones.

    Private paths belong to one machine and are never changed.
    """
    return [entry for entry in objects.differences(before, after) if not is_private(entry.path)]


def _is_inside(root: Path, path: str) -> bool:
    """Return whether no parent folder of a path is a link."""
    with contextlib.suppress(Refused):
        require_plain_folders(root, PurePosixPath(path).parent.as_posix())
        return True
    return False


def _memories(repository: Repository, store: MemoryStore, found: list[ChangedPath]) -> set[str]:
    """Return the paths of memories that git checks out without converting their bytes."""
    paths = [
        entry.path
        for entry in found
        if entry.path.endswith(".md")
        and all(side is None or side.mode == "100644" for side in (entry.before, entry.after))
    ]
    data = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
    words = ("check-attr", "-z", "--stdin", "text", "filter", "ident", "working-tree-encoding")
    parts = repository.git.run(*words, data=data).decode("utf-8", "surrogateescape").split("\0")
    other = {
        path
        for path, name, value in zip(parts[::3], parts[1::3], parts[2::3], strict=False)
        if value not in ("unset", "unspecified") or (name == "text" and value != "unset")
    }
    return {path for path in paths if path not in other and _is_inside(store.root, path)}


def _check(repository: Repository, found: list[ChangedPath], memories: set[str]) -> None:
    """Check that the files that change can be written without losing others.

    Raises:
        ConcurrentEdit: one of them was changed during the sync.
        Refused: a folder that becomes a file contains files that git ignores.
    """
    gone = {entry.path for entry in found if entry.after is None}
    for entry in found:
        file = repository.top / entry.path
        if entry.before is None and file.is_dir() and not file.is_symlink():
            for parent, _, names in walk(file):
                inside = (Path(parent, name).relative_to(repository.top) for name in names)
                left = [path.as_posix() for path in inside if path.as_posix() not in gone]
                if left:
                    said = f"Others have a file {entry.path}, which is a folder here with {left[0]}"
                    raise Refused(said, "move the folder's files, or let git know of them")
    others = [entry for entry in found if entry.path not in memories]
    if not others:
        return
    for entry in others:
        file = repository.top / entry.path
        if entry.before is None and os.path.lexists(file) and not file.is_dir():
            raise ConcurrentEdit(entry.path)
    repository.git.run("update-index", "-q", "--refresh", good=(0, 1))
    changed = repository.git.run("diff-files", QUIET_INSIDE, "--name-only", "-z").split(b"\0")
    for entry in others:
        if entry.path.encode("utf-8", "surrogateescape") in changed:
            raise ConcurrentEdit(entry.path)


def _change(
    repository: Repository,
    objects: Objects,
    store: MemoryStore,
    tree: str,
    found: list[ChangedPath],
    memories: set[str],
    is_recovery: bool = False,
) -> None:
    """Change files: memories directly, others by git.

    Files are deleted first, since a folder may take the name of one.
    """
    own = [entry for entry in found if entry.path in memories]
    _write(objects, store, [entry for entry in own if entry.after is None], is_recovery)
    for entry in found:
        folder = repository.top / entry.path
        if entry.after is None or not _is_inside(repository.top, entry.path):
            continue
        if folder.is_dir() and not folder.is_symlink():
            for parent, _, _ in reversed(list(walk(folder))):
                with contextlib.suppress(OSError):
                    Path(parent).rmdir()
    _restore(repository, tree, [entry for entry in found if entry.path not in memories])
    _write(objects, store, [entry for entry in own if entry.after is not None], is_recovery)


def _restore(repository: Repository, tree: str, found: list[ChangedPath]) -> None:
    paths = [entry.path for entry in found if entry.after is not None]
    for entry in found:
        if entry.after is None and _is_inside(repository.top, entry.path):
            with contextlib.suppress(OSError):
                (repository.top / entry.path).unlink()
    if paths:
        data = "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
        stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
        repository.git.run("restore", f"--source={tree}", "--worktree", *stdin, data=data)


def _write(
    objects: Objects, store: MemoryStore, found: list[ChangedPath], is_recovery: bool
) -> None:
    sides = [side.name for entry in found for side in (entry.before, entry.after) if side]
    data = objects.read(sides)
    for entry in found:
        before = data[entry.before.name] if entry.before else None
        after = data[entry.after.name] if entry.after else None
        with contextlib.suppress(_Already, *((ConcurrentEdit,) if is_recovery else ())):
            _write_one(store, entry.path, before, after)


class _Already(Exception):
    """The file already has the new content."""


def _write_one(store: MemoryStore, path: str, before: bytes | None, after: bytes | None) -> None:
    file = store.root / path
    require_plain_folders(store.root, PurePosixPath(path).parent.as_posix())
    try:
        if before is None:
            assert after is not None
            atomic.create(file, after)
        elif after is None:
            _last_look(store, path, before, after)
            file.unlink()
        else:
            atomic.replace(file, after, partial(_last_look, store, path, before, after))
    except FileExistsError as error:
        if plain_files.read(file) != after:
            raise ConcurrentEdit(path) from error
    except FileNotFoundError as error:
        if after is not None:
            raise ConcurrentEdit(path) from error
    except OSError as error:
        with atomic.map_os_errors(path):
            raise error from None


def _last_look(store: MemoryStore, path: str, before: bytes, after: bytes | None) -> None:
    """Save a file's revision as a hard link, and check that the content is still ``before``.

    Raises:
        _Already: the file has the new content.
        ConcurrentEdit: the file was changed during the sync.
    """
    memory = store.parse(before, FileState(path, len(before), 0, 0, 0))
    kept = ""
    with contextlib.suppress(MemvaultError):
        kept = store.history.save(memory.mem_id, before, store.root / path)
    now = plain_files.read(store.root / path)
    if now == before:
        return
    if kept:
        store.history.delete(memory.mem_id, kept)
    if now == after:
        raise _Already
    raise ConcurrentEdit(path)


_TRIES = 6
_LARGEST = 64 << 20
"""Maximum bytes of a file that is searched for secrets: the size limit of memories."""
_HEAD = 8_000
"""Leading bytes that decide whether a file is text; git reads as many."""
_REJECTED = ("[rejected]", "failed to update ref", "cannot lock ref", "fetch first")


class RemoteBranch(NamedTuple):
    """The remote branch of a sync: the remote's name, and the branch's name there.

    ``is_set`` is true if the local branch has it as upstream.
    """

    name: str
    branch: str
    is_set: bool

    @property
    def tracking(self) -> str:
        """The name of its remote-tracking branch in this clone."""
        return f"refs/remotes/{self.name}/{self.branch}"


class SyncReport:
    """The results of a sync."""

    def __init__(self) -> None:
        self.committed = self.pulled = self.pushed = 0
        self.twice: dict[str, str] = {}
        self.undeleted: dict[str, None] = {}
        self.dropped_values: dict[str, None] = {}
        self.renamed: dict[str, str] = {}
        self.nested_repositories: list[str] = []

    def result(self) -> dict[str, Any]:
        """Return the results with the keys of a tool's result."""
        copies = [
            {"filePath": replace_surrogates(path), "copyPath": replace_surrogates(copy)}
            for copy, path in self.twice.items()
        ]
        renames = [
            {"from": replace_surrogates(path), "filePath": replace_surrogates(now)}
            for path, now in self.renamed.items()
        ]
        return {
            "committed": self.committed,
            "pulled": self.pulled,
            "pushed": self.pushed,
            **({"keptTwice": copies} if copies else {}),
            **({"renamed": renames} if renames else {}),
            **(
                {"notSynced": list(map(replace_surrogates, self.nested_repositories))}
                if self.nested_repositories
                else {}
            ),
            **(
                {"notDeleted": list(map(replace_surrogates, self.undeleted))}
                if self.undeleted
                else {}
            ),
            **(
                {"notKept": list(map(replace_surrogates, self.dropped_values))}
                if self.dropped_values
                else {}
            ),
        }


def sync(call: Call, agree: setup.Agree | None = None) -> dict[str, Any]:
    """Commit, pull with rebase, and push.

    Raises:
        Refused: the state of the repository does not allow it; the hint names the command.
        GitError: git failed, or a hook or the remote refused.
        Conflict: files changed or others pushed during each of several tries.
    """
    found = setup.require_repository(call, agree)
    if found.prefix:
        hint = "commit and pull it as you are used to; memories are merged there too"
        raise Refused(LARGER, hint)
    branch = require_idle_branch(found)
    if found.unmerged:
        raise Refused("Git holds files in conflict", "git status names them; settle them first")
    remote = _remote(found, branch)
    setup.prepare(call, found)
    done = SyncReport()
    agent = call.caller.agent
    with lock(call.root):
        for left in found.folder.glob(f"{SCRATCH}*"):
            remove(left)
        for _ in range(_TRIES):
            with Objects(found.git, found.folder) as objects:
                recover(found, objects, call.store)
                look = partial(_look, call, found, objects)
                done.committed += commit_all(found, f"memvault sync ({agent})", look)
            others = _fetched(found, remote)
            try:
                head = _merge_remote(call, found, branch, others, done)
            except ConcurrentEdit:
                continue
            if head == others or _pushed(found, remote, head):
                done.pushed = _count(found, others, head)
                done.nested_repositories = program.repositories(found)
                call.notes += map(_is_apart, done.nested_repositories)
                return {"branch": branch, "remote": remote.name, **done.result()}
    raise Conflict(f"Others changed or pushed meanwhile, {_TRIES} times", "memvault git sync")


def _is_apart(path: str) -> str:
    said = f"{replace_surrogates(path)} is a git repository of its own, so it is not synced"
    return f"{said}: {program.HINT}"


def _look(call: Call, repository: Repository, objects: Objects, tree: str) -> None:
    """Add notes on secrets and conflict markers in the texts that are about to be committed.

    Raises:
        Refused: a text contains a secret, and the settings refuse secrets.
    """
    git = repository.git
    since = git.commit_id("HEAD") or git.empty_tree()
    found = [
        entry for entry in objects.differences(since, tree) if entry.after and entry.after.is_plain
    ]
    sides = [side.name for entry in found for side in (entry.before, entry.after) if side]
    data = objects.read(objects.small(sides, _LARGEST))
    for path, old, new in found:
        assert new is not None
        after = data.get(new.name, b"")
        if b"\0" in after[:_HEAD] and not paths.is_memory_path(path):
            continue  # binary
        if has_conflict_markers(decode(after).text):
            call.notes.append(
                f"{replace_surrogates(path)} is shared with the marks of a conflict in it"
            )
        on_write, detector = call.settings.secrets.on_write, call.settings.detector
        before = data.get(old.name, b"") if old else b""
        secrets = writer.added_secrets(before, after, detector) if on_write != "off" else []
        if secrets and on_write == "refuse":
            raise Refused(
                f"{replace_surrogates(path)} contains a secret, and memvault.toml refuses secrets",
                "take it out of the file; nothing was committed, pulled or pushed",
            )
        if secrets:
            call.notes.append(writer.warning(replace_surrogates(path), secrets))


def _remote(repository: Repository, branch: str) -> RemoteBranch:
    git = repository.git
    name = git.config(f"branch.{branch}.remote")
    merge = git.config(f"branch.{branch}.merge").removeprefix("refs/heads/")
    # Git uses the name of a remote without a URL as a path, whose repository has hooks.
    urls = git.line("config", "--name-only", "--get-regexp", r"^remote\..*\.url$", good=(0, 1))
    known = sorted({key[len("remote.") : -len(".url")] for key in urls.split("\n") if key})
    if name in known and merge:  # otherwise it is a path, whose repository has hooks
        return RemoteBranch(name, merge, True)
    if not known:
        raise Refused("The repository has no remote to sync with", "git remote add origin URL")
    if "origin" not in known and len(known) > 1:
        raise Refused(
            f"The branch {branch} belongs to none of the remotes {', '.join(known)}",
            f"git push --set-upstream REMOTE {branch}",
        )
    return RemoteBranch("origin" if "origin" in known else known[0], branch, False)


def _fetched(repository: Repository, remote: RemoteBranch) -> str:
    """Fetch the remote branch; return the id of its last commit, empty if it does not exist."""
    git = repository.git
    hint = f"git ls-remote {remote.name} says whether it can be reached"
    listed = git.run(
        "ls-remote", "--heads", "--", remote.name, seconds=NETWORK_SECONDS, hint=hint
    ).decode("utf-8", "replace")
    heads = [line.partition("\trefs/heads/")[2] for line in listed.splitlines()]
    if remote.branch not in heads:
        if heads and not remote.is_set:
            is_here = git.commit_id(f"refs/heads/{heads[0]}")
            way = f"git {'switch' if is_here else 'branch --move'} {heads[0]}"
            raise Refused(
                f"{remote.name} has no branch {remote.branch}, but {', '.join(heads[:5])}",
                f"{way}, or git push --set-upstream {remote.name} HEAD",
            )
        return ""
    source = f"+refs/heads/{remote.branch}:{remote.tracking}"
    words = ("fetch", "--quiet", "--no-tags", "--", remote.name, source)
    git.run(*words, seconds=NETWORK_SECONDS, hint=hint)
    return git.commit_id(remote.tracking)


def _merge_remote(
    call: Call, repository: Repository, branch: str, others: str, done: SyncReport
) -> str:
    """Replay the local commits onto the remote ones; return the id of the last commit."""
    git = repository.git
    head = git.commit_id("HEAD")
    if not others or others == head or (head and _has(git, head, others)):
        return head
    with Objects(git, repository.folder) as objects:
        new = others
        replay = None
        if head and not _has(git, others, head):
            ignore = call.settings.ignore
            new, replay = _replayed(repository, objects, others, head, ignore)
        _require_unused(call.root, objects.differences(head or git.empty_tree(), new))
        switch(repository, objects, call.store, branch, head, new)
    done.pulled += _count(repository, head, others)
    if replay is not None:
        done.twice.update({entry.copy: entry.path for entry in replay.twice})
        done.undeleted.update(dict.fromkeys(replay.undeleted))
        done.dropped_values.update(dict.fromkeys(replay.dropped_values))
        done.renamed.update(replay.renamed)
    return new


def _used(root: Path, found: list[ChangedPath]) -> list[str]:
    """Return the paths that get new contents and that git may run or read settings from."""
    place = find(root)
    changed = [entry.path for entry in found if entry.after]
    return approval.affected(place, changed) if place is not None else []


def _require_unused(root: Path, found: list[ChangedPath]) -> None:
    """Check that the sync changes no file that git may run or read settings from.

    Only the current contents of such files are approved.

    Raises:
        Refused: such a file would change.
    """
    used = _used(root, found)
    if used:
        raise Refused(
            f"{replace_surrogates(used[0])} was changed by others, and git may run it here",
            "look at it, then git pull --rebase; memvault git sync asks about it afterwards",
        )


def _replayed(
    repository: Repository, objects: Objects, others: str, head: str, ignore: tuple[str, ...]
) -> tuple[str, Replay]:
    git = repository.git
    nothing = git.empty_tree()
    base = git.line("merge-base", others, head, good=(0, 1)).partition("\n")[0] or nothing
    replay = Replay(objects, MemoryMerger(git, objects.scratch), base, others, ignore)
    commits = objects.commits(others, head)
    if any(len(commit.parents) > 1 for commit in commits):
        # Replaying would lose how a person merged, so merge commits are kept and merged.
        last = commits[-1]
        tree = replay.step(base, head)
        text = _message(f"Merge what others pushed\n\n{_why(last)}", replay.dropped_values)
        return objects.commit(tree, [head, others], last, text), replay
    new, below, before = others, git.line("rev-parse", f"{others}^{{tree}}"), base
    old = git.line("rev-parse", f"{base}^{{tree}}")
    for commit in commits:
        known = len(replay.dropped_values)
        tree = replay.step(before, commit.name)
        lost = replay.dropped_values[known:]
        # A commit without remaining changes is left out, unless its message names lost values.
        if tree != below or commit.tree == old or lost:
            text = _message(commit.message, lost)
            new, below = objects.commit(tree, [new], commit, text), tree
        before, old = commit.name, commit.tree
    return new, replay


def _why(commit: Commit) -> str:
    return f"The last of the commits here: {commit.message.partition(chr(10))[0]}"


def _message(text: str, lost: list[str]) -> str:
    """Return a commit's message with the values that remote changes replaced."""
    if not lost:
        return text
    listed = "".join(f"- {entry}\n" for entry in lost)
    return f"{text.rstrip()}\n\nNot kept, since what others have counts:\n{listed}"


def _pushed(repository: Repository, remote: RemoteBranch, head: str) -> bool:
    """Push; return False if others pushed first.

    Raises:
        GitError: the push failed for another reason.
    """
    if not head:
        return True
    git = repository.git
    target = f"{head}:refs/heads/{remote.branch}"
    words = ("push", "--porcelain", "--", remote.name, target)
    ran = git.run_unchecked(*words, seconds=NETWORK_SECONDS)
    if ran.code:
        said = f"{ran.output}\n{ran.stderr}"
        if any(mark in said for mark in _REJECTED):
            return False
        hint = "a hook or the other side refused it; all is committed here: sync again later"
        raise git.failed("push", ran, hint)
    git.run("update-ref", remote.tracking, head)
    if not remote.is_set:
        branch = f"--set-upstream-to={remote.name}/{remote.branch}"
        git.run_unchecked("branch", branch)
    return True


def _has(git: Git, commit: str, earlier: str) -> bool:
    return git.run_unchecked("merge-base", "--is-ancestor", earlier, commit).code == 0


def _count(repository: Repository, since: str, until: str) -> int:
    """Return the number of commits after ``since`` up to ``until``."""
    if not until:
        return 0
    words = (until, f"^{since}") if since else (until,)
    return int(repository.git.line("rev-list", "--count", *words))
