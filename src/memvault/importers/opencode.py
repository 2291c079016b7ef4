"""Import OpenCode's sessions as episodes.

In versions 1.2 to 1.18 they are rows of ``~/.local/share/opencode/opencode.db`` with JSON in
``data`` (github.com/anomalyco/opencode, packages/core/src/*/sql.ts). Subagents' sessions, which
have a parent, are skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.database import SourceDatabase, databases_with, read_database
from memvault.importers.items import Item, SkippedItem
from memvault.importers.sessions import Session, episode
from memvault.importers.source import Source

_PROGRAM = "opencode"
_SESSION = "id parent_id title directory time_created time_updated".split()
_TABLES = ("session", "message", "part")
_PARTS = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
_FINISHED_WITH_ERROR = "error"


def claims(source: Source) -> Collection[str]:
    """Return the databases with their journals, and the other files in the storage folder."""
    databases = tuple(databases_with(source, *_TABLES))
    return [
        name
        for name in source.names
        if databases and (name.startswith(databases) or "storage/" in f"/{name}")
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt."""
    for name in databases_with(source, *_TABLES):
        yield from read_database(source, name, _sessions)


def _sessions(source: Source, name: str, database: SourceDatabase) -> Iterator[Item]:
    for row in database.table("session", _SESSION, "ORDER BY id"):
        if row.get("parent_id"):
            source.counts.omitted("subagent session")
        else:
            location = f"{name}, session {row.get('id')}"
            yield from records.convert_record(
                location, _session, database, name, row, source.counts
            )


def _session(
    database: SourceDatabase, name: str, row: dict[str, Any], counts: ContentCounts
) -> Iterator[Item]:
    """Yield the unreadable parts of a session, then its episode."""
    session = Session(_PROGRAM, str(row["id"]))
    session.title, session.folder = str(row.get("title") or ""), str(row.get("directory") or "")
    if session.title.startswith(("New session - ", "Child session - ")):
        session.title = ""
    session.extend_to(row.get("time_created"))
    session.extend_to(row.get("time_updated"))
    parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for part in database.rows(_PARTS, [row["id"]]):
        if (data := json_source.object_in(part["data"])) is None:
            yield SkippedItem(f"{name}, part {part['id']}", json_source.NO_OBJECT)
        else:
            parts[str(part["message_id"])].append(data)
    for message in database.rows(_MESSAGES, [row["id"]]):
        if (data := json_source.object_in(message["data"])) is None:
            yield SkippedItem(f"{name}, message {message['id']}", json_source.NO_OBJECT)
        elif data.get("summary") is True:  # a summary written for the agent
            counts.omitted("message from the program")
        else:
            _add_message(session, data, parts[str(message["id"])], counts)
    if (note := episode(session, counts)) is not None:
        yield note


def _add_message(
    session: Session, message: dict[str, Any], parts: list[dict[str, Any]], counts: ContentCounts
) -> None:
    texts = [str(part.get("text") or "") for part in parts if _is_said(part)]
    add = session.add_prompt if message.get("role") == "user" else session.add_answer
    add("\n\n".join(texts))
    if isinstance(message.get("error"), dict):
        session.is_interrupted = True
    for part in parts:
        kind = part.get("type")
        if kind == "tool" and isinstance(state := part.get("state"), dict):
            call_id = str(part.get("callID") or part.get("id") or "")
            session.add_tool_use(call_id, str(part.get("tool")), state.get("input"))
            exit_code = convert.object_at(state, "metadata").get("exit")
            if state.get("status") == _FINISHED_WITH_ERROR or exit_code not in (None, 0):
                session.mark_failed(call_id, state.get("error") or state.get("output"))
        elif not _is_said(part):
            counts.omitted("message from the program" if kind == "text" else f"part {kind}")


def _is_said(part: dict[str, Any]) -> bool:
    is_added = part.get("synthetic") or part.get("ignored")
    return part.get("type") == "text" and not is_added
