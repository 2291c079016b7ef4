"""Sync a vault: commit local changes, merge them with the remote branch, and push.

Nothing is force-pushed. Trees are merged outside the vault's folder, and ``checkout`` then replaces
the files. If a sync is interrupted, the next one reverts the files that it replaced.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memvault.call import Call
from memvault.errors import Conflict, Refused
from memvault.git import setup
from memvault.git.checkout import ConcurrentEdit, fast_forward, restore_unfinished
from memvault.git.commit import commit_all, lock
from memvault.git.objects import differences, read_blobs, smaller_blobs
from memvault.git.tree_merge import TreeMerger
from memvault.named_tuple import NamedTuple
from memvault.repository import submodules
from memvault.repository.program import (
    LARGER,
    NETWORK_SECONDS,
    Git,
    Repository,
    require_idle_branch,
)
from memvault.sanitize import replace_surrogates
from memvault.settings.exclusions import Exclusions
from memvault.store import secret_policy
from memvault.vault import paths
from memvault.vault.decoding import decode
from memvault.vault.markdown import has_conflict_markers

if TYPE_CHECKING:
    from memvault.results import SyncedVault

_SCRATCH = "memvault-sync-"
"""Prefix of temporary folders in the git directory; a killed sync leaves them behind."""
_TRIES = 6
_SIGNS = ("config", "--type=bool", "--get", "commit.gpgSign")
_MAX_TEXT_BYTES = 64 << 20
"""Maximum size in bytes of a file to search for secrets: the size limit of memories."""
_TEXT_HEAD_BYTES = 8_000
"""Number of leading bytes that decide whether a file is text, the same as in git."""
_REJECTED = ("[rejected]", "failed to update ref", "cannot lock ref", "fetch first")


class RemoteBranch(NamedTuple):
    """The remote branch to sync with: the remote's name, and the branch's name there.

    ``is_set`` is true if it is the upstream of the local branch.
    """

    name: str
    branch: str
    is_set: bool

    @property
    def tracking(self) -> str:
        """The name of the remote-tracking branch in this clone."""
        return f"refs/remotes/{self.name}/{self.branch}"


def sync(call: Call, agree: setup.ConfirmApproval | None = None) -> SyncedVault:
    """Commit, merge others' pushed changes, and push; return counts and notes for the result.

    Raises:
        Refused: the state of the repository does not allow it; the hint contains the command.
        GitError: git failed, or a hook or the remote refused the changes.
        Conflict: files changed or others pushed during every attempt.
    """
    repository = setup.require_repository(call, agree)
    if repository.prefix:
        hint = "commit and pull with git itself, which merges memories the same way"
        raise Refused(LARGER, hint)
    branch = require_idle_branch(repository)
    if repository.unmerged:
        raise Refused(
            "The repository has unresolved conflicts",
            "run `git status` to list them, and resolve them first",
        )
    remote = _remote(repository, branch)
    setup.write_git_files(call, repository)
    done: dict[str, Any] = {
        "branch": branch, "remote": remote.name, "committed": 0, "pulled": 0, "pushed": 0,
    }  # fmt: skip
    subject, refused_at = f"memvault sync ({call.caller.agent})", ""
    with lock(call.root):
        for leftover in repository.folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for _ in range(_TRIES):
            restore_unfinished(repository, call.store)
            done["committed"] += commit_all(
                repository, subject, partial(_note_problems, call, repository.git)
            )
            others = _fetched(repository, remote)
            head = repository.git.commit_id("HEAD")
            try:
                new = _merge_remote(call, repository, subject, head, others, done)
            except ConcurrentEdit as error:
                # The last commit did not include the changes, so another attempt would not either.
                if head == refused_at:
                    hint = "move it elsewhere or add it to git"
                    raise Refused(error.message, hint) from error
                refused_at = head
                continue
            if new == others or _pushed(repository, remote, new):
                done["pushed"] = _count(repository.git, others, new)
                if nested := [*map(replace_surrogates, submodules.repositories(repository))]:
                    done["notSynced"] = nested
                    message = "is a separate git repository, so it is not synced"
                    call.notes += [f"{path} {message}: {submodules.HINT}" for path in nested]
                return cast("SyncedVault", done)
    message = f"The vault or its remote changed during each of {_TRIES} attempts"
    raise Conflict(message, "run `memvault git sync` again")


def _note_problems(call: Call, git: Git, tree: str) -> None:
    """Note secrets and conflict markers in the files that are about to be committed.

    Raises:
        Refused: a file contains a secret, and the settings refuse secrets.
    """
    since = git.commit_id("HEAD") or git.empty_tree()
    changed = differences(git, since, tree)
    edits = [entry for entry in changed if entry.after and entry.after.is_plain]
    sides = [side.name for entry in edits for side in (entry.before, entry.after) if side]
    data = read_blobs(git, smaller_blobs(git, sides, _MAX_TEXT_BYTES))
    for path, old, new in edits:
        assert new is not None
        after = data.get(new.name, b"")
        if b"\0" in after[:_TEXT_HEAD_BYTES] and not paths.is_memory_path(path):
            continue  # binary
        if has_conflict_markers(decode(after, call.settings.encoding).text):
            note = f"{replace_surrogates(path)} is committed with git conflict markers in it"
            call.notes.append(note)
        on_write = call.settings.secrets.on_write
        before = data.get(old.name, b"") if old else b""
        if on_write == "off":
            continue
        secrets = secret_policy.added_secrets(before, after, call.settings)
        if secrets and on_write == "refuse":
            raise Refused(
                f"{replace_surrogates(path)} contains a secret; "
                "memvault.toml is set to refuse secrets",
                "remove it from the file; nothing was committed, pulled or pushed",
            )
        if secrets:
            call.notes.append(secret_policy.secret_warning(replace_surrogates(path), secrets))


def _remote(repository: Repository, branch: str) -> RemoteBranch:
    git = repository.git
    name = git.config(f"branch.{branch}.remote")
    merge = git.config(f"branch.{branch}.merge").removeprefix("refs/heads/")
    # Git treats the name of a remote without a URL as a path to a repository, which may have hooks.
    urls = git.line("config", "--name-only", "--get-regexp", r"^remote\..*\.url$", ok_codes=(0, 1))
    remotes = sorted({key[len("remote.") : -len(".url")] for key in urls.split("\n") if key})
    if name in remotes and merge:
        return RemoteBranch(name, merge, True)
    if not remotes:
        is_named = "origin" in git.line("remote").split("\n")
        hint = "`git config remote.origin.url URL`" if is_named else "`git remote add origin URL`"
        raise Refused("The repository has no remote to sync with", hint)
    if "origin" not in remotes and len(remotes) > 1:
        raise Refused(
            f"The branch {branch} has no upstream in any of the remotes {', '.join(remotes)}",
            f"`git push --set-upstream REMOTE {branch}`",
        )
    return RemoteBranch("origin" if "origin" in remotes else remotes[0], branch, False)


def _fetched(repository: Repository, remote: RemoteBranch) -> str:
    """Fetch the remote branch; return the id of its last commit, or empty if it does not exist."""
    git = repository.git
    hint = f"check the connection with `git ls-remote {remote.name}`"
    args: tuple[str, ...] = ("ls-remote", "--heads", "--", remote.name)
    listed = git.run(*args, seconds=NETWORK_SECONDS, hint=hint).decode("utf-8", "replace")
    heads = [line.partition("\trefs/heads/")[2] for line in listed.splitlines()]
    if remote.branch not in heads:
        if heads and not remote.is_set:
            is_here = git.commit_id(f"refs/heads/{heads[0]}")
            way = f"`git {'switch' if is_here else 'branch --move'} {heads[0]}`"
            raise Refused(
                f"{remote.name} has no branch {remote.branch}, but {', '.join(heads[:5])}",
                f"{way}, or `git push --set-upstream {remote.name} HEAD`",
            )
        return ""
    source = f"+refs/heads/{remote.branch}:{remote.tracking}"
    args = ("fetch", "--quiet", "--no-tags", "--", remote.name, source)
    git.run(*args, seconds=NETWORK_SECONDS, hint=hint)
    return git.commit_id(remote.tracking)


def _merge_remote(
    call: Call, repository: Repository, subject: str, head: str, others: str, done: dict[str, Any]
) -> str:
    """Merge the remote branch with HEAD, check out the result, and return its commit.

    Raises:
        ConcurrentEdit: files were changed concurrently; sync has not changed any.
        Refused: the result has unsafe names, or changes a file that git or another program may run.
    """
    git = repository.git
    if not others or others == head or (head and _contains(git, head, others)):
        return head
    new, notes = others, dict[str, list[Any]]()
    if head and not _contains(git, others, head):
        new, notes = _merge_commit(repository, subject, head, others, call.settings.exclusions)
    for path in fast_forward(repository, call.store, repository.branch, head, new):
        message = "was changed by others, and agents read it as instructions: review it"
        call.notes.append(f"{replace_surrogates(path)} {message}")
    done["pulled"] += _count(git, head, others)
    for key, entries in notes.items():
        done.setdefault(key, []).extend(entries)
    return new


def _merge_commit(
    repository: Repository, subject: str, head: str, others: str, exclusions: Exclusions
) -> tuple[str, dict[str, list[Any]]]:
    """Create the merge of two commits; return its id and notes.

    The commit is signed if git's settings ask for it.
    """
    git = repository.git
    base = git.line("merge-base", others, head, ok_codes=(0, 1)).partition("\n")[0]
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=repository.folder) as scratch:
        merger = TreeMerger(git, Path(scratch), base or git.empty_tree(), others, exclusions)
        tree = merger.merge(head)
    message = f"{subject}: merge\n"
    if dropped := merger.notes.get("notKept"):
        listed = "".join(f"- {entry}\n" for entry in dropped)
        message += f"\nChanged on both sides, so discarded:\n{listed}"
    signed = ["-S"] if git.line(*_SIGNS, ok_codes=(0, 1)) == "true" else []
    args = ("commit-tree", *signed, "-p", head, "-p", others, tree)
    commit = git.run(*args, data=message.encode(), env=git.identity())
    return commit.decode().strip(), merger.notes


def _pushed(repository: Repository, remote: RemoteBranch, head: str) -> bool:
    """Push; return False if others pushed first.

    Raises:
        GitError: the push failed for another reason.
    """
    if not head:
        return True
    git = repository.git
    target = f"{head}:refs/heads/{remote.branch}"
    args = ("push", "--porcelain", "--", remote.name, target)
    ran = git.run_unchecked(*args, seconds=NETWORK_SECONDS)
    if ran.code:
        output = f"{ran.output}\n{ran.stderr}"
        if any(mark in output for mark in _REJECTED):
            return False
        hint = (
            "a hook or the remote rejected it; "
            "your changes are committed locally, so sync again later"
        )
        raise git.failed("push", ran, hint)
    git.run("update-ref", remote.tracking, head)
    if not remote.is_set:
        branch = f"--set-upstream-to={remote.name}/{remote.branch}"
        git.run_unchecked("branch", branch)
    return True


def _contains(git: Git, commit: str, earlier: str) -> bool:
    return git.run_unchecked("merge-base", "--is-ancestor", earlier, commit).code == 0


def _count(git: Git, since: str, until: str) -> int:
    """Return the number of commits after ``since`` up to ``until``, not counting merges."""
    if not until:
        return 0
    revisions = (until, f"^{since}") if since else (until,)
    return int(git.line("rev-list", "--count", "--no-merges", *revisions))
