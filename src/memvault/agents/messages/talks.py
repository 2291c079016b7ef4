"""Talk: messages from one participant to another, each with a number to answer to."""

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
from memvault.agents.messages.inbox import TALK, Event, Inbox
from memvault.errors import NotFound, Refused
from memvault.files import atomic, plain_files
from memvault.files.lock import FileLock
from memvault.files.plain_files import STATE
from memvault.secrets import detector
from memvault.vault.paths import private_folder

if TYPE_CHECKING:
    from memvault.store.writer import VaultWriter

_BEGINNING = 1_767_225_600_000
"""The first moment of 2026 in milliseconds: talkIds count from there, to stay short."""
_WRAP = 2**53
"""No talkId reaches this: JSON readers count in floating point. After it they begin at 1."""
_KEPT = 1_000
_LARGEST_LOG = 4 * 1024 * 1024


class TalkLog:
    """What one participant said to others and heard from them, as far as this machine knows."""

    def __init__(self, changes: VaultWriter, me: Address) -> None:
        self._changes = changes
        self._root = changes.root
        self._me = me

    def send(self, to: Address, message: str, in_reply_to: int | None = None) -> int:
        """Deliver a message to a participant's inbox and return its talkId.

        Raises:
            UsageError: the message is empty.
            StorageError: the disk refused.
        """
        text = message_files.checked_text(message)
        talk_id = next_id(self._root)
        self._note("sent", [(talk_id, str(to))])
        data: dict[str, Any] = {"from": str(self._me), "talkId": talk_id, "message": text}
        if in_reply_to:
            data["inReplyTo"] = in_reply_to
        Inbox(self._root, to).deliver(TALK, data, changes=self._changes)
        return talk_id

    def answer(self, talk_id: int, message: str, inbox: Inbox) -> int:
        """Answer whoever sent a talkId to this participant; return the answer's own talkId.

        Raises:
            NotFound: no such talk was received.
        """
        sender = self._sender(talk_id, inbox)
        if sender is None:
            raise NotFound(
                f"{self._me} has received no talk {talk_id}",
                "memvault inbox peek shows a talk with its number",
            )
        return self.send(sender, message, talk_id)

    def record_received(self, events: Iterable[Event]) -> None:
        """Keep in mind who sent which talkId, so that it can be answered."""
        talks = [
            (number, str(event.data.get("from", "")))
            for event in events
            if event.kind == TALK and (number := _number(event.data.get("talkId")))
        ]
        if talks:
            self._note("heard", talks)

    def has_talked_to(self, other: Address, talk_id: int = 0) -> bool:
        """Say whether this participant sent a message to another one before.

        With a talkId, whether that one; what was sent longer ago than the
        record goes back counts as sent.
        """
        sent = self._record()["sent"]
        numbers = [number for number, name in sent if name == str(other)]
        forgotten = len(sent) >= _KEPT and talk_id < min(numbers, default=0)
        return bool(numbers) and (not talk_id or talk_id in numbers or forgotten)

    def log(self, severity: str, message: str) -> int:
        """Append to this participant's log, secrets masked, and return the line's talkId.

        Raises:
            Refused: the log is a link, or no file.
            StorageError: the disk refused.
        """
        text = message_files.checked_text(message)
        talk_id = next_id(self._root)
        told = detector.masked(text)
        line = {"time": clock.iso(), "severity": severity, "message": told, "talkId": talk_id}
        data = sanitize.safe_json(line).encode()  # people read it with tail
        path = self._me.private(self._root) / "log.jsonl"
        with agent_lock(self._root, self._me), atomic.map_os_errors(path):
            if path.is_file() and path.lstat().st_size > _LARGEST_LOG:
                path.replace(path.with_name("log.1.jsonl"))
            atomic.append_line(path, data)
        return talk_id

    def _sender(self, talk_id: int, inbox: Inbox) -> Address | None:
        heard = dict(self._record()["heard"])
        if talk_id in heard:
            return address(heard[talk_id])
        for event in inbox.peek():
            if event.kind == TALK and _number(event.data.get("talkId")) == talk_id:
                return address(str(event.data.get("from", "")))
        return None

    def _note(self, which: str, talks: list[tuple[int, str]]) -> None:
        with agent_lock(self._root, self._me):
            record = self._record()
            talks = [*record[which], *talks]
            early, late = talks[:-_KEPT], talks[-_KEPT:]
            recent = {name for _, name in late}
            # Whom it talked to once, it may wait for.
            last = {
                name: number for number, name in early if which == "sent" and name not in recent
            }
            record[which] = [*((number, name) for name, number in last.items()), *late]
            path = self._me.private(self._root) / "talks.json"
            atomic.write(path, json.dumps(record).encode())

    def _record(self) -> dict[str, list[tuple[int, str]]]:
        """Return the record; one that is missing or damaged is empty."""
        found: dict[str, list[tuple[int, str]]] = {"sent": [], "heard": []}
        with contextlib.suppress(
            OSError, ValueError, TypeError, AttributeError, RecursionError, Refused
        ):
            folder = message_files.inside(self._root, self._me.private(self._root))
            record = json.loads(plain_files.read(folder / "talks.json", STATE))
            for which in found:
                found[which] = [(int(number), str(name)) for number, name in record.get(which, ())]
        return found


def next_id(root: Path) -> int:
    """Return a talkId: never 0, and above all that were given in this vault on this machine.

    It is the time in milliseconds since 2026, and is past when it is returned: the
    next one is above it even if the record of the last one was deleted in between.
    """
    folder = private_folder(root)
    path = folder / "talk-id"
    with FileLock(folder / "talk.lock"):
        try:
            last = int(plain_files.read(path, STATE))
        except (OSError, ValueError):
            last = 0
        now = int(clock.now().timestamp() * 1000) - _BEGINNING
        fresh = max(1, now, last + 1)
        if fresh >= _WRAP:
            fresh = 1
        atomic.write(path, str(fresh).encode())
        if fresh == now:
            time.sleep(0.001)
    return fresh


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
