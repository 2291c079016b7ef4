"""Import Notion's export as "Markdown & CSV".

A page is ``Title ID.md``; its sub-pages and files are in a folder with the same name, and links are
percent-encoded relative paths. A page in a database has ``Name: value`` lines below the title, and
the database is a CSV file. IDs are 32 hexadecimal digits (as of November 2026). An export is a zip
that contains one or more zips, which ``Source`` reads as one. HTML pages are reported as skipped.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, time
from urllib.parse import quote

from memvault import clock
from memvault.importers import convert, folder, links, plain_text, records
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item, SkippedItem
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern
from memvault.vault import markdown, markdown_inline

_ID = lazy_pattern(r" ([0-9a-f]{32})(?=$|[/.])")
_PART = lazy_pattern(r"(?:^|/)ExportBlock-[0-9a-f-]+-Part-\d+(?:\.zip)?(?=/|$)")
_PAGE = lazy_pattern(r"(?:\.md|_all\.csv|\.csv)\Z", re.IGNORECASE)
_PROPERTY = lazy_pattern(r"([^\W\d_][^:\n]{0,60}): (\S.*)")
_HEADING = lazy_pattern(r"\A#[ \t]++(.++)\n++")
_RELATED = lazy_pattern(r" \((\S+?%20([0-9a-f]{32})\.(?:md|csv))\)(?:, |\Z)")
"""Matches the URL after each title in a relation, with the ID of its page."""
_ADDRESS = lazy_pattern(
    r"(?<=\]\()https://(?:[\w-]+\.)?notion\.(?:so|site|com)/[^\s()?#]{0,500}?([0-9a-f]{32})"
    r"(?:[?#][^\s()]{0,500})?(?=\))"
)
"""Matches the target of a link to a page in Notion, with its ID."""
_ZONE = lazy_pattern(r" ?\([\w+:/ -]{1,20}\)\Z")
_TIMES = {
    **dict.fromkeys(("created", "created time", "created at", "date created"), "created"),
    **dict.fromkeys(("last edited time", "last edited", "last updated", "updated"), "modified"),
}
"""Maps the English names of time properties to header keys."""
_MAX_ICON = 9
"""Maximum number of characters in an emoji."""
_MAX_COLUMN = 200
"""Maximum length of a column name."""
_MAX_TIME = 40
"""Maximum length of a time; parsing longer strings takes seconds."""


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` if most pages have an ID, or if there are zips of a multi-part export."""
    notes = [*source.with_endings(".md", ".csv"), *filter(_is_html_page, source.names)]
    pages_with_id = sum(_ID.search(_stem(name)) is not None for name in notes)
    parts = any(_PART.search(name) for name in source.with_endings(".zip"))
    return Confidence.sure_if(parts or (pages_with_id and pages_with_id * 2 > len(notes)))


def read(source: Source) -> Iterator[Item]:
    """Yield the pages, the databases as tables, and the files."""
    export = _Export(source)
    for name in source.names:
        lowered = name.lower()
        if lowered.endswith(".zip") and _PART.search(name):
            yield SkippedItem(name, "a zip next to other files: import it separately")
        elif lowered == "index.html":  # a list of all pages
            continue
        elif _is_html_page(name):
            yield SkippedItem(name, "an HTML page: export it as Markdown & CSV")
        elif lowered.endswith(".md"):
            yield from folder.convert_note(source, name, _page, name, export)
        elif lowered.endswith(".csv"):
            if f"{name[:-4]}_all.csv" not in source.name_set:  # the other file has all the rows
                yield from records.convert_record(name, _database, source, name, export)
        else:
            source.counts.converted("file")
            yield folder.attachment(source, name, export.free(export.paths[_without_part(name)]))


def _is_html_page(name: str) -> bool:
    return name.lower().endswith(".html") and _ID.search(posixpath.basename(name)) is not None


class _Export:
    """The files of an export, and their paths with the IDs removed.

    If several items in a folder have the same title, all but the first keep part of their ID.
    """

    def __init__(self, source: Source) -> None:
        names = source.names
        self.counts = source.counts
        self.paths: dict[str, str] = {}
        self.by_id: dict[str, str] = {}
        """The paths of pages and databases by ID."""
        self._source = source
        self._used: set[str] = set()
        """The keys and paths that are in use."""
        self._columns: dict[str, frozenset[str]] = {}
        self._owners: dict[str, str] = {}
        """Maps each path without IDs, case-folded, to the original path of its file or folder."""
        for name in sorted(names, key=lambda name: len(_ID.findall(name))):
            self.paths[_without_part(name)] = self._path(name)
            if name.lower().endswith((".md", ".csv")) and (page_id := _ID.search(_stem(name))):
                self.by_id[page_id[1]] = self.paths[_without_part(name)]
        self._databases = {
            self.paths[_without_part(name)][: -len(".md")]: name
            for name in names  # if a database has two files, the later one has all columns
            if name.lower().endswith(".csv")
        }

    def _path(self, name: str) -> str:
        *folders, last = _without_part(name).split("/")
        base, ending = (_PAGE.sub("", last), ".md") if _PAGE.search(last) else (last, "")
        path, owner = "", ""
        for part in (*folders, base):
            owner += f"/{part}"
            for variant in _possible_names(part):
                free = path + variant
                if self._owners.setdefault(free.casefold(), owner) == owner:
                    break
            path = f"{free}/"
        return path.rstrip("/") + ending

    def columns(self, name: str) -> frozenset[str] | None:
        """Return the columns of the database that contains a page, or None."""
        database = self._databases.get(posixpath.dirname(self.paths[_without_part(name)]))
        if database is None:
            return None
        if database not in self._columns:
            head = self._source.head(database, 1 << 16).decode("utf-8-sig", "replace")
            try:
                row = next(csv.reader(io.StringIO(head)), [])
            except csv.Error:
                row = []
            self._columns[database] = frozenset(filter(None, (name.strip() for name in row)))
        return self._columns[database]

    def free(self, wished: str) -> str:
        """Return a unique key or path, because parts of an export may overlap."""
        stem, suffix = posixpath.splitext(wished)
        number, free = 1, wished
        while free in self._used:
            number, free = number + 1, f"{stem}-{number + 1}{suffix}"
        self._used.add(free)
        return free

    def linked(self, text: str, name: str) -> str:
        """Return a page's text with links to the paths without IDs."""
        whole = _without_part(name)
        beside = posixpath.dirname(self.paths[whole]) or "."

        def relative(target: str) -> str:
            path = self.paths.get(markdown_inline.path_beside(target, whole))
            return posixpath.relpath(path, beside) if path else _ID.sub("", target)

        def within(url: re.Match[str]) -> str:
            path = self.by_id.get(url[1])
            return quote(posixpath.relpath(path, beside)) if path else url[0]

        text = links.with_targets(text, relative)
        return markdown.replace_outside_code(_ADDRESS, within, text)


def _possible_names(name: str) -> Iterator[str]:
    """Yield the possible names of a file or folder; the last one includes its full ID."""
    yield _ID.sub("", name)
    if page_id := _ID.search(name):
        yield _ID.sub(f" {page_id[1][-8:]}", name)  # IDs created on the same day share a prefix
        yield name


def _without_part(name: str) -> str:
    """Return a name without the folder of an export part."""
    return _PART.sub("", name).lstrip("/") or name


def _stem(name: str) -> str:
    """Return the base name of a page or database without its extension."""
    return _PAGE.sub("", posixpath.basename(name))


def _page(item: ImportedNote, name: str, export: _Export) -> ImportedNote:
    page_id = _ID.search(_stem(name))
    heading = _HEADING.match(item.text)
    title = heading[1].strip() if heading else _ID.sub("", _stem(name))
    body = item.text[heading.end() :] if heading else item.text
    header: dict[str, object] = {**item.header, "title": title}
    if heading and (columns := export.columns(name)) is not None:
        body = _without_properties(body, header, columns, export.by_id)
    text = _with_callouts(export.linked(body.lstrip("\n"), name))
    path = export.paths[_without_part(name)]
    export.counts.converted("page")
    key = export.free(page_id[1] if page_id else name)
    refs = (f"notion-{page_id[1]}",) if page_id else ()
    return ImportedNote(key, path, f"# {title}\n\n{text}", header, refs)


def _with_callouts(text: str) -> str:
    """Convert callouts to quotes, so that markdown inside them is parsed."""
    if "<aside>" not in text:
        return text
    parts: list[str] = []
    callout: list[str] = []
    """The lines of the current callout, starting with its tag."""
    for match, is_code in markdown.lines_with_code(text):
        line = match[0]
        if callout and line.strip() == "</aside>":
            parts.append(_quoted(callout))
            callout = []
        elif callout or (line.strip() == "<aside>" and not is_code):
            callout.append(line)
        else:
            parts.append(line)
    return "".join([*parts, *callout])


def _quoted(callout: list[str]) -> str:
    """Return a callout as a quote with its icon in the first line."""
    indent = callout[0][: len(callout[0]) - len(callout[0].lstrip())]
    lines = [line.removeprefix(indent).rstrip() for line in callout[1:]]
    while lines and not lines[-1]:
        del lines[-1]
    if len(lines) > 2 and len(lines[0]) < _MAX_ICON and not lines[1]:
        lines[:3] = [f"{lines[0]} {lines[2]}"]
    return "".join(f"{indent}> {line}".rstrip() + "\n" for line in lines)


def _without_properties(
    body: str, header: dict[str, object], columns: frozenset[str], ids: Collection[str]
) -> str:
    """Move the properties at the start of a page to the header; return the rest.

    A line that does not start with a column name continues the previous value.
    """
    block, _, rest = body.partition("\n\n")
    properties_found: list[tuple[str, list[str]]] = []
    for line in block.rstrip("\n").split("\n"):
        colons = (colon for colon, sign in enumerate(line[:_MAX_COLUMN]) if sign == ":")
        named = [line[:colon] for colon in colons if line[:colon] in columns]
        if name := named[-1] if named else "":
            properties_found.append((name, [line[len(name) + 1 :]]))
        elif properties_found:
            properties_found[-1][1].append(line)
        else:
            break
    for name, texts in properties_found:
        _add_property(header, name, "\n".join(texts).strip(), ids)
    if properties_found:
        return rest
    properties = [_PROPERTY.fullmatch(line) for line in block.rstrip("\n").split("\n")]
    if not all(properties):
        return body
    for match in filter(None, properties):
        _add_property(header, match[1].strip(), match[2].strip(), ids)
    return rest


def _add_property(header: dict[str, object], name: str, value: str, ids: Collection[str]) -> None:
    """Add a property of a database page to the header."""
    lowered = name.lower()
    if lowered == "tags":
        header["tags"] = ["-".join(tag.split()) for tag in value.split(",") if tag.strip()]
    elif lowered in _TIMES and (moment := _time(value)):
        header[_TIMES[lowered]] = moment
    elif value:
        header[convert.header_key(name, "notion")] = _related(value, ids)


def _related(value: str, ids: Collection[str]) -> object:
    """Return a relation as links to its pages; other values are unchanged."""
    pages: list[str] = []
    done = 0
    for match in _RELATED.finditer(value):
        title = convert.label(value[done : match.start()]).strip()
        pages.append(f"[[import:notion-{match[2]}|{title}]]" if match[2] in ids else title)
        done = match.end()
    if done < len(value) or not pages:
        return value
    return pages if len(pages) > 1 else pages[0]


def _time(value: str) -> str:
    """Convert a time such as ``November 3, 2026 9:15 AM`` to ISO 8601; "" if it is not a time.

    The time is in the local time zone, as Notion shows it; a day without a time stays a day.
    """
    from memvault.recall.foreign_dates import parse_full_date

    value = _ZONE.sub("", value[: _MAX_TIME + 20].strip().lstrip("@"))
    moment = None
    if len(value) <= _MAX_TIME:
        moment = clock.parse(value.replace("/", "-"), None) or parse_full_date(value)
    try:
        if moment is None or ":" in value:
            return clock.iso(moment) if moment else ""
        return clock.iso(datetime.combine(moment, time.min, UTC))
    except (ValueError, OverflowError, OSError):  # the date does not exist
        return ""


def _database(source: Source, name: str, export: _Export) -> Item:
    """Return a database as a note with a table."""
    try:
        text = source.read(name).decode("utf-8-sig", "replace")
        table = plain_text.table([*map(_cell, row)] for row in csv.reader(io.StringIO(text)))
    except (OSError, ValueError, csv.Error) as error:
        return SkippedItem(name, str(error))
    if not table:
        return SkippedItem(name, "the table is empty")
    page_id = _ID.search(_stem(name))
    source.counts.converted("database")
    key = export.free(f"table-{page_id[1] if page_id else name}")
    refs = (f"notion-{page_id[1]}",) if page_id else ()
    header = {"title": _ID.sub("", _stem(name))}
    return ImportedNote(key, export.paths[_without_part(name)], table, header, refs)


def _cell(text: str) -> str:
    titles = _RELATED.sub(", ", text).removesuffix(", ") if "%20" in text else text
    return plain_text.escaped(titles, is_line=True)
