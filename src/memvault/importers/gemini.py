"""Import Gemini CLI's sessions, ``~/.gemini/tmp/PROJECT/chats/session-*``, as episodes.

Up to version 0.38 a session is a JSON object with ``messages``. Later versions, up to 0.61, write
JSON lines: a line replaces an earlier one with the same ``id``, and ``$set`` changes the session's
data (github.com/google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts). The
files of a session become one episode; the prompt log and the checkpoints are skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import Item, SkippedItem
from memvault.importers.sessions import Session, episode, text_of
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_PROGRAM = "gemini"
_SESSION_ID = lazy_pattern(r'"sessionId"\s*:\s*"([\w.-]{1,100})"')


def _session_of(source: Source, name: str) -> str:
    """Return the session id of a file; empty if it is not a session."""
    head = source.head(name)
    if b'"sessionId"' not in head or b'"projectHash"' not in head:
        return ""
    match = _SESSION_ID.search(head.decode("utf-8", "replace"))
    return match[1] if match else name


def claims(source: Source) -> Collection[str]:
    """Return the session files, and the program's other data."""
    sessions = [
        name for name in source.with_endings(".json", ".jsonl") if _session_of(source, name)
    ]
    return [*sessions, *filter(_is_own, source.names)] if sessions else []


def _is_own(name: str) -> bool:
    file = name.rpartition("/")[2]
    is_checkpoint = file.startswith("checkpoint") and file.endswith(".json")
    return is_checkpoint or file in ("logs.json", "shell_history", ".project_root")


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt, except subagent sessions."""
    for names in _threads(source).values():
        about: dict[str, Any] = {}
        messages: dict[str, dict[str, Any]] = {}
        for name in names:
            for line in _entries(source, name):
                if isinstance(line, SkippedItem):
                    yield line
                    continue
                entry = line[1]
                if isinstance(entry.get("$set"), dict):
                    about |= entry["$set"]
                elif "type" in entry:
                    messages[str(entry.get("id") or len(messages))] = entry
                else:
                    about |= entry
        if about.get("kind") == "subagent":
            source.counts.omitted("subagent session")
        else:
            arguments = (_episode, names[0], about, messages, source.counts)
            yield from records.convert_record(names[0], *arguments)


def _threads(source: Source) -> dict[str, list[str]]:
    """Return the files of each session by id, and count checkpoints."""
    threads: dict[str, list[str]] = {}
    for name in source.with_endings(".json", ".jsonl"):
        if name.rpartition("/")[2].startswith("checkpoint") and _is_own(name):
            source.counts.omitted("checkpoint")
        elif key := _session_of(source, name):
            threads.setdefault(key, []).append(name)
    return threads


def _entries(source: Source, name: str) -> Iterator[tuple[str, dict[str, Any]] | SkippedItem]:
    """Yield the data of a session and its messages with their locations."""
    if name.endswith(".jsonl"):
        yield from json_source.json_lines(source, name)
        return
    try:
        whole = json_source.read_object(source, name)
    except (OSError, ValueError) as error:
        yield SkippedItem(f"{name}, line 1", records.reason_for(error))
        return
    messages = whole.pop("messages", [])
    yield name, whole
    for number, message in enumerate(messages if isinstance(messages, list) else [], 1):
        where = f"{name}, message {number}"
        is_object = isinstance(message, dict)
        yield (where, message) if is_object else SkippedItem(where, json_source.NO_OBJECT)


def _episode(
    name: str, about: dict[str, Any], messages: dict[str, dict[str, Any]], counts: ContentCounts
) -> Item | None:
    session = Session(_PROGRAM, str(about.get("sessionId") or name))
    session.extend_to(about.get("startTime"))
    session.title = str(about.get("summary") or "")
    session.folder = "".join(map(str, convert.list_at(about, "directories")[:1]))
    for message in messages.values():
        session.extend_to(message.get("timestamp"))
        kind = message.get("type")
        if kind == "user":
            session.add_prompt(text_of(message.get("displayContent") or message.get("content")))
        elif kind == "gemini":
            session.add_answer(text_of(message.get("content")))
            _add_tools(session, convert.objects_at(message, "toolCalls"))
        else:
            counts.omitted(f"message {kind}")
            if kind == "error":
                session.is_interrupted = True
    return episode(session, counts)


def _add_tools(session: Session, calls: list[dict[str, Any]]) -> None:
    for call in calls:
        call_id = str(call.get("id") or len(session.tools))
        session.add_tool_use(call_id, str(call.get("name") or "tool"), call.get("args"))
        if call.get("status") == "error":
            session.mark_failed(call_id, call.get("resultDisplay"))
