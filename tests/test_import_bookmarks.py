"""Imported bookmarks keep their dates, folders, tags and descriptions."""

from __future__ import annotations

import json
import plistlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from conftest import Run, refused, succeeded, write

_HEAD = (
    "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<TITLE>Bookmarks</TITLE>\n<H1>Bookmarks</H1>\n<DL><p>\n"
)
_TEA = "https://tea.example/a_b?x=[1]&amp;y=2"


def imported(run: Run, folder: Path, source: Path) -> dict[str, Any]:
    """Import bookmarks; return the result."""
    found: dict[str, Any] = succeeded(
        run("import", str(source), "--to", "in", "--yes", "--json")
    ).json
    assert found["kind"] == "bookmarks"
    return found


def test_bookmark_in_several_folders_becomes_one_note(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Each URL becomes one note with all its folders, tags and descriptions, and both dates."""
    html = f"""{_HEAD}
    <DT><H3>Tea & more</H3><DD>All about tea
    <DL><p>
        <DT><A HREF="{_TEA}" ADD_DATE="1762161300" LAST_MODIFIED="1762247700" TAGS="hot"
            ICON="data:image/png;base64,AAAA" SHORTCUTURL="tea" FEEDURL="x">Green *tea* [1]</A>
        <DD># Not a heading<br>second_line
        <HR>
    </DL><p>
    <DT><H3>Later</H3>
    <DL><p>
        <DT><A HREF="{_TEA}" ADD_DATE="1762161200000000" TAGS="hot,green" TOREAD="1">Tea</A>
    </DL><p>
    </DL><p>"""
    source = write(tmp_path, "bookmarks.html", html)
    found = imported(run, folder, source)
    assert found["new"] == 1
    [text] = [path.read_text("utf-8") for path in (folder / "in").iterdir()]
    assert "tags: [Tea-&-more, Later, hot, green, to-read]" in text.replace('"', "")
    assert "created: 2025-11-03T09:13:20.000Z" in text
    assert "modified: 2025-11-04T09:15:00.000Z" in text
    assert "keyword: tea" in text
    assert text.endswith(
        "[Green \\*tea\\* \\[1\\]](<https://tea.example/a_b?x=[1]&y=2>)\n\n"
        "\\# Not a heading\nsecond_line\n"
    )
    assert {one["name"]: one["count"] for one in found["notConverted"]} == {
        "separator": 1,
        "folder description": 1,
        'bookmark property "feedurl"': 1,
    }
    again = imported(run, folder, source)
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 1)


@pytest.mark.parametrize("address", ["javascript:x()", "data:,x", "place:sort=8", "about:blank"])
def test_bookmarks_with_other_schemes_are_reported(
    address: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """Scripts, data and a browser's own pages are reported with titles and reasons."""
    entries = f'<DT><A HREF="{address}">Trick</A><DT><A HREF="HTTPS://x.example">X</A></DL>'
    found = imported(run, folder, write(tmp_path, "b.html", _HEAD + entries))
    [one] = found["unreadable"]
    assert one["what"] == "b.html, Trick"
    assert one["reason"].endswith(f"starts with {address.partition(':')[0]}:")
    assert found["new"] == 1


def test_firefox_bookmarks_keep_both_dates_and_keywords(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    """Microseconds become times, keywords are imported, and separators are counted."""
    tea = {
        "guid": "a",
        "title": "Tea",
        "typeCode": 1,
        "uri": "https://tea.example/",
        "dateAdded": 1762161300000000,
        "lastModified": 1762247700000000,
        "keyword": "t",
        "tags": "green tea,hot",
        "iconUri": "x",
    }
    children = [tea, {"guid": "s", "typeCode": 3}]
    root = {"guid": "root________", "typeCode": 2, "root": "placesRoot", "children": children}
    found = imported(run, folder, write(tmp_path, "b.json", json.dumps(root)))
    text = (folder / "in/Tea.md").read_text("utf-8")
    assert "created: 2025-11-03T09:15:00.000Z\nmodified: 2025-11-04T09:15:00.000Z" in text
    assert "tags: [green-tea, hot]" in text
    assert found["notConverted"] == [{"name": "separator", "count": 1}]


def safari() -> dict[str, Any]:
    """Return Safari's tree with a bookmark, the reading list and the history."""
    leaf = {
        "WebBookmarkType": "WebBookmarkTypeLeaf",
        "URLString": "https://tea.example/",
        "URIDictionary": {"title": "Tea"},
        "WebBookmarkUUID": "1",
    }
    read = {
        **leaf,
        "URLString": "https://read.example/",
        "URIDictionary": {"title": "Read"},
        "ReadingList": {"DateAdded": datetime(2026, 3, 1, 9), "PreviewText": "About *it*"},  # noqa: DTZ001
    }

    def part(title: str, *children: Any) -> dict[str, Any]:
        return {"WebBookmarkType": "WebBookmarkTypeList", "Title": title, "Children": [*children]}

    return part(
        "",
        {"WebBookmarkType": "WebBookmarkTypeProxy", "Title": "History"},
        part("BookmarksBar", part("Shops", leaf)),
        part("com.apple.ReadingList", read),
    )


@pytest.mark.parametrize("form", [plistlib.FMT_BINARY, plistlib.FMT_XML])
def test_safari_bookmarks_and_reading_list_are_read(
    form: plistlib.PlistFormat, run: Run, folder: Path, tmp_path: Path
) -> None:
    """Both forms of Safari's property list yield bookmarks and the reading list."""
    found = imported(
        run, folder, write(tmp_path, "Bookmarks.plist", plistlib.dumps(safari(), fmt=form))
    )
    assert found["new"] == 2
    assert "tags: [Shops]" in (folder / "in/Tea.md").read_text("utf-8")
    text = (folder / "in/Read.md").read_text("utf-8")
    assert "tags: [Reading-list]" in text
    assert "created: 2026-03-01T09:00:00.000Z" in text
    assert text.endswith("About \\*it\\*\n")


def test_hostile_property_lists_are_refused(run: Run, tmp_path: Path) -> None:
    """Entities are not expanded, and a list that contains itself many times is read once."""
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 9}">' for n in range(1, 30))
    laughs = f'<?xml version="1.0"?><!DOCTYPE p [<!ENTITY a0 "x">{entities}]><plist>&a29;</plist>'
    write(tmp_path, "Bookmarks.plist", laughs)
    said = refused(run("import", str(tmp_path / "Bookmarks.plist"), "--yes"), 2)
    assert "not a property list" in said
    node = safari()
    for _ in range(60):
        node = {**node, "Children": [node, node]}
    write(tmp_path, "Bookmarks.plist", plistlib.dumps(node, fmt=plistlib.FMT_BINARY))
    found = succeeded(run("import", str(tmp_path / "Bookmarks.plist"), "--yes", "--json")).json
    assert found["new"] == 2
