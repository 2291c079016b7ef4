"""Import of Notion's export as "Markdown & CSV".

A page is ``Title ID.md``, its sub-pages and files are in a folder of the same name, and links are
relative paths with percent signs; below the title a page of a database has its properties as
``Name: value`` lines, and the database itself is a CSV file. IDs are 32 hexadecimal digits (export
of November 2026). Large exports are zips in a zip, which have to be unpacked first.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

from memvault.importers import folder
from memvault.importers.items import ImportedNote, Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_ID = lazy_pattern(r" ([0-9a-f]{32})(?=$|[/.])")
_PART = lazy_pattern(r"(?:^|/)ExportBlock-[0-9a-f-]+-Part-\d+(?:\.zip)?(?=/|$)")
_PROPERTY = lazy_pattern(r"([^\W\d_][^:\n]{0,60}): (\S.*)")
_HEADING = lazy_pattern(r"\A#[ \t]++(.++)\n++")
_LINK = lazy_pattern(r"(?<=\]\()([^()\s<>]+)(?=\))")
_TIMES = {"created": "created", "created time": "created", "last edited time": "modified"}
_MAX_CELLS = 200_000


def recognise(source: Source) -> int:
    """Return ``SURE`` if most markdown files end with an ID, or it is a zip of zips of Notion's."""
    notes = source.named(".md", ".csv")
    own = sum(_ID.search(posixpath.basename(name)) is not None for name in notes)
    parts = any(_PART.search(name) for name in source.named(".zip"))
    return SURE if parts or (own and own * 2 > len(notes)) else NO


def read(source: Source) -> Iterator[Item]:
    """Yield the pages without IDs in their names, the databases as tables, and the files."""
    for name in source.names:
        if name.lower().endswith(".zip") and _PART.search(name):
            yield Unreadable(name, "a zip in the zip: unpack it, and import the folder")
        elif name.lower().endswith(".md"):
            item = folder.read_file(source, name)
            yield _page(item, name) if isinstance(item, ImportedNote) else item
        elif name.lower().endswith(".csv"):
            if f"{name[:-4]}_all.csv" not in source.name_set:  # which has all rows
                yield _database(source, name)
        else:
            item = folder.attachment(source, name)
            yield item._replace(path=_clean(name)) if not isinstance(item, Unreadable) else item


def _clean(path: str) -> str:
    """Return a path without Notion's IDs and the folder of a part of the export."""
    return _ID.sub("", _PART.sub("", path.replace("_all.csv", ".csv"))).lstrip("/")


def _page(item: ImportedNote, name: str) -> ImportedNote:
    found = _ID.search(posixpath.basename(name))
    key = found[1] if found else name
    heading = _HEADING.match(item.text)
    title = heading[1].strip() if heading else _clean(posixpath.basename(name))[:-3]
    body = item.text[heading.end() :] if heading else item.text
    header: dict[str, object] = {**item.header, "title": title}
    lines = body.split("\n")
    while heading and lines and (match := _PROPERTY.fullmatch(lines[0])):
        _add_property(header, match[1].strip(), match[2].strip())
        lines.pop(0)
    text = _LINK.sub(_cleaned_link, "\n".join(lines).lstrip("\n"))
    return ImportedNote(key, _clean(name), f"# {title}\n\n{text}", header)


def _add_property(header: dict[str, object], name: str, value: str) -> None:
    """Add a property of a database's page to the header of the note."""
    lowered = name.lower()
    if lowered == "tags":
        header["tags"] = ["-".join(tag.split()) for tag in value.split(",") if tag.strip()]
    elif lowered in _TIMES:
        from memvault.recall.dates import parse_moment

        moment = parse_moment(value, False)
        if moment is not None:
            from memvault import clock

            header[_TIMES[lowered]] = clock.iso(moment)
    else:
        header[re.sub(r"\W+", "_", lowered).strip("_") or "property"] = value


def _cleaned_link(match: re.Match[str]) -> str:
    target = match[1]
    if re.match(r"[A-Za-z][\w+.-]*:|//|#", target):
        return target
    return quote(_clean(unquote(target)))


def _database(source: Source, name: str) -> Item:
    """Return a database as a note with a table."""
    try:
        text = source.read(name).decode("utf-8-sig", "replace")
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except (OSError, csv.Error) as error:
        return Unreadable(name, str(error))
    if not rows or sum(map(len, rows)) > _MAX_CELLS:
        return Unreadable(name, "an empty table, or one of more cells than a note should have")
    found = _ID.search(posixpath.basename(name).replace("_all.csv", ".csv"))
    path = f"{_clean(name)[: -len('.csv')]}.md"
    title = posixpath.basename(path)[: -len(".md")]
    width = max(map(len, rows))
    lines = [
        f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in row)} |"
        for row in (row + [""] * (width - len(row)) for row in rows)
    ]
    lines.insert(1, "|" + " --- |" * width)
    return ImportedNote(
        f"table-{found[1] if found else name}", path, "\n".join(lines), {"title": title}
    )
