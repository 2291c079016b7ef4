"""Edit the text and the header of memories."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from memvault import clock
from memvault.errors import Conflict, UsageError
from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory
from memvault.store.memory_store import MemoryStore, WriteResult
from memvault.vault import header_dates
from memvault.vault.document import plain_text, with_line_feeds
from memvault.vault.sections import find_place

if TYPE_CHECKING:
    from memvault.repository.code_check import CodeCitations

_LINE_ENDINGS = ("\n", "\r")
_LINE = lazy_pattern(r"[^\r\n]*+(?:\r\n?|\n)|[^\r\n]++")
_MAX_ATTEMPTS = 6
"""The maximum number of attempts while an editor keeps saving the file."""


def retry_on_conflict(
    store: MemoryStore, memory: Memory, change: Callable[[Memory], WriteResult]
) -> WriteResult:
    """Change a memory; if another program saved its file, read it again and retry.

    Raises:
        Conflict: the file was saved during every attempt.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return change(memory)
        except Conflict:
            memory = store.read(memory.path)
    return change(memory)


def modified_now(memory: Memory) -> dict[str, Any]:
    """Return the header change that sets the time of the last change, if the header has one."""
    if "modified" in memory.metadata:
        return {"modified": clock.iso()}
    return header_dates.modified_at(memory.metadata, clock.now())


def insert_text(body: str, text: str, newline: str, mode: str, section: str) -> str:
    """Return a body with text inserted by ``append``, ``replace`` or ``section``."""
    if mode == "append":
        return append(body, text, newline)
    if mode == "replace":
        return replace_all(body, text, newline)
    return replace_section(body, section, text, newline)


def append(body: str, text: str, newline: str) -> str:
    """Return a body with text added at the end, after a blank line."""
    addition = _normalized(text, newline)
    if not body.strip():
        return f"{body or newline}{addition}"
    blank = body.endswith(("\n\n", "\r\r", "\n\r\n"))
    gap = "" if blank else newline if body.endswith(_LINE_ENDINGS) else newline * 2
    return f"{body}{gap}{addition}"


def replace_all(body: str, text: str, newline: str) -> str:
    """Return text as the new body, keeping the old body's leading blank lines."""
    lead = body[: len(body) - len(body.lstrip("\r\n"))]
    return f"{lead}{_normalized(text, newline)}"


def replace_section(body: str, heading: str, text: str, newline: str) -> str:
    """Replace the text under a heading, up to the next heading of its level or above.

    ``heading`` may be a path (see ``find_place``). A missing heading is added at the end of the
    section that the path refers to, or else of the body.

    Raises:
        Ambiguous: several sections have the heading.
    """
    section, above = find_place(body, heading)
    if section is None:
        level, end = (min(above.level + 1, 6), above.end) if above else (2, len(body))
        title = (heading.rpartition("/")[2] if above else heading).strip().lstrip("#").strip()
        rest = body[end:]
        added = append(body[:end], f"{'#' * level} {title}\n\n{text}", newline)
        return f"{added}{newline if rest else ''}{rest}"
    _, start, end, *_ = section
    line_end = "" if body[:start].endswith(_LINE_ENDINGS) else newline
    rest = body[end:]
    content = f"{newline}{_normalized(text, newline)}" if text.strip() else ""
    return f"{body[:start]}{line_end}{content}{newline if rest else ''}{rest}"


def form_text(body: str) -> str:
    """Return a body as a form in a browser sends it back, without its leading blank lines."""
    return with_line_feeds(body.lstrip("\r\n")).replace("\0", "\ufffd")


def with_form_text(body: str, text: str, newline: str) -> str:
    """Return a body with an edited ``form_text``; unchanged lines keep their bytes."""
    old, new = (_LINE.findall(part) for part in (body.lstrip("\r\n"), with_line_feeds(text)))
    shown = [line.rstrip("\r\n").replace("\0", "\ufffd") for line in old]
    typed = [line.rstrip("\n") for line in new]
    head = _equal(shown, typed)
    tail = _equal(shown[head:][::-1], typed[head:][::-1])
    unused: defaultdict[str, deque[str]] = defaultdict(deque)
    for number in range(head, len(old) - tail):
        unused[shown[number]].append(old[number])
    changed = [
        unused[line].popleft() if unused[line] else f"{plain_text(line)}{newline}"
        for line in typed[head : len(new) - tail]
    ]
    lines = [*old[:head], *changed, *old[len(old) - tail :]]
    if lines:  # Only the last line may have no line ending.
        lines = [line if line.endswith(_LINE_ENDINGS) else f"{line}{newline}" for line in lines]
        lines[-1] = lines[-1] if text.endswith(_LINE_ENDINGS) else lines[-1].rstrip("\r\n")
    # Without a body, the closing line of the header may have no line ending.
    lead = body[: len(body) - len(body.lstrip("\r\n"))] if body else newline * bool(text)
    return "".join([lead, *lines])


def _equal(old: list[str], new: list[str]) -> int:
    """Return the number of equal lines at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _normalized(text: str, newline: str) -> str:
    return (plain_text(text).strip("\n") + "\n").replace("\n", newline)


def compound(
    store: MemoryStore,
    memory: Memory,
    text: str,
    mode: str,
    section: str,
    kind: str,
    if_match: str,
    citations: CodeCitations | None = None,
) -> WriteResult:
    """Insert text into a memory with ``insert_text``, and change its type if one is given.

    With a type, the text to append may be empty. ``citations`` finds the code that the text cites.

    Raises:
        Conflict: the file has changed since it was read, or does not match ``if_match``.
        UsageError: the text is empty, or the heading of a section is missing.
    """
    if mode == "section" and not section.strip():
        raise UsageError("The heading of the section is missing", "`--section HEADING`")
    is_type_only = not text.strip() and mode == "append" and bool(kind)
    if not text.strip() and mode != "section" and not is_type_only:
        raise UsageError("The text is empty", "pass the text, or - to read standard input")

    def change(memory: Memory) -> WriteResult:
        body = memory.body
        changes = _header_changes(memory, kind)
        if not is_type_only:
            body = insert_text(body, text, memory.newline, mode, section)
        changes |= _cites(citations, memory, text, body)
        return store.change(memory, changes, body, if_match or None, kind or None)

    if if_match or mode == "replace":  # Never overwrite changes that the caller has not seen.
        return change(memory)
    return retry_on_conflict(store, memory, change)


def replace_body(
    store: MemoryStore,
    memory: Memory,
    body: str,
    if_match: str,
    citations: CodeCitations | None = None,
) -> Memory:
    """Write a new body byte for byte, and return the memory.

    ``citations`` finds the code that the body cites.

    Raises:
        Conflict: the file does not match ``if_match``.
    """
    changes = {**modified_now(memory), **_cites(citations, memory, body, body)}
    return store.change(memory, changes, body, if_match).memory


def update(
    store: MemoryStore,
    memory: Memory,
    title: str,
    text: str,
    kind: str,
    header: Mapping[str, Any],
    citations: CodeCitations | None = None,
) -> WriteResult:
    """Replace the title, the text, the given header keys and, if given, the type of a memory.

    ``citations`` finds the code that the title and the text mention.

    Raises:
        Conflict: the file was changed since the memory was read.
    """
    changes = {**header, **_header_changes(memory, kind)}
    if title != memory.title:
        changes["title"] = title
    body = replace_all(memory.body, text, memory.newline)
    changes |= _cites(citations, memory, f"{title}\n{text}", body)
    return store.change(memory, changes, body, memory_type=kind or None)


def _cites(citations: CodeCitations | None, memory: Memory, text: str, body: str) -> dict[str, Any]:
    if citations is None:
        return {}
    from memvault.memories.cited_code import changed_cites

    return changed_cites(citations, memory, text, body)


def _header_changes(memory: Memory, kind: str) -> dict[str, Any]:
    changed = {"memory_type": kind} if kind and kind != memory.memory_type else {}
    return {**modified_now(memory), **changed}
