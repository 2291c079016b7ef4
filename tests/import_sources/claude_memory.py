"""Claude's memory files (Claude Code 2.1, https://code.claude.com/docs/en/memory)."""

from __future__ import annotations

from pathlib import Path

from conftest import write

_TOPIC = """---
name: use-pnpm
description: The package manager
metadata:
  type: feedback
---

Always use pnpm, not npm. See [[release-day]].
"""


def make(folder: Path) -> Path:
    """Write a user's folder with instructions, one project's auto memory, and a session."""
    write(folder, ".claude/CLAUDE.md", "Write short commit messages.\n")
    project = ".claude/projects/-home-ana-shop"
    write(folder, f"{project}/memory/MEMORY.md", "- [use-pnpm](use-pnpm.md): package manager\n")
    write(folder, f"{project}/memory/use-pnpm.md", _TOPIC)
    write(folder, ".claude/settings.json", "{}")
    return folder / ".claude"
