"""Import Claude's data export: conversations, projects and memories.

The zip from claude.ai has ``conversations.json``, an array of conversations with ``chat_messages``;
``projects.json`` or a file per project; and ``memories.json`` or a file per account. The export
contains only the names and the extracted text of attachments. The format is undocumented; this
reads exports up to November 2026.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from memvault.importers import convert, json_source, plain_text, records
from memvault.importers.chat_text import fenced, message
from memvault.importers.chats import ChatDocuments, ChatTurn, conversation, with_title
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source

_HEAD = 1 << 16
_SPEAKERS = {"human": "You", "user": "You", "assistant": "Claude"}
_ACCOUNT = ("users.json", "login_history.json")
_LANGUAGES = {
    "text/markdown": "markdown",
    "text/html": "html",
    "image/svg+xml": "svg",
    "application/vnd.ant.mermaid": "mermaid",
    "application/vnd.ant.react": "jsx",
}
_MARKDOWN, _PLAIN = ("", "md", "markdown"), ("txt", "pdf", "doc", "docx", "rtf", "odt", "pptx")
"""Extensions of project documents in markdown and in plain text."""
_CONVERSATION = (
    "uuid name summary created_at updated_at account chat_messages project is_starred model "
    "settings current_leaf_message_uuid"
).split()
_MESSAGE = (
    "uuid text content sender created_at updated_at attachments files files_v2 index "
    "parent_message_uuid truncated input_mode stop_reason"
).split()
_PROJECT = (
    "uuid name description prompt_template created_at updated_at creator docs is_private "
    "is_starter_project"
).split()
_MARKS = {
    "projects": (b'"prompt_template"',),
    "memories": (b'"conversations_memory"', b'"memory_files"'),
}
"""The other parts of an export, with keys that identify them if there are no conversations."""


def claims(source: Source) -> Collection[str]:
    """Return the files with conversations, projects, memories and accounts."""
    names = [name for names in _parts(source).values() for name in names]
    return [*names, *filter(_is_of_account, source.names)] if names else []


def _is_of_account(name: str) -> bool:
    file = posixpath.basename(name)
    return file in _ACCOUNT or (file.startswith("manifest-") and file.endswith(".json"))


def _parts(source: Source) -> dict[str, list[str]]:
    """Return the files with conversations, projects and memories."""
    parts: dict[str, list[str]] = {"conversations": [], **{part: [] for part in _MARKS}}
    for name in source.with_endings(".json"):
        parent, file = posixpath.split(name)
        head = source.head(name, _HEAD)
        is_chat = "conversations" in name or len(source.names) == 1
        if is_chat and b'"chat_messages"' in head:
            parts["conversations"].append(name)
            continue
        for part in _MARKS:
            if file == f"{part}.json" or posixpath.basename(parent) == part:
                parts[part].append(name)
    if not parts["conversations"]:  # other programs use these file names, too
        for part, marks in _MARKS.items():
            heads = ((name, source.head(name, _HEAD)) for name in parts[part])
            parts[part] = [name for name, head in heads if any(mark in head for mark in marks)]
    return parts


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each conversation, project, project document, and memory."""
    names: dict[str, str] = {}
    readers = (_conversation, _project, _memories)
    for files, to_items in zip(_parts(source).values(), readers, strict=True):
        for name in files:
            yield from records.convert_each(
                json_source.objects(source, name, may_be_one=True), to_items, source.counts, names
            )


def _times(entry: Mapping[str, Any]) -> dict[str, str]:
    return {
        "created": convert.time_or_text(entry.get("created_at")),
        "modified": convert.time_or_text(entry.get("updated_at")),
    }


def _conversation(
    location: str, entry: dict[str, Any], counts: ContentCounts, _names: dict[str, str]
) -> Iterator[Item]:
    counts.unused_properties("conversation", entry, _CONVERSATION)
    collector = _MessageCollector(counts)
    summary = convert.text(entry.get("summary"))
    if summary.strip():
        collector.turns.append(ChatTurn("Summary", message(summary)))
    messages: list[dict[str, Any]] = []
    for number, chat_message in enumerate(convert.list_at(entry, "chat_messages"), 1):
        if isinstance(chat_message, dict):
            messages.append(chat_message)
        else:
            yield SkippedItem(f"{location}, message {number}", json_source.NO_OBJECT)
    shown = _branch(messages, entry.get("current_leaf_message_uuid"))
    counts.omitted("message on another branch", len(messages) - len(shown))
    for chat_message in shown:
        collector.add(chat_message)
    collector.turns += collector.documents.last_versions()
    key = str(entry.get("uuid") or "")
    note = conversation(
        location,
        key,
        convert.text(entry.get("name")),
        collector.turns if shown else [],
        **_times(entry),
        tags=["conversation", "claude", *(["starred"] if entry.get("is_starred") else [])],
        source=f"https://claude.ai/chat/{key}" if key else "",
        model=convert.text(entry.get("model")),
        project=convert.text(convert.object_at(entry, "project").get("name")),
    )
    if isinstance(note, ImportedNote):
        counts.converted("conversation")
        counts.converted("message", len(shown))
    yield note


def _branch(messages: list[dict[str, Any]], leaf: Any) -> list[dict[str, Any]]:
    """Return the messages on the branch that ends at ``leaf``; all if there are no branches."""
    by_id = {
        chat_message["uuid"]: chat_message
        for chat_message in messages
        if isinstance(chat_message.get("uuid"), str)
    }
    parents = [chat_message.get("parent_message_uuid") for chat_message in messages]
    if len(by_id) < len(messages) or not all(isinstance(parent, str) for parent in parents):
        return messages
    if sum(parent not in by_id for parent in parents) != 1 and leaf not in by_id:
        return messages  # several branches, with none marked as current
    message_id = leaf if isinstance(leaf, str) and leaf in by_id else messages[-1]["uuid"]
    branch: dict[str, dict[str, Any]] = {}
    while message_id in by_id and message_id not in branch:
        branch[message_id] = by_id[message_id]
        message_id = by_id[message_id]["parent_message_uuid"]
    return list(reversed(branch.values()))


class _MessageCollector:
    """Collects the converted messages and the documents of a conversation."""

    def __init__(self, counts: ContentCounts) -> None:
        self.turns: list[ChatTurn] = []
        self.documents = ChatDocuments()
        self._counts = counts

    def add(self, entry: Mapping[str, Any]) -> None:
        """Convert a message."""
        self._counts.unused_properties("message", entry, _MESSAGE)
        speaker = _SPEAKERS.get(str(entry.get("sender")), "Claude")
        texts = [self._block(part, speaker) for part in convert.list_at(entry, "content")]
        texts = texts or [message(convert.text(entry.get("text")), speaker == "You")]
        texts += self._files(entry)
        time = convert.time_or_text(entry.get("created_at"))
        self.turns.append(ChatTurn(speaker, "\n\n".join(filter(None, texts)), time))

    def _block(self, part: Any, speaker: str) -> str:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in ("text", "voice_note"):
            text = message(convert.text(part.get("text")), speaker == "You")
            return f"{text}{self._citations(part)}"
        if kind == "tool_use":
            return self._tool(str(part.get("name")), part.get("input"))
        self._counts.omitted(f"block {kind}")
        return ""

    def _tool(self, name: str, arguments: Any) -> str:
        """Return the document that a tool call writes or edits; empty for other tools."""
        if isinstance(arguments, dict):
            path = convert.text(arguments.get("path") or arguments.get("file_path"))
            if name == "artifacts":
                return self._artifact(arguments)
            if name in ("create_file", "str_replace") and path:
                title = posixpath.basename(path)
                if name == "create_file":
                    text = convert.text(arguments.get("file_text") or arguments.get("content"))
                    self._counts.converted("file")
                    return self.documents.write(path, title, _ending(title), text)
                self._counts.converted("file edit")
                return self.documents.replace(path, *_edit(arguments))
            if name in ("repl", "analysis_tool") and isinstance(arguments.get("code"), str):
                self._counts.converted("code")
                return fenced(arguments["code"], "javascript")
        self._counts.omitted(f'tool use "{name}"')
        return ""

    def _artifact(self, arguments: Mapping[str, Any]) -> str:
        key = convert.text(arguments.get("id") or arguments.get("identifier"))
        old, new = _edit(arguments)
        self._counts.converted("artifact version")
        if new or arguments.get("command") == "update":
            return self.documents.replace(key, old, new)
        title, kind, language, text = (
            convert.text(arguments.get(part)) for part in ("title", "type", "language", "content")
        )
        return self.documents.write(key, title, language or _LANGUAGES.get(kind, ""), text)

    def _citations(self, part: Mapping[str, Any]) -> str:
        """Return a line of links to the pages that a block cites; empty if it cites none."""
        links: dict[str, str] = {}
        for citation in convert.objects_at(part, "citations"):
            details = {**citation, **convert.object_at(citation, "details")}
            if link := convert.web_link(details.get("url"), details.get("title")):
                links.setdefault(details["url"], link)
        if not links:
            return ""
        self._counts.converted("citation", len(links))
        return f"\n\nSources: {', '.join(links.values())}"

    def _files(self, entry: Mapping[str, Any]) -> Iterator[str]:
        """Yield a message's files: their text or, if it is missing, only their names."""
        names: set[str] = set()
        for key in ("attachments", "files", "files_v2"):
            for attachment in convert.objects_at(entry, key):
                name = convert.one_line(attachment.get("file_name"))
                text = convert.text(attachment.get("extracted_content"))
                if text.strip():
                    self._counts.converted("attached text")
                    yield with_title(name or "A file", fenced(text, _ending(name)))
                elif name and name not in names:
                    self._counts.omitted("file missing from the export")
                    yield with_title(name, "", "a file").strip()
                names.add(name)


def _edit(arguments: Mapping[str, Any]) -> tuple[str, str]:
    return convert.text(arguments.get("old_str")), convert.text(arguments.get("new_str"))


def _ending(name: str) -> str:
    """Return a file name's extension without the dot, used as the language of code."""
    return posixpath.splitext(name)[1][1:].lower()


def _project(
    location: str, entry: dict[str, Any], counts: ContentCounts, names: dict[str, str]
) -> Iterator[Item]:
    """Yield a project and its documents; add its name to ``names`` by id."""
    counts.unused_properties("project", entry, _PROJECT)
    uuid = convert.text(entry.get("uuid"))
    name = convert.text(entry.get("name")) or f"Project {uuid[:8]}".strip()
    names[uuid] = name
    key = uuid or name
    about, instructions = (
        message(convert.text(entry.get(part))) for part in ("description", "prompt_template")
    )
    if about or instructions:
        counts.converted("project")
        header = {"title": name, "tags": ["claude", "project"], **_times(entry)}
        body = [about, f"## Instructions\n\n{instructions}" if instructions else ""]
        text = "\n\n".join(filter(None, body))
        yield ImportedNote(key, note_path(name, "projects"), text, header)
    for number, document in enumerate(convert.list_at(entry, "docs"), 1):
        if not isinstance(document, dict) or not isinstance(document.get("content"), str):
            yield SkippedItem(f"{location}, document {number}", "has no text")
        elif document["content"]:
            counts.converted("project document")
            file = convert.text(document.get("filename")) or "document"
            header = {"title": file, "tags": ["claude", convert.tag(name)], **_times(document)}
            doc_key = f"{key}/{document.get('uuid') or file}"
            path = note_path(file.removesuffix(".md"), "projects", name)
            yield ImportedNote(doc_key, path, _document(file, document["content"]), header)


def _document(file: str, text: str) -> str:
    """Return a project document as markdown."""
    ending = _ending(file)
    if ending in _MARKDOWN:
        return text
    return plain_text.escaped(text) if ending in _PLAIN else fenced(text, ending)


def _memories(
    location: str, entry: dict[str, Any], counts: ContentCounts, projects: dict[str, str]
) -> Iterator[Item]:
    """Yield Claude's memories about an account and its projects."""
    used = ("account_uuid", "conversations_memory", "project_memories", "memory_files")
    counts.unused_properties("memory", entry, used)
    account = convert.text(entry.get("account_uuid"))
    key = f"conversations_memory/{account}" if account else "conversations_memory"
    text = entry.get("conversations_memory")
    yield from _memory(location, counts, key, "What Claude remembers", text)
    for uuid, text in convert.object_at(entry, "project_memories").items():
        name = projects.get(uuid) or f"project {uuid[:8]}"
        key = f"project_memories/{uuid}"
        yield from _memory(location, counts, key, f"What Claude remembers about {name}", text)
    for number, memory_file in enumerate(convert.list_at(entry, "memory_files"), 1):
        memory_file = memory_file if isinstance(memory_file, dict) else {}
        path = convert.text(memory_file.get("path")).strip("/")
        if not path or not isinstance(memory_file.get("content"), str):
            yield SkippedItem(f"{location}, memory file {number}", "has no path or no text")
        elif memory_file["content"].strip():
            counts.converted("memory")
            *folders, file = path.split("/")
            key = f"memory_files/{account}/{path}"
            path = note_path(file.removesuffix(".md"), "memory", *folders)
            yield ImportedNote(
                key, path, _document(file, memory_file["content"]), _times(memory_file)
            )


def _memory(
    location: str, counts: ContentCounts, key: str, title: str, text: Any
) -> Iterator[Item]:
    if isinstance(text, str):
        if text.strip():
            counts.converted("memory")
            yield ImportedNote(key, note_path(title), text, {"title": title})
    elif text is not None:
        yield SkippedItem(f"{location}, {key}", "no text")
