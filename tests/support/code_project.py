"""A repository with a parser and a vault, whose memories mention the parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import called, write
from git_clones import git, without_identity
from memvault import Vault

PARSER = '''"""Parse lines."""

LIMIT = 80


@cached
def parse_line(text):
    """Return the fields of a line."""
    return text.split(";")


class Parser:
    """Parses files."""

    strict = True

    def parse(self, text):
        return [parse_line(line) for line in text]
'''
SEPARATOR = "Fields are separated by semicolons, see parse_line in src/parser.py."


def project_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository with a parser, and a vault in the folder ``vault``."""
    without_identity(monkeypatch, folder / "home")
    top = folder / "project"
    write(top, "src/parser.py", PARSER)
    write(top, "vault/memvault.toml", "version = 1\n")
    git(top, "init", "--quiet", "--initial-branch=main")
    commit(top)
    return top


def commit(top: Path) -> str:
    """Commit all files; return the abbreviated id."""
    git(top, "add", "--all")
    git(top, "commit", "--quiet", "--message=x")
    return git(top, "rev-parse", "--short", "HEAD").strip()


def change(top: Path, path: str, old: str, new: str) -> None:
    """Replace text in a file."""
    before = (top / path).read_text("utf-8")
    assert old in before
    write(top, path, before.replace(old, new))


def remembered(vault: Vault, text: str, title: str = "Field separator") -> list[str]:
    """Remember a text; return the citations without digests."""
    result = called(vault, "memory_remember", title=title, content=text, memoryType="fact")
    return [value.rpartition("@")[0] or value for value in result.get("cites", [])]


def cited(vault: Vault, name: str = "Field separator") -> list[dict[str, Any]]:
    """Return the state of the code that a memory cites, from ``show``."""
    return list(called(vault, "memory_show", name=name).get("cites", []))


def states(vault: Vault, name: str = "Field separator") -> list[str]:
    """Return the states of the code that a memory cites."""
    return [entry["state"] for entry in cited(vault, name)]
