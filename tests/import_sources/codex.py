"""A session of Codex 0.169, in the format of its protocol's RolloutLine (codex-rs/protocol)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import write

_PATCH = "*** Begin Patch\n*** Update File: src/pay.py\n@@\n-a\n+b\n*** End Patch"


def _line(second: int, kind: str, **payload: Any) -> str:
    time = f"2026-11-19T10:00:{second:02}.000Z"
    return json.dumps({"timestamp": time, "type": kind, "payload": payload})


def _message(role: str, text: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def make(folder: Path) -> Path:
    """Write a session that patches a file and runs tests, and a compressed older one."""
    meta = {"id": "0199-aa", "cwd": "/home/ana/shop", "cli_version": "0.169.0", "source": "cli"}
    asked, answer = (
        "Round prices to cents",
        "Let's use decimals everywhere. Prices are rounded now.",
    )
    shell = json.dumps({"command": ["bash", "-lc", "pytest -q"], "workdir": "/home/ana/shop"})
    lines = [
        _line(0, "session_meta", **meta, git={"branch": "main"}),
        _line(
            1, "response_item", **_message("user", "<environment_context>…</environment_context>")
        ),
        _line(2, "response_item", **_message("user", asked)),
        _line(2, "event_msg", type="user_message", message=asked),
        _line(3, "turn_context", cwd="/home/ana/shop", model="gpt-5.6-codex"),
        _line(
            4,
            "response_item",
            type="custom_tool_call",
            call_id="1",
            name="apply_patch",
            input=_PATCH,
        ),
        _line(5, "response_item", type="function_call", call_id="2", name="shell", arguments=shell),
        _line(
            6, "response_item", type="function_call_output", call_id="2", output="Exit code: 1\n…"
        ),
        _line(7, "response_item", **_message("assistant", answer)),
        _line(7, "event_msg", type="agent_message", message=answer),
    ]
    name = "rollout-2026-11-19T10-00-00-0199-aa.jsonl"
    write(folder, f"sessions/2026/11/19/{name}", "\n".join(lines))
    write(folder, "sessions/2026/10/01/rollout-2026-10-01T10-00-00-01.jsonl.zst", b"(\xb5/\xfd")
    return folder / "sessions"


def make_fork(folder: Path) -> Path:
    """Write a session and its fork, which begins with the lines of the original."""
    meta = {"id": "a", "cwd": "/home/ana/shop", "source": "cli"}
    asked = _line(1, "event_msg", type="user_message", message="Round prices")
    first = [_line(0, "session_meta", **meta), asked]
    fork = _line(2, "session_meta", **{**meta, "id": "b", "forked_from_id": "a"})
    more = _line(3, "event_msg", type="agent_message", message="Prices are rounded.")
    write(folder, "sessions/rollout-1-a.jsonl", "\n".join(first))
    write(folder, "sessions/rollout-2-b.jsonl", "\n".join([fork, *first, more]))
    return folder / "sessions"
