"""Convert Word documents, Office Open XML, to markdown.

The text is ``word/document.xml``; styles, lists, links, footnotes and properties are in other files
(ECMA-376, parts 1 and 4). Elements are identified by local name, because the two variants of the
format use different namespaces. Entities are not expanded.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Any

from memvault.importers import marked_html, office_xml
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import Attachment, GivenBytes, SkippedItem
from memvault.importers.office_xml import child as _child
from memvault.importers.office_xml import name as _name
from memvault.importers.office_xml import value as _value
from memvault.importers.records import reason_for
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_MAX_STYLES = 10
"""Maximum length of a chain of base styles."""
_MAX_LEVEL = 8
_HEADING = lazy_pattern(r"heading ?([1-9])")
_LIST = lazy_pattern(r"list (bullet|number)(?: ([2-5]))?")
_MARGIN = lazy_pattern(r"word/(header|footer)[0-9]*\.xml")
_CONTENTS = lazy_pattern(r"toc [1-9]")
_CODE_STYLES = frozenset(
    ("code", "source code", "html preformatted", "html code", "verbatim char", "macro text")
)
_CODE_FONTS = frozenset(
    ("consolas", "courier new", "courier", "menlo", "monaco", "lucida console", "cascadia code")
)
_QUOTES = frozenset(("quote", "intense quote", "block text"))
_TASK = lazy_pattern(r"\s*([\u2610\u2611\u2612\u2705])[ \u00a0\t]*")
"""Matches the checkbox at the start of a task."""
_SYMBOLS = {"F0A8": "\u2610", "F06F": "\u2610", "F0FE": "\u2611", "F0FD": "\u2611"}
"""Checkboxes in the font Wingdings."""
_FIELD = lazy_pattern(r"\s*HYPERLINK\s+\"([^\"]+)\"")
_OFF = frozenset(("0", "false", "off", "none"))
_FORMATS = {"b": "b", "i": "i", "strike": "del", "dstrike": "del", "u": "u", "highlight": "mark"}
_IGNORED = frozenset(
    "pPr rPr sectPr bookmarkStart bookmarkEnd proofErr softHyphen lastRenderedPageBreak "
    "commentRangeStart commentRangeEnd annotationRef permStart permEnd sdtPr sdtEndPr footnoteRef "
    "endnoteRef separator continuationSeparator smartTagPr instrText delText Fallback "
    "moveFrom".split()
)
_TRANSPARENT = frozenset(
    "smartTag ins moveTo sdtContent fldSimple customXml dir bdo AlternateContent Choice".split()
)
_OMITTED = {
    "commentReference": "comment",
    "del": "deleted text",
    "object": "embedded object",
    "oMath": "equation",
    "oMathPara": "equation",
}


def _is_on(element: Any) -> bool:
    return element is not None and _value(element).lower() not in _OFF


class Docx:
    """Converts a document.

    ``files`` contains the files in its zip, ``key`` is its id, ``main`` is the file with its text.
    """

    def __init__(self, files: Source, key: str, main: str = "word/document.xml") -> None:
        self._main = main
        self._read = files.read
        self._names = files.name_set
        self._key = key
        self._counts = ContentCounts()
        self._styles: dict[str, tuple[str, str]] = {}
        """The name and the base style id of each style, by style id."""
        self._numbered: dict[str, tuple[str, str]] = {}
        """The list id and level of each style, by style id; empty if unknown."""
        self._numbers: dict[str, dict[str, str]] = {}
        """The HTML tag of each level, by list id."""
        self._links: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        """The footnotes found so far, by label."""
        self._footnotes: dict[str, tuple[Any, dict[str, str]]] = {}
        """The element and the links of each footnote or endnote, by type and id."""
        self._field = self._address = ""
        self.problems: list[SkippedItem] = []
        """The damaged files of the document."""
        self.files: dict[str, Attachment] = {}
        """The images, keyed by their names in the document."""

    def markdown(self, counts: ContentCounts) -> str:
        """Convert the document; afterward ``files`` contains its images.

        Raises:
            OSError: if its main file is missing or damaged.
            ValueError: if its XML is damaged or too large.
        """
        self._counts = counts
        body = _child(self._parsed(self._main), "body")
        if body is None:
            raise ValueError("has no text")
        self._read_styles()
        self._read_numbers()
        self._links = self._relations(f"word/_rels/{posixpath.basename(self._main)}.rels")
        for kind in ("footnote", "endnote"):
            links = self._relations(f"word/_rels/{kind}s.xml.rels")
            for note in self._optional(f"word/{kind}s.xml"):
                self._footnotes[kind[0] + _value(note, "id")] = note, links
        for name in sorted(self._names):
            margin = _MARGIN.fullmatch(name)
            blocks = self._optional(name) if margin else ()
            words = (word.text for block in blocks for word in block.iter("{*}t"))
            if margin and any(words):
                counts.omitted(f"page {margin[1]}")
        text = marked_html.markdown("".join(self._blocks(body)))
        notes = (f"[^{label}]: {marked_html.markdown(note)}" for label, note in self._notes.items())
        return "\n\n".join([text, *(re.sub(r"\n+", "\n    ", note) for note in notes)])

    def properties(self) -> dict[str, str]:
        """Return the document properties by name."""
        named = ((_name(entry), entry.text) for entry in self._optional("docProps/core.xml"))
        return {name: str(text or "").strip() for name, text in named if name}

    def _parsed(self, name: str) -> Any:
        return office_xml.parsed(self._read(name))

    def _optional(self, name: str) -> Any:
        """Return the root element of a file; an empty list if it is missing or damaged."""
        if name not in self._names:
            return []
        try:
            return self._parsed(name)
        except (OSError, ValueError) as error:
            self.problems.append(SkippedItem(f"{self._key}, {name}", reason_for(error)))
            return []

    def _read_styles(self) -> None:
        for style in self._optional("word/styles.xml"):
            style_id, number = _value(style, "styleId"), _child(style, "pPr", "numPr")
            name, base = _value(_child(style, "name")).lower(), _value(_child(style, "basedOn"))
            self._styles[style_id] = name, base
            if number is not None:
                numbered = _value(_child(number, "numId")), _value(_child(number, "ilvl"))
                self._numbered[style_id] = numbered

    def _list(self, properties: Any, style: str) -> tuple[int, str] | None:
        """Return the level and tag of a paragraph's list, or None if it is not in a list.

        The list may be defined by the paragraph or by its style.

        A style without a list definition may still be named like one of Word's list styles.
        """
        numbering = _child(properties, "numPr")
        number, level = _value(_child(numbering, "numId")), _value(_child(numbering, "ilvl"))
        named = None
        for _ in range(_MAX_STYLES):
            number_of_style, level_of_style = self._numbered.get(style, ("", ""))
            number, level = number or number_of_style, level or level_of_style
            name, base = self._styles.get(style, (style.lower(), ""))
            named = named or _LIST.fullmatch(name)
            if number or not base:
                break
            style = base
        if number == "0" or not (number or named):
            return None
        depth = int(level) if level.isdecimal() else int(named[2] or 1) - 1 if named else 0
        other = "ol" if named and named[1] == "number" else "ul"
        return depth, self._numbers.get(number, {}).get(str(depth), other)

    def _read_numbers(self) -> None:
        root, abstract = self._optional("word/numbering.xml"), dict[str, dict[str, str]]()
        for element in root:
            if _name(element) == "abstractNum":
                levels = (level for level in element if _name(level) == "lvl")
                abstract[_value(element, "abstractNumId")] = {
                    _value(level, "ilvl"): _list_tag(_child(level, "numFmt")) for level in levels
                }
        for element in root:
            if _name(element) == "num":
                used = _value(_child(element, "abstractNumId"))
                self._numbers[_value(element, "numId")] = abstract.get(used, {})

    def _relations(self, name: str) -> dict[str, str]:
        return {
            _value(relation, "Id"): _value(relation, "Target") for relation in self._optional(name)
        }

    def _style(self, style: str) -> str:
        """Return the name of the first convertible style in a chain of base styles."""
        names = []
        for _ in range(_MAX_STYLES):
            name, base = self._styles.get(style, (style.lower(), ""))
            names.append(name)
            if not base:
                break
            style = base
        converted = _CODE_STYLES | _QUOTES
        known = (name for name in names if _HEADING.match(name) or name in converted)
        return next(known, names[0])

    def _blocks(self, parent: Any) -> Iterator[str]:
        """Yield the blocks of an element as HTML; join adjacent list items, code and quotes."""
        for (kind, _), group in groupby(self._parts(parent), key=lambda part: part[0]):
            parts = [part[1] for part in group]
            if kind == "list":
                yield _lists(parts)
            elif kind == "pre":
                yield f"<pre><code>{chr(10).join(parts)}</code></pre>"
            elif kind == "blockquote":
                yield f"<blockquote>{''.join(f'<p>{part}</p>' for part in parts)}</blockquote>"
            else:
                yield from parts

    def _parts(self, parent: Any) -> Iterator[tuple[tuple[str, int], Any]]:
        """Yield the type and content of each block; adjacent blocks of equal type are joined."""
        for number, child in enumerate(parent):
            name = _name(child)
            if name == "p":
                kind, content = self._paragraph(child)
                if content:
                    yield (kind, 0 if kind in ("list", "pre", "blockquote") else number), content
            elif name == "tbl":
                self._counts.converted("table")
                yield from self._table(child, number)
            elif name == "sdt":
                content = _child(child, "sdtContent")
                yield from self._parts(content) if content is not None else ()
            elif name in _TRANSPARENT:
                yield from self._parts(child)
            else:
                self._count(name)

    def _paragraph(self, element: Any) -> tuple[str, Any]:
        """Return the type of a paragraph and its HTML; a list item also has its level and tag."""
        properties = _child(element, "pPr")
        style = _value(_child(properties, "pStyle"))
        named = self._style(style) if style else ""
        runs = list(self._runs(element, frozenset()))
        is_code = named in _CODE_STYLES or (
            any(text.strip() for _, text in runs)
            and all("code" in formats or not text.strip() for formats, text in runs)
        )
        if is_code:
            self._counts.converted("line of code")
            return "pre", "".join(text for _, text in runs).replace("<br>", "\n")
        inner = _joined(runs)
        if not inner.strip():
            return "p", ""
        if _CONTENTS.fullmatch(named):
            self._counts.omitted("table of contents line")
            return "p", ""
        level, heading = self._level(properties), _HEADING.match(named)
        if heading or named == "title" or level is not None:
            self._counts.converted("heading")
            number = min(6, level or (int(heading[1]) if heading else 1))
            bare = re.sub(r"</?b>", "", inner)
            return "heading", f"<h{number}>{bare}</h{number}>"
        listed = self._list(properties, style)
        task = _TASK.match(inner)
        if task is not None:
            mark = marked_html.task(task[1] != "\u2610")
            self._counts.converted("task")
            inner = mark + inner[task.end() :]
        if task is not None or listed is not None:
            self._counts.converted("list item")
            return "list", (*(listed or (0, "ul")), inner)
        self._counts.converted("paragraph")
        return ("blockquote", inner) if named in _QUOTES else ("p", f"<p>{inner}</p>")

    @staticmethod
    def _level(properties: Any) -> int | None:
        value = _value(_child(properties, "outlineLvl"))
        return int(value) + 1 if value.isdecimal() and len(value) == 1 and value != "9" else None

    def _runs(self, element: Any, formats: frozenset[str]) -> Iterator[tuple[frozenset[str], str]]:
        """Yield an element's runs of text as HTML, each with its formatting tags."""
        for child in element:
            name = _name(child)
            if name == "r":
                yield from self._runs(child, self._formats(child))
            elif name == "hyperlink":
                shown = _joined(list(self._runs(child, frozenset())))
                address = self._links.get(_value(child, "id"), "")
                yield frozenset(), marked_html.web_link(address, shown)
            elif name == "sdt":
                box = _child(child, "sdtPr", "checkbox")
                if box is not None:
                    yield frozenset(), "\u2612" if _is_on(_child(box, "checked")) else "\u2610"
                else:
                    yield from self._runs(child, formats)
            elif name in ("drawing", "pict"):
                yield from self._shapes(child)
            elif name in _TRANSPARENT:
                yield from self._runs(child, formats)
            elif name == "fldChar":
                self._begin_field(child)
            else:
                yield formats, self._text(child, name)

    def _shapes(self, element: Any) -> Iterator[tuple[frozenset[str], str]]:
        """Yield a drawing's images and text boxes."""
        for child in element:
            name = _name(child)
            if name in ("pic", "imagedata"):
                yield frozenset(), self._picture(child)
            elif name == "txbxContent":
                self._counts.converted("text box")
                for paragraph in child.iter("{*}p"):
                    yield from self._runs(paragraph, frozenset())
                    yield frozenset(), "<br>"
            else:
                yield from self._shapes(child)

    def _text(self, element: Any, name: str) -> str:
        """Return a part of a run as HTML."""
        if name == "t":
            text = escape(str(element.text or ""))
            return marked_html.web_link(self._address, text)
        if name in ("br", "cr"):
            return "<br>"
        if name == "tab":
            return "\t"
        if name == "noBreakHyphen":
            return "-"
        if name == "sym" and _value(element, "char").upper() in _SYMBOLS:
            return _SYMBOLS[_value(element, "char").upper()]
        if name in ("footnoteReference", "endnoteReference"):
            return self._footnote(name[0], _value(element, "id"))
        if name == "instrText":
            self._field += str(element.text or "")
        elif name in _OMITTED:
            self._counts.omitted(_OMITTED[name])
            text_elements = element.iter("{*}t") if name.startswith("oMath") else ()
            return escape("".join(str(word.text or "") for word in text_elements))
        else:
            self._count(name)
        return ""

    def _formats(self, run: Any) -> frozenset[str]:
        properties = _child(run, "rPr")
        if properties is None:
            return frozenset()
        formats = {
            _FORMATS[_name(element)]
            for element in properties
            if _name(element) in _FORMATS and _is_on(element)
        }
        style = _value(_child(properties, "rStyle"))
        font = _value(_child(properties, "rFonts"), "ascii").lower()
        if self._style(style) in _CODE_STYLES or font in _CODE_FONTS:
            return frozenset(("code",))
        if style == "Hyperlink":
            formats.discard("u")
        return frozenset(formats)

    def _begin_field(self, element: Any) -> None:
        """Process the start or the end of a field, such as a link."""
        kind = _value(element, "fldCharType")
        match = _FIELD.match(self._field) if kind == "separate" else None
        self._address = match[1] if match else ""
        self._field = ""

    def _footnote(self, kind: str, note_id: str) -> str:
        label = note_id if kind == "f" else f"e{note_id}"
        note, own_links = self._footnotes.get(kind + note_id, (None, {}))
        if note is None or not label.isalnum():
            return ""
        if label not in self._notes:
            self._counts.converted("footnote")
            self._notes[label] = ""  # in case the footnote refers to itself
            links, self._links = self._links, own_links
            self._notes[label] = "".join(self._blocks(note))
            self._links = links
        return marked_html.raw(f"[^{label}]")

    def _picture(self, element: Any) -> str:
        blip = next(element.iter("{*}blip"), None)
        relation = _value(element, "id") if blip is None else _value(blip, "embed")
        path = posixpath.normpath(posixpath.join("word", self._links.get(relation, "")))
        path = path if path in self._names else path.removeprefix("word/").lstrip("/")
        if path not in self._names:
            self._counts.omitted("image missing from the document")
            return ""
        ref = f"{self._key}/{posixpath.basename(path)}"
        if path not in self.files:
            self._counts.converted("image")
            self.files[path] = Attachment(f"files/{ref}", GivenBytes(self._read(path)), (ref,))
        return marked_html.link(ref, "", is_embed=True)

    def _table(self, table: Any, number: int) -> Iterator[tuple[tuple[str, int], Any]]:
        """Yield a table; a single cell, used as a frame, is replaced by its blocks."""
        rows = [
            [cell for cell in row if _name(cell) == "tc"] for row in table if _name(row) == "tr"
        ]
        if len(rows) == 1 and len(rows[0]) == 1:
            yield from self._parts(rows[0][0])
            return
        table_rows = []
        for index, row in enumerate(rows):
            tag = "td" if index else "th"
            cells = [f"<{tag}>{text}</{tag}>" for cell in row for text in self._cell(cell)]
            table_rows.append(f"<tr>{''.join(cells)}</tr>")
        yield ("table", number), f"<table>{''.join(table_rows)}</table>"

    def _cell(self, cell: Any) -> Iterator[str]:
        """Yield a cell's text, then an empty text for each additional column that it spans."""
        paragraphs = (self._runs(paragraph, frozenset()) for paragraph in cell.iter("{*}p"))
        lines = (_joined(list(runs)) for runs in paragraphs)
        merged = _child(cell, "tcPr", "vMerge")
        is_continued = merged is not None and _value(merged) != "restart"
        yield "" if is_continued else "<br>".join(line for line in lines if line.strip())
        value = _value(_child(cell, "tcPr", "gridSpan"))
        yield from [""] * ((int(value) if value.isdecimal() and len(value) < 3 else 1) - 1)

    def _count(self, name: str) -> None:
        if name and name not in _IGNORED:
            self._counts.omitted(f"element {name}")


def _list_tag(form: Any) -> str:
    return "ul" if form is None or _value(form) in ("bullet", "none", "") else "ol"


def _joined(runs: list[tuple[frozenset[str], str]]) -> str:
    """Join runs; put consecutive runs with the same formatting into one set of tags."""
    parts = []
    for formats, group in groupby(runs, key=lambda run: run[0]):
        text = "".join(part for _, part in group)
        core = text.strip()
        if core and formats:
            start = text[: len(text) - len(text.lstrip())]
            end = text[len(text.rstrip()) :]
            for tag in sorted(formats):
                core = f"<{tag}>{core}</{tag}>"
            text = start + core + end
        parts.append(text)
    return "".join(parts)


def _lists(items: list[tuple[int, str, str]]) -> str:
    """Return nested lists of items with a level, a list tag and HTML."""
    parts: list[str] = []
    tags: list[str] = []
    for level, tag, inner in items:
        level = min(level, len(tags), _MAX_LEVEL)
        while len(tags) > level + 1:
            parts.append(f"</li></{tags.pop()}>")
        if len(tags) == level + 1:
            parts.append("</li>")
            if tags[-1] != tag:
                parts.append(f"</{tags.pop()}>")
        if len(tags) == level:
            parts.append(f"<{tag}>")
            tags.append(tag)
        parts.append(f"<li>{inner}")
    parts += (f"</li></{tag}>" for tag in reversed(tags))
    return "".join(parts)
