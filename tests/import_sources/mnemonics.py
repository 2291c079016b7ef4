"""opencode-historian's memories, version 1.0 (its docs/tools.md, "Memory File Format")."""

from __future__ import annotations

from pathlib import Path

from conftest import write

_MEMORY = """---
memory_type: architectural-decision
tags: [database, infrastructure]
created: 2026-02-16T10:30:00.000Z
modified: 2026-02-17T09:00:00.000Z
---

## Decision

Use PostgreSQL with two read replicas.
"""


def make(folder: Path) -> Path:
    """Write a project with a memory of its own and a page that the plugin generates."""
    write(folder, "app/.mnemonics/architectural-decision/use-postgresql.md", _MEMORY)
    write(folder, "app/.mnemonics/index.md", "# Index\n\n- [[use-postgresql]]\n")
    write(folder, "app/README.md", "# The application\n")
    return folder / "app"
