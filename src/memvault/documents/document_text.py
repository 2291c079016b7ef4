"""Collect the text of a document as markdown with a heading for each page or section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from memvault.importers import convert
from memvault.vault.document import encode_new
from memvault.vault.names import is_identifier

MAX_CHARACTERS = 2_000_000
"""The maximum length of a document's text; the rest is not read."""
_MAX_REPORTED = 5
"""The maximum number of limits to report."""
_GENERIC_TITLE = re.compile(
    r"(?:untitled|document|presentation|powerpoint presentation|book|sheet|slide|title|pdf|none)"
    r"[ \d-]*",
    re.IGNORECASE,
)
_CREATOR = re.compile(r"microsoft (?:word|powerpoint|excel) - ", re.IGNORECASE)
_FILE_NAME = re.compile(r"\S{1,100}\.\w{2,5}")


class UnreadableDocument(ValueError):
    """A document that cannot be read; the message says why."""


class DocumentText:
    """A document's text and properties."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._limits: dict[str, None] = {}
        self.properties: dict[str, str] = {}
        """The known values of ``title``, ``author``, ``created`` and ``modified``."""

    @property
    def is_full(self) -> bool:
        """Whether the text has reached the maximum length."""
        return self._length > MAX_CHARACTERS

    @property
    def has_text(self) -> bool:
        """Whether any section contains text."""
        return self._length > 0

    def add(self, markdown: str, heading: str = "") -> None:
        """Add a section with an optional heading, unless the text is blank."""
        markdown = markdown.strip("\n")
        if markdown.strip():
            self._parts.append(f"## {heading}\n\n{markdown}" if heading else markdown)
            self._length += len(markdown)

    def limit(self, part: str) -> None:
        """Record that only a part, such as "the first 200 columns", is read."""
        self._limits[part] = None

    def set_properties(self, values: Mapping[str, object]) -> None:
        """Set the non-empty properties, except a title that is generic or a file name."""
        title = _CREATOR.sub("", convert.one_line(values.get("title")))
        if not (
            _GENERIC_TITLE.fullmatch(title) or _FILE_NAME.fullmatch(title) or is_identifier(title)
        ):
            self.properties["title"] = title[:300]
        self.properties["author"] = convert.one_line(values.get("author"))[:300]
        for key in ("created", "modified"):
            self.properties[key] = convert.parsed_time(values.get(key))

    def encoded(self) -> bytes:
        """Return the document as the bytes of a markdown file."""
        header: dict[str, Any] = {key: value for key, value in self.properties.items() if value}
        body = "\n\n".join(self._parts)
        if len(body) > MAX_CHARACTERS:
            end = body.rfind("\n", 0, MAX_CHARACTERS)
            body = body[: end if end > 0 else MAX_CHARACTERS]
            self.limit("the first 2 million characters")
        if self._limits:
            header["partly_read"] = ", ".join(islice(self._limits, _MAX_REPORTED))
        return encode_new(header, body)
