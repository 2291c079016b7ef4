"""OpenCode's sessions: the JSON files up to version 1.1, and the database from 1.2 (as of 1.18)."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from conftest import write

_SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text, slug text,
    directory text, title text, version text, time_created integer, time_updated integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer,
    time_updated integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer,
    time_updated integer, data text);
"""
_TIME = 1763546400000


def _tool(call: str, tool: str, status: str, **given: Any) -> dict[str, Any]:
    return {
        "type": "tool",
        "callID": call,
        "tool": tool,
        "state": {"status": status, "input": given},
    }


_MESSAGES: tuple[tuple[str, list[dict[str, Any]]], ...] = (
    ("user", [{"type": "text", "text": "Add a tax rate for books"}]),
    (
        "assistant",
        [
            {"type": "reasoning", "text": "…"},
            _tool("c1", "edit", "completed", filePath="/home/ana/shop/tax.py"),
            _tool("c2", "bash", "error", command="make test"),
            {"type": "text", "text": "Books are taxed with 7 percent from now on."},
        ],
    ),
)


def make(folder: Path) -> Path:
    """Write the database with a session and that of a sub-agent."""
    (folder / "opencode").mkdir()
    with closing(sqlite3.connect(folder / "opencode/opencode.db")) as database:
        database.executescript(_SCHEMA)
        for name, parent in (("ses_1", None), ("ses_2", "ses_1")):
            row = (name, "p", parent, "s", "/home/ana/shop", "Tax of books", "1.18.0", _TIME, _TIME)
            database.execute(f"INSERT INTO session VALUES ({', '.join('?' * 9)})", row)
            for number, (role, parts) in enumerate(_MESSAGES):
                message = f"msg_{name}_{number}"
                data = json.dumps({"role": role, "time": {"created": _TIME}})
                given = (message, name, _TIME, _TIME, data)
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", given)
                for index, part in enumerate(parts):
                    values = (
                        f"prt_{message}_{index}",
                        message,
                        name,
                        _TIME,
                        _TIME,
                        json.dumps(part),
                    )
                    database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", values)
        database.commit()
    return folder / "opencode"


def make_files(folder: Path) -> Path:
    """Write the same session as JSON files."""
    times = {"created": _TIME, "updated": _TIME}
    about = {"id": "ses_1", "title": "Tax of books", "directory": "/home/ana/shop", "time": times}
    write(folder, "storage/session/p/ses_1.json", json.dumps(about))
    for number, (role, parts) in enumerate(_MESSAGES):
        message = {"id": f"msg_{number}", "role": role, "sessionID": "ses_1"}
        write(folder, f"storage/message/ses_1/msg_{number}.json", json.dumps(message))
        for index, part in enumerate(parts):
            write(folder, f"storage/part/msg_{number}/prt_{index}.json", json.dumps(part))
    return folder / "storage"
