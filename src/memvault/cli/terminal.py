"""Display text on a terminal: render markdown, highlight matches, and use a pager."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from memvault import process, sanitize
from memvault.errors import UsageError
from memvault.recall.matched_words import marked_pieces, query_terms

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline

_DEFAULT_PAGER = "less"
_COLORS = re.compile(r"\x1b\[[0-9;]*m")


def exceeds_screen(lines: Sequence[str]) -> bool:
    """Return whether lines, wrapped at the terminal's width, need more rows than it has."""
    columns, rows = shutil.get_terminal_size()
    widths = (cell_len(_COLORS.sub("", line)) for line in lines)
    return sum(1 + max(0, width - 1) // columns for width in widths) >= rows


def show(text: str, root: Path | None) -> bool:
    """Show text in the pager from MEMVAULT_PAGER or PAGER; return whether that worked.

    The default is less, which exits by itself if the text fits on the screen. An empty value or
    ``cat`` disables the pager. Folders in the vault at ``root`` are not searched for it.
    """
    roots = () if root is None else (root,)
    environment = {"LESS": "FRX", **process.environment(*roots)}
    command = environment.get("MEMVAULT_PAGER", environment.get("PAGER", _DEFAULT_PAGER))
    try:
        argv = process.words_of(command, "the pager")
        if not argv or argv == ["cat"]:
            return False
        return process.run_interactive(argv, environment, text) == 0
    except UsageError:
        return False


Piece = tuple[str, str]
_LEAD = re.compile(r" *(?:> )?")
_PART = re.compile(r"\S+(?: \S+)*")
"""Matches a part of a line, such as a title, a path or a date; two spaces separate parts."""
_NON_SPACE = re.compile(r"\S+")
_MAX_RENDERED = 200_000
"""Maximum number of characters of markdown to render; longer documents are shown as they are."""


def markdown(text: str, width: int) -> list[list[Piece]]:
    """Render markdown for a terminal of the given width, as lines of (text, style) pieces.

    As in Obsidian, line breaks are preserved. Nothing is hidden, including HTML, link definitions
    and the source of images, so people see everything that an agent reads.
    """
    shown = sanitize.escape_text(text)
    plain = [[(line, "")] for line in shown.splitlines()]
    if len(shown) > _MAX_RENDERED:
        return plain
    from markdown_it import MarkdownIt
    from rich.console import Console
    from rich.markdown import Markdown

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    parser.inline.ruler.at("image", _image_source)
    parsed = parser.disable("reference").parse(shown)
    if any(token.level >= parser.options["maxNesting"] - 1 for token in parsed):
        return plain  # The parser drops blocks that are nested too deeply.
    for token in parsed:
        for child in token.children or ():
            child.type = "hardbreak" if child.type == "softbreak" else child.type
    whole = Markdown("", hyperlinks=False)
    whole.parsed = parsed
    console = Console(width=width, force_terminal=True, color_system="standard")
    lines = console.render_lines(whole, pad=False)
    return [[(part.text, str(part.style or "")) for part in line] for line in lines]


def _image_source(state: StateInline, silent: bool) -> bool:
    """Parse an image as its source text; rich would show a symbol at the line's beginning."""
    from markdown_it.rules_inline import image

    start = state.pos
    if not image(state, silent=True):
        return False
    if not silent:
        state.push("text", "", 0).content = state.src[start : state.pos]
    return True


def wrap(line: list[Piece], width: int) -> list[list[Piece]]:
    """Wrap a line to a width in cells, between its parts or, in a long part, its words.

    Rows after the first are indented; in a quoted passage, they begin with ``> ``. A word longer
    than a row is not broken.
    """
    text = "".join(piece for piece, _ in line)
    if cell_len(text) <= width:
        return [line]
    lead = _LEAD.match(text)
    assert lead is not None
    indent = lead[0] if lead[0].endswith("> ") else f"{lead[0]}  "
    rows: list[list[Piece]] = []
    begin, end, room = 0, lead.end(), width
    for start, stop in _unbroken(text, lead.end(), width - len(indent)):
        if end > lead.end() and cell_len(text[begin:stop]) > room:
            rows.append(_cut(line, begin, end))
            begin, room = start, width - len(indent)
        end = stop
    rows.append(_cut(line, begin, end))
    return [rows[0], *([(indent, ""), *row] for row in rows[1:])]


def _unbroken(text: str, begin: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield the spans that stay unbroken: parts that fit in a row, and words of longer parts."""
    for part in _PART.finditer(text, begin):
        if cell_len(part[0]) <= width:
            yield part.span()
        else:
            yield from (word.span() for word in _NON_SPACE.finditer(text, *part.span()))


def _cut(line: list[Piece], begin: int, end: int) -> list[Piece]:
    """Return the pieces of a line from one position to another."""
    cut: list[Piece] = []
    position = 0
    for text, style in line:
        piece = text[max(0, begin - position) : max(0, end - position)]
        if piece:
            cut.append((piece, style))
        position += len(text)
    return cut


def highlight(line: list[Piece], query: str) -> list[Piece]:
    """Return a line with the words that match the query in bold."""
    terms = query_terms(query)
    return [piece for text, style in line for piece in _pieces(text, style, terms)]


def _pieces(text: str, style: str, terms: list[str]) -> list[Piece]:
    bold = f"{style} bold".strip()
    return [(piece, bold if hit else style) for piece, hit in marked_pieces(text, terms)]
