"""ChatGPT's data export of November 2026: conversations.json and the files of messages."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

PICTURE = b"\xff\xd8\xff\xe0 a picture"


def _node(name: str, parent: str | None, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    message = {
        "id": name,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1772359200.5,
        "content": {"content_type": "text", "parts": list(parts)},
        "status": "finished_successfully",
        "metadata": more,
        "recipient": "all",
    }
    return {"id": name, "message": message, "parent": parent, "children": []}


def conversation(number: int, answer: str = "Two cups of flour.") -> dict[str, Any]:
    """Return a conversation with an answer that was regenerated, a picture and hidden messages."""
    picture = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-AbC123xyz",
    }
    nodes = [
        {"id": "root", "message": None, "parent": None, "children": []},
        _node("hidden", "root", "system", "", is_visually_hidden_from_conversation=True),
        _node("asked", "hidden", "user", picture, "How much flour is in this cake?"),
        _node("old", "asked", "assistant", "I do not know."),
        _node("new", "asked", "assistant", f"{answer} \ue200cite\ue202turn0\ue201"),
    ]
    return {
        "title": f"Cake {number}",
        "create_time": 1772359200.5,
        "update_time": 1772359260.5,
        "mapping": {node["id"]: node for node in nodes},
        "current_node": "new",
        "conversation_id": f"6720-{number}",
        "is_archived": False,
    }


def make(folder: Path) -> Path:
    """Write the zip with one conversation and its picture."""
    with zipfile.ZipFile(folder / "chatgpt-export.zip", "w") as made:
        made.writestr("conversations.json", json.dumps([conversation(1)]))
        made.writestr("file-AbC123xyz-cake.jpg", PICTURE)
        made.writestr("chat.html", "<html></html>")
        made.writestr("user.json", "{}")
    return folder / "chatgpt-export.zip"
