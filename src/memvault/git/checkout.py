"""Check out a commit made by sync: replace memories atomically, and other files with git.

Git deletes a file and then writes the new one in place. A full disk or a kill would leave a partial
memory, which the next commit would share as an edit.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from memvault.agents.address import locks_for_paths
from memvault.errors import Conflict, MemvaultError, Refused
from memvault.files import atomic, plain_files
from memvault.files.attributes import Attributes
from memvault.files.walk import walk
from memvault.git.objects import ChangedPath, check_names, differences, is_private, read_blobs
from memvault.git.tree_merge import LINK
from memvault.model import FileState, Memory
from memvault.repository import approval
from memvault.repository.location import find_repository
from memvault.repository.program import (
    QUIET_INSIDE,
    GitError,
    Repository,
    null_separated,
    null_terminated,
)
from memvault.sanitize import replace_surrogates
from memvault.store.memory_store import MemoryStore
from memvault.vault import program_files
from memvault.vault.header_links import referenced_names
from memvault.vault.paths import require_plain_folders

_UNFINISHED = "refs/worktree/memvault-sync"
"""The ref of the commit being checked out, private to this worktree."""


class ConcurrentEdit(Conflict):
    """A file or the branch changed during the sync; a retry includes the change."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{replace_surrogates(name)} was changed during the sync", "try again")


def fast_forward(
    repository: Repository, store: MemoryStore, branch: str, head: str, new: str
) -> list[str]:
    """Move the folder, index and branch to a later commit; ``head`` may be empty.

    The replaced memories are stored as revisions. Returns the paths of written files that agents'
    programs read as instructions.

    Raises:
        ConcurrentEdit: a file differs from the old commit, or the branch has moved.
        Refused: the commit has unsafe names, or it changes a file that git or another program runs
        or reads settings from, or a change to such a file is staged.
        StorageError: a file cannot be written; ``restore_unfinished`` reverts the others.
        GitError: git failed; ``restore_unfinished`` reverts the written files.
    """
    git = repository.git
    before = head or git.empty_tree()
    check_names(git, new)
    changed = _shared(repository, before, new)
    used = _used(store.root, changed)
    if used:  # Approval covers only the current contents of such files.
        raise Refused(
            f"{replace_surrogates(used[0])} was changed by others, and git may execute it here",
            "review it, then `git pull --no-rebase`; `memvault git sync` then asks for approval",
        )
    written = [entry.path for entry in changed if entry.after is not None]
    for path in written:
        if program_files.read_as(path) == "settings":
            raise Refused(
                f"{replace_surrogates(path)} was changed by others, and programs that run in this "
                "folder read it as settings or code",
                "review it, then accept it with `git pull --no-rebase`",
            )
    try:
        git.run("read-tree", "-m", "-i", "--dry-run", before, new)
    except GitError as error:
        hint = "commit it, or unstage it with `git restore --staged`"
        raise Refused(f"A staged change blocks the sync: {error.message}", hint) from error
    memories = _plain_memories(repository, store, changed)
    with locks_for_paths(store.root, (entry.path for entry in changed)):
        if git.commit_id("HEAD") != head:
            raise ConcurrentEdit(branch)
        _check(repository, changed, memories)
        git.run("update-ref", _UNFINISHED, new)
        _replace(repository, store, new, changed, memories)
        git.run("read-tree", "-m", "-i", before, new)
        try:
            git.run("update-ref", "-m", "memvault git sync", f"refs/heads/{branch}", new, head)
        except GitError as error:
            raise ConcurrentEdit(branch) from error
        git.run("update-ref", "-d", _UNFINISHED)
    git.run("update-index", "-q", "--refresh", ok_codes=(0, 1))
    return [path for path in written if program_files.read_as(path) == "instructions"]


def restore_unfinished(repository: Repository, store: MemoryStore) -> None:
    """Revert the file changes of a checkout that did not finish.

    Files that were edited after the checkout are left as they are, and so are files that git may
    run or read settings from, because the ref may be forged and only their current contents are
    approved.

    Raises:
        GitError: git failed.
        StorageError: a file cannot be written; a later call continues.
        Refused: a part of the repository cannot be read.
    """
    git = repository.git
    new = git.commit_id(_UNFINISHED)
    if not new:
        return
    head = git.commit_id("HEAD")
    before = head or git.empty_tree()
    if not head or git.run_unchecked("merge-base", "--is-ancestor", new, head).code:
        changed = _shared(repository, new, before)
        with locks_for_paths(store.root, (entry.path for entry in changed)):
            git.run("read-tree", before)
            used = set(_used(store.root, changed))
            changed = [entry for entry in changed if entry.path not in used]
            memories = _plain_memories(repository, store, changed)
            args = ("--no-renames", "--diff-filter=d", "--name-only", "-z", new)
            edited = set(null_separated(git.run("diff", QUIET_INSIDE, *args))) - memories
            edited -= set(_cut_off(repository, changed, edited))
            changed = [entry for entry in changed if entry.path not in edited]
            _replace(repository, store, before, changed, memories, is_recovery=True)
    git.run("update-ref", "-d", _UNFINISHED)


def _cut_off(
    repository: Repository, changed: Iterable[ChangedPath], paths: set[str]
) -> Iterator[str]:
    """Yield the files that git wrote only partially: they contain a prefix of the new contents."""
    unfinished = [entry for entry in changed if entry.path in paths and entry.before]
    blobs = read_blobs(repository.git, [entry.before.name for entry in unfinished if entry.before])
    for path, before, _ in unfinished:
        with contextlib.suppress(OSError):
            data = plain_files.read(repository.top / path)
            if before and blobs[before.name].startswith(data):
                yield path


def _shared(repository: Repository, before: str, after: str) -> list[ChangedPath]:
    """Return the paths that differ between two trees, except private ones.

    Private paths are specific to one machine and are never changed.
    """
    changed = differences(repository.git, before, after)
    return [entry for entry in changed if not is_private(entry.path)]


def _used(root: Path, changed: Iterable[ChangedPath]) -> list[str]:
    """Return the paths that git may run or read settings from."""
    location = find_repository(root)
    written = [entry.path for entry in changed if entry.after is not None]
    return approval.paths_git_may_run(location, written) if location is not None else []


def _is_inside(root: Path, path: str) -> bool:
    """Return whether none of a path's parent folders is a link."""
    with contextlib.suppress(Refused):
        require_plain_folders(root, PurePosixPath(path).parent.as_posix())
        return True
    return False


def _plain_memories(
    repository: Repository, store: MemoryStore, changed: Iterable[ChangedPath]
) -> set[str]:
    """Return the paths of memories that git checks out byte for byte."""
    paths = [
        entry.path
        for entry in changed
        if entry.path.endswith(".md")
        and all(side is None or side.mode == "100644" for side in (entry.before, entry.after))
    ]
    args = ("check-attr", "-z", "--stdin", "text", "filter", "ident", "working-tree-encoding")
    parts = null_separated(repository.git.run(*args, data=null_terminated(paths)))
    converted = {
        path
        for path, name, value in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        if value not in ("unset", "unspecified") or (name == "text" and value != "unset")
    }
    return {path for path in paths if path not in converted and _is_inside(store.root, path)}


def _check(repository: Repository, changed: list[ChangedPath], memories: set[str]) -> None:
    """Check that the changed files can be written without losing other files.

    Raises:
        ConcurrentEdit: one of them was changed during the sync.
        Refused: a folder to be replaced by a file contains files that git ignores.
    """
    gone = {entry.path for entry in changed if entry.after is None}
    others = [entry for entry in changed if entry.path not in memories]
    for path, before, _ in changed:
        file = repository.top / path
        if before is None and file.is_dir() and not file.is_symlink():
            for parent, _, names in walk(file):
                inside = (Path(parent, name).relative_to(repository.top) for name in names)
                remaining = [inner.as_posix() for inner in inside if inner.as_posix() not in gone]
                if remaining:
                    contents = f"a folder here (contains {remaining[0]})"
                    message = f"{path} is a file on the remote but {contents}"
                    raise Refused(message, "move the folder's files elsewhere or add them to git")
        elif before is None and path not in memories and os.path.lexists(file):
            raise ConcurrentEdit(path)
    if others:
        repository.git.run("update-index", "-q", "--refresh", ok_codes=(0, 1))
        args = ("diff-files", QUIET_INSIDE, "--name-only", "-z")
        edited = set(null_separated(repository.git.run(*args)))
        for entry in others:
            if entry.path in edited:
                raise ConcurrentEdit(entry.path)


def _replace(
    repository: Repository,
    store: MemoryStore,
    tree: str,
    changed: list[ChangedPath],
    memories: set[str],
    is_recovery: bool = False,
) -> None:
    """Change files: memories directly, others with git.

    Files are deleted first, because a folder may replace one of them.
    """
    memory_changes = [entry for entry in changed if entry.path in memories]
    others = [entry for entry in changed if entry.path not in memories]
    deleted = [entry for entry in memory_changes if entry.after is None]
    _write(repository, store, deleted, is_recovery)
    for entry in changed:
        folder = repository.top / entry.path
        if entry.after is None or not _is_inside(repository.top, entry.path):
            continue
        if folder.is_dir() and not folder.is_symlink():
            for parent, _, _ in reversed(list(walk(folder))):
                with contextlib.suppress(OSError):
                    Path(parent).rmdir()
    _check_out(repository, tree, others)
    written = [entry for entry in memory_changes if entry.after is not None]
    _write(repository, store, written, is_recovery)


def _check_out(repository: Repository, tree: str, changed: list[ChangedPath]) -> None:
    """Let git write or delete files as they are in a tree."""
    for entry in changed:
        if entry.after is None and _is_inside(repository.top, entry.path):
            with contextlib.suppress(OSError):
                (repository.top / entry.path).unlink()
    written = [entry.path for entry in changed if entry.after is not None]
    if written:
        stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
        hint = "free space if the disk is full, then `memvault git sync`"
        args = ("restore", f"--source={tree}", "--worktree", *stdin)
        repository.git.run(*args, data=null_terminated(written), hint=hint)


def _write(
    repository: Repository, store: MemoryStore, changed: list[ChangedPath], is_recovery: bool
) -> None:
    """Write memories; a recovery does not change a memory that differs from both versions."""
    sides = [side.name for entry in changed for side in (entry.before, entry.after) if side]
    data = read_blobs(repository.git, sides)
    attributes: dict[str, Attributes] = {}
    creates = any(entry.before is None for entry in changed)
    for path, old, _ in changed if creates else ():
        if old is not None:
            with contextlib.suppress(OSError):
                mem_id = _parsed(store, path, data[old.name]).mem_id
                now = Attributes.of(store.root / path)._replace(times=None)
                attributes[mem_id] = now
    for path, old, new in changed:
        before = data[old.name] if old else None
        after = data[new.name] if new else None
        like = None
        # The memory was moved, or this is the second version of a conflict.
        if before is None and after is not None:
            memory = _parsed(store, path, after)
            ids = (memory.mem_id, *referenced_names(memory.metadata, LINK))
            like = next((attributes[name] for name in ids if name in attributes), None)
        with contextlib.suppress(_AlreadyWritten, *((ConcurrentEdit,) if is_recovery else ())):
            _write_one(store, path, before, after, like)


def _parsed(store: MemoryStore, path: str, data: bytes) -> Memory:
    return store.parse(data, FileState.of(path, data))


class _AlreadyWritten(Exception):
    """The file already has the new content."""


def _write_one(
    store: MemoryStore,
    path: str,
    before: bytes | None,
    after: bytes | None,
    like: Attributes | None,
) -> None:
    file = store.root / path
    require_plain_folders(store.root, PurePosixPath(path).parent.as_posix())
    try:
        if before is None:
            assert after is not None
            atomic.create(file, after, like)
            return
        with contextlib.ExitStack() as saving:
            keep_revision = partial(_keep_revision, saving, store, path, before, after)
            if after is None:
                keep_revision()
                file.unlink()
            else:
                atomic.replace(file, after, keep_revision)
    except FileExistsError as error:
        if plain_files.read(file) != after:
            raise ConcurrentEdit(path) from error
    except FileNotFoundError as error:
        if after is not None:
            raise ConcurrentEdit(path) from error
    except OSError as error:
        with atomic.map_os_errors(path):
            raise error from None


def _keep_revision(
    saving: contextlib.ExitStack, store: MemoryStore, path: str, before: bytes, after: bytes | None
) -> None:
    """Store a file as a revision until ``saving`` ends, checking that it still equals ``before``.

    Raises:
        _AlreadyWritten: the file has the new content.
        ConcurrentEdit: the file was changed during the sync.
    """
    memory = _parsed(store, path, before)
    with contextlib.suppress(MemvaultError):
        saving.enter_context(store.history.saved(memory.mem_id, before, store.root / path))
    now = plain_files.read(store.root / path)
    if now != before:
        raise _AlreadyWritten if now == after else ConcurrentEdit(path)
