"""Name the page or section of a document, and find it by that name."""

from __future__ import annotations

from memvault.lazy_pattern import lazy_pattern
from memvault.model import Memory

_HEADING = lazy_pattern(r"#{1,6} ([^\n]+)")
_NUMBERED = lazy_pattern(r"(?:Page|Slide) (\d+)")
_PAGE = lazy_pattern(r"page=(\d{1,9})")


def place_at(memory: Memory, line: int) -> str:
    """Return the place of a line of a document's text, such as ``report.pdf#page=3``."""
    body, end = memory.body, 0
    for _ in range(line - memory.body_line + 1):
        end = body.find("\n", end) + 1 or len(body)
    start = body.rfind("\n#", 0, end) + 1
    heading = _HEADING.match(body, start)
    if heading is None:
        return memory.path
    number = _NUMBERED.fullmatch(heading[1])
    return f"{memory.path}#{f'page={number[1]}' if number else heading[1].strip()}"


def heading_of(anchor: str, body: str) -> str:
    """Return the heading that the part of a place after ``#`` refers to, such as ``Page 3``."""
    page = _PAGE.fullmatch(anchor)
    if page is None:
        return anchor
    return f"{'Slide' if body.lstrip().startswith('## Slide ') else 'Page'} {int(page[1])}"
