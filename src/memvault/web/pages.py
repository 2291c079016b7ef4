"""Render the pages from values. Jinja2 escapes every value that is not marked as HTML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from memvault import clock, sanitize
from memvault.model import is_document
from memvault.named_tuple import NamedTuple
from memvault.recall.matched_words import marked_pieces
from memvault.tools.core.render import passage, rounded_down
from memvault.web.addresses import Addresses

if TYPE_CHECKING:
    from jinja2 import Environment

    from memvault.results import MemoryTypes, TagListing

ASSETS = (
    "icon.svg",
    "style.css",
    "app.js",
    "map.js",
    "vendor/graph.js",
    "vendor/highlight.js",
    "vendor/layout.js",
    "vendor/uplot.css",
    "vendor/uplot.js",
)
"""The style sheets, scripts and the icon of the pages."""
AGES = {"": "any time", "7d": "last 7 days", "30d": "last 30 days", "1y": "last year"}
"""The search's time filters, by value."""
_MOST_LINKED = 200
_MAX_TYPES, _MAX_TAGS = 8, 12
_WEEKS = 53
_CODE_SPAN = re.compile(r"(?<!`)`((?:[^`<]++|<mark>[^`<]*+</mark>)++)`(?!`)")
_MAX_COMPARED = 3_000_000
"""Maximum number of word pairs compared between two revisions, which takes about a second."""
_MIN_RATIO = 0.3
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_WORDS = re.compile(r"\w+|\W")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("memvault.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"notice": "", "error": ""}  # Only pages after a change have one.
    made.filters["day"] = lambda text: clock.local(str(text or ""))
    made.filters["minute"] = lambda text: clock.local(str(text or ""), 16).replace("T", " ")
    made.filters["seen"] = lambda text: sanitize.escape_text(str(text))
    made.filters["plain"] = _plain
    made.filters["message"] = _message
    made.tests["document"] = is_document
    made.filters["marked"] = _marked
    made.filters["rounded_down"] = rounded_down
    made.filters["address"] = lambda text: quote(str(text), safe="")
    return made


def render(name: str, to: Addresses | None = None, **values: Any) -> str:
    """Render a template by name; ``to`` contains the URLs for its links."""
    return _environment().get_template(f"{name}.html").render(to=to, **values)


def _plain(text: object) -> str:
    """Return markdown without link addresses and emphasis."""
    return sanitize.escape_text(passage(str(text)))


def _marked(text: object, terms: list[str]) -> Any:
    """Return ``_plain`` as HTML with code spans and with matching words marked."""
    from markupsafe import Markup, escape

    pieces = marked_pieces(_plain(text), terms)
    marked = (
        Markup("<mark>{}</mark>").format(piece) if hit else escape(piece) for piece, hit in pieces
    )
    return _with_code(Markup("").join(marked))


def _message(text: object) -> Any:
    """Return a message as HTML with code spans, such as the commands in a hint."""
    from markupsafe import escape

    return _with_code(escape(sanitize.escape_text(str(text))))


def _with_code(html: Any) -> Any:
    """Return escaped text with HTML for its code spans."""
    from markupsafe import Markup

    return Markup(_CODE_SPAN.sub(r"<code>\1</code>", str(html)))  # noqa: S704  # escaped before


def as_html(text: str) -> Any:
    """Mark a string as HTML that needs no escaping."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  # made by markdown_html


def asset(name: str) -> str:
    """Return a file of the pages."""
    return (files("memvault.web") / "assets" / name).read_text("utf-8")


def map_values(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for the page of a map: its counts, and the most linked memories."""
    nodes = sorted(graph["nodes"], key=lambda node: -node["links"])[:_MOST_LINKED]
    return {"nodes": nodes, "count": len(graph["nodes"]), "edges": len(graph["edges"])}


class Chip(NamedTuple):
    """A filter of the search: its value in the URL, its label, and whether it is selected."""

    value: str
    label: str
    is_selected: bool
    memories: int | None = None


def chips(
    known: tuple[TagListing, MemoryTypes] | None, selected: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the filters to show: the most frequent types and tags, and the selected ones.

    ``is_complete`` is whether the types and tags are known.
    """
    types: dict[str, int | None] = {}
    tags: dict[str, int | None] = {}
    if known is not None:
        by_count = sorted(known[1]["types"], key=lambda entry: -entry["count"])
        types = {entry["name"]: entry["count"] for entry in by_count if entry["count"]}
        tags = {entry["tag"]: entry["count"] for entry in known[0]["tags"]}

    def offered(counts: dict[str, int | None], most: int, chosen: list[str]) -> list[Chip]:
        names = dict.fromkeys([*chosen, *list(counts)[:most]])
        return [Chip(name, name, name in chosen, counts.get(name)) for name in names]

    kind = selected["kind"]
    return {
        "type": offered(types, _MAX_TYPES, [kind] if kind else []),
        "tag": offered(tags, _MAX_TAGS, selected["tags"]),
        "is_complete": known is not None,
        "since": [Chip(age, label, age == selected["since"]) for age, label in AGES.items()],
    }


class CalendarDay(NamedTuple):
    """A day of the calendar: its row, its label, and its level of activity from 0 to 4."""

    row: int
    label: str
    level: int


class CalendarWeek(NamedTuple):
    """A column of the calendar; ``month`` is the name of a month that begins in it, if any."""

    column: int
    month: str
    days: list[CalendarDay]


def calendar(counts: Mapping[str, int]) -> list[CalendarWeek]:
    """Return the last 53 weeks with the number of changes on each day."""
    today = clock.today()
    monday = today - timedelta(days=today.weekday(), weeks=_WEEKS - 1)
    days = [monday + timedelta(days=number) for number in range((today - monday).days + 1)]
    busiest = max((counts.get(day.isoformat(), 0) for day in days), default=0) or 1
    weeks: list[CalendarWeek] = []
    for number, day in enumerate(days):
        count = counts.get(day.isoformat(), 0)
        level = -(-4 * count // busiest)
        label = f"{day.isoformat()}: {count:,}"
        if number % 7 == 0:
            weeks.append(CalendarWeek(number // 7, "", []))
        if day.day == 1 and len(weeks) < _WEEKS:
            weeks[-1] = weeks[-1]._replace(month=day.strftime("%b"))
        weeks[-1].days.append(CalendarDay(number % 7, label, level))
    return weeks


class DiffLine(NamedTuple):
    """A line of a comparison: ``added``, ``removed``, ``same`` or a ``gap``.

    ``pieces`` are parts of its text, each with a flag: whether it differs from the replaced line.
    """

    kind: str
    old: int | None
    new: int | None
    pieces: list[tuple[str, bool]]


def diff_lines(diff: str) -> list[DiffLine]:
    """Return the lines of a unified diff with their numbers and changed words."""
    lines: list[DiffLine] = []
    old = new = 0
    for line in diff.splitlines():
        if match := _HUNK.match(line):
            old, new = int(match[1]), int(match[2])
            lines += [DiffLine("gap", None, None, [])] if lines else []
        elif old or new:
            text = [(line[1:], False)]
            if line.startswith("+"):
                lines.append(DiffLine("added", None, new, text))
            elif line.startswith("-"):
                lines.append(DiffLine("removed", old, None, text))
            elif line.startswith(" "):
                lines.append(DiffLine("same", old, new, text))
            old += not line.startswith("+")
            new += not line.startswith("-")
    _mark_words(lines)
    return lines


def _mark_words(lines: list[DiffLine]) -> None:
    """Mark the changed words of removed lines that the same number of added lines replaces."""
    budget = _MAX_COMPARED
    start = 0
    for kind, run in groupby(list(lines), key=lambda line: line.kind):
        end = start + len(list(run))
        count = end - start
        if kind == "removed" and [line.kind for line in lines[end : end + count]] == (
            ["added"] * count
        ):
            for place in range(start, end):
                before, after = lines[place], lines[place + count]
                words = [_WORDS.findall(line.pieces[0][0]) for line in (before, after)]
                budget -= len(words[0]) * len(words[1])
                if budget < 0:
                    return
                pieces = _changed_words(*words)
                lines[place] = before._replace(pieces=pieces[0])
                lines[place + count] = after._replace(pieces=pieces[1])
        start = end


def _changed_words(before: list[str], after: list[str]) -> tuple[list[tuple[str, bool]], ...]:
    """Return the pieces of two lines, each with a flag: whether it differs from the other line."""
    words = before, after
    matcher = SequenceMatcher(None, *words, autojunk=False)
    if matcher.ratio() < _MIN_RATIO:
        return [("".join(before), False)], [("".join(after), False)]
    pieces: tuple[list[tuple[str, bool]], ...] = ([], [])
    for tag, *ends in matcher.get_opcodes():
        for side, (first, last) in enumerate((ends[:2], ends[2:])):
            text = "".join(words[side][first:last])
            pieces[side].extend([(text, tag != "equal")] if text else [])
    return pieces
