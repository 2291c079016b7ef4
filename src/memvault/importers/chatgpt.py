"""Import of ChatGPT's data export: ``conversations.json`` with the pictures in the zip.

A conversation is a tree of messages, of which the branch that ends at ``current_node`` is kept;
newer exports divide them among ``conversations-000.json`` and so on (as of November 2026).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

from memvault.importers import folder, json_source, records, values
from memvault.importers.chats import ChatTurn, conversation
from memvault.importers.items import Attachment, Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_HEAD = 1 << 16
_SPEAKERS = {"user": "You", "assistant": "ChatGPT"}
_FILE_ID = lazy_pattern(r"file[-_][A-Za-z0-9]{6,64}")
_CITATION = lazy_pattern("\ue200[^\ue201]{0,500}\ue201|【[^】]{0,100}】")
"""Marks of citations, which only the web page shows."""


def recognise(source: Source) -> int:
    """Return ``SURE`` if there is a file of conversations with a ``mapping``."""
    return SURE if _files(source) else NO


def _files(source: Source) -> list[str]:
    return [
        name
        for name in source.named(".json")
        if (len(source.names) == 1 or posixpath.basename(name).startswith("conversations"))
        and b'"mapping"' in source.head(name, _HEAD)
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each conversation, and the files that messages refer to."""
    for name in source.names:
        match = _FILE_ID.match(posixpath.basename(name))
        if match is not None:
            item = folder.attachment(source, name)
            if isinstance(item, Attachment):
                item = item._replace(path=f"files/{posixpath.basename(name)}", refs=(match[0],))
            yield item
    for name in _files(source):
        for found in json_source.objects(source, name):
            if isinstance(found, Unreadable):
                yield found
            else:
                yield from records.items_of(found[0], _conversation, *found)


def _conversation(place: str, entry: dict[str, Any]) -> Item:
    mapping = entry.get("mapping")
    if mapping and not isinstance(mapping, dict):
        return Unreadable(place, f"its mapping of messages is {json_source.NO_OBJECT}")
    key = str(entry.get("conversation_id") or entry.get("id") or "")
    return conversation(
        place,
        key,
        values.text(entry.get("title")),
        [ChatTurn(*turn) for turn in _turns(mapping or {}, entry.get("current_node"))],
        (
            values.time_or_text(entry.get("create_time")),
            values.time_or_text(entry.get("update_time")),
        ),
        tags=["conversation", "chatgpt"],
        source=f"https://chatgpt.com/c/{key}",
    )


def _turns(nodes: dict[str, Any], current: Any) -> Iterator[tuple[str, str]]:
    """Yield the speaker and text of each message on the branch to the current node."""
    is_there = isinstance(current, str) and current in nodes
    name = current if is_there else next(reversed(nodes), None)
    branch: list[Any] = []
    while isinstance(name, str) and isinstance(node := nodes.get(name), dict):
        if len(branch) >= len(nodes):  # a circle
            break
        branch.append(node.get("message"))
        name = node.get("parent")
    for message in reversed(branch):
        if not isinstance(message, dict):
            continue
        author, about = message.get("author"), message.get("metadata")
        role = str(author.get("role")) if isinstance(author, dict) else ""
        is_hidden = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation")
        if role in _SPEAKERS and not is_hidden and message.get("recipient", "all") == "all":
            yield _SPEAKERS[role], _text(message.get("content"))


def _text(content: Any) -> str:
    if not isinstance(content, dict) or content.get("content_type") in (
        "thoughts",
        "reasoning_recap",
    ):
        return ""
    parts = content.get("parts")
    texts = [_part(part) for part in parts] if isinstance(parts, list) else []
    if content.get("text"):
        texts.append(f"```\n{content['text']}\n```")
    return _CITATION.sub("", "\n\n".join(text for text in texts if text))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        match = _FILE_ID.match(str(part.get("asset_pointer") or "").rpartition("/")[2])
        if match is not None:
            return f"![[import:{match[0]}|(a picture)]]"
        return str(part.get("text") or "")
    return ""
