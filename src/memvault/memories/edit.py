"""New text into an old body, everything else left as it is.

What is added ends its lines as the file does (``newline``); what was there
keeps its own line ends, even mixed ones.
"""

from __future__ import annotations

from collections.abc import Callable

from memvault import clock
from memvault.errors import Conflict
from memvault.model import Memory
from memvault.vault.codec import plain_text
from memvault.vault.markdown import headings
from memvault.vault.store import MemoryStore, WriteResult

_ENDS = ("\n", "\r")
_TRIES = 6
"""Times that a change is tried, where an editor saves the file meanwhile."""


def retry_on_conflict(
    store: MemoryStore, memory: Memory, change: Callable[[Memory], WriteResult]
) -> WriteResult:
    """Change a memory; one that an editor has saved meanwhile is read and changed again.

    Raises:
        Conflict: it is saved again and again.
    """
    for _ in range(_TRIES - 1):
        try:
            return change(memory)
        except Conflict:
            memory = store.read(memory.path)
    return change(memory)


def modified_now(memory: Memory) -> dict[str, str]:
    """Return the new time of change for a header that keeps one."""
    return {"modified": clock.iso()} if "modified" in memory.metadata else {}


def modified(body: str, text: str, newline: str, mode: str, section: str) -> str:
    """Return a body with a text put in: ``append``, ``replace`` or ``section``."""
    if mode == "append":
        return append(body, text, newline)
    if mode == "replace":
        return replace_all(body, text, newline)
    return replace_section(body, section, text, newline)


def append(body: str, text: str, newline: str) -> str:
    """Add a text after a blank line at the end of a body."""
    addition = _clean(text, newline)
    if not body.strip():
        return f"{body or newline}{addition}"
    blank = body.endswith(("\n\n", "\r\r", "\n\r\n"))
    gap = "" if blank else newline if body.endswith(_ENDS) else newline * 2
    return f"{body}{gap}{addition}"


def replace_all(body: str, text: str, newline: str) -> str:
    """Put a text in a body's place, after the blank lines that the body began with."""
    lead = body[: len(body) - len(body.lstrip("\r\n"))]
    return f"{lead}{_clean(text, newline)}"


def replace_section(body: str, heading: str, text: str, newline: str) -> str:
    """Replace what stands under a heading, up to the next one of its level or above.

    A heading that is not there is added at the end. Headings are compared
    without case and marks; the first that fits is meant.
    """
    wanted = heading.strip()
    names = {wanted.casefold(), wanted.lstrip("#").strip().casefold()}
    marks = list(headings(body))
    for place, (_, end, level, name) in enumerate(marks):
        if name.casefold() in names:
            after = (start for start, _, other, _ in marks[place + 1 :] if other <= level)
            stop = next(after, len(body))
            line_end = "" if body[:end].endswith(_ENDS) else newline
            rest = body[stop:]
            content = f"{newline}{_clean(text, newline)}" if text.strip() else ""
            return f"{body[:end]}{line_end}{content}{newline if rest else ''}{rest}"
    return append(body, f"## {wanted.lstrip('#').strip()}\n\n{text}", newline)


def _clean(text: str, newline: str) -> str:
    return (plain_text(text).strip("\n") + "\n").replace("\n", newline)
