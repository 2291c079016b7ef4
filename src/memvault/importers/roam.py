"""Import Roam Research's export as JSON.

A file is an array of a graph's pages, with a ``title`` and nested ``children``: blocks with a
``string`` and a ``uid``. ``((uid))`` refers to a block; ``roam_text`` converts the strings (as of
November 2026). EDN is not read, because Roam exports the same data as JSON.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from typing import Any

from memvault.importers import convert, json_source, outlines, plain_text, records, roam_text
from memvault.importers.content_counts import ContentCounts
from memvault.importers.formats import Confidence
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.outlines import OutlineContext, ReferredBlock
from memvault.importers.source import Source

_DAYS = outlines.DayFormat("MMMM do, yyyy")
_MAX_INDENT = 100
_BLOCK_KEYS = frozenset(
    "string uid children heading refs :block/refs open order create-time edit-time create-email "
    "edit-email :create/user :edit/user children-view-type :children/view-type view-type "
    ":block/uid :block/string".split()
)
_PAGE_KEYS = _BLOCK_KEYS | {"title", ":log/id"}
_USERS = ("create-email", "edit-email", ":create/user", ":edit/user")
_LISTS = {"tags": "tags", "tag": "tags", "alias": "aliases", "aliases": "aliases"}


def recognize(source: Source) -> Confidence:
    """Return ``SURE`` for a JSON array of pages; ``POSSIBLE`` for an export as EDN."""
    if _files(source):
        return Confidence.SURE
    return Confidence.POSSIBLE if _edn_files(source) else Confidence.NO


def claims(source: Source) -> Collection[str]:
    """Return the exports as JSON and EDN."""
    return [*_files(source), *_edn_files(source)]


def _files(source: Source) -> list[str]:
    exports = []
    for name in source.with_endings(".json"):
        head = source.head(name, 1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")
        has_blocks = b'"children"' in head and b'"string"' in head
        if head[:1] == b"[" and b'"title"' in head and (has_blocks or b'"edit-time"' in head):
            exports.append(name)
    return exports


def _edn_files(source: Source) -> list[str]:
    return [name for name in source.with_endings(".edn") if b"datascript" in source.head(name)]


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each page; if there are several graphs, each has a folder."""
    names = _files(source)
    for edn in _edn_files(source):
        if not names:
            yield SkippedItem(edn, "EDN is not read: export the graph as JSON")
    for name in names:
        stem = posixpath.splitext(posixpath.basename(name))[0]
        graph = _RoamGraph(stem, len(names) > 1, source.counts)
        for page in json_source.array_items(source, name):
            if isinstance(page, dict):
                records.convert_record(name, graph.add, page)
        yield from records.convert_each(json_source.objects(source, name), graph.note)


def _view(node: dict[str, Any]) -> str:
    """Return the view of the blocks below a node: bullet, numbered or document."""
    view = node.get("children-view-type") or node.get(":children/view-type")
    return str(view or node.get("view-type") or "bullet").removeprefix(":")


class _RoamGraph:
    """Converts a graph's pages, with all its pages and blocks."""

    def __init__(self, stem: str, has_folder: bool, counts: ContentCounts) -> None:
        self._stem = stem
        self._folders = (stem,) if has_folder else ()
        self._counts = counts
        self._pages: dict[str, str] = {}
        """The ids of notes by page title."""
        self._blocks: dict[str, ReferredBlock] = {}

    def _ref(self, page: dict[str, Any]) -> str:
        key = str(page.get("uid") or " ".join(str(page.get("title")).split()))
        return convert.id_from_name(f"{self._stem}/{key}")

    def add(self, page: dict[str, Any]) -> None:
        """Add a page and its blocks, in a first pass over the graph."""
        ref = self._ref(page)
        self._pages.setdefault(" ".join(str(page.get("title", "")).split()), ref)
        waiting = [page]
        while waiting:
            for child in convert.objects_at(waiting.pop(), "children"):
                text = str(child.get("string", ""))[: roam_text.MAX_STORED]
                self._blocks[str(child.get("uid", ""))] = ReferredBlock(ref, text)
                waiting.append(child)

    def note(self, location: str, page: dict[str, Any]) -> Item:
        """Convert a page to a note."""
        title = convert.one_line(convert.text(page.get("title")))
        if not title:
            return SkippedItem(location, "a page without a title")
        ref = self._ref(page)
        day = _DAYS.parsed(title)
        self._counts.converted("daily page" if day else "page")
        self._counts.unused_properties("page", page, _PAGE_KEYS)
        writer = _RoamWriter(OutlineContext(ref, self._blocks, self._link, self._counts))
        writer.write(page, "")
        writer.record(page)
        self._counts.converted("block", writer.blocks)
        header: dict[str, Any] = {
            "title": title,
            "created": convert.time_of(page.get("create-time"), 1e-3) or convert.parsed_time(day),
            "modified": convert.time_of(writer.edited, 1e-3),
            "authors": sorted(writer.users),
            **_lists(page),
        }
        path = note_path(
            day.isoformat() if day else title, *self._folders, *(["daily"] if day else [])
        )
        key = f"{self._stem}/{page.get('uid') or title}"
        return ImportedNote(key, path, writer.text(), header, (ref, title))

    def _link(self, name: str, label: str) -> str:
        """Return a link to the page with a name."""
        bare = " ".join(name.split())
        shown = label or convert.label(bare.replace("[[", "").replace("]]", ""))
        ref = self._pages.get(bare)
        if ref is not None:
            return f"[[import:{ref}|{shown}]]"
        day = _DAYS.parsed(bare)
        if day is not None:
            return outlines.day_link(day, shown)
        return outlines.link_missing(bare, label, self._link)


def _lists(page: dict[str, Any]) -> dict[str, list[str]]:
    """Return the tags and aliases of a page, which are stored as attributes."""
    lists: dict[str, list[str]] = {}
    for child in convert.objects_at(page, "children"):
        name, value = roam_text.attribute(str(child.get("string", ""))) or ("", "")
        if name in _LISTS:
            names = outlines.names_in(value)
            key = _LISTS[name]
            lists[key] = [convert.tag(name) for name in names] if key == "tags" else names
    return lists


class _RoamWriter:
    """Writes the blocks of a page as a list, with top-level headings.

    ``edited`` is the last edit of the page or a block, ``users`` are its authors, ``blocks`` is the
    number of its blocks.
    """

    def __init__(self, context: OutlineContext) -> None:
        self._context = context
        self._lines: list[str] = []
        self.edited: float = 0
        self.blocks = 0
        self.users: set[str] = set()

    def text(self) -> str:
        """Return the markdown."""
        return "\n".join(self._lines)

    def record(self, node: dict[str, Any]) -> None:
        """Record the time and the author of a page or block."""
        time = node.get("edit-time") or node.get("create-time")
        if isinstance(time, int | float) and time > self.edited:
            self.edited = time
        for key in _USERS:
            if (user := node.get(key)) is not None:
                user = user.get(":user/uid") if isinstance(user, dict) else user
                if isinstance(user, str) and user:
                    self.users.add(user)

    def write(self, node: dict[str, Any], indent: str) -> None:
        """Write the blocks below a page or block."""
        children = convert.objects_at(node, "children")
        if not children:
            return
        view, number = _view(node), 0
        for child in children:
            self.record(child)
            self._count(child)
            string = str(child.get("string", ""))
            if (
                "table" in string
                and roam_text.macro_name(string) == "table"
                and convert.objects_at(child, "children")
            ):
                self._table(child, indent)
                continue
            text = roam_text.markdown_of(string, self._context)
            level = child.get("heading")
            is_heading = isinstance(level, int) and 1 <= level <= 3 and not text.startswith("```")
            text = f"{'#' * (level + 1)} {text}" if is_heading else text  # type: ignore[operator]
            number += 1
            if (not indent and is_heading) or view == "document":
                self._paragraph(text, indent)
                self.write(child, indent)
                continue
            mark = f"{number}." if view == "numbered" else "-"
            first, *others = text.split("\n")
            self._lines.append(f"{indent}{mark} {first}".rstrip())
            inner = indent + " " * (len(mark) + 1)
            self._lines += [f"{inner}{line}" if line else "" for line in others]
            self.write(child, inner if len(inner) < _MAX_INDENT else indent)

    def _count(self, block: dict[str, Any]) -> None:
        self.blocks += 1
        if not block.keys() <= _BLOCK_KEYS:
            self._context.counts.unused_properties("block", block, _BLOCK_KEYS)

    def _paragraph(self, text: str, indent: str) -> None:
        lines = [f"{indent}{line}" if line else "" for line in text.split("\n")]
        before = [""] if self._lines and self._lines[-1] else []
        self._lines += [*before, *lines, ""]

    def _table(self, node: dict[str, Any], indent: str) -> None:
        """Write a table. A row is a block with the other cells nested below it."""
        children = convert.objects_at(node, "children")
        table = plain_text.table(row for child in children for row in self._rows(child, []))
        self._context.counts.converted("table")
        self._paragraph(table, indent)

    def _rows(self, node: dict[str, Any], before: list[str]) -> Iterator[list[str]]:
        self.record(node)
        self._count(node)
        text = roam_text.markdown_of(str(node.get("string", "")), self._context)
        row = [*before, roam_text.cell(text)]
        children = convert.objects_at(node, "children")
        for child in children:
            yield from self._rows(child, row)
            row = [""] * len(row)
        if not children:
            yield row
