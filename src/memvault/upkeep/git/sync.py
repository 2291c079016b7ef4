"""Sync: commit what changed, put it on top of what others pushed, and push it.

Nothing is forced. The two lines are put together outside of the folder, which
then changes from one whole state to the other; a sync that is killed leaves
what the next one commits and goes on from.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from memvault.call import Call
from memvault.errors import Conflict, Refused
from memvault.upkeep.git import inner, setup
from memvault.upkeep.git.checkout import ConcurrentEdit, recover, switch
from memvault.upkeep.git.commit import commit_all, lock
from memvault.upkeep.git.merge import MemoryMerger
from memvault.upkeep.git.objects import SCRATCH, Commit, Objects
from memvault.upkeep.git.program import (
    LARGER,
    NETWORK_SECONDS,
    Git,
    Repository,
    require_idle_branch,
)
from memvault.upkeep.git.replay import Replay
from memvault.vault import layout, new_secrets, walk
from memvault.vault.codec import decode, replace_surrogates
from memvault.vault.markdown import has_conflict_markers

_TRIES = 6
_LARGEST = 64 << 20
"""Bytes of a file that is looked at for secrets at most: the largest memory."""
_HEAD = 8_000
"""Bytes of a file that say whether it is a text, as git looks at as many."""
_REJECTED = ("[rejected]", "failed to update ref", "cannot lock ref", "fetch first")


class RemoteBranch(NamedTuple):
    """The branch that is synced with: the remote's name, and the branch's there."""

    name: str
    branch: str
    is_set: bool

    @property
    def tracking(self) -> str:
        """The name under which this clone knows it."""
        return f"refs/remotes/{self.name}/{self.branch}"


class SyncReport:
    """What a sync did."""

    def __init__(self) -> None:
        self.committed = self.pulled = self.pushed = 0
        self.twice: dict[str, str] = {}
        self.undeleted: dict[str, None] = {}
        self.dropped_values: dict[str, None] = {}
        self.renamed: dict[str, str] = {}
        self.nested_repositories: list[str] = []

    def result(self) -> dict[str, Any]:
        """Return it as a tool's result."""
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
        Refused: git cannot be used as things stand; the hint says what to do.
        GitFailed: git, a hook or the other side refused.
        Conflict: others changed files or pushed again and again meanwhile.
    """
    found = setup.opened(call, agree)
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
            walk.remove(left)
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
                done.nested_repositories = inner.repositories(found)
                call.notes += map(_is_apart, done.nested_repositories)
                return {"branch": branch, "remote": remote.name, **done.result()}
    raise Conflict(f"Others changed or pushed meanwhile, {_TRIES} times", "memvault git sync")


def _is_apart(path: str) -> str:
    said = f"{replace_surrogates(path)} is a git repository of its own, so it is not synced"
    return f"{said}: {inner.HINT}"


def _look(call: Call, repository: Repository, objects: Objects, tree: str) -> None:
    """Tell of what should not be shared as it is, in the texts that are about to be committed.

    Raises:
        Refused: one holds a secret, and the settings say no to that.
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
        if b"\0" in after[:_HEAD] and not layout.is_memory_path(path):
            continue  # no text
        if has_conflict_markers(decode(after).text):
            call.notes.append(
                f"{replace_surrogates(path)} is shared with the marks of a conflict in it"
            )
        on_write = call.settings.secrets.on_write
        before = data.get(old.name, b"") if old else b""
        secrets = new_secrets.added_secrets(before, after) if on_write != "off" else []
        if secrets and on_write == "refuse":
            raise Refused(
                f"{replace_surrogates(path)} holds a secret, and memvault.toml says that none is kept",
                "take it out of the file; nothing was committed, pulled or pushed",
            )
        if secrets:
            call.notes.append(new_secrets.warning(replace_surrogates(path), secrets))


def _remote(repository: Repository, branch: str) -> RemoteBranch:
    git = repository.git
    name = git.config(f"branch.{branch}.remote")
    merge = git.config(f"branch.{branch}.merge").removeprefix("refs/heads/")
    known = git.line("remote").split()
    if name in known and merge:  # else it is a path, whose repository has hooks of its own
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
    """Fetch what others pushed; return its last commit, empty where nobody pushed anything."""
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
    """Put the local commits on top of those of others; return the last commit."""
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
        switch(repository, objects, call.store, branch, head, new)
    done.pulled += _count(repository, head, others)
    if replay is not None:
        done.twice.update({entry.copy: entry.path for entry in replay.twice})
        done.undeleted.update(dict.fromkeys(replay.undeleted))
        done.dropped_values.update(dict.fromkeys(replay.dropped_values))
        done.renamed.update(replay.renamed)
    return new


def _replayed(
    repository: Repository, objects: Objects, others: str, head: str, ignore: tuple[str, ...]
) -> tuple[str, Replay]:
    git = repository.git
    nothing = git.empty_tree()
    base = git.line("merge-base", others, head, good=(0, 1)).partition("\n")[0] or nothing
    replay = Replay(objects, MemoryMerger(git, objects.scratch), base, others, ignore)
    commits = objects.commits(others, head)
    if any(len(commit.parents) > 1 for commit in commits):
        # How somebody merged is not to be lost: such commits stay as they are, and are merged.
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
        # What others did too is no change any more; a value that is lost stands in a message.
        if tree != below or commit.tree == old or lost:
            text = _message(commit.message, lost)
            new, below = objects.commit(tree, [new], commit, text), tree
        before, old = commit.name, commit.tree
    return new, replay


def _why(commit: Commit) -> str:
    return f"The last of the commits here: {commit.message.partition(chr(10))[0]}"


def _message(text: str, lost: list[str]) -> str:
    """Return a commit's message with the values that others had changed later."""
    if not lost:
        return text
    listed = "".join(f"- {entry}\n" for entry in lost)
    return f"{text.rstrip()}\n\nNot kept, since what others have counts:\n{listed}"


def _pushed(repository: Repository, remote: RemoteBranch, head: str) -> bool:
    """Push; say no where others pushed meanwhile.

    Raises:
        GitFailed: it is refused for another reason.
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
    """Return how many commits lead from one to another."""
    if not until:
        return 0
    words = (until, f"^{since}") if since else (until,)
    return int(repository.git.line("rev-list", "--count", *words))
