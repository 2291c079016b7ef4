"""Read the text of PDF files with PDFium."""

from __future__ import annotations

import re
from typing import Any

from memvault.documents.document_text import DocumentText, UnreadableDocument
from memvault.importers.plain_text import escaped

_SIGN = b"%PDF-"
_MAX_PAGES = 20_000
_DATE = re.compile(
    r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?|Z)?", re.ASCII
)
_HYPHEN = re.compile("[\x02\ufffe\u00ad]\r?\n?")
"""Matches a hyphen that the authoring program inserted at the end of a line."""
_GLYPHS = re.compile("[\ue000-\uf8ff]")
"""Matches private-use characters, whose meaning depends on the font."""
_SENTENCE_ENDS = (".", "!", "?", ":", "。", "！", "？")
_SHORT = 0.8
"""A line shorter than this fraction of the page's long lines ends a paragraph."""


def read(data: bytes) -> DocumentText:
    """Return the text, with a section for each page.

    Raises:
        UnreadableDocument: the file is encrypted, damaged or has no text.
    """
    import pypdfium2

    if _SIGN not in data[:1024]:
        raise UnreadableDocument("it is not a PDF file")
    try:
        file = pypdfium2.PdfDocument(data)
        count = len(file)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise UnreadableDocument("it is password-protected") from error
        raise UnreadableDocument("it is damaged") from error
    text = DocumentText()
    values = file.get_metadata_dict()
    text.set_properties(
        {
            "title": values.get("Title"),
            "author": values.get("Author"),
            "created": _time(values.get("CreationDate", "")),
            "modified": _time(values.get("ModDate", "")),
        }
    )
    if count > _MAX_PAGES:
        text.limit(f"the first {_MAX_PAGES:,} pages")
    for number in range(min(count, _MAX_PAGES)):
        text.add(_page_text(file, number, pypdfium2.PdfiumError), f"Page {number + 1}")
        if text.is_full:
            break
    if not text.has_text:
        raise UnreadableDocument("it has no text, only images")
    return text


def _page_text(file: Any, number: int, failure: type[Exception]) -> str:
    try:
        page = file[number]
        text_page = page.get_textpage()
        lines = _HYPHEN.sub("", text_page.get_text_bounded()).splitlines()
        text_page.close()
        page.close()
    except failure:  # a damaged page
        return ""
    return escaped(_joined([" ".join(_GLYPHS.sub(" ", line).split()) for line in lines]))


def _joined(lines: list[str]) -> str:
    """Join the lines of each paragraph, which ends with a short line or a sentence."""
    lengths = sorted(len(line) for line in lines if line)
    wide = lengths[len(lengths) * 4 // 5] if lengths else 0
    text, ending = "", ""
    for line in filter(None, lines):
        text += f"{ending}{line}"
        is_short = len(line) < _SHORT * wide
        ending = "\n\n" if is_short and line.endswith(_SENTENCE_ENDS) else "\n" if is_short else " "
    return text


def _time(value: str) -> str:
    """Convert a PDF date to ISO 8601, or to an empty string if it is invalid."""
    match = _DATE.match(value)
    if match is None:
        return ""
    year, month, day, hour, minute, second, sign, hours, minutes = match.groups()
    zone = f"{sign}{hours}:{minutes or '00'}" if sign else "Z"
    time = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    return f"{year}-{month or '01'}-{day or '01'}T{time}{zone}"
