"""Send messages from one participant to another; replies refer to a message by its number."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault import clock, sanitize
from memvault.agents.address import Address, address, agent_lock
from memvault.agents.messages import message_files
from memvault.agents.messages.inbox import Event, Inbox
from memvault.agents.messages.service_names import TALK
from memvault.errors import NotFound, Refused
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.files.plain_files import MAX_STATE_BYTES
from memvault.vault.private_folder import private_folder

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter

_EPOCH_MS = 1_767_225_600_000
"""The start of 2026 in milliseconds; talkIds count from this time, which keeps them short."""
_MAX_TALK_ID = 2**53
"""The limit of exact integers in JSON parsers; talkIds restart at 1 when they reach it."""
_MAX_AHEAD_MS = 86_400_000
_MAX_RECORDED = 1_000
_MAX_LOG_BYTES = 4 * 1024 * 1024


class TalkLog:
    """The talks that one participant sent and received, according to this machine's record."""

    def __init__(self, changes: VaultWriter, me: Address) -> None:
        self._changes = changes
        self._root = changes.root
        self._me = me

    def send(self, to: Address, message: str, in_reply_to: int | None = None) -> int:
        """Deliver a message to a participant's inbox and return its talkId.

        Raises:
            UsageError: the message is empty.
            StorageError: the message cannot be written.
        """
        text = message_files.checked_text(message)
        received = (number for number, name in self._record()["received"] if name == str(to))
        talk_id = next_id(self._root, max(received, default=0))
        self._note("sent", [(talk_id, str(to))])
        data: dict[str, Any] = {"from": str(self._me), "talkId": talk_id, "message": text}
        if in_reply_to:
            data["inReplyTo"] = in_reply_to
        Inbox(self._root, to).deliver(TALK, data, changes=self._changes)
        return talk_id

    def answer(self, talk_id: int, message: str, inbox: Inbox) -> int:
        """Reply to the sender of a received talk, and return the reply's own talkId.

        Raises:
            NotFound: no such talk was received.
        """
        sender = self._sender(talk_id, inbox)
        if sender is None:
            raise NotFound(
                f"{self._me} received no talk {talk_id}",
                "run `memvault inbox list` to see the talk ids",
            )
        return self.send(sender, message, talk_id)

    def record_received(self, events: Iterable[Event]) -> None:
        """Record the senders of received talks, so this participant can answer them."""
        talks = [
            (number, str(event.data.get("from", "")))
            for event in events
            if event.kind == TALK and (number := _number(event.data.get("talkId")))
        ]
        if talks:
            self._note("received", talks)

    def has_talked_to(self, other: Address, talk_id: int = 0) -> bool:
        """Return whether this participant has sent a message to another participant.

        With a talkId, return whether that message was sent; a talk older than the record counts as
        sent.
        """
        sent = self._record()["sent"]
        numbers = [number for number, name in sent if name == str(other)]
        forgotten = len(sent) >= _MAX_RECORDED and talk_id < min(numbers, default=0)
        return bool(numbers) and (not talk_id or talk_id in numbers or forgotten)

    def log(self, severity: str, message: str) -> int:
        """Append a line to this participant's log, with secrets masked, and return its talkId.

        Raises:
            Refused: the log is a link, or not a regular file.
            StorageError: the line cannot be written.
        """
        text = message_files.checked_text(message)
        talk_id = next_id(self._root)
        masked_text = self._changes.detector.masked(text)
        line = {
            "time": clock.iso(),
            "severity": severity,
            "message": masked_text,
            "talkId": talk_id,
        }
        data = sanitize.safe_json(line).encode()  # People read the log with tail.
        path = self._me.private(self._root) / "log.jsonl"
        with agent_lock(self._root, self._me), atomic.map_os_errors(path):
            if path.is_file() and path.lstat().st_size > _MAX_LOG_BYTES:
                path.replace(path.with_name("log.1.jsonl"))
            atomic.append_line(path, data)
        return talk_id

    def _sender(self, talk_id: int, inbox: Inbox) -> Address | None:
        received = dict(self._record()["received"])
        if talk_id in received:
            return address(received[talk_id])
        for event in inbox.peek().events:
            if event.kind == TALK and _number(event.data.get("talkId")) == talk_id:
                return address(str(event.data.get("from", "")))
        return None

    def _note(self, which: str, talks: list[tuple[int, str]]) -> None:
        with agent_lock(self._root, self._me):
            record = self._record()
            talks = [*record[which], *talks]
            early, late = talks[:-_MAX_RECORDED], talks[-_MAX_RECORDED:]
            recent = {name for _, name in late}
            # A participant may wait for a reply to any talk that it ever sent.
            last = {
                name: number for number, name in early if which == "sent" and name not in recent
            }
            record[which] = [*((number, name) for name, number in last.items()), *late]
            path = self._me.private(self._root) / "talks.json"
            atomic.write(path, json.dumps(record).encode())

    def _record(self) -> dict[str, list[tuple[int, str]]]:
        """Return the record; empty if it is missing or damaged."""
        result: dict[str, list[tuple[int, str]]] = {"sent": [], "received": []}
        with contextlib.suppress(Refused, TypeError, ValueError, OverflowError):
            folder = message_files.inside(self._root, self._me.private(self._root))
            record = plain_files.read_json(folder / "talks.json")
            for which in result:
                result[which] = [(int(number), str(name)) for number, name in record.get(which, ())]
        return result


def next_id(root: Path, latest_received: int = 0) -> int:
    """Return a new talkId, never 0 and greater than all earlier ones of this vault and machine.

    It is also greater than ``latest_received``, which may come from a machine whose clock is up to
    a day ahead. The talkId is the time in milliseconds since 2026. The function returns only once
    that time has passed, so the next talkId is greater even if the record of the last one was
    deleted in between.
    """
    folder = private_folder(root)
    path = folder / "talk-id"
    with FileLock(folder / "talk.lock"):
        try:
            last = int(plain_files.read(path, MAX_STATE_BYTES))
        except (OSError, ValueError):
            last = 0
        now = int(clock.now().timestamp() * 1000) - _EPOCH_MS
        last = max(last, latest_received if latest_received < now + _MAX_AHEAD_MS else 0)
        fresh = max(1, now, last + 1)
        if fresh >= _MAX_TALK_ID:
            fresh = 1
        atomic.write(path, str(fresh).encode())
        if fresh == now:
            time.sleep(0.001)
    return fresh


def is_later(talk_id: Any, other: int) -> bool:
    """Return whether a talkId was created after another one, even if talkIds restarted."""
    return 0 < (_number(talk_id) - other) % _MAX_TALK_ID < _MAX_TALK_ID // 2


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
