"""Gemini CLI's sessions: JSON lines since 0.61 (chatRecordingService.ts), an object before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import write

_ABOUT = {
    "sessionId": "92f625c6-a764-48e3-b922-3766d41f9c4c",
    "projectHash": "a33c3345ed59",
    "startTime": "2026-11-20T08:00:00.000Z",
    "lastUpdated": "2026-11-20T08:00:00.000Z",
}
_ASKED = {
    "id": "1",
    "timestamp": "2026-11-20T08:00:01.000Z",
    "type": "user",
    "content": [{"text": "Write a changelog"}],
}
_CALL = {
    "id": "c",
    "name": "write_file",
    "args": {"file_path": "CHANGELOG.md"},
    "status": "success",
}
_ANSWER: dict[str, Any] = {
    "id": "2",
    "timestamp": "2026-11-20T08:01:00.000Z",
    "type": "gemini",
    "content": "",
    "toolCalls": [_CALL],
}
_LATER = {**_ANSWER, "content": "The changelog is written. We will keep it by hand."}


def make(folder: Path) -> Path:
    """Write a session in which a message was written twice, and a subagent session."""
    lines = [_ABOUT, _ASKED, _ANSWER, {"$set": {"summary": "A changelog"}}, _LATER]
    chats = "tmp/shop/chats"
    text = "\n".join(map(json.dumps, lines))
    write(folder, f"{chats}/session-2026-11-20T08-00-92f625c6.jsonl", text)
    other = {**_ABOUT, "sessionId": "other", "kind": "subagent", "messages": [_ASKED]}
    write(folder, f"{chats}/session-2026-11-20T08-00-other.json", json.dumps(other))
    return folder / "tmp"


def make_object(folder: Path) -> Path:
    """Write the session as one object."""
    whole = {**_ABOUT, "summary": "A changelog", "messages": [_ASKED, _LATER]}
    return write(folder, "session-2026-11-20T08-00-92f625c6.json", json.dumps(whole))
