"""Import of Claude's data export: conversations, projects, and what Claude remembers.

The zip that claude.ai sends has ``conversations.json``, an array of conversations with
``chat_messages``, ``projects.json`` and ``memories.json`` (as of November 2026). It has no files,
only the texts that were extracted from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, values
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
    for name in _files(source):
        for entry in json_source.array_items(source, name):
            if isinstance(entry, Unreadable):
                yield entry
            elif isinstance(entry, dict) and (note := _conversation(entry)) is not None:
                yield note
    for name in source.names:
        if name.endswith("projects.json"):
            for entry in json_source.array_items(source, name):
                yield from [entry] if isinstance(entry, Unreadable) else _project(entry)
        elif name.endswith("memories.json"):
            for entry in json_source.array_items(source, name):
                yield from [entry] if isinstance(entry, Unreadable) else _memories(entry)


def _conversation(entry: dict[str, Any]) -> ImportedNote | None:
    messages = entry.get("chat_messages")
    turns = [
        ChatTurn(_SPEAKERS.get(str(message.get("sender")), "Claude"), _text(message))
        for message in (messages if isinstance(messages, list) else [])
        if isinstance(message, dict)
    ]
    key = str(entry.get("uuid") or "")
    return conversation(
        key,
        str(entry.get("name") or ""),
        turns,
        values.time_or_text(entry.get("created_at")),
        values.time_or_text(entry.get("updated_at")),
        tags=["conversation", "claude"],
        source=f"https://claude.ai/chat/{key}",
    )


def _text(message: dict[str, Any]) -> str:
    parts = message.get("content")
    texts = [
        str(part.get("text") or "")
        for part in (parts if isinstance(parts, list) else [])
        if isinstance(part, dict) and part.get("type") == "text"
    ] or [str(message.get("text") or "")]
    attached = message.get("attachments")
    for one in attached if isinstance(attached, list) else []:
        if isinstance(one, dict) and one.get("extracted_content"):
            lines = str(one["extracted_content"]).splitlines()
            quoted = "\n".join(f"> {line}" for line in lines)
            texts.append(f"> **{one.get('file_name') or 'A file'}**\n>\n{quoted}")
    return "\n\n".join(text for text in texts if text)


def _project(entry: Any) -> Iterator[Item]:
    if not isinstance(entry, dict) or not entry.get("name"):
        return
    name, key = str(entry["name"]), str(entry.get("uuid") or entry["name"])
    times = {
        "created": values.time_or_text(entry.get("created_at")),
        "modified": values.time_or_text(entry.get("updated_at")),
    }
    texts = [str(entry.get(part) or "") for part in ("description", "prompt_template")]
    if any(texts):
        header = {"title": name, "tags": ["claude", "project"], **times}
        body = "\n\n".join(filter(None, texts))
        yield ImportedNote(key, note_path(name, "projects"), body, header)
    documents = entry.get("docs")
    for one in documents if isinstance(documents, list) else []:
        if isinstance(one, dict) and one.get("content"):
            file = str(one.get("filename") or "document")
            header = {"title": file, "created": values.time_or_text(one.get("created_at"))}
            doc_key = f"{key}/{one.get('uuid') or file}"
            path = note_path(file.removesuffix(".md"), "projects", name)
            yield ImportedNote(doc_key, path, str(one["content"]), header)


def _memories(entry: Any) -> Iterator[Item]:
    if not isinstance(entry, dict):
        return
    whole = entry.get("conversations_memory")
    if isinstance(whole, str) and whole.strip():
        title = "What Claude remembers"
        yield ImportedNote("conversations_memory", note_path(title), whole, {"title": title})
    of_projects = entry.get("project_memories")
    for key, text in of_projects.items() if isinstance(of_projects, dict) else ():
        title = f"What Claude remembers of project {str(key)[:8]}"
        yield ImportedNote(f"project_memories/{key}", note_path(title), str(text), {"title": title})
