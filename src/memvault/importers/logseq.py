"""Import a Logseq graph: ``pages``, ``journals``, ``assets`` and ``draws``.

Pages are outlines, whose blocks ``logseq_text`` converts. ``key:: value`` lines of the first block
are page properties; ``___`` or ``%2F`` in a file name is a slash; ``logseq/config.edn`` defines the
names and titles of journals (Logseq 0.10, docs.logseq.com). Org files and database graphs are not
read.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import date
from urllib.parse import unquote

from memvault.importers import convert, folder, outlines
from memvault.importers.claims import is_hidden
from memvault.importers.database import table_names
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item, SkippedItem
from memvault.importers.logseq_text import convert_page, first_lines_of_blocks, page_properties
from memvault.importers.outlines import DayFormat, OutlineContext, ReferredBlock
from memvault.importers.source import Source
from memvault.lazy_pattern import lazy_pattern

_CONFIG = "logseq/config.edn"
_SETTING = lazy_pattern(r'(?<![\w/#_-])(:[\w/-]{1,60})\s+"((?:[^"\\]|\\.){0,200})"')
_COMMENT = lazy_pattern(r'("(?:[^"\\]|\\.)*+"?+)|;[^\n]*')
_MAX_QUOTED = 300
"""Maximum length of the text of a referenced block."""
_MAX_CONFIG = 1 << 20
_LISTS = frozenset(("tags", "alias"))
_FRONT_MATTER = lazy_pattern(r"---\r?\n(?:(?!---)[^\n]*\n)*+---\r?\n")
_LINK = lazy_pattern(r"\[([^\[\]\n]{1,200})\]\([^()\n]{1,500}\)")
_OWN_FOLDERS = ("logseq/", "whiteboards/")
_NOT_IN_LINKS = frozenset("#^|[]")
_NOT_CONVERTED = frozenset(("filters", "icon", "public", "exclude-from-graph-view", "template"))
_DB = "a Logseq database graph: export the graph as Markdown and import the export"
_EXPORTED = "an export as {}: import the graph's folder"
_ORG = "an Org file: convert it to markdown first, for example with pandoc"


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` if the folder has Logseq's settings and pages or journals."""
    has_pages = any(name.startswith(("pages/", "journals/")) for name in source.names)
    if _CONFIG in source.name_set and (has_pages or _LogseqGraph(source).has_pages):
        return Confidence.SURE
    return (
        Confidence.POSSIBLE
        if any(_why_unsupported(source, name) for name in source.names)
        else Confidence.NO
    )


def claims(source: Source) -> Collection[str]:
    """Return all hidden files, and those in Logseq's folders."""
    graph = _LogseqGraph(source)
    folders = (*graph.folders, *_OWN_FOLDERS)
    return [
        name
        for name in source.names
        if name.startswith(folders) or is_hidden(name) or _why_unsupported(source, name)
    ]


def _why_unsupported(source: Source, name: str) -> str:
    """Return why a Logseq data file cannot be imported; empty for other files."""
    lowered = name.lower()
    if lowered.endswith("db.sqlite"):
        return _DB if "kvs" in table_names(source, name) else ""
    if "/" in name or not lowered.endswith((".edn", ".json", ".transit")):
        return ""
    head = source.head(name)
    if b":pages-and-blocks" in head or b"~:logseq.class" in head or b":logseq.property" in head:
        return _DB
    is_export = b":block/page-name" in head or (b'"page-name"' in head and b'"blocks"' in head)
    return _EXPORTED.format(lowered.rpartition(".")[2].upper()) if is_export else ""


def read(source: Source) -> Iterator[Item]:
    """Yield the pages, journals and assets; Logseq's own files are skipped."""
    graph = _LogseqGraph(source)
    for name in source.with_endings(".md"):
        if graph.is_page(name):
            folder.convert_note(source, name, graph.add)
    graph.complete()
    for name in source.names:
        if name.startswith(graph.folders):
            yield from _read_file(source, name, graph)
        elif name.startswith("whiteboards/"):
            yield SkippedItem(name, "a whiteboard, which has no text")
        elif reason := _why_unsupported(source, name):
            yield SkippedItem(name, reason)


def _read_file(source: Source, name: str, graph: _LogseqGraph) -> Iterator[Item]:
    if name.lower().endswith(".md"):
        yield from folder.convert_note(source, name, graph.note)
    elif graph.is_page(name) and name.lower().endswith(".org"):
        yield SkippedItem(name, _ORG)
    elif not (name.startswith("assets/") and name.lower().endswith(".edn")):
        # The .edn files contain positions of PDF highlights, which are not imported.
        source.counts.converted("drawing" if name.startswith("draws/") else "asset")
        yield folder.attachment(source, name)


class _LogseqGraph:
    """Converts a graph's pages, with its settings and the names of all pages."""

    def __init__(self, source: Source) -> None:
        self._counts = source.counts
        settings = _settings(source)
        self._pages = f"{settings.get(':pages-directory', 'pages').strip('/')}/"
        self._journals = f"{settings.get(':journals-directory', 'journals').strip('/')}/"
        self.folders = (self._pages, self._journals, "assets/", "draws/")
        self._title = DayFormat(settings.get(":journal/page-title-format", "MMM do, yyyy"))
        file_name = settings.get(":journal/file-name-format", "yyyy_MM_dd")
        self._file_formats = (
            DayFormat(file_name),
            DayFormat("yyyy_MM_dd"),
            DayFormat("yyyy-MM-dd"),
        )
        self._title_formats = (self._title, DayFormat("MMM do, yyyy"), *self._file_formats)
        self._blocks: dict[str, ReferredBlock] = {}
        self._refs: dict[str, str] = {}
        """The ids of pages by lowercase name."""
        self._last_parts: Counter[str] = Counter()
        """The number of pages by the last component of their names."""
        self._paths: dict[str, str] = {}
        """The lowercase names of pages by id."""
        self._others: list[tuple[str, str]] = []
        """The titles and aliases of pages with their ids."""
        self._days: dict[date, str] = {}
        self._assets = frozenset(name for name in source.names if name.startswith("assets/"))

    @property
    def has_pages(self) -> bool:
        """Whether the settings change the folders of pages or journals."""
        return self._pages != "pages/" or self._journals != "journals/"

    def is_page(self, name: str) -> bool:
        """Return whether a file is in the folder of pages or journals."""
        return name.startswith((self._pages, self._journals))

    def add(self, item: ImportedNote) -> None:
        """Add a page's names and blocks, in a first pass over the graph."""
        ref = convert.id_from_name(item.key)
        day = self._journal_day(item.path)
        if day is not None:
            self._days.setdefault(day, ref)
        else:
            self._paths[ref] = _name(item.path, self._pages).casefold()
            self._refs.setdefault(self._paths[ref], ref)
        if ":: " in item.text:
            properties, _ = page_properties(item.text)
            names = [properties.get("title", ""), *outlines.names_in(properties.get("alias", ""))]
            self._others += [(name.casefold(), ref) for name in names if name]
            own_title = properties.get("title", "").casefold()
            if own_title and day is None:
                self._paths[ref] = own_title
            for key, text in first_lines_of_blocks(item.text):
                self._blocks[key] = ReferredBlock(ref, text[:_MAX_QUOTED])

    def complete(self) -> None:
        """Add titles and aliases; page names take precedence."""
        for name, ref in self._others:
            self._refs.setdefault(name, ref)
        self._last_parts.update(name.rpartition("/")[2] for name in self._paths.values())

    def note(self, item: ImportedNote) -> ImportedNote:
        """Convert a page to a note."""
        front = _FRONT_MATTER.match(item.text)
        start = front.end() if front else 0
        properties, text = page_properties(item.text[start:])
        header: dict[str, object] = {**item.header}
        day = self._journal_day(item.path)
        name = _name(item.path, self._pages)
        if day is not None:
            self._counts.converted("journal")
            path = f"{self._journals}{day.isoformat()}.md"
            header["created"] = convert.parsed_time(day.isoformat())
            header["aliases"] = [self._title.written(day)]
        else:
            self._counts.converted("page")
            header["title"] = name = properties.pop("title", "") or name
            path = f"{self._pages}{name.strip('/') or 'page'}.md"
        file = _LINK.fullmatch(properties.get("file", ""))
        if file is not None and name.startswith("hls__"):
            header["title"] = f"Highlights in {file[1]}"
            text = f"{properties.pop('file')}\n\n{text.lstrip()}"
            properties.pop("file-path", None)
        self._add_properties(properties, header)
        ref = convert.id_from_name(item.key)
        to_root = "../" * path.count("/")
        links = (self._blocks, self._link, self._counts)
        context = OutlineContext(ref, *links, to_root, self._assets)
        body = convert_page(text, context).lstrip("\n")
        return ImportedNote(item.key, path, item.text[:start] + body, header, (ref,))

    def _add_properties(self, properties: dict[str, str], header: dict[str, object]) -> None:
        for key, value in properties.items():
            if key in _LISTS:
                names = outlines.names_in(value)
                if key == "tags":
                    header["tags"] = list(map(convert.tag, names))
                else:
                    earlier = header.get("aliases", [])
                    header["aliases"] = [*(earlier if isinstance(earlier, list) else []), *names]
            elif key in ("created-at", "updated-at"):
                role = "created" if key == "created-at" else "modified"
                header[role] = convert.time_of(value, 1e-3) or header.get(role)
            elif key in _NOT_CONVERTED:
                self._counts.omitted(f'page property "{key}"')
            elif key not in ("id", "collapsed") and not key.startswith("logseq."):
                self._counts.converted("page property")
                header[convert.header_key(key, "logseq")] = self._value(value)

    def _value(self, value: str) -> str:
        """Return the value of a property without link markup, with days in ISO 8601."""
        bare = re.sub(r"\[\[|\]\]|#", "", value).strip()
        day = self._day(bare) if value.startswith("[[") else None
        return day.isoformat() if day else bare

    def _link(self, name: str, label: str) -> str:
        """Return a link to the page with a name."""
        bare = name.strip()
        shown = label or bare.replace("[[", "").replace("]]", "")
        ref = self._refs.get(bare.casefold())
        if ref is None and (day := self._day(bare)) is not None:
            ref = self._days.get(day)
            if ref is None:
                return outlines.day_link(day, convert.label(shown))
        if ref is not None and not (self._is_reachable(bare, ref) and not label):
            return f"[[import:{ref}|{convert.label(shown)}]]"
        return outlines.link_missing(bare, label, self._link)

    def _is_reachable(self, name: str, ref: str) -> bool:
        """Return whether a wikilink with a page's name resolves to the note of that page."""
        folded = name.casefold()
        is_plain = not _NOT_IN_LINKS.intersection(folded)
        is_path = self._paths.get(ref) == folded
        return is_path and is_plain and self._last_parts[folded.rpartition("/")[2]] == 1

    def _day(self, name: str) -> date | None:
        days = (form.parsed(name) for form in self._title_formats)
        return next(filter(None, days), None) if name[-1:].isalnum() or "日" in name else None

    def _journal_day(self, path: str) -> date | None:
        if not path.startswith(self._journals):
            return None
        stem = posixpath.basename(path)[: -len(".md")]
        return next(filter(None, (form.parsed(stem) for form in self._file_formats)), None)


def _settings(source: Source) -> dict[str, str]:
    """Return the settings of a graph whose values are text, by key."""
    if _CONFIG not in source.name_set:
        return {}
    text = source.head(_CONFIG, _MAX_CONFIG).decode("utf-8", "replace")
    bare = _COMMENT.sub(lambda match: match[1] or "", text)
    return {match[1]: match[2] for match in _SETTING.finditer(bare)}


def _name(path: str, pages: str) -> str:
    """Return a page's name."""
    return unquote(path.removeprefix(pages)[: -len(".md")]).replace("___", "/")
