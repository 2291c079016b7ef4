"""Conversations of chat programs, as notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from memvault import clock
from memvault.errors import UsageError
from memvault.importers.items import ImportedNote, Unreadable, note_path
from memvault.lazy_pattern import lazy_pattern
from memvault.memories import create

_EMBED = lazy_pattern(r"!\[\[[^\[\]\n]*+\]\]")


class ChatTurn(NamedTuple):
    """A message of a conversation: who wrote it, and its markdown."""

    speaker: str
    text: str


def conversation(
    place: str,
    key: str,
    title: str,
    turns: Sequence[ChatTurn],
    times: tuple[str, str],
    **header: Any,
) -> ImportedNote | Unreadable:
    """Return a conversation as a note, with secrets masked, unless it has no text.

    ``place`` is where it is in the source; ``times``, in ISO 8601, are its first and its last.
    """
    created, modified = times
    worded = [turn for turn in turns if turn.text.strip()]
    if not worded:
        return Unreadable(place, "its messages have no text" if turns else "it has no messages")
    for text in (title, *(turn.text for turn in worded)):
        try:
            title = create.title_of(_EMBED.sub("", text))
            break
        except UsageError:
            title = "Conversation"
    day = clock.local(created) if created else ""
    body = "\n\n".join(f"## {turn.speaker}\n\n{turn.text.strip()}" for turn in worded)
    path = note_path(f"{day} {title}".strip(), *filter(None, [day[:4]]))
    header |= {"title": title, "created": created, "modified": modified or created}
    return ImportedNote(key, path, body, header, masked=True)
