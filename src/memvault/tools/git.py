"""Tools for a vault that is shared with git."""

from __future__ import annotations

from typing import Any

from memvault.call import Call
from memvault.tools.core.registry import Group

group = Group("git", "Sharing a vault with git", place=105)


@group.tool("git_init", "git init", idempotent=True, scope="all")
def git_init(call: Call) -> dict[str, Any]:
    """Set the vault up in git: a repository where there is none, and a merge driver for memories.

    .gitignore and .gitattributes get the lines that they lack. Doing it again
    changes nothing. Nothing is committed.
    """
    from memvault.upkeep.git import setup

    found, made = setup.begin(call)
    changed = setup.prepare(call, found)
    return {"made": made, "branch": found.branch, "changed": changed, "driver": True}


@group.tool("git_sync", "git sync", destructive=True, open_world=True, scope="all")
def git_sync(call: Call) -> dict[str, Any]:
    """Sync the vault: commit all changes, put them on top of what others pushed, and push.

    Nothing is forced. Headers are merged by key, lists as sets, texts as git does. A memory
    whose text both sides changed is kept as two files that name each other in conflict_with;
    what one side deleted and the other changed stays. This uses the network.
    """
    from memvault.upkeep.git.sync import sync

    return sync(call)


@group.tool("git_status", "git status", read_only=True, scope="all")
def git_status(call: Call) -> dict[str, Any]:
    """Show how the vault is in git: branch, remote, what waits, and memories kept as two files."""
    from memvault.upkeep.git.status import status

    return status(call)
