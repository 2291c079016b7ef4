"""Taking a vault's folder from one commit to another, while others read and write in it.

A memory is replaced at once and only where it is as the old commit has it; what
was there is kept as a revision. Whatever else there is git itself checks out.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from memvault import plain_files
from memvault.agents.locking import locks_for_paths
from memvault.errors import Conflict, MemvaultError, Refused
from memvault.model import FileState
from memvault.upkeep.git.objects import ChangedPath, Objects, is_private
from memvault.upkeep.git.program import QUIET_INSIDE, GitError, Repository
from memvault.vault import atomic, layout
from memvault.vault.store import MemoryStore
from memvault.vault.walk import walk

_NOTE = "memvault-sync.json"
"""Names the two commits while files change from one to the other; it lies in git's own folder."""
_NAME = re.compile(r"[0-9a-f]{40,64}")


class ConcurrentEdit(Conflict):
    """A file changed meanwhile; nothing is lost, and another try sees it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile", "try again")


def switch(
    repository: Repository, objects: Objects, store: MemoryStore, branch: str, old: str, new: str
) -> None:
    """Take folder, index and branch from one commit, or none, to another.

    Raises:
        Busy: a file is not as the old commit has it, or the branch is elsewhere.
        Refused: something is staged in a file that has to change.
        GitFailed: git cannot do it.
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
    """Take back what a change that did not come to its end has done to files.

    What was changed since is nobody's but the person's who did it, and stays.

    Raises:
        GitFailed: git cannot do it.
    """
    note = repository.folder / _NOTE
    try:
        noted = json.loads(plain_files.read(note, plain_files.SETTING))
        before, new = str(noted["before"]), str(noted["new"])
        if not (_NAME.fullmatch(before) and _NAME.fullmatch(new)):
            raise ValueError("not the name of a commit")  # it may be an option
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
                if files.get(entry.path) == entry.after  # else somebody committed it since
            ]
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
    """Hold the locks of all who may be writing these files."""
    with contextlib.ExitStack() as locks:
        for lock in locks_for_paths(store.root, [entry.path for entry in found]):
            locks.enter_context(lock)
        yield


def _shared(objects: Objects, before: str, after: str) -> list[ChangedPath]:
    """Return what two trees differ in, but for what is of one machine: that is never touched."""
    return [entry for entry in objects.differences(before, after) if not is_private(entry.path)]


def _is_inside(root: Path, path: str) -> bool:
    """Return whether no folder on the way to a path is a link."""
    with contextlib.suppress(Refused):
        layout.require_plain_folders(root, PurePosixPath(path).parent.as_posix())
        return True
    return False


def _memories(repository: Repository, store: MemoryStore, found: list[ChangedPath]) -> set[str]:
    """Return the paths of plain files whose bytes are the same in git and in the folder."""
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
    """Make sure that nothing else is in the way of the files that change.

    Raises:
        Busy: somebody changed one meanwhile.
        Refused: a folder that is to be a file holds what git passes over.
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
    """Change files; git does what is no memory. What goes goes first: a folder may get its name."""
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
    """The file is as it should become."""


def _write_one(store: MemoryStore, path: str, before: bytes | None, after: bytes | None) -> None:
    file = store.root / path
    layout.require_plain_folders(store.root, PurePosixPath(path).parent.as_posix())
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
    """Give a file a second name as its revision; make sure that it is what is to be replaced."""
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
