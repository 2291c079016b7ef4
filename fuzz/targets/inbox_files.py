"""Any file in an inbox is an event or is reported as invalid; a written message reads back."""

from __future__ import annotations

import json

from memvault import clock
from memvault.agents.address import Address
from memvault.agents.messages import message_files
from memvault.agents.messages.inbox import Inbox
from memvault.vault import document
from targets.shapes import HEADER_TOKENS, file_in, folder

TOKENS = (
    *HEADER_TOKENS,
    "type: talk\n",
    "type: plan\n",
    "type: spaceMessage\n",
    "type: service\nname: user\n",
    "timestamp: 2026-01-31T12:00:00.000Z\n",
    "from: bob\n",
    "talkId: 7\n",
    "id: x\n",
)


def check(data: bytes) -> None:
    """Read an inbox that contains the bytes."""
    path = file_in("agents/main/inbox/hello.md")(data)
    inbox = Inbox(folder(), Address("main"))
    events, notes, *_ = inbox.peek()
    assert len(events) == 1 or notes
    for event in events:
        json.dumps(event.data, ensure_ascii=False, allow_nan=False).encode()
        assert clock.parse(event.timestamp) is not None
        assert event.kind
    try:
        message = message_files.read(path)
    except ValueError as error:
        assert str(error)
        assert not events
        return
    assert len(events) == 1
    again = document.Document.parse(document.encode_new(message.header, message.text))
    assert (again.header, again.text) == (message.header, message.text.strip("\n"))
