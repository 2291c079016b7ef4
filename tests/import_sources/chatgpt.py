"""ChatGPT's data export of November 2026: conversations.json and the files attached to messages."""

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
    """Return a conversation with an answer that was regenerated, an image and hidden messages."""
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
    """Write the zip with one conversation and its image."""
    with zipfile.ZipFile(folder / "chatgpt-export.zip", "w") as made:
        made.writestr("conversations.json", json.dumps([conversation(1)]))
        made.writestr("file-AbC123xyz-cake.jpg", PICTURE)
        made.writestr("chat.html", "<html></html>")
        made.writestr("user.json", "{}")
    return folder / "chatgpt-export.zip"


def make_folder(folder: Path) -> Path:
    """Write a shard with a canvas, code, citations, a voice, instructions and memories.

    No real export was available; the keys are taken from public converters.
    """
    create = {"name": "roses", "type": "document", "content": "Roses sleep."}
    update = {"updates": [{"pattern": "sleep", "replacement": "wake"}]}
    cite = "\ue200cite\ue202turn0search1\ue201"
    page = {"url": "https://a.example/", "title": "A"}
    context = {
        "content_type": "user_editable_context",
        "user_profile": "I bake",
        "user_instructions": "Be brief",
    }
    memories = {"content_type": "model_editable_context", "model_set_context": "1. Likes tea"}
    voice = {"content_type": "audio_transcription", "text": "Spoken"}
    steps: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("user", "all", context, {}),
        ("system", "all", memories, {}),
        ("user", "all", [voice, "Write"], {"attachments": [{"id": "file-Plan123", "name": "p"}]}),
        ("assistant", "canmore.create_textdoc", [json.dumps(create)], {}),
        ("assistant", "canmore.update_textdoc", [json.dumps(update)], {}),
        ("assistant", "python", {"content_type": "code", "text": "print(1)"}, {}),
        ("tool", "all", {"content_type": "execution_output", "text": "1"}, {}),
        ("assistant", "bio", ["Bakes"], {}),
        (
            "assistant",
            "all",
            [f"# Done {cite}"],
            {"content_references": [{"matched_text": cite, "items": [page]}]},
        ),
    ]
    mapping = {}
    for number, (role, recipient, content, more) in enumerate(steps):
        node = _node(str(number), str(number - 1), role, **more)
        node["message"]["recipient"] = recipient
        if isinstance(content, list):
            node["message"]["content"]["parts"] = content
        else:
            node["message"]["content"] = content
        mapping[str(number)] = node
    chat = {"id": "c", "title": "Poem", "mapping": mapping, "current_node": str(len(steps) - 1)}
    made = folder / "chatgpt"
    made.mkdir()
    (made / "conversations-000.json").write_text(json.dumps([chat]), "utf-8")
    (made / "file-Plan123.dat").write_bytes(b"a plan")
    names = {"file-Plan123.dat": "plan.pdf"}
    (made / "conversation_asset_file_names.json").write_text(json.dumps(names), "utf-8")
    (made / "message_feedback.json").write_text('[{"rating": "thumbs_up"}]', "utf-8")
    return made
