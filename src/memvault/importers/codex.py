"""Import of Codex's sessions, ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``, as episodes.

Each line has a timestamp, a type and a payload (the protocol of github.com/openai/codex,
codex-rs/protocol; versions 0.40 to 0.169). The records of sub-agents are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import json_source, records
from memvault.importers.items import Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.sessions import Session, episode, text_of
from memvault.importers.source import Source

_PROGRAM = "codex"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_MAX_SNIFFED = 20


def recognise(source: Source) -> int:
    """Return ``SURE`` if one of the first files begins with a session's metadata."""
    names = source.named(".jsonl")[:_MAX_SNIFFED]
    marks = (b'"session_meta"', b'"type":"response_item"')
    return SURE if any(mark in source.head(name) for name in names for mark in marks) else NO


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt."""
    for name in source.named(".jsonl", ".jsonl.zst"):
        file = name.rpartition("/")[2]
        if not file.startswith("rollout-") and len(source.names) > 1:
            continue
        if name.endswith(".zst"):
            yield Unreadable(name, "compressed; zstd -d unpacks it")
            continue
        rollout = _Rollout(file.removesuffix(".jsonl"))
        for line, entry in json_source.lines(source, name):
            if isinstance(entry, str):
                yield Unreadable(f"{name}, line {line}", entry)
            else:
                yield from records.items_of(f"{name}, line {line}", rollout.add, entry)
        yield from records.items_of(name, rollout.episode)


class _Rollout:
    """The record of one session, which names prompts and answers twice in most versions."""

    def __init__(self, name: str) -> None:
        self._session = Session(_PROGRAM, name)
        self._shown = Session(_PROGRAM, name)
        """What was shown to the user; the items for the model also have what the program added."""
        self._is_subagent = False

    def add(self, entry: dict[str, Any]) -> None:
        """Add a line."""
        self._session.at(entry.get("timestamp"))
        payload = entry.get("payload", entry)
        if not isinstance(payload, dict):
            return
        if entry.get("type") == "session_meta":
            self._add_metadata(payload)
        elif entry.get("type") == "event_msg":
            self._add_event(payload)
        else:
            self._add_item(payload)

    def episode(self) -> Item | None:
        """Return the session as an episode; None if nothing was asked, or it is a sub-agent's."""
        session, shown = self._session, self._shown
        session.prompts = shown.prompts or session.prompts
        session.answers = shown.answers or session.answers
        return None if self._is_subagent else episode(session)

    def _add_metadata(self, payload: dict[str, Any]) -> None:
        git, source = payload.get("git"), payload.get("source")
        self._session.session_id = str(payload.get("id") or self._session.session_id)
        self._session.folder = str(payload.get("cwd") or "")
        self._session.branch = str(git.get("branch") or "") if isinstance(git, dict) else ""
        self._is_subagent = isinstance(source, dict) and "subagent" in source

    def _add_event(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "item_completed" and isinstance(item := payload.get("item"), dict):
            text = text_of(item.get("content")) or str(item.get("text") or "")
            if item.get("type") == "UserMessage":
                self._shown.ask(text)
            elif item.get("type") == "AgentMessage":
                self._shown.answer(text)
        elif kind == "user_message":
            self._shown.ask(str(payload.get("message") or ""))
        elif kind == "agent_message":
            self._shown.answer(str(payload.get("message") or ""))
        elif kind == "thread_name_updated":
            self._session.title = str(payload.get("thread_name") or "")

    def _add_item(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "message" and payload.get("role") == "user":
            self._session.ask(text_of(payload.get("content")))
        elif kind == "message" and payload.get("role") == "assistant":
            self._session.answer(text_of(payload.get("content")))
        elif kind in _CALLS:
            arguments = payload.get("arguments", payload.get("input", payload.get("action")))
            name = str(payload.get("name") or "shell")
            self._session.use(str(payload.get("call_id") or ""), name, arguments)
        elif kind in ("function_call_output", "custom_tool_call_output") and _failed(payload):
            self._session.fail(str(payload.get("call_id")))


def _failed(payload: dict[str, Any]) -> bool:
    """Return whether the output of a tool reports an exit code other than 0."""
    output = str(payload.get("output") or "")[:500]
    codes = ('"exit_code":', "Exit code:", "exited with code")
    rest = next((output.partition(code)[2] for code in codes if code in output), "")
    return bool(rest.strip()) and rest.strip()[0] in "123456789-"
