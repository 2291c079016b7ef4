"""Import browsers' bookmarks, from the common HTML format or a browser's own file.

The Netscape format is ``<DT><A HREF ADD_DATE TAGS>`` in nested ``<DL>`` with ``<H3>`` names and
``<DD>`` descriptions; Pinboard, Raindrop and Pocket use it, too. Chrome has a JSON file
``Bookmarks`` with ``roots``, Firefox has a JSON backup with ``typeCode``, and Safari has a property
list ``Bookmarks.plist`` (as of November 2026).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from memvault import clock
from memvault.importers import convert, html_markdown, json_source, plain_text, records
from memvault.importers.content_counts import ContentCounts
from memvault.importers.items import ImportedNote, Item, SkippedItem, note_path
from memvault.importers.source import Source
from memvault.named_tuple import NamedTuple

_HEAD = 1 << 14
_CHROME_EPOCH = 11_644_473_600
"""Seconds from Chrome's epoch, 1601, to 1970."""
_CHROME_ROOTS = frozenset("123")
"""IDs of Chrome's root folders: the bookmarks bar, other bookmarks, mobile bookmarks."""
_SAFARI_ROOTS = {
    "": "",
    "BookmarksBar": "",
    "BookmarksMenu": "",
    "com.apple.ReadingList": "Reading list",
}
"""Titles of Safari's root folders, with the tags of their bookmarks."""
_FIREFOX_BOOKMARK, _FIREFOX_SEPARATOR = 1, 3
"""The ``typeCode`` of a bookmark and of a separator."""
_MAX_DEPTH = 200
_MAX_DIGITS = 20
_MAX_NAME = 200
"""Maximum length of a folder name, which becomes a tag of its bookmarks."""
_USED = frozenset(
    # Chrome
    "type url name id guid date_added date_last_used date_modified children meta_info source "
    "visit_count show_icon "
    # Firefox
    "title index dateAdded lastModified typeCode uri tags keyword iconuri iconUri charset root "
    "postData "
    # HTML
    "href add_date last_modified last_visit last_charset icon icon_uri shortcuturl private toread "
    "time_added post_data data-cover data-important "
    # Safari
    "WebBookmarkType WebBookmarkUUID URLString URIDictionary ReadingList ReadingListNonSync Sync "
    "imageURL previewText previewTextIsUserDefined Children Title".split()
)
"""Properties that are converted, or that matter only in the browser."""


class Bookmark(NamedTuple):
    """A bookmark; ``added`` and ``changed`` are times in ISO 8601 or empty."""

    address: str
    title: str
    folders: tuple[str, ...]
    added: str
    about: str = ""
    tags: tuple[str, ...] = ()
    changed: str = ""
    keyword: str = ""


def claims(source: Source) -> list[str]:
    """Return the bookmark files."""
    files = []
    for name in source.names:
        if name.endswith("Bookmarks.plist"):
            if source.head(name, 8).startswith((b"bplist", b"<?xml")):
                files.append(name)
        elif name.lower().endswith((".html", ".htm", ".json")) or name.endswith("Bookmarks"):
            whole = source.head(name, _HEAD)
            head = whole[:4096]
            is_html = b"NETSCAPE-Bookmark-file" in head or b"<title>Pocket Export" in head
            is_chrome = b'"checksum"' in head and b'"roots"' in whole
            is_firefox = b'"root":"placesRoot"' in head.replace(b" ", b"") or (
                b'"typeCode"' in head and b'"guid"' in head
            )
            if is_html or is_chrome or is_firefox:
                files.append(name)
    return files


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each URL, with the folders and tags of all its bookmarks."""
    merged: dict[str, Bookmark] = {}
    for name in claims(source):
        try:
            for bookmark in _bookmarks(source, name):
                if isinstance(bookmark, SkippedItem):
                    yield bookmark._replace(what=f"{name}, {bookmark.what}")
                elif reason := _reason_to_skip(bookmark.address):
                    shown_name = bookmark.title.strip() or bookmark.address[:_MAX_NAME]
                    yield SkippedItem(f"{name}, {shown_name}", reason)
                else:
                    source.counts.converted("bookmark")
                    key = bookmark.address
                    merged[key] = _merged(merged[key], bookmark) if key in merged else bookmark
        except (OSError, ValueError, RecursionError) as error:
            yield SkippedItem(name, records.reason_for(error))
    for address, bookmark in merged.items():
        yield from records.convert_record(address, _note, bookmark)


def _reason_to_skip(address: str) -> str:
    """Return why a bookmark is skipped; empty if it is a web page."""
    if not address:
        return "has no URL"
    scheme = address.partition(":")[0].strip().lower()
    if scheme in ("http", "https"):
        return ""
    return f"not a web page: the URL starts with {convert.one_line(scheme[:30])}:"


def _merged(first: Bookmark, other: Bookmark) -> Bookmark:
    """Merge two bookmarks for a URL."""
    abouts = dict.fromkeys(filter(None, (first.about.strip(), other.about.strip())))
    return first._replace(
        title=first.title.strip() or other.title,
        folders=(*first.folders, *other.folders),
        added=min(filter(None, (first.added, other.added)), default=""),
        changed=max(first.changed, other.changed),
        about="\n\n".join(abouts),
        tags=(*first.tags, *other.tags),
        keyword=first.keyword or other.keyword,
    )


def _note(bookmark: Bookmark) -> ImportedNote:
    title = " ".join(bookmark.title.split()) or bookmark.address
    label = plain_text.escaped(title, is_line=True)
    address = "".join(bookmark.address.split())
    for sign, written in (("<", "%3C"), (">", "%3E"), ("\\", "%5C")):
        address = address.replace(sign, written)
    about = plain_text.escaped(bookmark.about.strip())
    tags = map(convert.tag, (*bookmark.folders, *bookmark.tags))
    header = {
        "title": title,
        "tags": list(dict.fromkeys(filter(None, tags))),
        "source": bookmark.address,
        "created": bookmark.added,
        "modified": max(bookmark.added, bookmark.changed),
        "keyword": bookmark.keyword,
    }
    text = f"[{label}](<{address}>)\n\n{about}".strip()
    return ImportedNote(bookmark.address, note_path(title[:80]), text, header)


def _bookmarks(source: Source, name: str) -> Iterator[Bookmark | SkippedItem]:
    if name.endswith(".plist"):
        yield from _walk(_property_list(source.read(name)), _safari, source.counts, set())
    elif name.lower().endswith((".html", ".htm")):
        netscape = _Netscape(source.counts)
        html_markdown.parse(source.read(name).decode("utf-8", "replace"), netscape)
        yield from netscape.found
    else:
        tree = json_source.read_object(source, name)
        if isinstance(roots := tree.get("roots"), dict):
            for root in roots.values():
                if isinstance(root, dict):  # there are other values, too
                    yield from _walk(root, _chrome, source.counts, set())
        else:
            yield from _walk(tree, _firefox, source.counts, set())


def _property_list(data: bytes) -> Any:
    """Return the value of a property list; raises ``ValueError`` if it is not one."""
    import plistlib
    from xml.parsers.expat import ExpatError

    damaged = (plistlib.InvalidFileException, ExpatError, LookupError, TypeError, AttributeError)
    try:
        return plistlib.load(io.BytesIO(data))
    except (*damaged, OverflowError) as error:
        raise ValueError("not a property list") from error


_Folders = tuple[str, ...]
_Visit = Callable[[dict[str, Any], _Folders, int, ContentCounts], "Bookmark | _Folders"]
"""A function that returns a node's bookmark, or the folders of its children."""


def _walk(
    node: Any,
    visit: _Visit,
    counts: ContentCounts,
    seen: set[int],
    folders: _Folders = (),
    depth: int = 0,
) -> Iterator[Bookmark | SkippedItem]:
    """Yield the bookmarks below a node; a node that a property list repeats is visited once."""
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        location = f"an entry in the folder {folders[-1]}" if folders else "an entry"
        is_deep = isinstance(node, dict)
        yield SkippedItem(location, "nested too deeply" if is_deep else json_source.NO_OBJECT)
    elif id(node) not in seen:
        seen.add(id(node))
        visited = visit(node, folders, depth, counts)
        if isinstance(visited, Bookmark):
            yield visited
            return
        for child in convert.list_at(node, "Children" if visit is _safari else "children"):
            yield from _walk(child, visit, counts, seen, visited, depth + 1)


def _safari(
    node: dict[str, Any], folders: _Folders, depth: int, counts: ContentCounts
) -> Bookmark | _Folders:
    if node.get("WebBookmarkType") == "WebBookmarkTypeLeaf":
        counts.unused_properties("bookmark", node, _USED)
        title = convert.text(convert.object_at(node, "URIDictionary").get("title"))
        reading = convert.object_at(node, "ReadingList")
        added = reading.get("DateAdded")
        when = clock.iso(added.replace(tzinfo=UTC)) if isinstance(added, datetime) else ""
        text = convert.text(reading.get("PreviewText"))
        return Bookmark(convert.text(node.get("URLString")), title, folders, when, text)
    title = convert.text(node.get("Title"))[:_MAX_NAME]
    return (*folders, _SAFARI_ROOTS.get(title, title) if depth < 2 else title)


def _chrome(
    node: dict[str, Any], folders: _Folders, _depth: int, counts: ContentCounts
) -> Bookmark | _Folders:
    name = str(node.get("name", ""))
    if node.get("type") == "url":
        counts.unused_properties("bookmark", node, _USED)
        micro = str(node.get("date_added") or "0")[:_MAX_DIGITS]
        is_number = micro.isascii() and micro.isdecimal()
        added = int(micro) / 1e6 - _CHROME_EPOCH if is_number else 0
        when = convert.time_of(max(0, added))
        return Bookmark(convert.text(node.get("url")), name, folders, when)
    is_root = not folders and str(node.get("id")) in _CHROME_ROOTS
    return () if is_root else (*folders, name[:_MAX_NAME])


def _firefox(
    node: dict[str, Any], folders: _Folders, depth: int, counts: ContentCounts
) -> Bookmark | _Folders:
    title = str(node.get("title") or "")
    if node.get("typeCode") == _FIREFOX_BOOKMARK or node.get("uri"):
        counts.unused_properties("bookmark", node, _USED)
        tags = tuple(str(node["tags"]).split(",")) if node.get("tags") else ()
        added = convert.time_of(node.get("dateAdded"), 1e-6)
        changed = convert.time_of(node.get("lastModified"), 1e-6)
        address, keyword = convert.text(node.get("uri")), convert.text(node.get("keyword"))
        return Bookmark(address, title, folders, added, "", tags, changed, keyword)
    if node.get("typeCode") == _FIREFOX_SEPARATOR:
        counts.omitted("separator")
    return (*folders, title[:_MAX_NAME]) if depth > 1 else ()


class _Netscape:
    """Collects the bookmarks in an HTML file and the folders that contain them."""

    def __init__(self, counts: ContentCounts) -> None:
        self.found: list[Bookmark] = []
        self._counts = counts
        self._folders: list[str] = []
        self._inside = ""
        self._texts: list[str] = []
        self._attributes: dict[str, str] = {}
        self._next_folder = ""
        self._is_of_folder = False
        """Whether the next description belongs to a folder."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Start a folder, a folder name, a bookmark or a description."""
        if self._inside == "dd" and tag in ("br", "p", "b", "i", "em", "strong", "a"):
            self._texts.append("\n" if tag in ("br", "p") else "")
            if tag != "a" or "add_date" not in attributes:  # a link in a description
                return
        self._end_about()
        if tag == "dl":
            self._folders.append(self._next_folder)
            self._next_folder = ""
        elif tag == "hr":
            self._counts.omitted("separator")
        elif tag in ("a", "h3", "dd"):
            self._inside, self._texts = tag, []
            self._attributes = dict(attributes)

    def end(self, tag: str) -> None:
        """End a folder, a folder name or a bookmark."""
        if self._inside == "dd" and tag not in ("dd", "dl", "dt"):
            return
        self._end_about()
        if tag == "dl" and self._folders:
            self._folders.pop()
        elif tag == "h3" and self._inside == "h3":
            is_bar = "personal_toolbar_folder" in self._attributes
            self._next_folder = "" if is_bar else self._text.strip()[:_MAX_NAME]
            self._inside, self._is_of_folder = "", True
        elif tag == "a" and self._inside == "a":
            self._add(self._attributes)
            self._inside, self._is_of_folder = "", False

    def _add(self, attributes: dict[str, str]) -> None:
        self._counts.unused_properties("bookmark", attributes, _USED)
        folders = tuple(name for name in self._folders[:_MAX_DEPTH] if name)
        tags = [word.strip() for word in attributes.get("tags", "").split(",")]
        if attributes.get("toread") == "1":
            tags.append("to-read")
        added = _netscape_time(attributes.get("add_date") or attributes.get("time_added"))
        changed = _netscape_time(attributes.get("last_modified"))
        address, keyword = attributes.get("href", ""), attributes.get("shortcuturl", "")
        listed = tuple(filter(None, tags))
        self.found.append(
            Bookmark(address, self._text, folders, added, "", listed, changed, keyword)
        )

    def data(self, data: str) -> None:
        """Add text."""
        if self._inside:
            self._texts.append(data)

    @property
    def _text(self) -> str:
        return "".join(self._texts)

    def _end_about(self) -> None:
        if self._inside == "dd":
            if self._is_of_folder:
                self._counts.omitted("folder description")
            elif self.found:
                self.found[-1] = self.found[-1]._replace(about=self._text)
            self._inside = ""

    def close(self) -> None:
        """End the last description."""
        self._end_about()


def _netscape_time(text: object) -> str:
    """Convert a time in seconds, milliseconds or microseconds since 1970."""
    digits = str(text or "").strip()[:_MAX_DIGITS]
    if not (digits.isascii() and digits.isdecimal()):
        return ""
    number = int(digits)
    unit = 1 if number < 10**11 else 1_000 if number < 10**14 else 1_000_000
    return convert.time_of(number // unit)
