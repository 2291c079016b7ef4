"""A text cut into what can be read on its own: sentences, items, rows of tables, lines of code.

Obsidian's comments and marks that only draw something are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from memvault.vault.markdown import mask_comments

_FENCE = re.compile(r"[ \t>]*(?:```|~~~)")
_DRAWN = re.compile(r"[\s|:+=*_-]*")
"""A line of a table that parts its head from its rows, or a rule."""
_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+")
_QUOTE = re.compile(r"\A(?:[ \t]*+>)++[ \t]?")
_CELLS = re.compile(r"(?<!\\)\|")
_SENTENCE = re.compile(
    r"(?<=[.!?…])[\"'”’)\]]*\s+(?![a-z])|(?<=[。！？])(?=\S)"  # "e.g. this" goes on
    r"|\n(?=[A-Z][\w.'-]{0,20}(?: [\w.'-]{1,20}){0,2}: \S)"  # who is speaking
)
_SPACE = re.compile(r"\s+")


class TextUnit(NamedTuple):
    """What is shown of it, on one line, and whether it stands alone: all but a sentence does."""

    text: str
    is_alone: bool


def units(text: str) -> list[TextUnit]:
    """Return a text's units in their order."""
    found: list[TextUnit] = []
    block: list[str] = []
    last = ""
    for kind, line in (*_lines(mask_comments(text)), ("", "")):
        goes_on = last == "text" or (last == "item" and line[:1] in (" ", "\t"))
        if block and not (kind == "text" and goes_on):
            found += (unit for unit in _unit_text(last, block) if unit.text)
            block = []
        if kind:
            last = last if block else kind
            block.append(line)
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield lines with what they are; nothing of those that are blank or only drawn."""
    fenced = False
    for line in text.splitlines():
        bare = line if fenced else _QUOTE.sub("", line, count=1)
        if _FENCE.match(line):
            fenced = not fenced
            yield "", ""
        elif fenced:
            yield "code", line
        elif _DRAWN.fullmatch(bare):
            yield "", ""
        else:
            yield _kind(bare), bare


def _kind(line: str) -> str:
    if line.lstrip().startswith("|"):
        return "row"
    if _HEADING.match(line):
        return "heading"
    return "item" if _ITEM.match(line) else "text"


def _unit_text(kind: str, block: list[str]) -> Iterator[TextUnit]:
    if kind == "text":
        yield from (TextUnit(_line(part), False) for part in _SENTENCE.split("\n".join(block)))
    elif kind == "row":
        cells = (_line(cell.replace("\\|", "|")) for cell in _CELLS.split(block[0]))
        yield TextUnit(" | ".join(cell for cell in cells if cell), True)
    elif kind == "code":
        yield TextUnit(_line(block[0]), True)
    else:
        mark = _ITEM if kind == "item" else _HEADING
        yield TextUnit(_line(mark.sub("", " ".join(block), count=1)), True)


def _line(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
