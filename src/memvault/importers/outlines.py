"""Functions shared by outliners: day formats, code spans, and markup with nested brackets."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime

from memvault.importers import convert, plain_text
from memvault.importers.content_counts import ContentCounts
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple
from memvault.vault import markdown

_FORMAT = lazy_pattern(r"'[^']*'|yyyy|yy|M{1,4}|do|d{1,2}|E{1,4}|.", re.DOTALL)
_MAX_FORMAT = 60
_DIRECTIVES = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%m",
    "do": "%d",
    "dd": "%d",
    "d": "%d",
    "EEEE": "%A",
    "EEE": "%a",
    "EE": "%a",
    "E": "%a",
}
"""Maps Java's date directives to ``strftime``'s; ``do`` is the day as an ordinal number."""
_ORDINAL = lazy_pattern(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_TICKS = lazy_pattern(r"`++")
_NAMES = lazy_pattern(
    r"#?\[\[((?:[^\[\]\n]|\[\[[^\[\]\n]*\]\])+)\]\]|\"([^\"]*)\"|[^,\s#\[][^,#\[]*|#[^\s,#\[]+"
)
_BRACKET = lazy_pattern(r"\[\[|\]\]|[{}]")
_INNER = lazy_pattern(r"\[\[([^\[\]]+)\]\]")
_CLOSING = {"[[": "]]", "{": "}"}
_MASK = "\x00"
MARKUP = (
    r"(?P<macro>\{\{)"
    r"|(?P<image>!)?\[(?!\[)(?P<label>(?:[^\[\]\n]|\[[^\[\]\n]{0,99}\]){0,500}+)\]\("
    r"|#?\[\["
)
"""Matches the start of markup that outliners share."""
_PAGE_TARGET = lazy_pattern(r"\[\[((?:[^\[\]\n]|\[\[[^\[\]\n]{0,200}\]\]){1,300}+)\]\]\)")
PLACE = "\ue000"
"""Placeholder for converted markup while the text around it is escaped."""


class ReferredBlock(NamedTuple):
    """A referenced block: the id of its note, and the start of its text."""

    ref: str
    text: str


class DayFormat:
    """A format of days as in Java and Clojure, such as ``MMM do, yyyy``."""

    def __init__(self, form: str) -> None:
        self._parts = [match[0] for match in _FORMAT.finditer(form[:_MAX_FORMAT])]
        written = [_DIRECTIVES.get(p, p.strip("'").replace("%", "%%")) for p in self._parts]
        self._format = "".join(written)
        is_complete = "%Y" in written and "%d" in written
        self._is_day = is_complete and not {"%m", "%b", "%B"}.isdisjoint(written)

    def written(self, day: date) -> str:
        """Format a day."""
        return "".join(_written(part, day) for part in self._parts)

    def parsed(self, text: str) -> date | None:
        """Parse a day; None if the text has another format."""
        if self._is_day and not text.isalpha():
            with suppress(ValueError, re.error):  # a directive may occur twice
                return datetime.strptime(_ORDINAL.sub("", text.strip()), self._format).date()  # noqa: DTZ007
        return None


def _written(part: str, day: date) -> str:
    if part == "do":
        last = 0 if 10 < day.day < 14 else day.day % 10
        return f"{day.day}{('th', 'st', 'nd', 'rd')[last] if last < 4 else 'th'}"
    text = day.strftime(_DIRECTIVES[part]) if part in _DIRECTIVES else part.strip("'")
    return text.lstrip("0") if part in ("d", "M") else text


def without_code(text: str) -> str:
    """Replace code spans with null characters, without changing the length."""
    runs = list(_TICKS.finditer(text)) if "`" in text else []
    later: dict[int, list[re.Match[str]]] = defaultdict(list)
    """The positions of backtick runs by run length, last one first."""
    for run in reversed(runs):
        later[len(run[0])].append(run)
    pieces: list[str] = []
    done = 0
    for run in runs:
        same = later[len(run[0])]
        while same and same[-1].start() <= run.start():
            same.pop()
        if same and run.start() >= done:
            pieces += (text[done : run.start()], _MASK * (same[-1].end() - run.start()))
            done = same[-1].end()
    return "".join([*pieces, text[done:]])


def bracket_ends(text: str) -> dict[int, int]:
    """Map the start of each balanced ``[[…]]`` and ``{…}`` to its end."""
    ends: dict[int, int] = {}
    if "[[" not in text and "{" not in text:
        return ends
    opened: dict[str, list[int]] = {"]]": [], "}": []}
    for match in _BRACKET.finditer(text):
        sign = match[0]
        if sign in _CLOSING:
            opened[_CLOSING[sign]].append(match.start())
        elif opened[sign]:
            ends[opened[sign].pop()] = match.end()
    return ends


def link_missing(name: str, label: str, link: Callable[[str, str], str]) -> str:
    """Return a link to a missing page; if its name contains page names, link those instead."""
    if "[[" not in name:
        return f"[[{name}|{label}]]" if label and label != name else f"[[{name}]]"
    linked_name = _INNER.sub(lambda match: link(match[1], ""), name)
    return f"{label} ({linked_name})" if label else linked_name


def names_in(value: str) -> list[str]:
    """Return the names in a property's value: links, tags or comma-separated text."""
    names: dict[str, None] = {}
    for match in _NAMES.finditer(value):
        name = match[1] or match[2] or match[0].strip().removeprefix("#")
        bare = " ".join(name.replace("[[", "").replace("]]", "").split())
        if bare.strip(" .;&#"):
            names[bare] = None
    return list(names)


def day_link(day: date, shown: str) -> str:
    """Return a link to the daily note of a day, which may not exist yet."""
    name = day.isoformat()
    return f"[[{name}]]" if shown == name else f"[[{name}|{shown}]]"


Convert = Callable[[re.Match[str], str, dict[int, int]], "tuple[str, int] | None"]
"""A function that returns the markdown for the markup at a match, and the end of that markup."""


def convert_markup(
    text: str, token: re.Pattern[str], convert: Convert, plain: Callable[[str], str] = str
) -> str:
    """Convert the markup outside of code spans.

    ``token`` matches possible starts of markup. ``plain`` converts the rest of the text, in which a
    private-use character stands for each converted part.
    """
    masked = without_code(text)
    ends = bracket_ends(masked)
    pieces: list[str] = []
    converted_parts: list[str] = []
    done = position = 0
    while (match := token.search(masked, position)) is not None:
        result = convert(match, text, ends)
        if result is None:
            position = max(match.start() + 1, position + 1)
            continue
        pieces.append(text[done : match.start()])
        converted_parts.append(result[0])
        done = position = max(result[1], match.start() + 1)
    pieces.append(text[done:])
    if plain is not str:
        pieces = plain(PLACE.join(piece.replace(PLACE, "") for piece in pieces)).split(PLACE)
    pairs = zip(pieces, [*converted_parts, ""], strict=False)
    return "".join(part for pair in pairs for part in pair)


class OutlineContext(NamedTuple):
    """The data about a graph that is needed to convert one of its pages.

    ``ref`` is the id of the page, ``blocks`` are the referenced blocks by id. ``page_link`` returns
    a link to the page with a name, with a label unless it is empty. ``to_root`` is the relative
    path from the page's folder to the graph, ``asset_names`` are the files in its assets folder.
    """

    ref: str
    blocks: Mapping[str, ReferredBlock]
    page_link: Callable[[str, str], str]
    counts: ContentCounts
    to_root: str = ""
    asset_names: frozenset[str] = frozenset()


class OutlineInline(ABC):
    """Converts the inline markup that all outliners share."""

    block_target: re.Pattern[str]

    def __init__(self, context: OutlineContext, is_quoted: bool) -> None:
        self._context = context
        self._is_quoted = is_quoted
        """Whether the text is quoted from another block."""

    def __call__(
        self, match: re.Match[str], text: str, ends: dict[int, int]
    ) -> tuple[str, int] | None:
        """Return the markdown for markup at a match, and its end; None for text."""
        if match["macro"]:
            end = ends.get(match.start())
            return self._macro(match, text, end) if end else None
        if match["ref"]:
            return self._reference(match["ref"], match[0]), match.end()
        if match["label"] is not None:
            return self._link(match, text)
        if not match[0].endswith("[["):
            return self._other(match, text)
        is_tag = match[0].startswith("#")
        start = match.start() + is_tag
        end = ends.get(start)
        if end is None or "\n" in text[start:end]:
            return None
        self._context.counts.converted("page reference")
        name = text[start + 2 : end - 2]
        return self._tag(name) if is_tag else self._context.page_link(name, ""), end

    @abstractmethod
    def _macro(self, match: re.Match[str], text: str, end: int) -> tuple[str, int] | None:
        """Return a macro's markdown, and its end."""

    @abstractmethod
    def _quoted(self, text: str) -> str:
        """Return the beginning of a quoted block as markdown."""

    @abstractmethod
    def _address(self, match: re.Match[str], label: str, text: str) -> tuple[str, int] | None:
        """Return a link to a target other than a page or block, and its end."""

    @abstractmethod
    def _other(self, match: re.Match[str], text: str) -> tuple[str, int] | None:
        """Return the markdown for program-specific markup, and its end."""

    def _plain(self, text: str) -> str:
        """Return literal text of a block."""
        return text

    def _tag(self, name: str) -> str:
        tag = f"#{convert.tag(name)}"
        tags_found = markdown.tags(tag)
        is_whole = bool(tags_found) and tags_found[0][0] == tag
        return tag if is_whole else self._context.page_link(name, "")

    def _reference(self, key: str, written: str) -> str:
        """Return the text of a referenced block, and a link to its page."""
        target = self._context.blocks.get(key)
        if target is None:
            self._context.counts.omitted("reference to a missing block")
            return self._plain(written)
        if self._is_quoted:
            return f"“{self._quoted(target.text)}”"
        self._context.counts.converted("block reference")
        is_here = target.ref == self._context.ref
        link = "" if is_here else f" ([[import:{target.ref}]])"
        return f"“{self._quoted(target.text)}”{link}"

    def _link(self, match: re.Match[str], text: str) -> tuple[str, int] | None:
        label = text[match.start("label") : match.end("label")]
        block = self.block_target.match(text, match.end())
        if block is not None:
            self._context.counts.converted("block reference")
            target = self._context.blocks.get(block[1])
            if target is None or target.ref == self._context.ref or not label.strip():
                return self._plain(label), block.end()
            return f"[[import:{target.ref}|{page_label(label)}]]", block.end()
        page = _PAGE_TARGET.match(text, match.end())
        if page is not None:
            self._context.counts.converted("page reference")
            return self._context.page_link(page[1], page_label(label)), page.end()
        return self._address(match, label, text)


def as_code(text: str) -> str:
    """Return unsupported markup as a code span."""
    return plain_text.code_span(" ".join(text.split()))


def page_label(text: str) -> str:
    """Return text as the label of a link between notes."""
    return " ".join(convert.label(text.replace("[[", "").replace("]]", "")).split())
