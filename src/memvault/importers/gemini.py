"""Import of Gemini CLI's sessions, ``~/.gemini/tmp/PROJECT/chats/session-*``, as episodes.

Until version 0.38 a session is a JSON object with ``messages``, then a file of JSON lines, in which
a later line of the same ``id`` replaces an earlier one and ``$set`` changes the session's data
(github.com/google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts; up to
0.61).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, records
from memvault.importers.items import Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.sessions import Session, episode, text_of
from memvault.importers.source import Source

_PROGRAM = "gemini"
_MAX_SNIFFED = 50


def recognise(source: Source) -> int:
    """Return ``SURE`` if one of the first files is a session."""
    names = source.named(".json", ".jsonl")[:_MAX_SNIFFED]
    return SURE if any(_is_session(source, name) for name in names) else NO


def _is_session(source: Source, name: str) -> bool:
    head = source.head(name)
    return b'"sessionId"' in head and b'"projectHash"' in head


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt; those of sub-agents are left out."""
    for name in source.named(".json", ".jsonl"):
        if not _is_session(source, name):
            continue
        about: dict[str, Any] = {}
        messages: dict[str, dict[str, Any]] = {}
        for place, entry in _entries(source, name):
            if isinstance(entry, str):
                yield Unreadable(f"{name}, {place}", entry)
            elif isinstance(entry.get("$set"), dict):
                about |= entry["$set"]
            elif "type" in entry:
                messages[str(entry.get("id") or len(messages))] = entry
            else:
                about |= entry
        if about.get("kind") != "subagent":
            yield from records.items_of(name, _episode, name, about, messages)


def _entries(source: Source, name: str) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield the data of a session and its messages with their places, of either form."""
    if name.endswith(".jsonl"):
        yield from ((f"line {line}", entry) for line, entry in json_source.lines(source, name))
        return
    try:
        whole = json_source.read_object(source, name)
    except (OSError, ValueError) as error:
        yield "line 1", records.reason_of(error)
        return
    messages = whole.pop("messages", [])
    yield "line 1", whole
    for number, message in enumerate(messages if isinstance(messages, list) else [], 1):
        is_object = isinstance(message, dict)
        yield f"message {number}", message if is_object else json_source.NO_OBJECT


def _episode(name: str, about: dict[str, Any], messages: dict[str, dict[str, Any]]) -> Item | None:
    session = Session(_PROGRAM, str(about.get("sessionId") or name))
    session.at(about.get("startTime"))
    session.title = str(about.get("summary") or "")
    folders = about.get("directories")
    session.folder = str(folders[0]) if isinstance(folders, list) and folders else ""
    for message in messages.values():
        session.at(message.get("timestamp"))
        if message.get("type") == "user":
            session.ask(text_of(message.get("content")))
        elif message.get("type") == "gemini":
            session.answer(text_of(message.get("content")))
            _add_tools(session, message.get("toolCalls"))
    return episode(session)


def _add_tools(session: Session, calls: Any) -> None:
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            call_id = str(call.get("id") or len(session.tools))
            session.use(call_id, str(call.get("name") or "tool"), call.get("args"))
            if call.get("status") == "error":
                session.fail(call_id)
