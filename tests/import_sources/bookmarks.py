"""Bookmarks as exported and stored by browsers of November 2026."""

from __future__ import annotations

import json
import plistlib
from pathlib import Path

HTML = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks Menu</H1>
<DL><p>
    <DT><H3 ADD_DATE="1762161300" PERSONAL_TOOLBAR_FOLDER="true">Bookmarks bar</H3>
    <DL><p>
        <DT><H3 ADD_DATE="1762161300">Tea shops</H3>
        <DL><p>
            <DT><A HREF="https://tea.example/?a=1&amp;b=2" ADD_DATE="1762161300" TAGS="green,hot">Green [tea]</A>
            <DD>Good in spring
        </DL><p>
        <DT><A HREF="javascript:alert(1)">Trick</A>
        <DT><A HREF="https://paper.example/" ADD_DATE="1762161301">Paper</A>
    </DL><p>
</DL><p>
"""  # noqa: E501


def make(folder: Path) -> Path:
    """Write the HTML file."""
    (folder / "bookmarks.html").write_text(HTML, "utf-8")
    return folder / "bookmarks.html"


def make_chrome(folder: Path) -> Path:
    """Write Chrome's bookmarks file."""
    address = "https://tea.example/"
    tea = {"type": "url", "name": "Green tea", "url": address, "date_added": "13406634900000000"}
    shops = {"type": "folder", "name": "Tea shops", "id": "6", "children": [tea]}
    bar = {"type": "folder", "name": "Bookmarks bar", "id": "1", "children": [shops]}
    tree = {"checksum": "0", "roots": {"bookmark_bar": bar}, "version": 1}
    (folder / "Bookmarks").write_text(json.dumps(tree), "utf-8")
    return folder / "Bookmarks"


def make_firefox(folder: Path) -> Path:
    """Write Firefox's backup."""
    tea = {
        "guid": "abc",
        "title": "Green tea",
        "typeCode": 1,
        "uri": "https://tea.example/",
        "dateAdded": 1762161300000000,
        "tags": "hot",
    }
    shops = {"guid": "s", "title": "Tea shops", "typeCode": 2, "children": [tea]}
    menu = {"guid": "menu________", "title": "menu", "typeCode": 2, "children": [shops]}
    tree = {"guid": "root________", "typeCode": 2, "root": "placesRoot", "children": [menu]}
    (folder / "bookmarks-2026-11-20.json").write_text(json.dumps(tree), "utf-8")
    return folder / "bookmarks-2026-11-20.json"


def make_safari(folder: Path) -> Path:
    """Write Safari's property list; no real file was available."""
    leaf = {
        "WebBookmarkType": "WebBookmarkTypeLeaf",
        "URLString": "https://tea.example/",
        "URIDictionary": {"title": "Green tea"},
        "ReadingList": {"PreviewText": "On tea"},
    }
    part = {"WebBookmarkType": "WebBookmarkTypeList", "Title": "Tea shops", "Children": [leaf]}
    tree = {"WebBookmarkType": "WebBookmarkTypeList", "Title": "", "Children": [part]}
    (folder / "Bookmarks.plist").write_bytes(plistlib.dumps(tree))
    return folder / "Bookmarks.plist"
