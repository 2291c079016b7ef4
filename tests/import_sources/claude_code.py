"""A session of Claude Code 2.1, as written to ~/.claude/projects; the format is not documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import write

SESSION = "0c2f8f0e-6f3c-4a63-9d0b-3a1f2f0a9b11"
_COMMON = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "/home/ana/shop",
    "sessionId": SESSION,
    "version": "2.1.219",
    "gitBranch": "checkout",
}


def _line(kind: str, minute: int, content: Any, **more: Any) -> dict[str, Any]:
    role = "assistant" if kind == "assistant" else "user"
    time = f"2026-11-18T09:{minute:02}:00.000Z"
    message = {"role": role, "content": content}
    return {
        **_COMMON,
        "type": kind,
        "message": message,
        "timestamp": time,
        "parentUuid": None,
        **more,
    }


def _tool(name: str, call: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def _result(call: str, text: str, error: bool = False) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": error}


def lines(secret: str = "") -> list[dict[str, Any]]:
    """Return the lines of a session whose first prompt ends with ``secret``."""
    asked = f"Orders are charged twice when the customer clicks fast. Fix it. {secret}".strip()
    edit = {"file_path": "/home/ana/shop/src/pay.py", "old_string": "a", "new_string": "b"}
    return [
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        _line("user", 0, "<command-name>/clear</command-name>", isMeta=True),
        _line("user", 1, f"{asked}\n<system-reminder>Be brief.</system-reminder>"),
        _line("assistant", 2, [{"type": "thinking", "thinking": "…"}, _tool("Read", "t1", **edit)]),
        _line("user", 2, [_result("t1", "def pay(): …")]),
        _line(
            "assistant",
            3,
            [
                {"type": "text", "text": "The root cause is that a retry has no idempotency key."},
                _tool("Edit", "t2", **edit),
            ],
        ),
        _line("user", 3, [_result("t2", "done")]),
        _line("assistant", 4, [_tool("Bash", "t3", command="pytest -q tests/test_pay.py")]),
        _line("user", 4, [_result("t3", "1 failed", error=True)]),
        _line("assistant", 5, [_tool("Bash", "t4", command="pytest -q tests/test_pay.py")]),
        _line("user", 5, [_result("t4", "3 passed")]),
        _line("assistant", 6, [{"type": "text", "text": "## Done\n\nEach order has a key now."}]),
        _line("user", 7, "A subagent was told this", isSidechain=True),
    ]


def more() -> list[dict[str, Any]]:
    """Return the lines that are added to the session later."""
    answer = "We decided to keep the key for a day. The migration is in migrations/7.sql."
    return [
        _line("user", 20, "How long do we keep the key?"),
        _line("assistant", 21, [_tool("Write", "t5", file_path="/home/ana/shop/migrations/7.sql")]),
        _line("assistant", 22, [{"type": "text", "text": answer}]),
    ]


def write_session(folder: Path, entries: list[dict[str, Any]]) -> Path:
    """Write a session's lines to its file in a user's folder."""
    text = "".join(f"{json.dumps(entry)}\n" for entry in entries)
    return write(folder, f"projects/-home-ana-shop/{SESSION}.jsonl", text)


def make(folder: Path) -> Path:
    """Write the projects folder, including a subagent's record."""
    write_session(folder, lines())
    write(folder, "projects/-home-ana-shop/agent-1.jsonl", json.dumps(lines()[2]))
    return folder / "projects"


def make_resumed(folder: Path) -> Path:
    """Write a session and its continuation in another file, which repeats the messages."""
    entries = [{**one, "uuid": f"u{number}"} for number, one in enumerate(lines())]
    write_session(folder, entries)
    again = [{**one, "sessionId": "later"} for one in entries]
    error = "API Error: 529 {}"
    more = [
        _line("assistant", 19, [{"type": "text", "text": error}], isApiErrorMessage=True),
        {"type": "summary", "summary": "Double charges", "leafUuid": "u2"},
    ]
    text = "\n".join(map(json.dumps, [*again, *more]))
    write(folder, "projects/-home-ana-shop/later.jsonl", text)
    return folder / "projects"
