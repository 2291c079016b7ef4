"""HTML of notes as markdown, by markdownify."""

from __future__ import annotations

import re

from memvault.lazy_pattern import lazy_pattern

_BLANK_LINES = lazy_pattern(r"\n(?:[ \t]*\n){2,}")


def markdown(html: str) -> str:
    """Return HTML as markdown: no scripts and styles, no blank lines in a row.

    Raises:
        ValueError: it is nested too deeply.
    """
    from markdownify import markdownify

    text = re.sub(r"(?is)<(script|style|head)\b.*?(?:</\1>|\Z)", "", html)
    try:
        made = markdownify(text, heading_style="ATX", bullets="-", escape_misc=False)
    except RecursionError as error:
        raise ValueError("its HTML is nested too deeply") from error
    return _BLANK_LINES.sub("\n\n", made.replace("\xa0", " ")).strip()
