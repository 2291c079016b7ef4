"""Import Claude Code's sessions, ``~/.claude/projects/PROJECT/SESSION.jsonl``, as episodes.

The format is undocumented; this reads versions 2.0 to 2.1. Subagents' files are skipped, because
their results are in the main session. A resumed or forked session repeats its messages, with their
ids, in another file; all files with the same first message become one episode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import Item, SkippedItem
from memvault.importers.sessions import Session, episode, first_entries, is_error, text_of
from memvault.importers.source import Source

_PROGRAM = "claude-code"
_HEAD = 1 << 16
"""Number of bytes to inspect: a session may start with a long snapshot of files."""
_TITLES = ("customTitle", "aiTitle", "summary")
"""Keys of titles in order of preference: the user's title, then two that models wrote."""
_SYNTHETIC = "<synthetic>"
"""The model name of answers written by the program itself."""
_OWN_DATA = ("/subagents/", "/tool-results/", "/sessions-index.json")
"""Parts of the paths of auxiliary session files, and of the list of sessions."""


def _records(source: Source) -> list[str]:
    names = source.with_endings(".jsonl")
    return [
        name
        for name in names
        if not name.rpartition("/")[2].startswith("agent-") and "/subagents/" not in f"/{name}"
    ]


def claims(source: Source) -> Collection[str]:
    """Return the session and subagent files, and their auxiliary files."""
    records = [
        name for name in source.with_endings(".jsonl") if _is_record(source.head(name, _HEAD))
    ]
    if set(records).isdisjoint(_records(source)):
        return ()
    own_data = (name for name in source.names if any(part in f"/{name}" for part in _OWN_DATA))
    return {*records, *own_data}


def _is_record(head: bytes) -> bool:
    marks = (b'"parentUuid"', b'"leafUuid"', b'"isSidechain"', b'"type":"queue-operation"')
    return (b'"sessionId"' in head or b'"leafUuid"' in head) and any(map(head.__contains__, marks))


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt."""
    names = _records(source)
    source.counts.omitted("subagent session", len(source.with_endings(".jsonl")) - len(names))
    threads: dict[str, list[str]] = {}
    for name in names:
        head = source.head(name, _HEAD)
        if _is_record(head):
            threads.setdefault(_thread(source, name, head), []).append(name)
    for key, files in threads.items():
        record = _Record(key, source.counts)
        for name in sorted(files, key=lambda name: (source.size(name), name)):
            yield from records.convert_each(json_source.json_lines(source, name), record.add)
        yield from records.convert_record(files[0], record.episode)


def _thread(source: Source, name: str, head: bytes) -> str:
    """Return a session's id: the id of its first message, shared by its copies."""
    for entry in first_entries(head, _HEAD):
        if message_id := _id_of_message(entry):
            return message_id
    if len(head) == _HEAD:  # the session starts with a long snapshot
        for line in json_source.json_lines(source, name):
            if not isinstance(line, SkippedItem) and (message_id := _id_of_message(line[1])):
                return message_id
    return name.rpartition("/")[2].removesuffix(".jsonl")


def _id_of_message(entry: dict[str, Any]) -> str:
    """Return a message's id; for a copy, the id of the original message."""
    is_message = entry.get("type") in ("user", "assistant")
    if not is_message or entry.get("isMeta") or entry.get("isSidechain"):
        return ""
    copied = convert.object_at(entry, "forkedFrom").get("messageUuid")
    return str(copied or entry.get("uuid") or "")


class _Record:
    """Collects a session from one or more files."""

    def __init__(self, key: str, counts: ContentCounts) -> None:
        self._session = Session(_PROGRAM, key)
        self._counts = counts
        self._seen: set[str] = set()
        """Ids of previous messages, which other files may repeat."""
        self._titles: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        """Summaries by the id of the last message they cover, which may be in another session."""

    def add(self, _location: str, entry: dict[str, Any]) -> None:
        """Add a line."""
        kind = entry.get("type")
        self._add_titles(entry)
        if entry.get("isSidechain"):
            self._counts.omitted("subagent message")
            return
        if kind not in ("user", "assistant", "attachment", "summary"):
            if not any(entry.get(key) for key in _TITLES):
                self._counts.omitted(f"entry {kind}")
            return
        message_id = _id_of_message(entry)
        own_id = str(entry.get("uuid") or "")
        if message_id and message_id in self._seen:
            self._seen.add(own_id)
            return
        self._seen.update((message_id, own_id))
        session = self._session
        session.extend_to(entry.get("timestamp"))
        session.folder = session.folder or str(entry.get("cwd") or "")
        session.branch = str(entry.get("gitBranch") or session.branch)
        message = entry.get("message")
        if kind == "attachment":
            self._add_attachment(entry.get("attachment"))
        elif isinstance(message, dict):
            self._add_message(entry, message)

    def _add_titles(self, entry: dict[str, Any]) -> None:
        for key in _TITLES:
            if isinstance(title := entry.get(key), str) and title:
                if key == "summary" and isinstance(leaf := entry.get("leafUuid"), str):
                    self._summaries[leaf] = title
                else:
                    self._titles[key] = title

    def _add_attachment(self, attached: Any) -> None:
        """Add a prompt that was queued while the agent worked."""
        is_queued = isinstance(attached, dict) and attached.get("type") == "queued_command"
        if is_queued and attached.get("commandMode", "prompt") == "prompt":
            self._session.add_prompt(text_of(attached.get("prompt")))
        else:
            self._counts.omitted("entry attachment")

    def _add_message(self, entry: dict[str, Any], message: dict[str, Any]) -> None:
        content, session = message.get("content"), self._session
        if entry.get("isMeta") or entry.get("isCompactSummary"):
            self._counts.omitted("message from the program")
            return
        if entry.get("type") == "user":
            session.add_prompt(text_of(content))
        elif entry.get("isApiErrorMessage") or message.get("model") == _SYNTHETIC:
            self._counts.omitted("message from the program")
            if entry.get("isApiErrorMessage") or is_error(text_of(content)):
                session.is_interrupted = True
        else:
            session.add_answer(text_of(content))
        for part in convert.list_at(message, "content"):
            kind = part.get("type") if isinstance(part, dict) else None
            if kind == "tool_use":
                session.add_tool_use(
                    str(part.get("id") or ""), str(part.get("name")), part.get("input")
                )
            elif kind == "tool_result":
                if part.get("is_error"):
                    session.mark_failed(str(part.get("tool_use_id")), part.get("content"))
            elif kind != "text":
                self._counts.omitted(f"block {kind}")

    def episode(self) -> Item | None:
        """Convert the session to an episode, or return None if it has no prompts."""
        summaries = [title for leaf, title in self._summaries.items() if leaf in self._seen]
        titles = [self._titles.get("customTitle"), self._titles.get("aiTitle"), *summaries[-1:]]
        candidates = [title for title in (*titles, self._titles.get("summary")) if title]
        self._session.title = candidates[0] if candidates else ""
        return episode(self._session, self._counts)
