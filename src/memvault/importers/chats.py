"""Convert conversations of chat programs to notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from memvault import clock
from memvault.importers import convert, plain_text
from memvault.importers.chat_text import fenced
from memvault.importers.items import ImportedNote, SkippedItem, note_path
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

_NO_TITLE = lazy_pattern(
    r"!?\[\[[^\[\]\n]*+\]\]|^\*\*[^\n]*\*\*(?: \(\w+\))?$|^`{3,}+[^\n]*+$|\\(?=[^\w\s])",
    re.MULTILINE,
)
"""Matches text to strip from titles: images, file names, code fences and backslash escapes."""
_TIME_LENGTH = len("2026-03-01T10:00")
_MAX_GROWN = 4_000_000
"""Maximum number of characters that edits may add to the documents of one conversation."""


class ChatTurn(NamedTuple):
    """A message in a conversation, as markdown, with its time in ISO 8601."""

    speaker: str
    text: str
    time: str = ""


class ChatDocuments:
    """A conversation's documents, such as artifacts and canvases."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[str, str, str]] = {}
        """The title, language and text of each document, by id."""
        self._changed: dict[str, None] = {}
        self._room = _MAX_GROWN

    @property
    def last(self) -> str:
        """Return the id of the most recent document, or an empty string."""
        return next(reversed(self._documents), "")

    def write(self, key: str, title: str, language: str, text: str) -> str:
        """Store a version of a document; return it as markdown."""
        old_title, old_language, _ = self._documents.pop(key, ("", "", ""))
        title, language = title or old_title, language or old_language
        self._documents[key] = (title, language, text)
        self._changed.pop(key, None)
        return with_title(title, fenced(text, language))

    def replace(self, key: str, old: str, new: str, is_every: bool = False) -> str:
        """Replace a part of a document; return the new part as markdown."""
        title, language, text = self._documents.get(key, ("", "", ""))
        count = text.count(old) if old and is_every else int(bool(old) and old in text)
        growth = max(0, count * (len(new) - len(old)))
        if count and growth <= self._room:
            self._room -= growth
            self._documents[key] = (title, language, text.replace(old, new, count))
            self._changed[key] = None
        return with_title(title, fenced(new, language), "changed") if new.strip() else ""

    def last_versions(self) -> Iterator[ChatTurn]:
        """Yield the last version of each document that was edited in parts."""
        for key in self._changed:
            title, language, text = self._documents[key]
            name = plain_text.escaped(title or "Document", is_line=True)
            yield ChatTurn(f"{name}, last version", fenced(text, language))


def with_title(title: str, text: str, about: str = "") -> str:
    """Return text preceded by the name of its file or document."""
    name = plain_text.escaped(title, is_line=True)
    head = " ".join(filter(None, (f"**{name}**" if name else "", f"({about})" if about else "")))
    return f"{head}\n\n{text}" if head else text


def conversation(
    location: str,
    key: str,
    title: str,
    turns: Sequence[ChatTurn],
    created: str,
    modified: str,
    **header: Any,
) -> ImportedNote | SkippedItem:
    """Convert a conversation to a note with masked secrets, or skip it if it has no text.

    ``location`` is its location in the source. Consecutive messages by a speaker share a heading.
    """
    worded = [turn for turn in turns if turn.text.strip()]
    if not worded:
        return SkippedItem(location, "the messages have no text" if turns else "has no messages")
    texts = (title, *(turn.text for turn in worded))
    titles = (convert.title_of(_NO_TITLE.sub("", text)) for text in texts)
    title = next(filter(None, titles), "Conversation")
    day = clock.local(created) if created else ""
    parts: list[str] = []
    speaker = ""
    for turn in worded:
        if turn.speaker != speaker:
            speaker = turn.speaker
            time = turn.time[:_TIME_LENGTH].replace("T", " ")
            parts.append(f"## {speaker} ({time} UTC)" if time else f"## {speaker}")
        parts.append(turn.text.strip("\n"))
    path = note_path(f"{day} {title}".strip(), *filter(None, [day[:4]]))
    header |= {"title": title, "created": created, "modified": modified or created}
    return ImportedNote(key or location, path, "\n\n".join(parts), header, masked=True)
