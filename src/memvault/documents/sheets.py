"""Read the cells of Excel workbooks, Office Open XML, and of CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from memvault.documents.document_text import DocumentText, UnreadableDocument
from memvault.documents.office import main_part, open_package, related, set_core_properties
from memvault.importers.office_xml import each, name, parsed, value
from memvault.importers.plain_text import escaped, table
from memvault.importers.source import Source
from memvault.vault.decoding import decode

_ROWS = 40
"""The number of rows in a section."""
_MAX_COLUMNS = 200
_MAX_ROWS = 100_000
_DELIMITERS = ",;\t|"
_BUILTIN_DATES = frozenset((*range(14, 23), *range(45, 48)))
_NOT_IN_FORMATS = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.')
_DAY_ONE = datetime(1899, 12, 30)  # noqa: DTZ001 - cells have no time zone
_COLUMN = re.compile(r"([A-Z]{1,3})(\d{1,7})")


def read_csv(data: bytes, encoding: str) -> DocumentText:
    """Return the rows of a CSV file; raises ``UnreadableDocument`` if it is binary."""
    decoded = decode(data, encoding)
    if decoded.encoding == "binary":
        raise UnreadableDocument("it is binary, not text")
    lines = decoded.text[:20_000].splitlines()[:20]
    counts = {sign: sum(line.count(sign) for line in lines) for sign in _DELIMITERS}
    csv.field_size_limit(1 << 20)
    reader = csv.reader(
        io.StringIO(decoded.text, newline=""), delimiter=max(_DELIMITERS, key=counts.__getitem__)
    )
    text = DocumentText()
    try:
        _add_rows(text, "", enumerate(reader, 1))
    except csv.Error as error:
        raise UnreadableDocument(f"its rows cannot be read: {error}") from error
    return text


def _limited(
    text: DocumentText, sheet: str, rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the numbers and cells of the rows to read, without blank rows."""
    place = f" of {sheet}" if sheet else ""
    for count, (number, row) in enumerate(rows):
        if count == _MAX_ROWS:
            text.limit(f"the first {_MAX_ROWS:,} rows{place}")
            return
        if any(cell.strip() for cell in row[_MAX_COLUMNS:]):
            text.limit(f"the first {_MAX_COLUMNS} columns{place}")
        cells = row[:_MAX_COLUMNS]
        if any(cell.strip() for cell in cells):
            yield number, [escaped(cell, is_line=True) for cell in cells]


def _add_rows(text: DocumentText, sheet: str, rows: Iterable[tuple[int, list[str]]]) -> None:
    """Add a section for every ``_ROWS`` rows, each with the first row as its table header."""
    label = f"{sheet}, rows" if sheet else "Rows"
    numbered = _limited(text, sheet, rows)
    first = next(numbered, None)
    if first is None:
        return
    part = list(islice(numbered, _ROWS - 1))
    start = first[0]
    while not text.is_full:
        end = part[-1][0] if part else start
        shown = table([first[1], *(row for _, row in part)])
        text.add(shown, f"{label} {start}-{end}" if end > start else f"{label} {start}")
        part = list(islice(numbered, _ROWS))
        if not part:
            return
        start = part[0][0]


def read_workbook(data: bytes) -> DocumentText:
    """Return a workbook's rows, with sections for each sheet.

    Raises:
        UnreadableDocument: it is not a workbook, or its zip is damaged.
        ValueError: its XML is damaged or too large.
    """
    package, text = open_package(data, "an Excel workbook"), DocumentText()
    start = main_part(package, "xl/workbook.xml")
    if start not in package.name_set:
        raise UnreadableDocument("it is not an Excel workbook")
    parts, root = related(package, start), parsed(package.read(start))
    folder = start.rpartition("/")[0]
    strings = _strings(package, f"{folder}/sharedStrings.xml")
    dates = _date_styles(package, f"{folder}/styles.xml")
    is_1904 = any(value(entry, "date1904") in ("1", "true") for entry in root.iter("{*}workbookPr"))
    first_day = _DAY_ONE + timedelta(1462 if is_1904 else 0)
    for sheet in root.iter("{*}sheet"):
        part = parts.get(value(sheet, "id"), "")
        if part in package.name_set and not text.is_full:
            rows = _rows(package.read(part), strings, dates, first_day)
            _add_rows(text, escaped(value(sheet, "name"), is_line=True), rows)
    set_core_properties(text, package)
    return text


def _strings(package: Source, part: str) -> list[str]:
    """Return the workbook's shared strings."""
    if part not in package.name_set:
        return []
    return [_text_of(element) for element in each(package.read(part), "si")]


def _text_of(element: Any) -> str:
    """Return an element's text without the phonetic guides of Japanese text."""
    parts = (part for part in element.iter("{*}t") if name(part.getparent()) != "rPh")
    return "".join(str(part.text or "") for part in parts)


def _date_styles(package: Source, part: str) -> frozenset[int]:
    """Return the indexes of the cell styles that format numbers as dates."""
    if part not in package.name_set:
        return frozenset()
    root = parsed(package.read(part))
    custom = {
        value(entry, "numFmtId")
        for entry in root.iter("{*}numFmt")
        if set(_NOT_IN_FORMATS.sub("", value(entry, "formatCode").lower())) & set("ymdh")
    }
    formats = (value(style, "numFmtId") for cells in root.iter("{*}cellXfs") for style in cells)
    return frozenset(
        number
        for number, kind in enumerate(formats)
        if kind in custom or (kind.isdecimal() and int(kind) in _BUILTIN_DATES)
    )


def _rows(
    data: bytes, strings: list[str], dates: frozenset[int], first_day: datetime
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and cells of each row that is not empty."""
    number = 0
    for row in each(data, "row"):
        given = value(row, "r")
        number = int(given) if given.isdecimal() else number + 1
        cells: list[str] = []
        for cell in row:
            match = _COLUMN.fullmatch(value(cell, "r"))
            column = _column(match[1]) if match else len(cells)
            shown = _cell(cell, strings, dates, first_day)
            if column >= _MAX_COLUMNS and not shown.strip():
                continue
            cells += [""] * (min(column, _MAX_COLUMNS) - len(cells))
            cells.append(shown)
            if column >= _MAX_COLUMNS:
                break
        yield number, cells


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1


def _cell(cell: Any, strings: list[str], dates: frozenset[int], first_day: datetime) -> str:
    """Return a cell as text; a formula becomes its last result."""
    kind = value(cell, "t")
    if kind == "inlineStr":
        return _text_of(cell)
    text = str(next((part.text for part in cell if name(part) == "v"), "") or "")
    if kind == "s":
        return strings[int(text)] if text.isdecimal() and int(text) < len(strings) else ""
    if kind == "b":
        return {"0": "FALSE", "1": "TRUE"}.get(text, text)
    style = value(cell, "s")
    if kind in ("", "n") and style.isdecimal() and int(style) in dates:
        with suppress(ValueError, OverflowError):
            moment = first_day + timedelta(round(float(text) * 86_400) / 86_400)
            return moment.isoformat(" ", "minutes").removesuffix(" 00:00")
    if kind in ("", "n") and len(text) > 12:
        with suppress(ValueError):
            return f"{float(text):.12g}"
    return text
