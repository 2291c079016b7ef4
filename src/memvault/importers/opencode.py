"""Import OpenCode's sessions as episodes.

Up to version 1.1 they are JSON files in ``~/.local/share/opencode/storage``: ``session/PROJECT``,
``message/SESSION`` and ``part/MESSAGE``. From 1.2 to 1.18 they are rows of ``opencode.db`` with the
same JSON in ``data`` (github.com/anomalyco/opencode, packages/core/src/*/sql.ts). Sub-agents'
sessions, which have a parent, are skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from memvault.importers import convert, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.database import (
    SourceDatabase,
    UnreadableDatabase,
    open_database,
    table_names,
)
from memvault.importers.items import ImportedNote, Item, SkippedItem
from memvault.importers.sessions import Session, episode
from memvault.importers.source import Source

_PROGRAM = "opencode"
_SESSION = "id parent_id title directory time_created time_updated".split()
_TABLES = frozenset({"session", "message", "part"})
_PARTS = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
_FINISHED_WITH_ERROR = "error"


def claims(source: Source) -> Collection[str]:
    """Return the files of the database and of the storage folder."""
    database = _database(source)
    stored = [name for name in source.with_endings(".json") if "storage/" in f"/{name}"]
    sessions = _sessions(source)
    if sessions and not stored:  # the source is the storage folder itself
        parts = ("session/", "message/", "part/", "session_diff/", "todo/", "project/")
        stored = [
            name for name in source.with_endings(".json") if any(part in name for part in parts)
        ]
    files = [name for name in source.names if database and name.startswith(database)]
    return [*files, *stored] if database or sessions else []


def _database(source: Source) -> str:
    names = source.with_endings(".db", ".sqlite")
    return next((name for name in names if table_names(source, name) >= _TABLES), "")


def _sessions(source: Source) -> list[str]:
    """Return the files of sessions: ``session/PROJECT/ses_….json``."""
    return [
        name
        for name in source.with_endings(".json")
        if "session/" in name and name.rpartition("/")[2].startswith("ses_")
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt; the database takes precedence."""
    seen: set[str] = set()
    database = _database(source)
    if database:
        for item in _read_database(source, database):
            if isinstance(item, ImportedNote):
                seen.add(item.key)
            yield item
    for item in _read_files(source):
        if not isinstance(item, ImportedNote) or item.key not in seen:
            yield item


def _read_database(source: Source, name: str) -> Iterator[Item]:
    try:
        with open_database(source, name) as database:
            for row in database.table("session", _SESSION, "ORDER BY id"):
                if row.get("parent_id"):
                    source.counts.omitted("session of a sub-agent")
                    continue
                location, counts = f"{name}, session {row.get('id')}", source.counts
                yield from records.convert_record(
                    location, _of_database, database, name, row, counts
                )
    except UnreadableDatabase as error:
        yield SkippedItem(name, f"cannot be read: {error}")


def _of_database(
    database: SourceDatabase, name: str, row: dict[str, Any], counts: ContentCounts
) -> Iterator[Item]:
    """Yield the unreadable parts of a session, then its episode."""
    parts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    messages: list[dict[str, Any]] = []
    for part in database.rows(_PARTS, [row["id"]]):
        if (data := _parsed(part["data"])) is None:
            yield SkippedItem(f"{name}, part {part['id']}", json_source.NO_OBJECT)
        else:
            parts[str(part["message_id"])].append(data)
    for message in database.rows(_MESSAGES, [row["id"]]):
        if (data := _parsed(message["data"])) is None:
            yield SkippedItem(f"{name}, message {message['id']}", json_source.NO_OBJECT)
        else:
            messages.append({**data, "id": message["id"]})
    times = {"created": row.get("time_created"), "updated": row.get("time_updated")}
    about: dict[str, Any] = {key: row.get(key) for key in ("id", "title", "directory")}
    note = _episode({**about, "time": times}, messages, parts.__getitem__, counts)
    if note is not None:
        yield note


def _parsed(text: Any) -> dict[str, Any] | None:
    """Return the object in a JSON text; None if it is not an object."""
    try:
        value = json_source.parse(text)
    except (ValueError, TypeError, AttributeError):  # a number or a blob
        return None
    return value if isinstance(value, dict) else None


def _read_files(source: Source) -> Iterator[Item]:
    below: dict[str, list[str]] = defaultdict(list)
    for name in source.with_endings(".json"):
        below[name.rpartition("/")[0]].append(name)
    for name in _sessions(source):
        yield from records.convert_record(name, _of_files, source, name, below)


def _of_files(source: Source, name: str, below: Mapping[str, list[str]]) -> Iterator[Item]:
    """Yield the unreadable parts of a session, then its episode."""
    about = _objects(source, [name])[0]
    if isinstance(about, SkippedItem):
        yield about
        return
    if about.get("parentID"):
        source.counts.omitted("session of a sub-agent")
        return
    top = name.partition("session/")[0]
    messages = _objects(source, below.get(f"{top}message/{about.get('id')}", ()))
    parts: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        if isinstance(message, dict):
            key = str(message.get("id"))
            part_entries = _objects(source, below.get(f"{top}part/{key}", ()))
            parts[key] = [part for part in part_entries if isinstance(part, dict)]
            yield from (part for part in part_entries if isinstance(part, SkippedItem))
        else:
            yield message
    read = [message for message in messages if isinstance(message, dict)]
    if (session := _episode(about, read, parts.__getitem__, source.counts)) is not None:
        yield session


def _objects(source: Source, names: Iterable[str]) -> list[dict[str, Any] | SkippedItem]:
    """Return the object in each file, or why it cannot be read."""
    entries: list[dict[str, Any] | SkippedItem] = []
    for name in names:
        try:
            entries.append(json_source.read_object(source, name))
        except (OSError, ValueError) as error:
            entries.append(SkippedItem(name, records.reason_for(error)))
    return entries


def _episode(
    about: dict[str, Any],
    messages: Iterable[dict[str, Any]],
    parts_of: Callable[[str], Iterable[dict[str, Any]]],
    counts: ContentCounts,
) -> Item | None:
    session = Session(_PROGRAM, str(about.get("id")))
    session.title, session.folder = str(about.get("title") or ""), str(about.get("directory") or "")
    if session.title.startswith(("New session - ", "Child session - ")):
        session.title = ""
    for time in convert.object_at(about, "time").values():
        session.extend_to(time)
    for message in messages:
        parts = list(parts_of(str(message.get("id"))))
        if message.get("summary") is True:  # a summary for the agent
            counts.omitted("message of the program")
            continue
        texts = [str(part.get("text") or "") for part in parts if _is_said(part)]
        add = session.add_prompt if message.get("role") == "user" else session.add_answer
        add("\n\n".join(texts))
        if isinstance(message.get("error"), dict):
            session.mark_interrupted()
        for part in parts:
            kind = part.get("type")
            if kind == "tool" and isinstance(state := part.get("state"), dict):
                call_id = str(part.get("callID") or part.get("id") or "")
                session.add_tool_use(call_id, str(part.get("tool")), state.get("input"))
                if state.get("status") == _FINISHED_WITH_ERROR:
                    session.mark_failed(call_id)
            elif not _is_said(part):
                counts.omitted("message of the program" if kind == "text" else f"part {kind}")
    return episode(session, counts)


def _is_said(part: dict[str, Any]) -> bool:
    is_added = part.get("synthetic") or part.get("ignored")
    return part.get("type") == "text" and not is_added
