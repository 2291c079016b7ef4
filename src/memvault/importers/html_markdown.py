"""Convert HTML to markdown, and parse HTML and XML, with lxml.

Python's own HTML parser takes minutes for kilobytes of unclosed tags. Existing converters escape
each text node separately, but whether a character needs an escape depends on the whole line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from memvault.importers import plain_text
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

Custom = Callable[[Any], str | None]
"""Returns the markdown of a nonstandard element; None for other elements."""
_MAX_LENGTH = 16_000_000
_MAX_TAGS = 100_000
"""Maximum number of tags in one document; each needs two kilobytes of memory during the conversion.
"""
_MAX_GROWTH, _MIN_GROWN = 20, 1_000_000
"""Length limits of the markdown: a multiple of the HTML's length, or a number of characters if that
is larger.
"""
_MAX_SPANNED = 10_000
"""Maximum number of empty cells added in place of merged table cells."""
_CONTROLS = lazy_pattern(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_SPACE = lazy_pattern(r"[ \t\r\n\f\xa0]+")
_HARD_SPACE = lazy_pattern(r" ?\xa0[ \xa0]*")
_BLOCKS = frozenset(
    "address article aside blockquote body center dd details dir div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol optgroup "
    "option p pre section summary table tbody td tfoot th thead tr ul caption listing xmp "
    "en-note".split()
)
_SKIPPED = frozenset("script style head title template noscript svg".split())
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_PREFORMATTED = frozenset(("pre", "listing", "xmp"))
_BOLD, _ITALIC, _STRUCK = ("**", "**"), ("*", "*"), ("~~", "~~")
_UNDERLINED, _HIGHLIGHTED = ("<u>", "</u>"), ("==", "==")
_MARKS = {
    **dict.fromkeys(("b", "strong"), _BOLD),
    **dict.fromkeys(("i", "em", "cite", "dfn", "var"), _ITALIC),
    **dict.fromkeys(("s", "del", "strike"), _STRUCK),
    **dict.fromkeys(("u", "ins"), _UNDERLINED),
    "mark": _HIGHLIGHTED,
    "sub": ("<sub>", "</sub>"),
    "sup": ("<sup>", "</sup>"),
}
_STYLES = (
    (lazy_pattern(r"(?<![\w-])font-weight:\s*(?:bold|[6-9]00)"), _BOLD),
    (lazy_pattern(r"(?<![\w-])font-style:\s*(?:italic|oblique)"), _ITALIC),
    (lazy_pattern(r"(?<![\w-])text-decoration(?:-line)?:[^;]*line-through"), _STRUCK),
    (lazy_pattern(r"(?<![\w-])text-decoration(?:-line)?:[^;]*underline"), _UNDERLINED),
    (lazy_pattern(r"(?:--en|-evernote)-highlight:(?!\s*(?:false|none))"), _HIGHLIGHTED),
)
"""Styles of a ``span`` or ``font`` element that are equivalent to a tag."""
_IN_HTML = {"**": "b", "*": "i", "~~": "s", "==": "mark"}
"""HTML tags to use within a word, where markdown would show emphasis characters as text."""
_TASK = lazy_pattern(r"- \[[ x]\] ")
_CLOSING = lazy_pattern(r"(?<= )#+\Z")
"""Matches number signs at the end of a heading, which markdown would drop."""
_LANGUAGE = lazy_pattern(r"(?:^|\s)(?:lang|language)-([\w#+.-]{1,30})")
_NOT_IN_TARGETS = lazy_pattern(r"[\x00-\x20\x7f<>\\|]")
_ENTITY = lazy_pattern(r"&(?=#?\w{1,32};)")
_NAMED_ENTITY = re.compile(rb"&([A-Za-z]\w{1,31});")
_UNSAFE = ("javascript:", "vbscript:", "data:")


def markdown(html: str, custom: Custom = lambda _: None) -> str:
    """Convert HTML to markdown, without scripts and styles; code stays unchanged.

    Raises:
        ValueError: if the HTML is nested too deeply, or is too long.
    """
    return tree_markdown(tree(html), len(html), custom)


def tree(html: str) -> Any:
    """Return the parsed HTML; None if it is empty.

    Raises:
        ValueError: if the HTML is too long.
    """
    from lxml.etree import HTMLParser, fromstring

    if len(html) > _MAX_LENGTH or html.count("<") > _MAX_TAGS:
        raise ValueError(f"more than {_MAX_LENGTH:,} characters or {_MAX_TAGS:,} HTML tags")
    data = _CONTROLS.sub("", html).encode("utf-8", "replace")
    if not data.strip():
        return None
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    return fromstring(data, parser)


def tree_markdown(root: Any, length: int, custom: Custom = lambda _: None) -> str:
    """Convert parsed HTML of a given length to markdown; raises ``ValueError``."""
    if root is None:
        return ""
    try:
        text = _join_blocks(_Converter(root, custom).flow(root))
    except RecursionError as error:
        raise ValueError("the HTML is nested too deeply") from error
    if len(text) > max(_MIN_GROWN, _MAX_GROWTH * length):
        raise ValueError("the HTML expands too much")
    return f"***{text[3:]}" if f"{text}\n".startswith("---\n") else text  # avoid front matter


class _Piece(NamedTuple):
    """A part of a line: text or markdown, with its emphasis markers, outermost first."""

    text: str
    marks: tuple[tuple[str, str], ...] = ()
    is_markup: bool = False
    is_code: bool = False


_BREAK = _Piece("\n", is_markup=True)
_CHECKED, _UNCHECKED = _Piece("[x] ", is_markup=True), _Piece("[ ] ", is_markup=True)
_CHECKBOXES = (_CHECKED, _UNCHECKED)


class _Converter:
    """A converter of a tree; ``_marks`` contains the emphasis marks of the current text."""

    def __init__(self, root: Any, custom: Custom) -> None:
        self._custom = custom
        self._marks: tuple[tuple[str, str], ...] = ()
        self._checkbox: _Piece | None = None
        """A checkbox whose label is in the following block."""
        self._cells = 0
        """The number of table cells around the current element."""
        self._spanned = _MAX_SPANNED
        self._methods: dict[str, Callable[[Any], list[str]]] = {
            **dict.fromkeys(_LISTS, self._list),
            **dict.fromkeys(_PREFORMATTED, self._code),
            **dict.fromkeys(_SKIPPED, lambda _: []),
            "hr": lambda _: ["---"],
            "table": self._table,
            "dl": self._definitions,
        }
        self._with_blocks: set[Any] = set()
        """Inline elements that contain blocks."""
        for element in root.iter():
            if element.tag in _BLOCKS:
                above = element.getparent()
                while above is not None and above.tag not in _BLOCKS:
                    if above in self._with_blocks:
                        break
                    self._with_blocks.add(above)
                    above = above.getparent()

    def flow(self, element: Any) -> list[str]:
        """Return the blocks in an element."""
        blocks: list[str] = []
        line: list[_Piece] = []
        self._add_text(line, element.text)
        for child in element:
            if self._is_block(child):
                self._end(line, blocks)
                blocks += self._block(child)
            else:
                self._inline(child, line)
            self._add_text(line, child.tail)
        self._end(line, blocks)
        return blocks

    def _is_block(self, element: Any) -> bool:
        return element.tag in _BLOCKS or element in self._with_blocks

    def _add_text(self, line: list[_Piece], text: str | None) -> None:
        if text:
            line.append(_Piece(_SPACE.sub(_space, _CONTROLS.sub("", text)), self._marks))

    def _end(self, line: list[_Piece], blocks: list[str]) -> None:
        """Move a line of inline content to the blocks."""
        content = [piece for piece in line if piece.is_markup or piece.text.strip()]
        if content and self._checkbox and content[0] not in _CHECKBOXES:
            line.insert(0, self._checkbox)
        if content:
            self._checkbox = content[0] if content[1:] == [] and content[0] in _CHECKBOXES else None
            blocks += [] if self._checkbox else _paragraphs(line)
        line.clear()

    def _inline(self, element: Any, line: list[_Piece]) -> None:
        """Add an inline element to a line."""
        tag = element.tag
        custom_markdown = self._custom(element)
        if custom_markdown is not None:
            line.append(_Piece(custom_markdown, self._marks, True))
        elif tag == "br":
            line.append(_BREAK)
        elif tag == "input":
            if element.get("type", "").lower() == "checkbox":
                line.append(_UNCHECKED if element.get("checked") is None else _CHECKED)
        elif tag == "img":
            line.append(_Piece(_image(element), self._marks, True))
        elif tag in _CODE:
            for number, text in enumerate(_text_of_code(element, is_span=True).split("\n")):
                line += [_BREAK] if number else []
                is_code = bool(text.strip())
                line.append(_Piece(text if is_code else " ", self._marks, is_code, is_code))
        elif tag not in _SKIPPED:
            marks = self._marks
            self._marks += tuple(mark for mark in _marks_of(element) if mark not in marks)
            self._add_text(line, '"' if tag == "q" else "")
            self._add_text(line, element.text)
            for child in element:
                self._inline(child, line)
                self._add_text(line, child.tail)
            self._add_text(line, '"' if tag == "q" else "")
            self._marks = marks

    def _block(self, element: Any) -> list[str]:
        """Return the blocks of a block element, or of an inline element that contains blocks."""
        tag = element.tag
        custom_markdown = self._custom(element)
        if custom_markdown is not None:
            return [custom_markdown]
        if tag in self._methods:
            return self._methods[tag](element)
        marks = self._marks
        self._marks += tuple(mark for mark in _marks_of(element) if mark not in marks)
        blocks = self.flow(element)
        self._marks = marks
        return self._framed(tag, blocks) if blocks else []

    def _framed(self, tag: str, blocks: list[str]) -> list[str]:
        """Return the blocks of an element with the markup of its type."""
        if tag in ("blockquote", "aside"):
            return [_indent(_join_blocks(blocks), "> ", "> ")]
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            text = _CLOSING.sub(r"\\\g<0>", " ".join(" ".join(blocks).split()))
            return [f"{'#' * int(tag[1])} {text}"]
        if tag == "summary":
            return [f"<summary>{' '.join(' '.join(blocks).split())}</summary>"]
        if tag == "details" and not self._cells:
            head = blocks.pop(0) if blocks[0].startswith("<summary>") else "<summary></summary>"
            return [f"<details>{head}", *blocks, "</details>"]
        return blocks

    def _list(self, element: Any) -> list[str]:
        items: list[list[str]] = []
        line: list[_Piece] = []
        self._add_text(line, element.text)
        for child in element:
            if child.tag in _LISTS and items:  # some programs nest lists this way
                items[-1] += self._block(child)
            elif self._is_block(child):
                items.append([])
                self._end(line, items[-1])
                items[-1] += self.flow(child) if child.tag == "li" else self._block(child)
                self._checkbox = None
            else:
                self._inline(child, line)
            self._add_text(line, child.tail)
        items.append([])
        self._end(line, items[-1])
        start = str(element.get("start") or "1")[:9]
        number = int(start) if start.isascii() and start.isdigit() else 1
        lines = []
        for item in filter(None, items):
            marker = f"{number}. " if element.tag == "ol" else "- "
            text = _join_blocks(item, is_item=True)
            if _TASK.match(text):  # the item has a checkbox
                text = text[2:]
            lines.append(_indent(text, marker, " " * len(marker)))
            number += 1
        return [_ListBlock("\n".join(lines))] if lines else []

    def _definitions(self, element: Any) -> list[str]:
        lines: list[str] = []
        for child in element.iter("dt", "dd"):
            text = _join_blocks(self.flow(child))
            if text and child.tag == "dt":
                lines += ["", f"**{text}**" if "\n" not in text and "**" not in text else text, ""]
            elif text:
                lines.append(_indent(text, "- ", "  "))
        return ["\n".join(lines).strip("\n")] if lines else []

    def _code(self, element: Any) -> list[str]:
        text = _text_of_code(element)
        if self._cells:
            return [plain_text.code_span(line) for line in text.split("\n") if line.strip()]
        inner = next(element.iter("code"), element)
        language = _LANGUAGE.search(f"{element.get('class') or ''} {inner.get('class') or ''}")
        return [plain_text.fenced(text, language[1] if language else "")] if text.strip() else []

    def _table(self, element: Any) -> list[str]:
        rows = _rows(element)
        cells = [cell for row in rows for cell in row]
        if len(cells) < 2 or element.find(".//table") is not None:  # a table used for layout
            return self.flow(element)
        captions = [
            block for caption in element.iterchildren("caption") for block in self.flow(caption)
        ]
        lines = []
        below: dict[int, int] = {}
        """The number of remaining rows of a merged cell, by column."""
        for row in rows:
            written: list[str] = []
            for cell in row:
                while below.get(len(written), 0) > 0:
                    below[len(written)] -= 1
                    written.append("")
                for column in range(self._spans(cell, "colspan")):
                    below[len(written)] = self._spans(cell, "rowspan") - 1
                    written.append("" if column else self._cell(cell))
            lines.append(written)
        width = max(map(len, lines))
        is_head = rows[0].getparent().tag == "thead" or all(cell.tag == "th" for cell in rows[0])
        if not is_head:
            lines.insert(0, [""] * width)
        return [*captions, plain_text.table(lines)]

    def _spans(self, cell: Any, name: str) -> int:
        value = str(cell.get(name) or "1")[:4]
        number = int(value) if value.isascii() and value.isdigit() else 1
        number = max(1, min(number, self._spanned))
        self._spanned -= number - 1
        return number

    def _cell(self, cell: Any) -> str:
        self._cells += 1
        text = _join_blocks(self.flow(cell))
        self._cells -= 1
        lines = filter(None, map(str.strip, text.split("\n")))
        return "<br>".join(lines).replace("|", "\\|")


def _rows(table: Any) -> list[Any]:
    """Return a table's rows; empty if it contains anything but rows."""
    rows: list[Any] = []
    for child in table:
        if child.tag in ("thead", "tbody", "tfoot"):
            rows += child
        elif child.tag == "tr":
            rows.append(child)
        elif child.tag not in ("caption", "colgroup", "col"):
            return []
    is_whole = all(row.tag == "tr" and {cell.tag for cell in row} <= {"td", "th"} for row in rows)
    return [row for row in rows if len(row)] if is_whole else []


class _ListBlock(str):
    """A list or a task."""

    __slots__ = ()


def _join_blocks(blocks: Iterable[str], is_item: bool = False) -> str:
    """Join blocks with blank lines, but without them between tasks and in list items."""
    parts: list[str] = []
    was_task = False
    for block in blocks:
        is_items, is_task = isinstance(block, _ListBlock), _TASK.match(block) is not None
        if parts:
            parts.append("\n" if is_items and (is_item or (was_task and is_task)) else "\n\n")
        parts.append(block)
        was_task = is_items and is_task
    return "".join(parts)


def _indent(text: str, first: str, rest: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        (first if number == 0 else rest) + line if line else rest.rstrip()
        for number, line in enumerate(lines)
    )


def _marks_of(element: Any) -> list[tuple[str, str]]:
    """Return the emphasis or link marks of an element."""
    tag = element.tag
    if tag in _MARKS:
        return [_MARKS[tag]]
    if tag in ("a", "iframe", "video", "audio", "embed"):
        target = link_target(element.get("href" if tag == "a" else "src"))
        return [("[", f"]({target})")] if target and not _is_same(element, target) else []
    style = element.get("style") if tag in ("span", "font", "div", "p") else None
    if not style or ":" not in style:
        return []
    lowered = style[:2_000].lower()
    return [mark for pattern, mark in _STYLES if pattern.search(lowered)]


def _is_same(element: Any, target: str) -> bool:
    """Return whether a link's text is its own URL, so it needs no markup."""
    text = "".join(element.itertext()).strip()
    return "://" in text and len(element) == 0 and target in (text, f"{text}/")


def link_target(address: str | None) -> str:
    """Return a URL as a link target; empty for ``javascript:`` and similar URLs."""
    from urllib.parse import quote

    address = (address or "").strip()
    if address.lower().startswith(_UNSAFE):
        return ""
    address = _NOT_IN_TARGETS.sub(lambda match: quote(match[0]), address)
    depth = 0
    for sign in address if "(" in address or ")" in address else "":
        depth += (sign == "(") - (sign == ")")
        if not 0 <= depth < 4:
            break
    if depth:
        address = address.replace("(", "%28").replace(")", "%29")
    return _ENTITY.sub(r"\\&", address)


def _image(element: Any) -> str:
    target = link_target(element.get("src"))
    alt = plain_text.escaped(element.get("alt") or "", is_line=True)
    return f"![{alt}]({target})" if target else alt


def _text_of_code(element: Any, is_span: bool = False) -> str:
    """Return the text of code, with a line break for each ``br`` and block.

    In a code span, line breaks of the HTML become spaces.
    """
    parts: list[str] = []

    def put(text: str | None) -> None:
        if text:
            parts.append(text.replace("\n", " ") if is_span else text)

    def add(element_or_child: Any) -> None:
        put(element_or_child.text)
        for child in element_or_child:
            is_line = child.tag in ("div", "p", "li")
            if is_line and parts and parts[-1][-1] != "\n":
                parts.append("\n")
            before = len(parts)
            if child.tag == "br":
                parts.append("\n")
            add(child)
            if is_line and len(parts) > before and parts[-1][-1] != "\n":
                parts.append("\n")
            if not is_line or (child.tail or "").strip():
                put(child.tail)

    add(element)
    text = "".join(parts).replace("\xa0", " ").replace("\r\n", "\n").replace("\r", "\n")
    return text.strip("\n") if is_span else text.removeprefix("\n").rstrip("\n")


def _paragraphs(pieces: list[_Piece]) -> list[str]:
    """Return pieces as paragraphs, split at empty lines; single line breaks become hard breaks."""
    lines: list[list[_Piece]] = [[]]
    for piece in pieces:
        if piece is _BREAK:
            lines.append([])
        else:
            lines[-1].append(piece)
    groups: list[list[str]] = []
    is_open = False
    for line in lines:
        text = _render_line(line)
        is_task = isinstance(text, _ListBlock)
        if text and is_open and not is_task:
            groups[-1].append(text)
        elif text:
            groups.append([text])
        is_open = bool(text) and not is_task
    return [group[0] if len(group) == 1 else "  \n".join(group) for group in groups]


def _space(match: re.Match[str]) -> str:
    """Collapse whitespace; keep several non-breaking spaces, which may be an indentation."""
    count = match[0].count("\xa0")
    return "\xa0" * count if count > 1 else " "


def _render_line(pieces: list[_Piece]) -> str:
    """Return pieces as one line of markdown."""
    merged: list[_Piece] = []
    is_begun = False
    for piece in pieces:  # collapse adjacent spaces
        text = piece.text
        if not piece.is_markup:
            if not merged or merged[-1].text.endswith(" "):
                text = text.lstrip(" ")
            if not text:
                continue
        elif piece in _CHECKBOXES and is_begun:
            text = "\u2611 " if piece == _CHECKED else "\u2610 "
        if piece.is_code and merged and merged[-1][1:] == piece[1:]:
            text = merged.pop().text + text
        merged.append(piece._replace(text=text))
        is_begun = is_begun or bool(text.strip())
    if len(merged) > 1 and merged[1] in _CHECKBOXES and not merged[0].text.strip():
        del merged[0]
    is_task = bool(merged) and merged[0] in _CHECKBOXES
    markup: list[str] = []
    shown = _render(merged[1:] if is_task else merged, 0, markup)
    text = shown.strip()
    indentation = shown[: len(shown) - len(shown.lstrip())].count("\xa0") if text else 0
    whole = "\xa0" * indentation + plain_text.escaped(_HARD_SPACE.sub(" ", text))
    pieces_left = iter(markup)
    whole = re.sub(plain_text.MARKUP, lambda _: next(pieces_left), whole)
    return _ListBlock(f"- {merged[0].text}{whole}") if is_task else whole


def _render(
    pieces: list[_Piece], depth: int, markup: list[str], before: str = "", after: str = ""
) -> str:
    """Return pieces as text, with ``plain_text.MARKUP`` for each part added to ``markup``."""
    parts: list[str] = []
    start = 0
    while start < len(pieces):
        mark = pieces[start].marks[depth] if len(pieces[start].marks) > depth else None
        end = start + 1
        while (
            end < len(pieces)
            and mark is not None
            and pieces[end].marks[depth : depth + 1] == (mark,)
        ):
            end += 1
        group = pieces[start:end]
        previous = parts[-1][-1:] if parts else before
        following = pieces[end].text[:1] if end < len(pieces) else after
        opening = mark[0] if mark else group[0].text if group[0].is_markup else ""
        # Escape the "!", which would turn the link after it into an image.
        if previous == "!" and parts and opening.startswith("["):
            parts[-1] = parts[-1][:-1] + plain_text.MARKUP
            markup.append("\\!")
        if mark is not None:
            is_part = len(group) < len(pieces)
            parts.append(_render_mark(group, mark, depth, markup, previous, following, is_part))
        elif group[0].is_markup:
            text = group[0].text
            markup.append(plain_text.code_span(text) if group[0].is_code else text)
            parts.append(plain_text.MARKUP)
        else:
            parts.append(group[0].text)
        start = end
    return "".join(parts)


def _render_mark(
    group: list[_Piece],
    mark: tuple[str, str],
    depth: int,
    markup: list[str],
    before: str,
    after: str,
    is_part: bool,
) -> str:
    """Return pieces within a mark; spaces at their ends stay outside of it.

    ``is_part`` is true if the enclosing marks contain more pieces.
    """
    whole = "".join(piece.text for piece in group)
    if not whole.strip():
        return whole if not any(piece.is_markup for piece in group) else ""
    lead = whole[: len(whole) - len(whole.lstrip())] if not group[0].is_code else ""
    tail = whole[len(whole.rstrip()) :] if not group[-1].is_code else ""
    start = next(number for number, piece in enumerate(group) if piece.text.strip())
    stop = max(number for number, piece in enumerate(group) if piece.text.strip()) + 1
    group = group[start:stop]
    if not group[0].is_markup:
        group = [group[0]._replace(text=group[0].text.lstrip()), *group[1:]]
    if not group[-1].is_markup:
        group = [*group[:-1], group[-1]._replace(text=group[-1].text.rstrip())]
    begin, end = mark
    if begin in _IN_HTML:
        first = _edge_character(group[0], group, depth + 1, begin, whole.strip()[0])
        last = _edge_character(group[-1], group, depth + 1, begin, whole.strip()[-1])
        if (
            (not lead and _is_word(before) and not first.isalnum())
            or (not tail and _is_word(after) and not last.isalnum())
            or (not lead and before == plain_text.MARKUP and markup[-1].endswith(begin[0]))
            or (is_part and any(part[0][0] == begin[0] for part in group[0].marks[:depth]))
        ):
            begin, end = f"<{_IN_HTML[begin]}>", f"</{_IN_HTML[begin]}>"
    if begin == "[":
        group = [part for piece in group for part in _escape_label(piece)]
    markup.append(begin)
    inner = _render(group, depth + 1, markup)
    markup.append(end)
    return f"{lead}{plain_text.MARKUP}{inner}{plain_text.MARKUP}{tail}"


def _edge_character(piece: _Piece, group: list[_Piece], depth: int, outer: str, sign: str) -> str:
    """Return the character next to a mark, which may belong to an inner mark."""
    inner = piece.marks[depth : depth + 1]
    is_same = bool(inner) and inner[0][0][0] == outer[0]
    if not inner or (is_same and all(other.marks[depth : depth + 1] == inner for other in group)):
        return "`" if piece.is_code else sign
    return inner[0][0][0]


def _is_word(sign: str) -> bool:
    """Return whether a character is part of a word."""
    return bool(sign) and not sign.isspace() and (sign.isalnum() or sign > "\x7f")


def _escape_label(piece: _Piece) -> list[_Piece]:
    """Return the pieces of a link's label, with brackets escaped and without autolinks."""
    if piece.is_markup:
        return [piece]
    pieces = []
    for text in re.split(r"([\[\]]|:(?=//))", piece.text):
        is_sign = text in ("[", "]", ":")
        written = text if text == ":" or not is_sign else f"\\{text}"
        pieces.append(_Piece(written, piece.marks, is_sign))
    return [part for part in pieces if part.text]


def parse_xml(data: bytes) -> tuple[Any, str]:
    """Return the root element of XML text (None if unreadable) and the first error."""
    from lxml.etree import XMLParser, XMLSyntaxError, fromstring

    if data.rfind(b"<![CDATA[") > data.rfind(b"]]>"):
        data += b"]]>"
    parser = XMLParser(
        recover=True,
        resolve_entities=False,
        no_network=True,
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
        encoding="utf-8",
    )
    try:
        root = fromstring(_NAMED_ENTITY.sub(_character, data), parser)
    except (XMLSyntaxError, ValueError) as error:
        return None, str(error)
    errors = [entry.message for entry in parser.error_log if entry.level_name != "WARNING"]
    return root, errors[0] if errors else ""


def _character(entity: re.Match[bytes]) -> bytes:
    """Return the character of an HTML entity, which XML does not define."""
    from html import unescape

    text = entity[0].decode()
    if entity[1] in (b"amp", b"lt", b"gt", b"quot", b"apos"):
        return entity[0]
    return (unescape(text) if unescape(text) != text else f"&amp;{text[1:]}").encode()


def parse(html: str, target: Any) -> None:
    """Parse HTML of any length for a target of lxml's parser; all elements are closed."""
    from lxml.etree import HTMLParser

    parser = HTMLParser(target=target, huge_tree=True)
    parser.feed(html)
    parser.close()
