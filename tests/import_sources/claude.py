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
    """Write the zip with two conversations, one of them empty."""
    with zipfile.ZipFile(folder / "data-2026-03-02.zip", "w") as made:
        made.writestr("conversations.json", json.dumps([_CONVERSATION, _EMPTY]))
        made.writestr("projects.json", json.dumps([_PROJECT]))
        made.writestr("memories.json", json.dumps([_MEMORIES]))
        made.writestr("users.json", "[]")
    return folder / "data-2026-03-02.zip"


def make_folder(folder: Path) -> Path:
    """Write each part in its own folder, like exports since 2026.

    The conversation has an artifact, a created file, citations, files and a branch. No real export
    was available; the keys are taken from public converters.
    """
    made = folder / "export"
    tool = {"type": "tool_use", "name": "artifacts"}
    new = {"command": "create", "id": "a", "title": "Pump", "language": "python", "content": "a=1"}
    blocks = [
        {"type": "thinking", "thinking": "…"},
        {
            "type": "text",
            "text": "# Done",
            "citations": [{"url": "https://a.example/", "title": "A"}],
        },
        {**tool, "input": new},
        {**tool, "input": {"command": "update", "id": "a", "old_str": "1", "new_str": "2"}},
        {**tool, "name": "create_file", "input": {"path": "/m.py", "file_text": "x = 1"}},
        {
            "type": "text",
            "text": "Bye",
        },
        {"type": "tool_result", "content": []},
    ]
    root = "00000000-0000-4000-8000-000000000000"
    asked = {**_CONVERSATION["chat_messages"][0], "parent_message_uuid": root}  # type: ignore[index]
    messages = [
        {**asked, "files": [{"file_name": "plan.pdf"}]},
        {"uuid": "m2", "sender": "assistant", "content": blocks, "parent_message_uuid": "m1"},
        {"uuid": "m3", "sender": "assistant", "text": "Again", "parent_message_uuid": "m1"},
    ]
    chat = {**_CONVERSATION, "chat_messages": messages, "current_leaf_message_uuid": "m2"}
    memory = {"account_uuid": "a1", "memory_files": [{"path": "/tea.md", "content": "Green"}]}
    for name, entry in (
        ("conversations.json", [chat]),
        ("projects/p1.json", _PROJECT),
        ("memories/a1.json", memory),
        ("users.json", []),
    ):
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(entry), "utf-8")
    return made
