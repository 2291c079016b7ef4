"""Clones of one vault, used by two people, and the bare repository between them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import write
from memvault import Vault, open_vault
from memvault.vault.markdown import has_conflict_markers

NOTE = """---
id: note-abc123
tags: [a]
modified: 2026-01-01T00:00:00.000Z
---

We use SQLite.

It is small.

It is in one file.
"""


class Clone(NamedTuple):
    """One person's clone."""

    root: Path
    vault: Vault

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Run a tool that must succeed."""
        result = self.vault.call(tool, **arguments)
        assert result["success"], result
        return result

    def remember(self, title: str, content: str) -> dict[str, Any]:
        """Save a memory."""
        return self.call("memory_remember", title=title, content=content, memoryType="context")

    def sync(self) -> dict[str, Any]:
        """Sync with the shared repository, which is a local folder with hooks."""
        return self.call("git_sync", confirm=True)

    def git(self, *words: str) -> str:
        """Run git in the clone with a user name; return its output."""
        return git(self.root, *words)

    def texts(self) -> dict[str, str]:
        """Return every file tracked by git, by path."""
        names = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        paths = [name for name in names.split("\0") if name and (self.root / name).is_file()]
        return {path: (self.root / path).read_text("utf-8") for path in paths}


def settle(*clones: Clone) -> dict[str, str]:
    """Sync until all clones are equal; return the files, which must have no conflict markers."""
    for clone in (*clones, *clones):
        clone.sync()
    first, *others = [clone.texts() for clone in clones]
    for other in others:
        assert other == first
    assert not [path for path, text in first.items() if has_conflict_markers(text)]
    for clone in clones:
        assert not clone.git("status", "--porcelain")
    return first


def git(folder: Path, *words: str, good: bool = True) -> str:
    """Run git with a user name; return its output, including errors if it may fail."""
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    command = ["git", "-C", str(folder), *who, *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0 or not good, done
    return done.stdout if good else done.stdout + done.stderr


def hook(root: Path, name: str, script: str) -> Path:
    """Install a hook in a repository."""
    file = write(root, f".git/hooks/{name}", f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def without_identity(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Remove git's user name and email; skip the test if git is not installed."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def cloned(folder: Path, names: tuple[str, ...] = ("one", "two")) -> Iterator[tuple[Clone, ...]]:
    """Create a vault with a bare repository, and clones of it."""
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "shared.git")
    clones: list[Clone] = []
    for name in names:
        root = folder / name
        git(folder, "clone", "--quiet", "shared.git", name)
        if not clones:
            write(root, "memvault.toml", "version = 1\n")
        vault = open_vault(root)
        clones.append(Clone(root, vault))
        if len(clones) == 1:
            git(root, "symbolic-ref", "HEAD", "refs/heads/main")
            clones[0].sync()
    yield tuple(clones)
    for clone in clones:
        clone.vault.close()
