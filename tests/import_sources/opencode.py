"""OpenCode's sessions in its database, from version 1.2 (as of 1.18)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

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


Messages = Iterable[tuple[dict[str, Any], list[dict[str, Any]]]]


def write_sessions(file: Path, titles: dict[str, str], messages: Messages) -> None:
    """Write a session and its subagent session by id, each with a title and some messages."""
    with closing(sqlite3.connect(file)) as database:
        database.executescript(_SCHEMA)
        for name, title in titles.items():
            parent = None if name == next(iter(titles)) else next(iter(titles))
            row = (name, "p", parent, "s", "/home/ana/shop", title, "1.18.0", _TIME, _TIME)
            database.execute(f"INSERT INTO session VALUES ({', '.join('?' * 9)})", row)
            for number, (data, parts) in enumerate(messages):
                message = f"msg_{name}_{number}"
                given = (message, name, _TIME, _TIME, json.dumps(data))
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", given)
                for index, part in enumerate(parts):
                    key, text = f"prt_{message}_{index}", json.dumps(part)
                    values = (key, message, name, _TIME, _TIME, text)
                    database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", values)
        database.commit()


def make(folder: Path) -> Path:
    """Write the database with a session and a subagent session."""
    (folder / "opencode").mkdir()
    messages = [({"role": role, "time": {"created": _TIME}}, parts) for role, parts in _MESSAGES]
    titles = {"ses_1": "Tax of books", "ses_2": "Tax of books"}
    write_sessions(folder / "opencode/opencode.db", titles, messages)
    return folder / "opencode"
