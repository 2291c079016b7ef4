"""Render results as lines, for people and models; a line is a list of (text, style) pieces.

For people, a tool's ``Template`` formats its result. Results without a template, and all results
for models, are formatted by the types of their values; for people, keys, booleans and empty values
become words. Many MCP clients pass only this text to a model, others only the structured content.
So the text omits only details that no model needs: in lists, the seconds of times, empty values,
and a creation date beside a modification date. Text from the vault follows its key on the same
line, or is indented below it, so it cannot be mistaken for the result's own lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from string import Formatter
from typing import Any

from memvault import clock, sanitize
from memvault.lazy_pattern import lazy_pattern
from memvault.named_tuple import NamedTuple

Line = list[tuple[str, str]]
Result = Mapping[str, Any]


class Template(NamedTuple):
    """How a result is printed for people: lines that are filled in from the result.

    A tool's or command's ``view`` is such a template. ``prepare`` adds the keys that the lines need
    to the result. An example::

        Found {count:memory|memories}  in {area}
        *memories Newest first: | There are no memories
        {number}  {title}  {tags}  {pinned:pinned|}
           {marks}
           > {snippet:passage}

    Two spaces separate the parts of a line; a part is left out if the result has no value for it,
    and so is a line without parts. Indented lines are dim. The lines after ``*key``, up to an empty
    line, are repeated for each record of that list, below a heading if one follows the key; the
    text after ``|`` is printed if the list is empty. A record has the key ``number``, and ``text``
    if it is not a mapping. ``{content|snippet}`` is the first of these keys that has a value, and
    ``{marks}`` expands to the marks of a memory that is not current. A format specification after a
    colon is one of Python's, such as ``.2f``, or one of these:

    - ``memory|memories``: a number with its noun, ``1 memory`` or ``3 memories``; for a boolean,
      the first word if true, else the second
    - ``value=text``: the text if it has that value
    - ``#``: the number of entries
    - ``floor``: a probability with two decimals, rounded down
    - ``first``: the first line of text
    - ``json``: JSON
    - ``day``, ``minute``, ``second``: a time in the user's time zone, truncated to that unit
    - ``each``, ``rest``: a line for each entry in a list or line of text, or all but the first
    - ``passage``: a line for each line of text, without link addresses and ``**``, ``==``, ``~~``
    - ``diff``: a line for each line of text, colored by what it adds or removes
    - ``markdown``, which must be alone in its line: the text as rendered markdown

    Common indentation is removed; a first line that directly follows the quotes has none.
    """

    text: str = ""
    prepare: Callable[[Result], Result] | None = None

    @property
    def expanded(self) -> str:
        """The text without its indentation, with ``{marks}`` expanded."""
        return _dedented(self.text).replace("{marks}", _MARKS)


def _dedented(text: str) -> str:
    """Return text without common indentation and surrounding blank lines, like a docstring."""
    first, *others = text.split("\n")
    indents = [len(line) - len(line.lstrip()) for line in others if line.strip()]
    margin = min(indents, default=0)
    return "\n".join([first.lstrip(), *(line[margin:] for line in others)]).strip("\n")


_MARKS = (
    "as it was on {asOf:day}  superseded by {supersededBy}  expired {expired}  "
    "valid from {notYet}  newer: {newer}  not merged, from {unmergedBranch}  "
    "other version on {otherVersionOn}  in {worktree}"
)
"""The value of ``{marks}`` in a template: the marks of a memory that is not current."""
_STYLES = {
    "number": "dim",
    "title": "bold",
    "score": "green",
    "similarity": "green",
    "strength": "dim",
    "probability": "dim",
    "best": "dim",
    "distance": "green",
    "tokens": "green",
    "memoryType": "cyan",
    "status": "cyan",
    "type": "cyan",
    "tags": "magenta",
    "problem": "red",
    "evicted": "yellow",
    "why": "yellow",
    "missing": "yellow",
    "changeId": "yellow",
    "tool": "cyan",
    "agent": "green",
}
_INDENT = "  "
_TIME_LENGTHS = {"day": 10, "minute": 16, "second": 19}
"""Number of leading characters to show of an ISO 8601 time."""
SPREADING = ("each", "rest", "passage", "diff", "markdown")
"""Format specifications of values with several lines: all, all but the first, a passage, a diff,
markdown.
"""
_CODE = lazy_pattern(r"(`[^`\n]*`)")
_LINK = lazy_pattern(r"!?\[([^\[\]\n]*)\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?(?: \"[^\"\n]*\")?\)")
_WIKILINK = lazy_pattern(r"!?\[\[(?:[^\[\]|\n]*\|)?([^\[\]|\n]*)\]\]")
_EMPHASIS = lazy_pattern(r"(?<![\w*=~])(\*\*|==|~~)(?=\S)([^*=~\n]*)(?<=\S)\1(?![\w*=~])")
_LONG_URL = lazy_pattern(r"(https?://[^\s/<>]*+/)[^\s<>]{20,}+")
"""A URL whose path is long; only its host is shown in a passage."""
_DIFF_STYLES = {"--- ": "bold", "+++ ": "bold", "@": "cyan", "+": "green", "-": "red"}
"""Styles of the lines of a unified diff, by their first character."""
_FORMATTER = Formatter()
_GAP = "  "
"""Separates the parts of a line; a part without a value is left out."""


Markdown = Callable[[str], list[Line]]


def lines(view: Template, result: Result, markdown: Markdown | None = None) -> list[Line]:
    """Render a result as lines for people, by a view or, if that is empty, by its values' types.

    ``markdown`` renders values with the format specification ``markdown``; without it, they are
    shown as they are.
    """
    template = view.expanded
    shown = view.prepare(result) if view.prepare else result
    footer: list[Line] = []
    if "next" in result and "total" in result:
        footer.append([(_paging_footer(shown), "")])
        shown = {key: value for key, value in shown.items() if key not in ("next", "total")}
    elif not template and result.get("total") == len(_list(result)):
        shown = {key: value for key, value in shown.items() if key != "total"}
    if "message" in result:
        footer.append([(str(result["message"]), "")])
    if template:
        return [*_render_view(template, shown, markdown), *footer]
    is_empty = {key for key, value in result.items() if value == [] and "message" in result}
    hidden = {"success", "warnings", "message", *is_empty}
    fields = {key: shown[key] for key in shown if key not in hidden}
    return [*_entries(fields, for_people=True), *footer]


def shortened(texts: Iterable[str], max_items: int = 20) -> list[str]:
    """Return the first strings and a count of the rest, for people; JSON includes all of them."""
    every = list(texts)
    omission = [f"… and {len(every) - max_items:,} more"] if len(every) > max_items else []
    return [*every[:max_items], *omission]


def _paging_footer(result: Result) -> str:
    """Return a line with the number of entries shown, and the option or command to show more."""
    shown = result.get("count", len(_list(result)))
    more = result.get("nextCommand", f"`--offset {result['next']}`")
    return f"{shown:,} of {result['total']:,}; {more} shows more"


def _list(result: Result) -> list[Any]:
    """Return the first list of a result."""
    return next((value for value in result.values() if isinstance(value, list)), [])


def text(result: Result) -> str:
    """Return a result as text for a model; ``success`` is omitted if true."""
    shown = {key: value for key, value in result.items() if (key, value) != ("success", True)}
    return "\n".join("".join(piece for piece, _ in line) for line in _entries(shown)) or "Done"


def _entries(result: Result, indent: str = "", for_people: bool = False) -> Iterator[Line]:
    for key, value in result.items():
        name = _split_camel_case(str(key)) if for_people else str(key)
        head = f"{indent}{sanitize.escape_line(name)}:"
        yield from _entry(head, value, indent + _INDENT, for_people, _STYLES.get(key, ""))


def _entry(head: str, value: Any, indent: str, for_people: bool, style: str = "") -> Iterator[Line]:
    """Yield the lines of a key or dash with its value, on the same line or indented below."""
    inline = _inline(value, for_people)
    if inline is not None:
        yield [(head, "dim"), (f" {inline}", style)]
        return
    yield [(head, "dim")]
    if isinstance(value, str):
        lines = sanitize.escape_text(value.strip("\n")).split("\n")
        yield from ([(f"{indent}{line}".rstrip(), "")] for line in lines)
    elif isinstance(value, Mapping):
        yield from _entries(value, indent, for_people)
    else:
        yield from _items(value, indent, for_people)


def _items(entries: Sequence[Any], indent: str, for_people: bool) -> Iterator[Line]:
    for value in entries:
        fields = _relevant_fields(value) if isinstance(value, Mapping) else {}
        if fields:
            first, *rest = _entries(fields, indent, for_people)
            (head, style), *other_lines = first
            yield [(f"{indent[:-2]}- {head[len(indent) :]}", style), *other_lines]
            yield from rest
        else:
            yield from _entry(f"{indent[:-2]}-", value, indent + _INDENT, for_people)


def _relevant_fields(record: Result) -> dict[str, Any]:
    """Return the fields of a record to show in a list."""
    fields = {key: value for key, value in record.items() if value not in ("", [], {}, None)}
    if isinstance(fields.get("modified"), str):
        fields.pop("created", None)
        fields["modified"] = clock.local(fields["modified"], _TIME_LENGTHS["minute"])
    return fields


def _inline(value: Any, for_people: bool) -> str | None:
    """Return a value as text if it fits on its key's line, or None if it needs its own lines."""
    if for_people and (isinstance(value, bool) or value in ("", None, [], {})):
        return "–" if value is None else _words(value)
    if isinstance(value, str):
        return None if "\n" in value else sanitize.escape_line(value) or '""'
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and not value):
        return None if value else json.dumps(value)
    if isinstance(value, list | tuple):
        is_plain = all(
            isinstance(part, str) and "\n" not in part and "," not in part for part in value
        )
        return ", ".join(sanitize.escape_line(part) or '""' for part in value) if is_plain else None
    return json.dumps(value)


def _split_camel_case(key: str) -> str:
    return "".join(f" {char.lower()}" if char.isupper() else char for char in key)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            ", ".join(
                f"{_split_camel_case(str(key))} {_words(part)}" for key, part in value.items()
            )
            or "–"
        )
    if isinstance(value, list | tuple):
        return ", ".join(_words(part) for part in value) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "–"


def passage(text: str) -> str:
    """Return a line of markdown without link addresses and the marks ``**``, ``==`` and ``~~``.

    Code is unchanged, and long URLs are truncated after the host.
    """
    parts = _CODE.split(text)
    for number in range(0, len(parts), 2):
        part = _WIKILINK.sub(r"\1", _LINK.sub(r"\1", parts[number]))
        parts[number] = _LONG_URL.sub(r"\1…", _EMPHASIS.sub(r"\2", part))
    return "".join(parts)


def _split(text: str) -> list[str]:
    return text.strip("\n").splitlines()


def rounded_down(probability: float) -> str:
    """Format a probability with two decimals, rounded down to stay below the next threshold."""
    return f"{int(100 * probability + 1e-6) / 100:.2f}"


def _render_view(template: str, result: Result, markdown: Markdown | None) -> Iterator[Line]:
    rows = template.split("\n")
    while rows:
        row = rows.pop(0)
        if row.endswith(":markdown}") and markdown is not None:
            content = result.get(row[1:].partition(":")[0])
            yield from markdown(content) if content else ()
            continue
        if not row.startswith("*"):
            yield from _template_lines(row, result)
            continue
        each = list(takewhile(bool, rows))
        del rows[: len(each) + 1]
        above, _, none = row[1:].partition(" | ")
        key, _, heading = above.partition(" ")
        entries = _value(key, result)
        if entries and heading:
            yield from _template_lines(heading, result)
        if none and entries == [] and not result.get("total"):
            yield [(none, "")]
        for number, entry in enumerate(entries or (), start=1):
            record = entry if isinstance(entry, Mapping) else {"text": entry}
            for line in each:
                yield from _template_lines(line, {"number": number, **record})


def _template_lines(template: str, result: Result) -> Iterator[Line]:
    """Fill in one line of a template; with ``:each`` and similar, once per line of a value."""
    for _, name, spec, _ in _FORMATTER.parse(template):
        if name and spec in SPREADING:
            value = _value(name, result)
            parts = value if isinstance(value, list | tuple) else _split(str(value or ""))
            for part in parts[1:] if spec == "rest" else parts:
                yield _fill_line(template, result, part)
            return
    line = _fill_line(template, result)
    if line:
        yield line


def _fill_line(template: str, result: Result, part: object = None) -> Line:
    """Fill in a line, leaving out parts without a value; empty if no part is left."""
    template_text = template.lstrip(" ")
    line: Line = [(template[: len(template) - len(template_text)], "")]
    style = "dim" if template != template_text and not template_text.startswith(">") else ""
    head = "" if template != template_text else "bold"
    filled = "{" not in template
    for piece in template_text.split(_GAP):
        values = _fill_part(piece, result, part, style, head)
        if values:
            line += [(_GAP, ""), *values] if len(line) > 1 else values
            filled = filled or "{" in piece
            head = ""
    return line if filled else []


def _fill_part(template: str, result: Result, part: object, style: str, head: str) -> Line:
    out: Line = []
    for literal, name, spec, _ in _FORMATTER.parse(template):
        out.append((literal, style))
        if name:
            value = part if spec in SPREADING else _value(name, result)
            text = "" if value is None else _text(name, value, spec or "")
            if spec == "passage":
                text = passage(text)
            if not text and spec not in SPREADING:
                return []
            own_style = _diff_style(text) if spec == "diff" else _STYLES.get(name)
            out.append((text, own_style or head or style))
            head = ""
    return out


def _diff_style(line: str) -> str:
    return next((style for head, style in _DIFF_STYLES.items() if line.startswith(head)), "none")


def _value(name: str, result: Result) -> Any:
    """Return a field's value, or None; a ``name`` may list alternatives, separated by |."""
    for field in name.split("|"):
        try:
            value = _FORMATTER.get_field(field, (), result)[0]
        except (LookupError, TypeError, AttributeError):
            continue
        if value or field == name:
            return value
    return None


def _text(name: str, value: Any, spec: str) -> str:
    """Format a value by a format specification (see ``Template``).

    For a specification of ``SPREADING``, this is called with one line at a time.
    """
    if "|" in spec or "=" in spec:
        return _chosen(value, spec)
    if spec == "#":
        return str(len(value))
    if spec == "first":
        return next(iter(_split(str(value))), "")
    if spec in _TIME_LENGTHS:
        return clock.local(str(value), _TIME_LENGTHS[spec])
    if spec == "json":
        return json.dumps(value, ensure_ascii=False)
    if name == "tags" and isinstance(value, list):
        return " ".join(f"#{tag}" for tag in value)
    if isinstance(value, Mapping | list | tuple):
        return _words(value) if value else ""
    if value == "":
        return ""
    if isinstance(value, float) or spec[:1] in ("<", ">", "."):
        return rounded_down(value) if spec == "floor" else format(value, spec)
    return _words(value)


def _chosen(value: Any, spec: str) -> str:
    first, choice, second = spec.partition("|")
    if not choice:
        expected, _, text = spec.partition("=")
        return text if value == expected else ""
    if isinstance(value, bool):
        return first if value else second
    number = f"{value:g}" if isinstance(value, float) else _words(value)
    return f"{number} {first if value == 1 else second}"
