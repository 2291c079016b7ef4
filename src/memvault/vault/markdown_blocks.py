"""Parse a markdown text into blocks, as CommonMark and GFM define them.

A line-by-line parser with one pass and source positions: quotes, list items, fenced and indented
code, HTML, headings, tables, paragraphs and link reference definitions. It builds no tree;
``Blocks`` has only what memvault uses. ``tests/test_markdown.py`` compares it with markdown-it-py,
which takes three times as long and has no positions within a block.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import pairwise

from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

Span = tuple[int, int]
"""The start and end of part of the text."""


class Definition(NamedTuple):
    """A link reference definition ``[label]: target``; ``target`` is as written.

    ``target_span`` is the position of the target without angle brackets.
    """

    label: str
    target: str
    span: Span
    target_span: Span


class Blocks:
    """The blocks of a document.

    ``flat`` is the text with spaces in place of code blocks, HTML blocks, definitions and quote
    markers; positions are the same as in the text. ``segments`` contains the parts with inline
    content, ``definitions`` maps labels to definitions, and ``tasks`` are the positions of task
    marks. ``line_starts`` contains the starts of the lines, and ``code_lines`` has a 1 for each
    line in a code block. ``headings`` contains the numbers of lines that are ``#`` headings outside
    of quotes and lists. ``html`` contains the HTML blocks with tags, and ``comments`` are the HTML
    comments.
    """

    def __init__(self, text: str, scanned: _Scanner) -> None:
        flat = masked(text, scanned.blanks)
        self.definitions: list[Definition] = []
        self.segments: list[Span] = scanned.segments
        spans: list[Span] = []
        for index in scanned.with_definitions:
            start, end = self.segments[index]
            behind = _behind_definitions(flat, start, end, self.definitions)
            self.segments[index] = (behind, end)
            spans.append((start, behind))
        self.flat = masked(flat, spans)
        self.line_starts = scanned.line_starts
        self.code_lines = scanned.code_lines
        self.headings = scanned.headings
        self.tasks = scanned.tasks
        self.html = scanned.html
        self.comments = scanned.comments

    def line_span(self, number: int) -> Span:
        """Return the position of a line, including its line end."""
        starts = self.line_starts
        end = starts[number + 1] if number + 1 < len(starts) else len(self.flat)
        return starts[number], end


_LINE_END = lazy_pattern(r"\r\n?|\n")
_NOT_LINE_END = lazy_pattern(r"[^\n\r]")
_INDENT = lazy_pattern(r"[ \t]*+")
_ATX = lazy_pattern(r"#{1,6}(?=[ \t]|\Z)")
_FENCE = lazy_pattern(r"(`{3,}+)(?!.*`)|(~{3,}+)", re.DOTALL)
_RULE = lazy_pattern(r"(?:(?:\*[ \t]*+){3,}+|(?:-[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)\Z")
_UNDERLINE = lazy_pattern(r"(?:=++|-++)[ \t]*+\Z")
_MARKER = lazy_pattern(r"(?:[-+*]|(\d{1,9})[.)])(?=[ \t]|\Z)", re.ASCII)
_DELIMITER_ROW = lazy_pattern(
    r"(?![-][ \t])\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+\Z"
)
_PIPE = lazy_pattern(r"(?<!\\)\|")
_TASK = lazy_pattern(r"\[([^\]\r\n])\][ \t]+(?=[^\s])")
_TAG_NAMES = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|"
    "dialog|dir|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|"
    "hr|html|iframe|legend|li|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|"
    "search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|track|ul"
)
_ATTRIBUTES = (
    r"(?:\s++[A-Za-z_:][\w.:-]*+"
    r"(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']{0,999}+'|\"[^\"]{0,999}+\"))?+){0,99}+"
)
OPEN_TAG = rf"<[A-Za-z][A-Za-z0-9-]*+{_ATTRIBUTES}\s*+/?+>"
"""The pattern of an opening HTML tag, as CommonMark defines it; for ``re.ASCII``."""
CLOSE_TAG = r"</[A-Za-z][A-Za-z0-9-]*+\s*+>"
_RAW = lazy_pattern(r"<(?:script|pre|style|textarea)(?=[\s>]|\Z)", re.IGNORECASE | re.ASCII)
_RAW_END = lazy_pattern(r"</(?:script|pre|style|textarea)>", re.IGNORECASE | re.ASCII)
_NAMED = lazy_pattern(rf"</?(?:{_TAG_NAMES})(?=\s|/?>|\Z)", re.IGNORECASE | re.ASCII)
_ANY_TAG = lazy_pattern(rf"(?:{OPEN_TAG}|{CLOSE_TAG})[ \t]*+\Z", re.ASCII)
_DECLARATION = lazy_pattern(r"<![A-Za-z]")
_LABEL = r"\[(?P<label>(?:[^\[\]\\]++|\\.){1,999}+)\]"
_PIECE = r"[^()\\\x00-\x20]++|\\[!-/:-@\[-`{-~]|\\"
PARENTHESES = _PIECE
"""The pattern of a piece of a destination without angle brackets; parentheses are balanced."""
for _ in range(4):
    PARENTHESES = rf"{_PIECE}|\((?:{PARENTHESES})*+\)"
TITLE = (
    r"(?:\"(?:[^\"\\]++|\\.){0,499}+\"|'(?:[^'\\]++|\\.){0,499}+'|\((?:[^()\\]++|\\.){0,499}+\))"
)
"""The pattern of a link's title with its quotes; for ``re.DOTALL``."""
_DEFINITION = lazy_pattern(
    rf"[ \t]*+{_LABEL}:[ \t]*+(?:(?:\r\n?|\n)[ \t]*+)?+"
    r"(?:<(?P<bracketed>(?:[^<>\\\n\r]++|\\[^\n\r])*+)>"
    rf"|(?P<bare>(?!<)(?:{PARENTHESES})++))(?=[ \t\r\n]|\Z)"
    rf"(?:(?:[ \t]++|[ \t]*+(?:\r\n?|\n)[ \t]*+){TITLE})?"
    r"[ \t]*+(?:\Z|(?=[\r\n]))",
    re.DOTALL,
)

_NONE, _PARAGRAPH, _FENCED, _INDENTED, _HTML, _TABLE = range(6)
_QUOTE = -1
_MAX_NESTING = 100
"""Maximum nesting depth of quotes and list items; deeper markup is text."""


def scan_blocks(text: str) -> Blocks:
    """Parse text into blocks."""
    return _Scanner(text).blocks()


class _Scanner:
    """The state of the parser between two lines.

    ``containers`` has ``_QUOTE`` for each open quote and the width of each open list item, whose
    entry in ``filled`` is whether it has any content. ``leaf`` is the kind of the open block.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.containers: list[int] = []
        self.filled: list[bool] = []
        self.leaf = _NONE
        self.fresh_item = False
        """Whether the next block is the first in its list item."""
        self.paragraph: list[Span] = []
        self.fence = ""
        self.html_end: re.Pattern[str] | str | None = None
        self.html_kind = ""
        self.html_start = 0
        self.waiting: list[int] = []
        """The line numbers of blank lines that are code if more indented code follows."""
        self.columns = 0
        self.blanks: list[Span] = []
        self.segments: list[Span] = []
        self.with_definitions: list[int] = []
        """Indexes of the segments that may begin with link reference definitions."""
        self.line_starts = array("q")
        self.code_lines = bytearray()
        self.headings: list[int] = []
        self.tasks: list[int] = []
        self.html: list[Span] = []
        self.comments: list[Span] = []

    def blocks(self) -> Blocks:
        """Parse the text."""
        text = self.text
        for number, (start, stop) in enumerate(_line_spans(text)):
            self.line_starts.append(start)
            self.code_lines.append(0)
            if self.containers:
                self._line(number, start, stop)
            elif self.leaf <= _PARAGRAPH and text[start : start + 1].isalpha():
                self.paragraph.append((start, stop))  # Fast path: most lines are plain text.
                self.leaf = _PARAGRAPH
            elif self.leaf == _FENCED and text.find(self.fence, start, stop) < 0:
                self._code(number, start, stop)
            else:
                self._line(number, start, stop)
        self._close_leaf(len(self.text))
        return Blocks(text, self)

    def _line(self, number: int, start: int, stop: int) -> None:
        matched, position, column = self._matching(start, stop)
        is_inside = matched == len(self.containers)
        if (
            is_inside
            and self.leaf > _PARAGRAPH
            and self._continues(number, start, stop, position, column)
        ):
            return
        is_lazy = self.leaf == _PARAGRAPH
        while True:
            text_at, text_column = self._indent(position, column, stop)
            indent = text_column - column
            if text_at == stop:
                break
            if indent >= 4:
                if is_lazy:
                    break
                self._open(matched, start)
                self.leaf, self.waiting = _INDENTED, []
                self._code(number, start, stop)
                return
            char = self.text[text_at]
            if char == ">" and len(self.containers) < _MAX_NESTING:
                self._open(matched, start)
                position, column = self._behind_quote_mark(text_at, text_column, stop)
                self._add_container(_QUOTE)
                self.blanks.append((start, position))
                matched, is_inside, is_lazy = len(self.containers), True, False
                continue
            if char.isalpha():
                break
            if self._opens_leaf(number, start, stop, text_at, matched, is_inside):
                return
            item = self._item(text_at, text_column, stop, is_inside, indent)
            if item is None:
                break
            self._open(matched, start)
            position, column, width = item
            self._add_container(width)
            self.fresh_item = True
            matched, is_inside, is_lazy = len(self.containers), True, False
        self._text(start, text_at, stop, matched, is_inside, is_lazy)

    def _matching(self, start: int, stop: int) -> tuple[int, int, int]:
        """Return how many open containers a line continues, and where its content begins."""
        text, position, column, quoted = self.text, start, 0, 0
        matched = 0
        for width in self.containers:
            text_at, text_column = self._indent(position, column, stop)
            if width == _QUOTE:
                if text_at == stop or text_column - column > 3 or text[text_at] != ">":
                    break
                position, column = self._behind_quote_mark(text_at, text_column, stop)
                quoted = position
            elif text_column - column >= width and text_at < stop:
                position, column = self._skip_columns(position, column, width)
            elif text_at == stop and self.filled[matched]:
                position, column = text_at, text_column
            else:
                break
            matched += 1
        if quoted:
            self.blanks.append((start, quoted))
        return matched, position, column

    def _indent(self, position: int, column: int, stop: int) -> tuple[int, int]:
        """Return the position and column of the first non-whitespace character."""
        if position >= stop or self.text[position] not in " \t":
            return position, column
        blank = _INDENT.match(self.text, position, stop)
        assert blank is not None, "the pattern matches the empty string"
        for char in blank[0] if "\t" in blank[0] else ():
            column += 4 - column % 4 if char == "\t" else 1
        return blank.end(), column if "\t" in blank[0] else column + len(blank[0])

    def _skip_columns(self, position: int, column: int, width: int) -> tuple[int, int]:
        """Return the position and column after skipping columns; a tab may be skipped in part."""
        target = column + width
        while column < target:
            after = column + 1 if self.text[position] == " " else column + 4 - column % 4
            if after > target:
                return position, target
            position, column = position + 1, after
        return position, column

    def _behind_quote_mark(self, text_at: int, text_column: int, stop: int) -> tuple[int, int]:
        position, column = text_at + 1, text_column + 1
        following = self.text[position] if position < stop else ""
        if following == " ":
            return position + 1, column + 1
        if following == "\t":
            return (position + 1, column + 1) if column % 4 == 3 else (position, column + 1)
        return position, column

    def _continues(self, number: int, start: int, stop: int, position: int, column: int) -> bool:
        """Add a line to the open code, HTML or table block; return False if the block has ended."""
        text_at, text_column = self._indent(position, column, stop)
        indent, is_blank = text_column - column, text_at == stop
        if self.leaf == _FENCED:
            self._code(number, start, stop)
            closing = self.text[text_at:stop].rstrip(" \t")
            if indent < 4 and len(closing) >= len(self.fence) and not closing.strip(self.fence[0]):
                self.leaf = _NONE
            return True
        if self.leaf == _INDENTED:
            if is_blank:
                self.waiting.append(number)
                return True
            if indent < 4:
                self.leaf = _NONE
                return False
            for line in self.waiting:
                self.code_lines[line] = 1
            self.waiting = []
            self._code(number, start, stop)
            return True
        if self.leaf == _HTML:
            if self.html_end is None and is_blank:
                self._close_leaf(start)
                return False
            self._html_line(text_at, stop)
            return True
        if is_blank or indent >= 4:
            self.leaf = _NONE
        return False  # A row of a table, unless another block begins.

    def _code(self, number: int, start: int, stop: int) -> None:
        self.code_lines[number] = 1
        self.blanks.append((start, stop))

    def _opens_leaf(
        self, number: int, start: int, stop: int, text_at: int, matched: int, is_inside: bool
    ) -> bool:
        """Open a heading, code, HTML or table block at a position; return False if none begins."""
        text, char = self.text, self.text[text_at]
        if is_inside and self.leaf == _PARAGRAPH and self._ends_paragraph(start, stop, text_at):
            return True
        if char == "#":
            if mark := _ATX.match(text, text_at, stop):
                self._open(matched, start)
                if not self.containers:
                    self.headings.append(number)
                self.segments.append((mark.end(), stop))
                return True
        elif char in "`~":
            if mark := _FENCE.match(text, text_at, stop):
                self._open(matched, start)
                self.leaf, self.fence = _FENCED, mark[1] or mark[2]
                self._code(number, start, stop)
                return True
        elif char == "<":
            return self._opens_html(start, stop, text_at, matched)
        elif char in "*-_" and _RULE.match(text, text_at, stop):
            self._open(matched, start)
            return True
        return False

    def _ends_paragraph(self, start: int, stop: int, text_at: int) -> bool:
        """Close the open paragraph at its underline or a table; return whether it was closed.

        The underlined paragraph becomes a heading; a table takes the paragraph's last line as its
        first one.
        """
        char = self.text[text_at]
        if char in "|:-" and self._opens_table(text_at, stop):
            return True
        if char not in "=-" or not self._is_underline(text_at, stop):
            return False
        if self.tasks and self.tasks[-1] >= self.paragraph[0][0]:
            self.tasks.pop()
        self._close_leaf(start)
        return True

    def _opens_html(self, start: int, stop: int, text_at: int, matched: int) -> bool:
        text, kind = self.text, "tags"
        end: re.Pattern[str] | str | None = None
        if _RAW.match(text, text_at, stop):
            end, kind = _RAW_END, "raw"
        elif text.startswith("<!--", text_at, stop):
            end, kind = "-->", "comment"
        elif text.startswith("<?", text_at, stop):
            end, kind = "?>", "raw"
        elif text.startswith("<![CDATA[", text_at, stop):
            end, kind = "]]>", "raw"
        elif _DECLARATION.match(text, text_at, stop):
            end, kind = ">", "raw"
        elif not _NAMED.match(text, text_at, stop):
            in_paragraph = self.leaf == _PARAGRAPH  # Also true for a lazy continuation line.
            if in_paragraph or not _ANY_TAG.match(text, text_at, stop):
                return False
        self._open(matched, start)
        self.leaf, self.html_end, self.html_kind, self.html_start = _HTML, end, kind, text_at
        self._html_line(text_at, stop)
        return True

    def _html_line(self, position: int, stop: int) -> None:
        """Add a line to the open HTML block, and close the block if the line ends it.

        Text after a comment on the same line is shown, as in Obsidian.
        """
        end = self.html_end
        if end is None:
            return
        if isinstance(end, str):
            if end == "-->" and position == self.html_start:
                position += 2  # as in <!-->
            end_at = self.text.find(end, position, stop)
            behind = end_at + len(end) if end_at >= 0 else -1
        else:
            match = end.search(self.text, position, stop)
            behind = match.end() if match else -1
        if behind >= 0:
            is_comment = self.html_kind == "comment"
            self._close_leaf(behind if is_comment else stop)
            if is_comment and self.text[behind:stop].strip(" \t"):
                self.segments.append((behind, stop))

    def _opens_table(self, text_at: int, stop: int) -> bool:
        """Open a table if this line is its second and the previous line its first."""
        start, end = self.paragraph[-1]
        header = self.text[start:end]
        if "|" not in header or not _DELIMITER_ROW.match(self.text, text_at, stop):
            return False
        columns = len(_cells(header.strip(), 0))
        if columns != len(_cells(self.text[text_at:stop].strip(), 0)):
            return False
        self.paragraph.pop()
        self._close_leaf(start)
        self.leaf, self.columns = _TABLE, columns
        self._row(start, end)
        return True

    def _row(self, start: int, stop: int) -> None:
        cells = _cells(self.text[start:stop], start)
        self.segments.extend(cell for cell in cells[: self.columns] if cell[0] < cell[1])

    def _item(
        self, text_at: int, text_column: int, stop: int, is_inside: bool, indent: int
    ) -> tuple[int, int, int] | None:
        """Return where the content of the list item at a position begins, and the item's width."""
        marker = _MARKER.match(self.text, text_at, stop)
        if marker is None or len(self.containers) >= _MAX_NESTING:
            return None
        position, length = marker.end(), marker.end() - text_at
        column = text_column + length
        after, after_column = self._indent(position, column, stop)
        is_blank, spaces = after == stop, after_column - column
        in_paragraph = is_inside and self.leaf == _PARAGRAPH
        if in_paragraph and (is_blank or (marker[1] and int(marker[1]) != 1)):
            return None
        if is_blank:
            return stop, column + 1, indent + length + 1
        if spaces >= 5:
            position, column = self._skip_columns(position, column, 1)
            return position, column, indent + length + 1
        return after, after_column, indent + length + spaces

    def _text(
        self, start: int, text_at: int, stop: int, matched: int, is_inside: bool, is_lazy: bool
    ) -> None:
        """Add a line that begins no other block: text, or a blank line."""
        is_blank = text_at == stop
        if is_lazy and not is_blank and self.leaf == _PARAGRAPH:
            self.paragraph.append((text_at, stop))
        elif is_inside and self.leaf == _TABLE and not is_blank:
            self._row(text_at, stop)
        elif is_blank:
            if not is_inside:
                self._close_containers(matched, start)
            elif self.leaf == _PARAGRAPH:
                self._close_leaf(start)
        else:
            is_first = self.fresh_item and is_inside
            self._open(matched, start)
            if is_first and (mark := _TASK.match(self.text, text_at, stop)):
                self.tasks.append(mark.start(1))
            self.leaf, self.paragraph = _PARAGRAPH, [(text_at, stop)]

    def _open(self, matched: int, start: int) -> None:
        """Close the containers that the line of a new block does not continue."""
        if matched < len(self.containers):
            self._close_containers(matched, start)
        else:
            self._close_leaf(start)
        if self.filled:
            self.filled[-1] = True
        self.fresh_item = False

    def _add_container(self, width: int) -> None:
        self.containers.append(width)
        self.filled.append(width == _QUOTE)

    def _close_containers(self, matched: int, start: int) -> None:
        self._close_leaf(start)
        del self.containers[matched:]
        del self.filled[matched:]
        self.fresh_item = False

    def _close_leaf(self, end: int) -> None:
        if self.leaf == _PARAGRAPH and self.paragraph:
            span = (self.paragraph[0][0], self.paragraph[-1][1])
            if self.text[span[0]] == "[" and self.text.find("]:", *span) > 0:
                self.with_definitions.append(len(self.segments))
            self.segments.append(span)
        elif self.leaf == _HTML:
            span = (self.html_start, end)
            self.blanks.append(span)
            if self.html_kind == "tags":
                self.html.append(span)
            elif self.html_kind == "comment":
                self.comments.append(span)
        self.leaf = _NONE
        self.paragraph = []

    def _is_underline(self, text_at: int, stop: int) -> bool:
        """Return whether a line turns the open paragraph into a heading."""
        if not _UNDERLINE.match(self.text, text_at, stop):
            return False
        if self.text[self.paragraph[0][0]] != "[":
            return True
        joined = "\n".join(self.text[start:end] for start, end in self.paragraph)
        return _behind_definitions(joined, 0, len(joined)) < len(joined)


def _line_spans(text: str) -> Iterator[Span]:
    """Yield the start and end of each line, without its line ending."""
    start = 0
    if "\r" not in text:
        find, end = text.find, text.find("\n")
        while end >= 0:
            yield start, end
            start = end + 1
            end = find("\n", start)
    else:
        for line_end in _LINE_END.finditer(text):
            yield start, line_end.start()
            start = line_end.end()
    if start < len(text):
        yield start, len(text)


def _cells(row: str, start: int) -> list[Span]:
    """Return the cells of a table's row, as positions relative to ``start``."""
    first = len(row) - len(row.lstrip(" \t"))
    last = len(row.rstrip(" \t"))
    edges = [match.start() for match in _PIPE.finditer(row, first, last)]
    if edges and edges[0] == first:
        first, edges = first + 1, edges[1:]
    if edges and edges[-1] == last - 1:
        last, edges = last - 1, edges[:-1]
    boundaries = [first - 1, *edges, last]
    return [(start + before + 1, start + after) for before, after in pairwise(boundaries)]


def masked(text: str, spans: list[Span], sign: str = " ") -> str:
    """Return text with the characters in spans replaced by ``sign``, except line endings.

    ``spans`` may overlap and have any order.
    """
    if not spans:
        return text
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        start = max(start, done)
        if start < end:
            pieces += (text[done:start], _blank(text[start:end], sign))
            done = end
    pieces.append(text[done:])
    return "".join(pieces)


def _blank(text: str, sign: str) -> str:
    if "\r" in text:
        return _NOT_LINE_END.sub(sign, text)
    return "\n".join(sign * len(line) for line in text.split("\n"))


def _behind_definitions(
    flat: str, start: int, end: int, definitions: list[Definition] | None = None
) -> int:
    """Collect the definitions at the beginning of a paragraph; return the position after them."""
    while start < end:
        match = _DEFINITION.match(flat, start, end)
        label = match["label"] if match else ""
        if match is None or not label.strip() or label.startswith("^"):  # a footnote
            break
        if definitions is not None:
            group = "bare" if match["bare"] is not None else "bracketed"
            span = (match.start() + match[0].index("["), match.end())
            definitions.append(Definition(label, match[group], span, match.span(group)))
        start = match.end()
        line_end = _LINE_END.match(flat, start, end)
        start = line_end.end() if line_end else start
    return start
