"""HTML of notes as markdown, by markdownify, and HTML of other files as events; parsed by lxml.

The parser of Python's own library takes minutes for kilobytes of unclosed tags and comments.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from functools import cache
from typing import Any, Protocol

from memvault.lazy_pattern import lazy_pattern

_BLANK_LINES = lazy_pattern(r"\n(?:[ \t]*\n){2,}")
_MAX_LENGTH = 16_000_000
_MAX_TAGS = 100_000
"""Maximum number of tags of one text: each takes two kilobytes of memory while it is converted."""
_MAX_GROWTH, _MIN_GROWN = 20, 1_000_000
"""Maximum length of the markdown: this many times its HTML, or this many characters if that is
more."""
_UNDERSCORES = lazy_pattern(r"(?<!\w)_++|_++(?![^\W_])")
"""Matches underscores that are not within a word, where they are never emphasis."""


def markdown(html: str) -> str:
    """Return HTML as markdown: no scripts and styles, no blank lines in a row.

    Raises:
        ValueError: it is nested too deeply, or too long.
    """
    if len(html) > _MAX_LENGTH or html.count("<") > _MAX_TAGS:
        raise ValueError(f"its HTML has more than {_MAX_LENGTH:,} characters or {_MAX_TAGS:,} tags")
    text = re.sub(r"(?is)<(script|style|head)\b.*?(?:</\1>|\Z)", "", html)
    try:
        with warnings.catch_warnings():  # that it looks like XML, or like an address
            warnings.simplefilter("ignore")
            made = _converter().convert(text)
    except RecursionError as error:
        raise ValueError("its HTML is nested too deeply") from error
    if len(made) > max(_MIN_GROWN, _MAX_GROWTH * len(html)):
        raise ValueError("its HTML becomes a text of many times its length")
    return _BLANK_LINES.sub("\n\n", made.replace("\xa0", " ")).strip()


@cache
def _converter() -> Any:  # noqa: C901  # each method of the class counts
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        """Escapes what would end a cell of a table, and takes linear time for lists and tables."""

        def convert(self, html: str) -> Any:
            self._numbers: defaultdict[int, int] = defaultdict(int)
            """How many items a list had so far, by the identity of the list."""
            self._begun: set[int] = set()
            """The identities of the tables that have a row already."""
            return super().convert(html)

        def should_convert_tag(self, tag: str) -> Any:
            """Return False for tags that share a name with a method that converts no tag."""
            is_tag = tag == "[document]" or (tag.isalnum() and tag not in ("list", "soup"))
            return is_tag and super().should_convert_tag(tag)  # type: ignore[misc]  # untyped

        def convert_li(self, el: Any, text: str, parent_tags: Any) -> Any:  # noqa: ARG002
            """Number an item by a count; markdownify looks at all the items before it."""
            above = el.parent
            self._numbers[id(above)] += 1
            lines = (text or "").strip().split("\n")
            if not any(lines):
                return "\n"
            bullet = "- "
            if above is not None and above.name == "ol":
                start = str(above.get("start") or "1")[:9]
                first = int(start) if start.isdecimal() else 1
                bullet = f"{first + self._numbers[id(above)] - 1}. "
            indent = " " * len(bullet)
            rest = (f"{indent}{line}" if line else "" for line in lines[1:])
            return "\n".join([f"{bullet}{lines[0]}", *rest, ""])

        def convert_tr(self, el: Any, text: str, parent_tags: Any) -> Any:
            """Let markdownify, which searches the table, convert the first row only."""
            table = id(el.find_parent("table") or el.parent)
            if table in self._begun:
                return f"|{text}\n"
            self._begun.add(table)
            return super().convert_tr(el, text, parent_tags)  # type: ignore[misc]  # untyped

        def escape(self, text: str, parent_tags: Any) -> Any:
            """Escape underscores, but none within a word: names stay as they are written."""
            escaped = super().escape(text, parent_tags)  # type: ignore[misc]  # untyped
            return _UNDERSCORES.sub(lambda match: "\\_" * len(match[0]), escaped)

        def convert_td(self, el: Any, text: str, parent_tags: Any) -> Any:
            return super().convert_td(el, text.replace("|", "\\|"), parent_tags)  # type: ignore[misc]  # untyped

        def convert_th(self, el: Any, text: str, parent_tags: Any) -> Any:
            return super().convert_th(el, text.replace("|", "\\|"), parent_tags)  # type: ignore[misc]  # untyped

    return Converter(
        heading_style="ATX",
        bullets="-",
        escape_misc=False,
        escape_underscores=False,
        bs4_options="lxml",
    )


class Target(Protocol):
    """What ``parse`` calls for the tags and texts of HTML."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""

    def end(self, tag: str) -> None:
        """End an element."""

    def data(self, data: str) -> None:
        """Add text."""

    def close(self) -> None:
        """End the document."""


def parse(html: str, target: Target) -> None:
    """Parse HTML of any length, and call a target; elements without an end get one."""
    from lxml.etree import HTMLParser

    parser = HTMLParser(target=target, huge_tree=True)
    parser.feed(html)
    parser.close()
