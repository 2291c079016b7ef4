"""Import of Claude Code's sessions, ``~/.claude/projects/PROJECT/SESSION.jsonl``, as episodes.

The format is undocumented; this reads what versions 2.0 to 2.1 write. Sub-agents' records are left
out: what they found is in the main session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, records
from memvault.importers.items import Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.sessions import Session, episode, text_of
from memvault.importers.source import Source

_PROGRAM = "claude-code"
_MAX_SNIFFED = 20
_HEAD = 1 << 16
"""The bytes that are looked into: a session may begin with a long snapshot of files."""
_TITLES = ("summary", "customTitle", "aiTitle")


def recognise(source: Source) -> int:
    """Return ``SURE`` if one of the first files is a session's record."""
    names = _records(source)[:_MAX_SNIFFED]
    return SURE if any(_is_record(source, name) for name in names) else NO


def _records(source: Source) -> list[str]:
    names = source.named(".jsonl")
    return [
        name
        for name in names
        if not name.rpartition("/")[2].startswith("agent-") and "/subagents/" not in f"/{name}"
    ]


def _is_record(source: Source, name: str) -> bool:
    head = source.head(name, _HEAD)
    marks = (b'"parentUuid"', b'"leafUuid"', b'"isSidechain"', b'"type":"queue-operation"')
    return (b'"sessionId"' in head or b'"leafUuid"' in head) and any(map(head.__contains__, marks))


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt."""
    for name in _records(source):
        if not _is_record(source, name):
            continue
        session = Session(_PROGRAM, name.rpartition("/")[2].removesuffix(".jsonl"))
        for line, entry in json_source.lines(source, name):
            if isinstance(entry, str):
                yield Unreadable(f"{name}, line {line}", entry)
            elif not entry.get("isSidechain"):
                yield from records.items_of(f"{name}, line {line}", _add, session, entry)
        yield from records.items_of(name, episode, session)


def _add(session: Session, entry: dict[str, Any]) -> None:
    session.at(entry.get("timestamp"))
    session.folder = session.folder or str(entry.get("cwd") or "")
    session.branch = str(entry.get("gitBranch") or session.branch)
    session.title = next((str(entry[key]) for key in _TITLES if entry.get(key)), session.title)
    message = entry.get("message")
    if not isinstance(message, dict) or entry.get("isMeta") or entry.get("isCompactSummary"):
        return
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    if entry.get("type") == "user":
        session.ask(text_of(content))
    elif entry.get("type") == "assistant":
        session.answer(text_of(content))
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_use":
            session.use(str(part.get("id") or ""), str(part.get("name")), part.get("input"))
        elif isinstance(part, dict) and part.get("type") == "tool_result" and part.get("is_error"):
            session.fail(str(part.get("tool_use_id")))
