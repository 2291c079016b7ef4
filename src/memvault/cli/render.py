"""Rendering of results as lines for people; a line is a list of (text, style) pieces.

A result is laid out by the types of its values, unless ``memvault.cli.forms`` has
a form for it: template lines that are filled in from the result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from string import Formatter
from typing import Any

from memvault.cli.forms import FORMS
from memvault.cli.views import VIEWS

Line = list[tuple[str, str]]
Result = Mapping[str, Any]

_STYLES = {
    "number": "dim",
    "title": "bold",
    "score": "green",
    "similarity": "green",
    "strength": "dim",
    "hardly": "dim",
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
}
_MAX_INLINE = 72
"""Longest text, in characters, that is shown on the line of its key."""
_FORMATTER = Formatter()
_GAP = "  "
"""Separator of the parts of a line; a part without a value is left out."""


def lines(name: str, found: Result) -> list[Line]:
    """Render a result as lines, with the form of that name or else the generic layout."""
    form = FORMS.get(name)
    shown = VIEWS[name](found) if name in VIEWS else found
    footer: list[Line] = []
    if "next" in found and "total" in found:
        footer.append([(_paging_footer(found), "")])
        shown = {key: value for key, value in shown.items() if key not in ("next", "total")}
    elif form is None and found.get("total") == len(_list(found)):
        shown = {key: value for key, value in shown.items() if key != "total"}
    if "message" in found:
        footer.append([(str(found["message"]), "")])
    return [*(render_generic(shown) if form is None else _render_view(form, shown)), *footer]


def _paging_footer(found: Result) -> str:
    """Return a line with how many entries are shown, and the option that shows more."""
    shown = found.get("count", len(_list(found)))
    return f"{shown:,} of {found['total']:,}; --offset {found['next']} goes on"


def _list(found: Result) -> list[Any]:
    """Return the first list of a result."""
    return next((value for value in found.values() if isinstance(value, list)), [])


def render_generic(found: Result) -> Iterator[Line]:
    """Yield the lines of a result without a form, laid out by the types of its values."""
    for key, value in found.items():
        if key in ("success", "warnings", "message") or (value == [] and "message" in found):
            continue
        if isinstance(value, Mapping) and _is_record_list([*value.values()]):
            value = [{"": name, **entry} for name, entry in value.items()]
        if _is_record_list(value) or _is_long(value):
            yield [(f"{_split_camel_case(key)}:", "dim")]
            yield from _nested_lines(value, "   ")
        else:
            yield [(f"{_split_camel_case(key)}: ", "dim"), (_inline(value), "")]


def _nested_lines(value: Any, indent: str) -> Iterator[Line]:
    """Yield a long text as a quotation, or each record with its first value as the heading."""
    if isinstance(value, str):
        yield from ([(f"{indent}> {line}", "")] for line in _split(value))
        return
    for entry in value:
        below = {
            key: part for key, part in entry.items() if _is_record_list(part) or _is_long(part)
        }
        (first, head), *rest = [pair for pair in entry.items() if pair[0] not in below] or [
            ("", "")
        ]
        line: Line = [(indent, ""), (_inline(head), _STYLES.get(first, "bold"))]
        for key, part in rest:
            line += [
                (f"{_GAP}{_split_camel_case(key)} ", "dim"),
                (_inline(part), _STYLES.get(key, "")),
            ]
        yield line
        for key, part in below.items():
            if _is_record_list(part):
                yield [(f"{indent}   {_split_camel_case(key)}:", "dim")]
            yield from _nested_lines(part, f"{indent}   ")


def _is_record_list(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(part, Mapping) for part in value)
    )


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and (len(value) > _MAX_INLINE or len(value.splitlines()) > 1)


def _split_camel_case(key: str) -> str:
    return "".join(f" {char.lower()}" if char.isupper() else char for char in key)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            ", ".join(
                f"{_split_camel_case(str(key))} {_inline(part)}" for key, part in value.items()
            )
            or "–"
        )
    if isinstance(value, list | tuple):
        return ", ".join(_inline(part) for part in value) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "–"


def _split(text: str) -> list[str]:
    return text.strip("\n").splitlines()


def _render_view(form: str, found: Result) -> Iterator[Line]:
    rows = form.split("\n")
    while rows:
        row = rows.pop(0)
        if not row.startswith("*"):
            yield from _form_lines(row, found)
            continue
        each = list(takewhile(bool, rows))
        del rows[: len(each) + 1]
        above, _, none = row[1:].partition(" | ")
        key, _, heading = above.partition(" ")
        entries = _value(key, found)
        if entries and heading:
            yield from _form_lines(heading, found)
        if none and entries == [] and not found.get("total"):
            yield [(none, "")]
        for number, entry in enumerate(entries or (), start=1):
            record = entry if isinstance(entry, Mapping) else {"text": entry}
            for line in each:
                yield from _form_lines(line, {"number": number, **record})


def _form_lines(template: str, found: Result) -> Iterator[Line]:
    """Fill in one line of a form; with ``:each`` or ``:rest``, once per line of that value."""
    for _, name, spec, _ in _FORMATTER.parse(template):
        if name and spec in ("each", "rest"):
            value = _value(name, found)
            parts = value if isinstance(value, list | tuple) else _split(str(value or ""))
            for part in parts[1:] if spec == "rest" else parts:
                yield _fill_line(template, found, part)
            return
    line = _fill_line(template, found)
    if line:
        yield line


def _fill_line(template: str, found: Result, part: object = None) -> Line:
    """Fill in a line, leaving out parts without a value; empty if no part is left."""
    template_text = template.lstrip(" ")
    line: Line = [(template[: len(template) - len(template_text)], "")]
    style = "dim" if template != template_text and not template_text.startswith(">") else ""
    head = "" if template != template_text else "bold"
    filled = "{" not in template
    for piece in template_text.split(_GAP):
        values = _fill_part(piece, found, part, style, head)
        if values:
            line += [(_GAP, ""), *values] if len(line) > 1 else values
            filled = filled or "{" in piece
            head = ""
    return line if filled else []


def _fill_part(template: str, found: Result, part: object, style: str, head: str) -> Line:
    out: Line = []
    for literal, name, spec, _ in _FORMATTER.parse(template):
        out.append((literal, style))
        if name:
            value = part if spec in ("each", "rest") else _value(name, found)
            text = "" if value is None else _text(name, value, spec or "")
            if not text and spec not in ("each", "rest"):
                return []
            out.append((text, _STYLES.get(name, head or style)))
            head = ""
    return out


def _value(name: str, found: Result) -> Any:
    try:
        return _FORMATTER.get_field(name, (), found)[0]
    except (LookupError, TypeError, AttributeError):
        return None


def _text(name: str, value: Any, spec: str) -> str:
    """Format a value by the format specification of a form.

    ``a|b`` chooses a word for true or false, or the singular or plural of a noun; ``#``
    is the number of entries, ``first`` the first line of a text, ``json`` JSON; all others
    are Python's own. For ``each`` and ``rest``, which spread all lines or all but the
    first, this is called with one line at a time.
    """
    yes, choice, no = spec.partition("|")
    if choice and isinstance(value, bool):
        return yes if value else no
    if choice:
        return f"{_inline(value)} {yes if value == 1 else no}"
    if spec == "#":
        return str(len(value))
    if spec == "first":
        return next(iter(_split(str(value))), "")
    if spec == "json":
        return json.dumps(value, ensure_ascii=False)
    if name == "tags" and isinstance(value, list):
        return " ".join(f"#{tag}" for tag in value)
    if isinstance(value, Mapping | list | tuple):
        return _inline(value) if value else ""
    if value == "":
        return ""
    if isinstance(value, float) or spec[:1] in ("<", ">", "."):
        return format(value, spec)
    return _inline(value)
