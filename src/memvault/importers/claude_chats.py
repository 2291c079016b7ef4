"""Import of Claude's data export: conversations, projects, and what Claude remembers.

The zip that claude.ai sends has ``conversations.json``, an array of conversations with
``chat_messages``, ``projects.json`` and ``memories.json`` (as of November 2026). It has no files,
only the texts that were extracted from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, records, values
from memvault.importers.chats import ChatTurn, conversation
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source

_HEAD = 1 << 16
_SPEAKERS = {"human": "You", "user": "You", "assistant": "Claude"}


def recognise(source: Source) -> int:
    """Return ``SURE`` if there is a file of conversations with ``chat_messages``."""
    return SURE if _files(source) else NO


def _files(source: Source) -> list[str]:
    return [
        name
        for name in source.named(".json")
        if (len(source.names) == 1 or "conversations" in name)
        and b'"chat_messages"' in source.head(name, _HEAD)
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each conversation, document of a project, and memory."""
    projects: dict[str, str] = {}
    for names, convert, more in (
        (_files(source), _conversation, ()),
        (source.named("projects.json"), _project, (projects,)),
        (source.named("memories.json"), _memories, (projects,)),
    ):
        for name in names:
            for found in json_source.objects(source, name):
                if isinstance(found, Unreadable):
                    yield found
                else:
                    yield from records.items_of(found[0], convert, *found, *more)


def _conversation(place: str, entry: dict[str, Any]) -> Iterator[Item]:
    turns: list[ChatTurn] = []
    messages = entry.get("chat_messages")
    for number, message in enumerate(messages if isinstance(messages, list) else [], 1):
        if isinstance(message, dict):
            speaker = _SPEAKERS.get(str(message.get("sender")), "Claude")
            turns.append(ChatTurn(speaker, _text(message)))
        else:
            yield Unreadable(f"{place}, message {number}", json_source.NO_OBJECT)
    key = str(entry.get("uuid") or "")
    yield conversation(
        place,
        key,
        values.text(entry.get("name")),
        turns,
        (
            values.time_or_text(entry.get("created_at")),
            values.time_or_text(entry.get("updated_at")),
        ),
        tags=["conversation", "claude"],
        source=f"https://claude.ai/chat/{key}",
    )


def _text(message: dict[str, Any]) -> str:
    parts = message.get("content")
    texts = [
        values.text(part.get("text"))
        for part in (parts if isinstance(parts, list) else [])
        if isinstance(part, dict) and part.get("type") == "text"
    ] or [values.text(message.get("text"))]
    attached = message.get("attachments")
    for one in attached if isinstance(attached, list) else []:
        if isinstance(one, dict) and one.get("extracted_content"):
            lines = str(one["extracted_content"]).splitlines()
            quoted = "\n".join(f"> {line}" for line in lines)
            texts.append(f"> **{one.get('file_name') or 'A file'}**\n>\n{quoted}")
    return "\n\n".join(text for text in texts if text)


def _project(place: str, entry: dict[str, Any], names: dict[str, str]) -> Iterator[Item]:
    """Yield a project and its documents; ``names`` gets its name by its id."""
    uuid = values.text(entry.get("uuid"))
    name = values.text(entry.get("name")) or f"Project {uuid[:8]}".strip()
    names[uuid] = name
    key = uuid or name
    times = {
        "created": values.time_or_text(entry.get("created_at")),
        "modified": values.time_or_text(entry.get("updated_at")),
    }
    texts = [values.text(entry.get(part)) for part in ("description", "prompt_template")]
    if any(texts):
        header = {"title": name, "tags": ["claude", "project"], **times}
        body = "\n\n".join(filter(None, texts))
        yield ImportedNote(key, note_path(name, "projects"), body, header)
    documents = entry.get("docs")
    for number, one in enumerate(documents if isinstance(documents, list) else [], 1):
        if not isinstance(one, dict) or not isinstance(one.get("content"), str):
            yield Unreadable(f"{place}, document {number}", "it has no text")
        elif one["content"]:
            file = values.text(one.get("filename")) or "document"
            header = {"title": file, "created": values.time_or_text(one.get("created_at"))}
            doc_key = f"{key}/{one.get('uuid') or file}"
            path = note_path(file.removesuffix(".md"), "projects", name)
            yield ImportedNote(doc_key, path, one["content"], header)


def _memories(place: str, entry: dict[str, Any], projects: dict[str, str]) -> Iterator[Item]:
    """Yield what Claude remembers of an account, and of its projects."""
    account = values.text(entry.get("account_uuid"))
    key = f"conversations_memory/{account}" if account else "conversations_memory"
    yield from _memory(place, key, "What Claude remembers", entry.get("conversations_memory"))
    of_projects = entry.get("project_memories")
    for uuid, text in of_projects.items() if isinstance(of_projects, dict) else ():
        name = projects.get(uuid) or f"project {uuid[:8]}"
        key = f"project_memories/{uuid}"
        yield from _memory(place, key, f"What Claude remembers of {name}", text)


def _memory(place: str, key: str, title: str, text: Any) -> Iterator[Item]:
    if isinstance(text, str):
        if text.strip():
            yield ImportedNote(key, note_path(title), text, {"title": title})
    elif text is not None:
        yield Unreadable(f"{place}, {key}", "no text")
