"""Format results for other programs: one line per entry from a template, or CSV.

Text from a vault is escaped, so it cannot control a terminal, start a new line or be evaluated as a
formula by a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from string import Formatter
from typing import Any

from memvault import sanitize
from memvault.errors import UsageError, suggestion
from memvault.tools.core.render import SPREADING, Template

_ESCAPE = re.compile(r"\\([tn\\])")
_ESCAPES = {"t": "\t", "n": "\n", "\\": "\\"}
_MAX_WIDTH = 1_000
"""Maximum width and precision in a template."""
_TEXT_SPEC = re.compile(r"(?P<align>.?[<>^])?(?P<width>[1-9]\d*)?(?:\.(?P<most>\d+))?s?")
_META_KEYS = ("warnings", "success")
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t")
"""First characters of cells that spreadsheets evaluate as formulas."""


def result_rows(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the entries in a result.

    A result without a list, such as one about a single memory, is a single entry.

    Raises:
        UsageError: the result is a brief, which contains lines instead of entries.
    """
    if result.get("brief"):
        raise UsageError(
            "`--brief` and `--budget` return lines, not entries with keys",
            "omit them, or omit `--csv` and `--format`",
        )
    itself = {key: value for key, value in result.items() if key not in _META_KEYS}
    if "memId" in result:
        return [itself]
    lists = [value for value in itself.values() if isinstance(value, list) and value]
    record_lists = [value for value in lists if all(isinstance(entry, Mapping) for entry in value)]
    if record_lists:
        others = itself.get("others", [])  # Results of a recall that are not memories.
        return [*record_lists[0], *(others if record_lists[0] is not others else ())]
    if "total" in result or "count" in result:
        return [{"text": entry} for value in lists[:1] for entry in value]
    return [itself]


def as_csv(result: Mapping[str, Any]) -> str:
    """Return the entries in a result as CSV, with a header row of their keys.

    A cell that a spreadsheet would evaluate as a formula is prefixed with ``'``.
    """
    rows = result_rows(result)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if keys:
        writer.writerow(keys)
    writer.writerows([_cell(row.get(key, "")) for key in keys] for row in rows)
    return out.getvalue()


def format_rows(view: Template, result: Mapping[str, Any], template: str) -> str:
    r"""Format each entry in a result with a template, with one line for each entry.

    ``{memId}`` is replaced by the value of a key, ``{metadata.source}`` by a value in a nested
    mapping, and ``\t`` and ``\n`` by a tab and a newline. A key that is missing in an entry is
    empty. Only strings, such as a memory's content, may span several lines.

    Raises:
        UsageError: the template is invalid, or it has a key that no entry of this tool has.
    """
    parts = list(_parse_template(template))
    rows = result_rows(result)
    known_keys = dict.fromkeys(key for row in rows for key in _key_paths(row))
    view_keys = _view_keys(view)
    for _, field, _ in parts:
        if field is not None and rows and field not in known_keys and field not in view_keys:
            hint = suggestion(field, known_keys, f"use one of {', '.join(known_keys)}")
            raise UsageError(f"There is no key {field!r}", hint)
    multiline = {key for key, specs in view_keys.items() if specs.intersection(SPREADING)}
    return "".join("".join(_fill(parts, row, multiline)) + "\n" for row in rows)


def _view_keys(view: Template) -> dict[str, set[str]]:
    """Return the keys in a view with their format specifications.

    The view also contains keys that entries rarely have.
    """
    specs: dict[str, set[str]] = {}
    for _, field, spec, _ in Formatter().parse(view.expanded):
        for key in (field or "").replace("[", ".").replace("]", "").split("|"):
            specs.setdefault(key, set()).add(spec or "")
    return specs


def validate_format(template: str) -> None:
    """Check the syntax of a template.

    Raises:
        UsageError: the template is invalid.
    """
    list(_parse_template(template))


def _parse_template(template: str) -> Iterator[tuple[str, str | None, str]]:
    try:
        for text, field, spec, conversion in Formatter().parse(template):
            if conversion or field == "" or "{" in (spec or ""):
                raise ValueError("put a key between the braces, as in {memId}")
            if any(int(digits) > _MAX_WIDTH for digits in re.findall(r"\d+", spec or "")):
                raise ValueError(f"a width is at most {_MAX_WIDTH:,}")
            yield _unescaped(text), field, spec or ""
    except ValueError as error:
        raise UsageError(f"Invalid `--format` {template!r}", str(error)) from error


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES[match[1]], text)


def _fill(
    parts: Iterable[tuple[str, str | None, str]], row: Mapping[str, Any], texts: Container[str]
) -> Iterator[str]:
    for text, field, spec in parts:
        yield text
        if field is not None:
            value = _value(row, field)
            try:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                shown = sanitize.escape_text if field in texts else sanitize.escape_line
                yield format(value, spec) if number else _fit(shown(_to_text(value)), spec)
            except ValueError as error:
                raise UsageError(f"Invalid format {spec!r} for {field}", str(error)) from error


def _fit(text: str, spec: str) -> str:
    """Format text, counting its width and precision in cells; a wide character takes two."""
    match = None if text.isascii() else _TEXT_SPEC.fullmatch(spec)
    if match is None:
        return format(text, spec)
    from rich.cells import cell_len

    if match["most"]:
        most = int(match["most"])
        text = text[:most]
        while cell_len(text) > most:
            text = text[:-1]
    width = max(0, int(match["width"] or 0) - cell_len(text) + len(text))
    return format(text, f"{match['align'] or '<'}{width}" if width else "")


def _value(row: Mapping[str, Any], field: str) -> Any:
    value: Any = row
    for name in field.split("."):
        value = value.get(name, "") if isinstance(value, Mapping) else ""
    return value


def _key_paths(row: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in row.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _key_paths(value, f"{above}{key}.")


def _cell(value: Any) -> str:
    text = sanitize.escape_text(_to_text(value))
    return (
        f"'{text}" if isinstance(value, str | list) and text.startswith(_FORMULA_PREFIXES) else text
    )


def _to_text(value: Any) -> str:
    """Convert a value to text: join a list of strings with commas, convert others to JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return ",".join(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)
