"""HTML of notes as markdown, by markdownify."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from memvault.lazy_pattern import lazy_pattern

_BLANK_LINES = lazy_pattern(r"\n(?:[ \t]*\n){2,}")
_UNDERSCORES = lazy_pattern(r"(?<!\w)_++|_++(?![^\W_])")
"""Matches underscores that are not within a word, where they are never emphasis."""


def markdown(html: str) -> str:
    """Return HTML as markdown: no scripts and styles, no blank lines in a row.

    Raises:
        ValueError: it is nested too deeply.
    """
    text = re.sub(r"(?is)<(script|style|head)\b.*?(?:</\1>|\Z)", "", html)
    try:
        made = _converter().convert(text)
    except RecursionError as error:
        raise ValueError("its HTML is nested too deeply") from error
    return _BLANK_LINES.sub("\n\n", made.replace("\xa0", " ")).strip()


@cache
def _converter() -> Any:
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        """Escapes what would end a cell of a table."""

        def escape(self, text: str, parent_tags: Any) -> Any:
            """Escape underscores, but none within a word: names stay as they are written."""
            escaped = super().escape(text, parent_tags)  # type: ignore[misc]  # untyped
            return _UNDERSCORES.sub(lambda match: "\\_" * len(match[0]), escaped)

        def convert_td(self, el: Any, text: str, parent_tags: Any) -> Any:
            return super().convert_td(el, text.replace("|", "\\|"), parent_tags)  # type: ignore[misc]  # untyped

        def convert_th(self, el: Any, text: str, parent_tags: Any) -> Any:
            return super().convert_th(el, text.replace("|", "\\|"), parent_tags)  # type: ignore[misc]  # untyped

    return Converter(heading_style="ATX", bullets="-", escape_misc=False, escape_underscores=False)
