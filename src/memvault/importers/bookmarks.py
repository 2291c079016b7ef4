"""Import of browsers' bookmarks: the HTML file that all export, Chrome's and Firefox's own files.

The HTML is Netscape's: ``<DT><A HREF ADD_DATE TAGS>`` in nested ``<DL>`` with ``<H3>`` names, and
``<DD>`` descriptions. Chrome's profile has a JSON file ``Bookmarks`` with ``roots``; Firefox saves
a JSON tree with ``typeCode`` (versions of November 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from memvault.importers import html_markdown, json_source, records, values
from memvault.importers.items import ImportedNote, Item, Unreadable, note_path
from memvault.importers.kinds import NO, SURE
from memvault.importers.source import Source

_CHROME_EPOCH = 11_644_473_600
"""Seconds from 1601, where Chrome's times begin, to 1970."""
_CHROME_ROOTS = frozenset("123")
"""The ids of Chrome's own folders: the bar, other bookmarks, and those of a phone."""
_FIREFOX_BOOKMARK = 1
"""The ``typeCode`` of a bookmark; folders and separators have others."""
_MAX_DEPTH = 200
_MAX_DIGITS = 20
_MAX_NAME = 200
"""Maximum length of the name of a folder, which becomes a tag of each bookmark in it."""


class Bookmark(NamedTuple):
    """A bookmark; ``added`` is a time of the header or empty."""

    address: str
    title: str
    folders: tuple[str, ...]
    added: str
    about: str = ""
    tags: tuple[str, ...] = ()


def recognise(source: Source) -> int:
    """Return ``SURE`` if there is a file of bookmarks."""
    return SURE if _files(source) else NO


def _files(source: Source) -> list[str]:
    found = []
    for name in source.names:
        if name.lower().endswith((".html", ".htm", ".json")) or name.endswith("Bookmarks"):
            head = source.head(name)
            is_chrome = b'"checksum"' in head and b'"roots"' in source.head(name, 1 << 14)
            is_firefox = b'"root":"placesRoot"' in head.replace(b" ", b"") or (
                b'"typeCode"' in head and b'"guid"' in head
            )
            if b"NETSCAPE-Bookmark-file" in head or is_chrome or is_firefox:
                found.append(name)
    return found


def read(source: Source) -> Iterator[Item]:
    """Yield a note for each bookmark with a web address, each address once."""
    seen: set[str] = set()
    for name in _files(source):
        try:
            bookmarks = list(_bookmarks(source, name))
        except (OSError, ValueError, RecursionError) as error:
            yield Unreadable(name, records.reason_of(error))
            continue
        for bookmark in bookmarks:
            if isinstance(bookmark, Unreadable):
                yield bookmark._replace(what=f"{name}, {bookmark.what}")
            elif not bookmark.address:
                yield Unreadable(f"{name}, {bookmark.title}", "it has no address")
            elif (
                bookmark.address.startswith(("http://", "https://"))
                and bookmark.address not in seen
            ):
                seen.add(bookmark.address)
                yield from records.items_of(f"{name}, {bookmark.address}", _note, bookmark)


def _note(bookmark: Bookmark) -> ImportedNote:
    title = " ".join(bookmark.title.split()) or bookmark.address
    label = title.replace("[", "(").replace("]", ")")
    text = f"[{label}](<{bookmark.address.replace('<', '%3C').replace('>', '%3E')}>)"
    about = " ".join(bookmark.about.split())
    folders = map(values.tag, bookmark.folders)
    header = {
        "title": title,
        "tags": list(dict.fromkeys(tag for tag in (*folders, *bookmark.tags) if tag)),
        "source": bookmark.address,
        "created": bookmark.added,
        "modified": bookmark.added,
    }
    return ImportedNote(
        bookmark.address, note_path(title[:80]), f"{text}\n\n{about}".strip(), header
    )


def _bookmarks(source: Source, name: str) -> Iterator[Bookmark | Unreadable]:
    if not name.lower().endswith((".html", ".htm")):
        tree = json_source.read_object(source, name)
        if isinstance(roots := tree.get("roots"), dict):
            for root in roots.values():
                if isinstance(root, dict):  # Chrome keeps other values there, too
                    yield from _chrome(root, ())
        else:
            yield from _firefox(tree, (), 0)
        return
    netscape = _Netscape()
    html_markdown.parse(source.read(name).decode("utf-8", "replace"), netscape)
    yield from netscape.found


def _chrome(node: Any, folders: tuple[str, ...]) -> Iterator[Bookmark | Unreadable]:
    if not isinstance(node, dict) or len(folders) > _MAX_DEPTH:
        yield _unreadable(node, folders)
        return
    if node.get("type") == "url":
        micro = str(node.get("date_added") or "0")[:_MAX_DIGITS]
        added = int(micro) / 1e6 - _CHROME_EPOCH if micro.isdecimal() else 0
        when = values.time_of(max(0, added))
        yield Bookmark(values.text(node.get("url")), str(node.get("name", "")), folders, when)
    inner = (
        (*folders, str(node.get("name", ""))[:_MAX_NAME])
        if folders or str(node.get("id")) not in _CHROME_ROOTS
        else ()
    )
    for child in _children(node):
        yield from _chrome(child, inner)


def _firefox(node: Any, folders: tuple[str, ...], depth: int) -> Iterator[Bookmark | Unreadable]:
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        yield _unreadable(node, folders)
        return
    if node.get("typeCode") == _FIREFOX_BOOKMARK or node.get("uri"):
        tags = tuple(str(node.get("tags") or "").split(",")) if node.get("tags") else ()
        added = values.time_of(node.get("dateAdded"), 1e-6)
        address, title = values.text(node.get("uri")), str(node.get("title", ""))
        yield Bookmark(address, title, folders, added, "", tags)
    inner = (*folders, str(node.get("title", ""))[:_MAX_NAME]) if depth > 1 else ()
    for child in _children(node):
        yield from _firefox(child, inner, depth + 1)


def _unreadable(node: Any, folders: tuple[str, ...]) -> Unreadable:
    place = f"an entry of the folder {folders[-1]}" if folders else "an entry"
    is_deep = isinstance(node, dict)
    return Unreadable(place, "nested too deeply" if is_deep else json_source.NO_OBJECT)


def _children(node: dict[str, Any]) -> list[Any]:
    children = node.get("children")
    return children if isinstance(children, list) else []


class _Netscape:
    """Collects the bookmarks of an HTML file and the folders that contain them."""

    def __init__(self) -> None:
        self.found: list[Bookmark] = []
        self._folders: list[str] = []
        self._inside = ""
        self._texts: list[str] = []
        self._attributes: dict[str, str] = {}
        self._next_folder = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin a folder, a name, an address or a description."""
        self._end_about()
        if tag == "dl":
            self._folders.append(self._next_folder)
            self._next_folder = ""
        elif tag in ("a", "h3", "dd"):
            self._inside, self._texts = tag, []
            self._attributes = dict(attributes)

    def end(self, tag: str) -> None:
        """End a folder, a name or an address."""
        self._end_about()
        if tag == "dl" and self._folders:
            self._folders.pop()
        elif tag == "h3" and self._inside == "h3":
            is_bar = "personal_toolbar_folder" in self._attributes
            self._next_folder = "" if is_bar else self._text.strip()[:_MAX_NAME]
            self._inside = ""
        elif tag == "a" and self._inside == "a":
            given = self._attributes
            folders = tuple(name for name in self._folders[:_MAX_DEPTH] if name)
            tags = tuple(word.strip() for word in given.get("tags", "").split(",") if word.strip())
            added = values.time_of(given.get("add_date"))
            self.found.append(Bookmark(given.get("href", ""), self._text, folders, added, "", tags))
            self._inside = ""

    def data(self, data: str) -> None:
        """Collect a text."""
        if self._inside:
            self._texts.append(data)

    @property
    def _text(self) -> str:
        return "".join(self._texts)

    def _end_about(self) -> None:
        if self._inside == "dd" and self.found:
            self.found[-1] = self.found[-1]._replace(about=self._text)
            self._inside = ""

    def close(self) -> None:
        """End the last description."""
        self._end_about()
