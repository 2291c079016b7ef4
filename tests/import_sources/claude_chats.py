"""Claude's data export of November 2026: conversations.json, projects.json, memories.json."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

_CONVERSATION = {
    "uuid": "3f0c7a52-9f6e-4a1c-8a43-7f1f1a5e6f01",
    "name": "Choosing a database",
    "summary": "",
    "created_at": "2026-03-01T10:00:00.000000Z",
    "updated_at": "2026-03-01T10:05:00.000000Z",
    "account": {"uuid": "0c2d"},
    "chat_messages": [
        {
            "uuid": "m1",
            "text": "Which database fits a small shop?",
            "content": [{"type": "text", "text": "Which database fits a small shop?"}],
            "sender": "human",
            "created_at": "2026-03-01T10:00:00.000000Z",
            "attachments": [
                {"file_name": "load.txt", "file_size": 9, "extracted_content": "40 orders"}
            ],
            "files": [],
        },
        {
            "uuid": "m2",
            "text": "SQLite is enough.",
            "content": [
                {"type": "thinking", "thinking": "…"},
                {"type": "text", "text": "SQLite is enough."},
            ],
            "sender": "assistant",
            "created_at": "2026-03-01T10:01:00.000000Z",
            "attachments": [],
            "files": [],
        },
    ],
}
_EMPTY = {"uuid": "e", "name": "", "chat_messages": []}
_PROJECT = {
    "uuid": "p1",
    "name": "The shop",
    "description": "Everything on the shop",
    "prompt_template": "Answer briefly.",
    "created_at": "2026-02-01T10:00:00.000000Z",
    "docs": [{"uuid": "d1", "filename": "prices.md", "content": "Tea costs 4 euro."}],
}
_MEMORIES = {
    "conversations_memory": "Ana runs a shop.",
    "project_memories": {"p1": "It sells tea."},
}


def make(folder: Path) -> Path:
    """Write the zip, with two conversations of which one is empty."""
    with zipfile.ZipFile(folder / "data-2026-03-02.zip", "w") as made:
        made.writestr("conversations.json", json.dumps([_CONVERSATION, _EMPTY]))
        made.writestr("projects.json", json.dumps([_PROJECT]))
        made.writestr("memories.json", json.dumps([_MEMORIES]))
        made.writestr("users.json", "[]")
    return folder / "data-2026-03-02.zip"
