"""A git repository with a vault and several worktrees, and functions that call memvault in them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from conftest import write
from git_clones import git
from memvault import open_vault


def new_project(folder: Path) -> Path:
    """Create the repository ``project`` in a folder."""
    top = folder / "project"
    write(top, "notes/memvault.toml", "version = 1\n")
    git(folder, "init", "--quiet", "--initial-branch=main", "project")
    remember(top, "Port", "The server listens on port 8080.")
    commit(top)
    return top


def commit(top: Path) -> None:
    """Commit everything in a worktree."""
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message", "Change", "--allow-empty")


def worktree(top: Path, name: str) -> Path:
    """Add a linked worktree with a new branch next to the main one."""
    git(top, "worktree", "add", "--quiet", f"../{name}")
    return top.parent / name


def call(top: Path, tool: str, **arguments: Any) -> dict[str, Any]:
    """Run a tool in a worktree's vault, as a program would that opens it for one call."""
    with open_vault(top / "notes") as vault:
        result = vault.call(tool, **arguments)
    assert result["success"], result
    return result


def remember(top: Path, title: str, content: str) -> str:
    """Save a memory in a worktree; return its id."""
    result = call(top, "memory_remember", title=title, content=content, memoryType="fact")
    return str(result["memId"])


def by_hand(top: Path, path: str, text: str) -> Path:
    """Write a file in an editor, two minutes after its worktree was created."""
    file = write(top, path, text)
    later = time.time() + 120
    os.utime(file, (later, later))
    return file


def recalled(top: Path, query: str) -> dict[str, dict[str, Any]]:
    """Return the memories that a recall finds, by title; a title found twice fails."""
    memories = call(top, "memory_recall", query=query, limit=50)["memories"]
    by_title = {memory["title"]: memory for memory in memories}
    assert len(by_title) == len(memories), [memory["title"] for memory in memories]
    return by_title
