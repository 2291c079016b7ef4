"""Import ChatGPT's data export: ``conversations.json`` and the files in the zip.

A conversation is a tree of messages; the branch that ends at ``current_node`` is imported. Newer
exports use ``conversations-000.json`` and so on, and name files by id, with the original names in
``conversation_asset_file_names.json``. The format is undocumented; this reads exports from 2023 to
November 2026.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from typing import Any

from memvault.importers import chatgpt_messages, convert, folder, json_source, records
from memvault.importers.chat_text import message
from memvault.importers.chats import conversation
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source

_HEAD = 1 << 16
_FILE_NAMES = "conversation_asset_file_names.json"
_COPIES = (_FILE_NAMES, "chat.html", "user.json", "user_settings.json", "export_manifest.json")
"""Files without notes: a copy of the conversations, file names, and account data."""
_RECORDS = {
    "message_feedback.json": "rating of a message",
    "model_comparisons.json": "comparison of models",
    "shared_conversations.json": "shared link",
    "group_chats.json": "group chat",
    "library_files.json": "library entry",
    "shopping.json": "entry of shopping.json",
    "sora.json": "entry of sora.json",
}
"""Files whose records are only counted, with a record's type."""
_CONVERSATION = (
    "title create_time update_time mapping current_node conversation_id id is_archived is_starred "
    "default_model_slug gizmo_id gizmo_type conversation_template_id moderation_results plugin_ids "
    "safe_urls blocked_urls conversation_origin async_status disabled_tool_ids memory_scope "
    "context_scopes is_do_not_remember is_read_only is_study_mode owner voice sugar_item_id "
    "sugar_item_visible pinned_time atlas_mode_enabled"
).split()
_MAX_INSTRUCTIONS = 1_000
"""Maximum number of different custom instructions that become notes."""


def claims(source: Source) -> Collection[str]:
    """Return the files with conversations and account data, and the files attached to messages."""
    claimed = set(_files(source))
    if claimed:
        own_files = {*_COPIES, *_RECORDS}
        claimed.update(name for name in source.names if posixpath.basename(name) in own_files)
        claimed.update(_assets(source))
    return claimed


def _files(source: Source) -> list[str]:
    return [
        name
        for name in source.with_endings(".json")
        if (len(source.names) == 1 or posixpath.basename(name).startswith("conversations"))
        and b'"mapping"' in source.head(name, _HEAD)
    ]


def _assets(source: Source) -> dict[str, str]:
    """Map the names of files in the export to the ids that messages use for them."""
    matches = (
        (name, chatgpt_messages.file_id_at_start(posixpath.basename(name))) for name in source.names
    )
    return {name: asset_id for name, asset_id in matches if asset_id}


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each conversation, and the files attached to messages."""
    assets = _assets(source)
    titles = _file_names(source)
    for name, file_id in assets.items():
        path = f"files/{_path(posixpath.basename(name), file_id, titles)}"
        source.counts.converted("file")
        yield folder.attachment(source, name, path, (file_id,))
    reader = _ConversationReader(source, frozenset(assets.values()))
    for name in _files(source):
        yield from records.convert_each(json_source.objects(source, name), reader.conversation)
    yield from reader.memories()
    for name in source.names:
        kind = _RECORDS.get(posixpath.basename(name))
        if kind is not None:
            for _ in json_source.array_items(source, name):
                source.counts.omitted(kind)


def _file_names(source: Source) -> dict[str, str]:
    """Return the original names of files, keyed by their names in the export."""
    names: dict[str, str] = {}
    for name in source.names:
        if posixpath.basename(name) == _FILE_NAMES:
            try:
                parsed = json_source.read_object(source, name)
            except (OSError, ValueError):
                continue
            names |= {key: value for key, value in parsed.items() if isinstance(value, str)}
    return names


def _path(file: str, file_id: str, titles: Mapping[str, str]) -> str:
    """Return a file's path, with its original extension if the export uses ``.dat``."""
    own_name = titles.get(file) or titles.get(file_id) or ""
    own_name = own_name.replace("\\", "/").rpartition("/")[2]
    if not own_name or not file.endswith(".dat"):
        return file
    return own_name if own_name.startswith(file_id) else f"{file_id}-{own_name}"


class _ConversationReader:
    """Converts the conversations of one export."""

    def __init__(self, source: Source, files: frozenset[str]) -> None:
        self._counts = source.counts
        self._files = files
        self._instructions: set[str] = set()
        self._memories: tuple[str, str] = ("", "")
        """The time and text of ChatGPT's memories in the latest conversation."""

    def conversation(self, location: str, entry: dict[str, Any]) -> Iterator[Item]:
        """Yield a conversation, and its custom instructions if no earlier conversation had them."""
        mapping = entry.get("mapping")
        if mapping and not isinstance(mapping, dict):
            yield SkippedItem(location, f"the mapping of messages is {json_source.NO_OBJECT}")
            return
        self._counts.unused_properties("conversation", entry, _CONVERSATION)
        nodes = mapping or {}
        branch = _branch(nodes, entry.get("current_node"))
        collector = chatgpt_messages.MessageCollector(self._counts, self._files)
        for message_entry in branch:
            collector.add(message_entry)
        others = sum(
            isinstance(node, dict) and chatgpt_messages.is_conversation(node.get("message"))
            for node in nodes.values()
        ) - sum(map(chatgpt_messages.is_conversation, branch))
        self._counts.omitted("message on another branch", others)
        collector.turns += collector.documents.last_versions()
        created = convert.time_or_text(entry.get("create_time"))
        updated = convert.time_or_text(entry.get("update_time"))
        key = str(entry.get("conversation_id") or entry.get("id") or "")
        flags = {"archived": entry.get("is_archived"), "starred": entry.get("is_starred")}
        template = convert.text(entry.get("gizmo_id") or entry.get("conversation_template_id"))
        role = "project" if template.startswith("g-p-") else "gpt"
        note = conversation(
            location,
            key,
            convert.text(entry.get("title")),
            collector.turns,
            created,
            updated,
            tags=["conversation", "chatgpt", *(name for name, is_set in flags.items() if is_set)],
            source=f"https://chatgpt.com/c/{key}" if key else "",
            model=convert.text(entry.get("default_model_slug")),
            **{role: template},
        )
        if isinstance(note, ImportedNote):
            self._counts.converted("conversation")
        yield note
        yield from self._custom_instructions(collector.instructions, created)
        if collector.memories:
            self._memories = max(self._memories, (updated or created, collector.memories))

    def _custom_instructions(self, text: str, created: str) -> Iterator[ImportedNote]:
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        is_known = digest in self._instructions or len(self._instructions) >= _MAX_INSTRUCTIONS
        if text and not is_known:
            self._instructions.add(digest)
            self._counts.converted("custom instructions")
            title = "ChatGPT's custom instructions"
            header = {"title": title, "tags": ["chatgpt"], "created": created}
            key = f"custom_instructions/{digest}"
            yield ImportedNote(key, note_path(title), text, header, masked=True)

    def memories(self) -> Iterator[ImportedNote]:
        """Yield ChatGPT's memories about the user as of the last conversation."""
        time, text = self._memories
        if text:
            self._counts.converted("memory")
            title = "What ChatGPT remembers"
            header = {"title": title, "tags": ["chatgpt"], "modified": time}
            yield ImportedNote("memories", note_path(title), message(text), header, masked=True)


def _branch(nodes: dict[str, Any], current: Any) -> list[dict[str, Any]]:
    """Return the messages on the branch to the current node."""
    is_there = isinstance(current, str) and current in nodes
    name = current if is_there else next(reversed(nodes), None)
    branch: dict[str, Any] = {}
    while isinstance(name, str) and name not in branch:
        node = nodes.get(name)
        if not isinstance(node, dict):
            break
        branch[name] = node.get("message")
        name = node.get("parent")
    return [
        message_entry
        for message_entry in reversed(branch.values())
        if isinstance(message_entry, dict)
    ]
