"""The file of the MCP reference server "memory" (README of version 2025.11, "Core Concepts")."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import write


def make(folder: Path) -> Path:
    """Write two related entities, and a truncated line."""
    lines = [
        {
            "type": "entity",
            "name": "Alice Smith",
            "entityType": "person",
            "observations": ["Speaks Spanish", "Graduated in 2019"],
        },
        {"type": "entity", "name": "Anthropic", "entityType": "company", "observations": []},
        {
            "type": "relation",
            "from": "Alice Smith",
            "to": "Anthropic",
            "relationType": "works_at",
        },
        {"type": "relation", "from": "Anthropic", "to": "Gone", "relationType": "owns"},
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    return write(folder, "memory.jsonl", f'{text}\n{{"type": "entity", "na')
