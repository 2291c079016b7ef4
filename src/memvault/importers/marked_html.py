"""HTML that a reader makes of a program's own format, with links to ids, tasks and markdown."""

from __future__ import annotations

import html
import re

from memvault.importers import html_markdown, values
from memvault.lazy_pattern import lazy_pattern

_PART, _DONE, _OPEN = "\ue000", "\ue001", "\ue002"
"""Private characters, which no text has: they surround a part's number, and begin a task."""
_PRIVATE = str.maketrans("", "", _PART + _DONE + _OPEN)
_MARKED = lazy_pattern("\ue000([0-9]+)\ue000")


class MarkedHtml:
    """Makes the parts of the HTML of one note, and the markdown of it."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, str, bool] | str] = []

    @staticmethod
    def text(text: str) -> str:
        """Return text as HTML."""
        return html.escape(text.translate(_PRIVATE))

    @staticmethod
    def task(is_done: bool) -> str:
        """Return the mark at the beginning of an item that is a task."""
        return _DONE if is_done else _OPEN

    def link(self, ref: str, shown: str, is_embed: bool = False) -> str:
        """Return a link to an id of the source, as ``values.id_link``."""
        return self._part((ref, shown, is_embed))

    def raw(self, text: str) -> str:
        """Return markdown that is kept as it is."""
        return self._part(text)

    def _part(self, part: tuple[str, str, bool] | str) -> str:
        self._parts.append(part)
        return f"{_PART}{len(self._parts) - 1}{_PART}"

    def markdown(self, made: str) -> str:
        """Return HTML of such parts as markdown; raises ``ValueError`` as ``html_markdown``."""
        text = _MARKED.sub(self._written, html_markdown.markdown(made))
        return text.replace(_DONE, "[x] ").replace(_OPEN, "[ ] ")

    def _written(self, match: re.Match[str]) -> str:
        part = self._parts[int(match[1])]
        if isinstance(part, str):
            return part
        ref, shown, is_embed = part
        return values.id_link(ref, shown, match, is_embed)
