"""Import Codex's sessions, ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``, as episodes.

Each line has a timestamp, a type and a payload (github.com/openai/codex, codex-rs/protocol;
versions 0.40 to 0.169). Subagents' files are skipped. A resumed session continues in its file; a
forked session starts with the lines of the original, and both become one episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memvault.importers import convert, json_source, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.formats import Confidence
from memvault.importers.items import Item, SkippedItem
from memvault.importers.sessions import Session, episode, first_entries, text_of
from memvault.importers.source import Source

_PROGRAM = "codex"
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_MAX_SNIFFED = 20
_HEAD = 1 << 17
"""Number of bytes to inspect for the metadata of a session and of the sessions it was forked from.
"""


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` if one of the first files starts with a session's metadata."""
    names = source.with_endings(".jsonl")[:_MAX_SNIFFED]
    marks = (b'"session_meta"', b'"type":"response_item"')
    return Confidence.sure_if(any(mark in source.head(name) for name in names for mark in marks))


def claims(source: Source) -> list[str]:
    """Return the session files, including compressed ones."""
    return [
        name
        for name in source.with_endings(".jsonl", ".jsonl.zst")
        if name.rpartition("/")[2].startswith("rollout-") or len(source.names) == 1
    ]


def read(source: Source) -> Iterator[Item]:
    """Yield an episode for each session with a prompt."""
    names = claims(source)
    for name in filter(_is_compressed, names):
        yield SkippedItem(name, "compressed: unpack it with `zstd -d`")
    plain = [name for name in names if not _is_compressed(name)]
    for key, files in _threads(source, plain).items():
        session: Session | None = None
        for name in files:
            rollout = _Rollout(key, source.counts)
            yield from records.convert_each(json_source.json_lines(source, name), rollout.add)
            session = _joined(session, rollout.session(), source.counts)
        if session is not None:
            yield from records.convert_record(files[0], episode, session, source.counts)


def _is_compressed(name: str) -> bool:
    return name.endswith(".zst")


def _joined(first: Session | None, other: Session | None, counts: ContentCounts) -> Session | None:
    if other is None:
        counts.omitted("subagent session")
    elif first is not None:
        first.join(other)
    return first or other


def _threads(source: Source, names: list[str]) -> dict[str, list[str]]:
    """Return the files of each session by the id of the original session."""
    origins: dict[str, str] = {}
    """Maps each session id to the session it was forked from, or to itself."""
    ids: dict[str, str] = {}
    for name in names:
        ids[name] = name.rpartition("/")[2].removesuffix(".jsonl")
        for number, (session_id, origin) in enumerate(_metadata(source.head(name, _HEAD))):
            ids[name] = ids[name] if number else session_id
            origins.setdefault(session_id, origin)
    threads: dict[str, list[str]] = {}
    for name, session_id in ids.items():
        threads.setdefault(_origin(session_id, origins), []).append(name)
    return threads


def _metadata(head: bytes) -> Iterator[tuple[str, str]]:
    """Yield the id and the origin of each session in the first lines of a file.

    The first one is the session itself; the others are the sessions that it repeats.
    """
    for entry in first_entries(head, _HEAD):
        payload = entry.get("payload")
        if entry.get("type") == "session_meta" and isinstance(payload, dict) and payload.get("id"):
            session_id = str(payload["id"])
            origin = "" if _is_subagent(payload) else str(payload.get("forked_from_id") or "")
            yield session_id, origin or session_id


def _origin(session_id: str, origins: dict[str, str]) -> str:
    """Return the original session of a chain of forks."""
    for _ in range(len(origins)):
        if origins.get(session_id, session_id) == session_id:
            break
        session_id = origins[session_id]
    return session_id


def _is_subagent(payload: dict[str, Any]) -> bool:
    is_named = "subagent" in convert.object_at(payload, "source")
    return is_named or payload.get("thread_source") == "subagent"


class _Rollout:
    """Collects a session from one file; most versions store prompts and answers twice."""

    def __init__(self, key: str, counts: ContentCounts) -> None:
        self._session = Session(_PROGRAM, key)
        self._shown = Session(_PROGRAM, key)
        """The messages shown to the user; messages sent to the model contain text added by the
        program.
        """
        self._is_subagent = False
        self._has_metadata = False
        self._counts = counts

    def add(self, _location: str, entry: dict[str, Any]) -> None:
        """Add a line."""
        self._session.extend_to(entry.get("timestamp"))
        payload = entry.get("payload", entry)
        if not isinstance(payload, dict):
            return
        if entry.get("type") == "session_meta":
            self._add_metadata(payload)
        elif entry.get("type") == "event_msg":
            self._add_event(payload)
        elif entry.get("type") in (None, "response_item") or payload is entry:
            self._add_item(payload)
        else:
            self._counts.omitted(f"entry {entry['type']}")

    def session(self) -> Session | None:
        """Return the session; None for a subagent."""
        session, shown = self._session, self._shown
        session.prompts = shown.prompts or session.prompts
        if shown.answers:
            session.answers, session.is_interrupted = shown.answers, shown.is_interrupted
        return None if self._is_subagent else session

    def _add_metadata(self, payload: dict[str, Any]) -> None:
        if self._has_metadata:  # metadata of a session that this one was forked from
            return
        self._has_metadata = True
        self._session.folder = str(payload.get("cwd") or "")
        self._session.branch = str(convert.object_at(payload, "git").get("branch") or "")
        self._is_subagent = _is_subagent(payload)

    def _add_event(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "item_completed" and isinstance(item := payload.get("item"), dict):
            text = text_of(item.get("content")) or str(item.get("text") or "")
            if item.get("type") == "UserMessage":
                self._shown.add_prompt(text)
            elif item.get("type") == "AgentMessage":
                self._shown.add_answer(text)
        elif kind == "user_message":
            self._shown.add_prompt(str(payload.get("message") or ""))
        elif kind == "agent_message":
            self._shown.add_answer(str(payload.get("message") or ""))
        elif kind == "thread_name_updated":
            self._session.title = str(payload.get("thread_name") or "")
        elif kind in ("error", "stream_error"):
            self._session.is_interrupted = True
            self._shown.is_interrupted = True
        else:
            self._counts.omitted(f"event {kind}")

    def _add_item(self, payload: dict[str, Any]) -> None:
        kind = payload.get("type")
        if kind == "message" and payload.get("role") == "user":
            self._session.add_prompt(text_of(payload.get("content")))
        elif kind == "message" and payload.get("role") == "assistant":
            self._session.add_answer(text_of(payload.get("content")))
        elif kind in _CALLS:
            arguments = payload.get("arguments", payload.get("input", payload.get("action")))
            name = str(payload.get("name") or "shell")
            self._session.add_tool_use(str(payload.get("call_id") or ""), name, arguments)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if _failed(payload):
                self._session.mark_failed(str(payload.get("call_id")), _output_text(payload))
        elif kind is not None:
            self._counts.omitted(f"item {kind}")


def _output_text(payload: dict[str, Any]) -> str:
    """Return the text of a tool's output, which some versions wrap in JSON."""
    output = payload.get("output")
    if isinstance(output, str) and output.startswith("{"):
        try:
            output = json_source.parse(output)
        except ValueError:
            return str(output)
    if isinstance(output, dict):
        output = output.get("output") or output.get("content")
    return text_of(output)


def _failed(payload: dict[str, Any]) -> bool:
    """Return whether the output of a tool reports a nonzero exit code."""
    output = str(payload.get("output") or "")[:500]
    codes = ('"exit_code":', "Exit code:", "exited with code")
    rest = next((output.partition(code)[2] for code in codes if code in output), "")
    return bool(rest.strip()) and rest.strip()[0] in "123456789-"
