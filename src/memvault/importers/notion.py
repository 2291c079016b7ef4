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
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time

from memvault import clock
from memvault.importers import folder, records, state
from memvault.importers.items import ImportedNote, Item, Unreadable
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.secrets.detector import KEY
from memvault.vault import header_dates, markdown, markdown_inline
from memvault.vault.file_names import LINK_KEYS

_ID = lazy_pattern(r" ([0-9a-f]{32})(?=$|[/.])")
_PART = lazy_pattern(r"(?:^|/)ExportBlock-[0-9a-f-]+-Part-\d+(?:\.zip)?(?=/|$)")
_PAGE = lazy_pattern(r"(?:\.md|_all\.csv|\.csv)\Z", re.IGNORECASE)
_PROPERTY = lazy_pattern(r"([^\W\d_][^:\n]{0,60}): (\S.*)")
_HEADING = lazy_pattern(r"\A#[ \t]++(.++)\n++")
_CLOCK = lazy_pattern(r",? (\d{1,2}):(\d\d)(?: ?([AaPp])[Mm])?\Z")
"""The time of day after a date; the third group is ``A`` or ``P`` on a 12-hour clock."""
_TIMES = {"created": "created", "created time": "created", "last edited time": "modified"}
_OWN_KEYS = frozenset(
    (
        *("id", "title", "aliases", "alias", "memory_type", "type", "tag", "path", "status"),
        *("importance", "confidence", "valid_from", "valid_to"),
        *(*LINK_KEYS, KEY, state.KIND, state.ID, state.VERSION),
    )
)
"""Header keys to which memvault gives a meaning, which a property of that name does not have."""
_MAX_CELLS = 200_000
_MAX_TIME = 40
"""Maximum length of a time, such as "November 18, 2026 10:15 AM"; longer texts take seconds."""


def recognise(source: Source) -> int:
    """Return ``SURE`` if most markdown files end with an ID, or it is a zip of zips of Notion's."""
    notes = source.named(".md", ".csv")
    own = sum(_ID.search(_stem(name)) is not None for name in notes)
    parts = any(_PART.search(name) for name in source.named(".zip"))
    return SURE if parts or (own and own * 2 > len(notes)) else NO


def read(source: Source) -> Iterator[Item]:
    """Yield the pages without IDs in their names, the databases as tables, and the files."""
    export = _Export(source.names)
    for name in source.names:
        if name.lower().endswith(".zip") and _PART.search(name):
            yield Unreadable(name, "a zip in the zip: unpack it, and import the folder")
        elif name.lower().endswith(".md"):
            item = folder.read_file(source, name)
            if isinstance(item, ImportedNote):
                yield from records.items_of(name, _page, item, name, export)
            else:
                yield item
        elif name.lower().endswith(".csv"):
            if f"{name[:-4]}_all.csv" not in source.name_set:  # which has all rows
                path = export.paths[_whole(name)]
                yield from records.items_of(name, _database, source, name, path)
        else:
            item = folder.attachment(source, name)
            path = export.paths[_whole(name)]
            yield item if isinstance(item, Unreadable) else item._replace(path=path)


class _Export:
    """The paths without IDs of an export's files, by their names without the folder of a part.

    Of items with one title in a folder, all but the first keep a part of their IDs.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.paths: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        """By the folded path without IDs: the path with IDs of the item that has it."""
        for name in sorted(names, key=lambda name: len(_ID.findall(name))):
            self.paths[_whole(name)] = self._path(name)
        self._databases = {
            self.paths[_whole(name)][: -len(".md")]
            for name in names
            if name.lower().endswith(".csv")
        }

    def _path(self, name: str) -> str:
        *folders, last = _whole(name).split("/")
        base, ending = (_PAGE.sub("", last), ".md") if _PAGE.search(last) else (last, "")
        path, owner = "", ""
        for part in (*folders, base):
            owner += f"/{part}"
            for way in _ways(part):
                free = path + way
                if self._owners.setdefault(free.casefold(), owner) == owner:
                    break
            path = f"{free}/"
        return path.rstrip("/") + ending

    def is_row(self, name: str) -> bool:
        """Return whether a page is one of a database, whose pages are in a folder of its name."""
        return posixpath.dirname(self.paths[_whole(name)]) in self._databases

    def linked(self, text: str, name: str) -> str:
        """Return a page's text with links to the paths without IDs."""
        whole = _whole(name)
        beside = posixpath.dirname(self.paths[whole]) or "."
        edits = []
        for link in markdown.links(text):
            if link.is_wikilink:
                continue
            path = self.paths.get(markdown_inline.path_beside(link.target, whole))
            way = posixpath.relpath(path, beside) if path else _ID.sub("", link.target)
            edits.append((link, markdown_inline.written_target(link, way, text)))
        return markdown_inline.replaced(text, edits)


def _ways(name: str) -> Iterator[str]:
    """Yield the names that a file or folder may have, the last of them with its whole ID."""
    yield _ID.sub("", name)
    if found := _ID.search(name):
        yield _ID.sub(f" {found[1][-8:]}", name)  # IDs of one day begin alike
        yield name


def _whole(name: str) -> str:
    """Return a name without the folder of a part of the export."""
    return _PART.sub("", name).lstrip("/") or name


def _stem(name: str) -> str:
    """Return the name of a page or database without its folders and ending."""
    return _PAGE.sub("", posixpath.basename(name))


def _page(item: ImportedNote, name: str, export: _Export) -> ImportedNote:
    found = _ID.search(_stem(name))
    heading = _HEADING.match(item.text)
    title = heading[1].strip() if heading else _ID.sub("", _stem(name))
    body = item.text[heading.end() :] if heading else item.text
    header: dict[str, object] = {**item.header, "title": title}
    if heading and export.is_row(name):
        body = _without_properties(body, header)
    text = export.linked(body.lstrip("\n"), name)
    path = export.paths[_whole(name)]
    return ImportedNote(found[1] if found else name, path, f"# {title}\n\n{text}", header)


def _without_properties(body: str, header: dict[str, object]) -> str:
    """Move the properties at the beginning of a page, which end with a blank line, to a header."""
    block, _, rest = body.partition("\n\n")
    properties = [_PROPERTY.fullmatch(line) for line in block.rstrip("\n").split("\n")]
    if not all(properties):
        return body
    for match in filter(None, properties):
        _add_property(header, match[1].strip(), match[2].strip())
    return rest


def _add_property(header: dict[str, object], name: str, value: str) -> None:
    """Add a property of a database's page to the header of the note."""
    lowered = name.lower()
    key = re.sub(r"\W+", "_", lowered).strip("_") or "property"
    if lowered == "tags":
        header["tags"] = ["-".join(tag.split()) for tag in value.split(",") if tag.strip()]
    elif lowered in _TIMES and (moment := _time(value)):
        header[_TIMES[lowered]] = moment
    else:
        is_own = key in _OWN_KEYS or header_dates.is_time_key(key)
        header[f"notion_{key}" if is_own else key] = value


def _time(value: str) -> str:
    """Return a time such as ``November 3, 2026 9:15 AM`` in ISO 8601; "" if it is not one.

    It is in the user's time zone, as Notion shows it; a day without a time is stored as such.
    """
    from memvault.recall.dates import parse_moment

    if len(value) > _MAX_TIME:
        return ""
    exact = clock.parse(value, None) if ":" in value else None
    if exact is not None:
        return clock.iso(exact)
    found = _CLOCK.search(value)
    start = parse_moment(value[: found.start()] if found else value, False)
    if start is None:
        return ""
    day = clock.today(start)
    if found is None:
        return clock.iso(datetime.combine(day, time.min, UTC))
    hour = int(found[1])
    if found[3]:
        hour = hour % 12 + 12 * (found[3] in "Pp")
    try:
        return clock.iso(datetime.combine(day, time(hour, int(found[2]))))
    except (ValueError, OverflowError, OSError):  # not a time of day, or out of the calendar
        return ""


def _database(source: Source, name: str, path: str) -> Item:
    """Return a database as a note with a table."""
    try:
        text = source.read(name).decode("utf-8-sig", "replace")
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except (OSError, csv.Error) as error:
        return Unreadable(name, str(error))
    width = max(map(len, rows), default=0)
    if not rows or width * len(rows) > _MAX_CELLS:
        return Unreadable(name, "an empty table, or one of more cells than a note should have")
    found = _ID.search(_stem(name))
    lines = [
        f"| {' | '.join(map(_cell, row))} |"
        for row in (row + [""] * (width - len(row)) for row in rows)
    ]
    lines.insert(1, "|" + " --- |" * width)
    key = f"table-{found[1] if found else name}"
    return ImportedNote(key, path, "\n".join(lines), {"title": _ID.sub("", _stem(name))})


def _cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", "\\|")
