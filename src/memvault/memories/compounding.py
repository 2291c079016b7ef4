"""New text into an old body, everything else left as it is."""

from __future__ import annotations

from memvault.index import chunks
from memvault.vault.codec import plain_text

__all__ = ["append", "replace_all", "replace_section"]


def append(body: str, text: str) -> str:
    """Add a text after a blank line at the end of a body."""
    addition = _clean(text)
    if not body.strip():
        return f"{body or chr(10)}{addition}"
    newline = "\r\n" if "\r\n" in body else "\n"
    if body.endswith((newline * 2, "\n\n")):
        gap = ""
    else:
        gap = newline if body.endswith("\n") else newline * 2
    return f"{body}{gap}{addition}"


def replace_all(body: str, text: str) -> str:
    """Put a text in a body's place, after the blank lines that the body began with."""
    lead = body[: len(body) - len(body.lstrip("\r\n"))].replace("\r\n", "\n").replace("\r", "\n")
    return f"{lead}{_clean(text)}"


def replace_section(body: str, heading: str, text: str) -> str:
    """Replace what stands under a heading, up to the next one of its level or above.

    A heading that is not there is added at the end. Headings are compared
    without case and marks; the first that fits is meant.
    """
    wanted = heading.strip().lstrip("#").strip()
    marks = list(chunks.headings(body))
    for place, (_, end, level, name) in enumerate(marks):
        if name.casefold() == wanted.casefold():
            after = (start for start, _, other, _ in marks[place + 1 :] if other <= level)
            stop = next(after, len(body))
            line_end = "" if body[:end].endswith(("\n", "\r")) else "\n"
            rest = body[stop:]
            content = f"\n{_clean(text)}" if text.strip() else ""
            return f"{body[:end]}{line_end}{content}{chr(10) if rest else ''}{rest}"
    return append(body, f"## {wanted}\n\n{text}")


def _clean(text: str) -> str:
    return plain_text(text).strip("\n") + "\n"
