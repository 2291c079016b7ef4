"""Conversations of chat programs, as notes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.importers.items import ImportedNote, note_path
from memvault.memories import create


class ChatTurn(NamedTuple):
    """A message of a conversation: who wrote it, and its markdown."""

    speaker: str
    text: str


def conversation(
    key: str, title: str, turns: Iterable[ChatTurn], created: str, modified: str, **header: Any
) -> ImportedNote | None:
    """Return a conversation as a note, with secrets masked; None if nothing was said.

    ``created`` and ``modified`` are ISO 8601.
    """
    said = [turn for turn in turns if turn.text.strip()]
    if not said:
        return None
    for text in (title, *(turn.text for turn in said)):
        try:
            title = create.title_of(text)
            break
        except UsageError:
            title = "Conversation"
    day = clock.local(created) if created else ""
    body = "\n\n".join(f"## {turn.speaker}\n\n{turn.text.strip()}" for turn in said)
    path = note_path(f"{day} {title}".strip(), *filter(None, [day[:4]]))
    times = {"created": created, "modified": modified or created}
    return ImportedNote(key, path, body, {"title": title, **header, **times}, masked=True)
