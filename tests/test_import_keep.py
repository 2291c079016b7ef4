"""Google Keep in Takeout: escaped text and formatting, lists, files, states, languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Run, write
from imported import Imported

TIME = 1762164900000000


def keep(
    run: Run, folder: Path, path: Path, *notes: dict[str, Any], name: str = "Keep"
) -> Imported:
    """Import a Takeout with notes."""
    for number, note in enumerate(notes):
        whole = {"userEditedTimestampUsec": TIME, "isTrashed": False, **note}
        write(path, f"Takeout/{name}/n{number}.json", json.dumps(whole))
    return Imported(run, folder, path / "Takeout", "keep")


def header_of(found: Imported, path: str) -> dict[str, Any]:
    """Return a note's header."""
    header: dict[str, Any] = yaml.safe_load(found.text(path).split("---\n")[1])
    return header


def test_keep_markdown_characters_are_escaped(run: Run, folder: Path, tmp_path: Path) -> None:
    """Text, items and link titles that look like markdown stay text, on the same lines."""
    text = "# no\n- no\n\n    code? no_x *y* #tag\nhttps://a.org/b_c [x](y)"
    items = [{"text": "# a [x] |", "isChecked": True}, {"text": "1. b\nc", "isChecked": False}]
    link = {"url": "https://a.org/x (y", "title": "[A] *b*", "description": "About _it_"}
    got = keep(
        run,
        folder,
        tmp_path,
        {"title": "T", "textContent": text, "listContent": items, "annotations": [link]},
    )
    assert got.text("T.md").endswith(
        "---\n\n\\# no\n\\- no\n\n\u00a0\u00a0\u00a0\u00a0code? no_x \\*y\\* \\#tag\n"
        "https://a.org/b_c [x\\](y)\n\n"
        "- [x] \\# a \\[x\\] \\|\n- [ ] 1\\. b c\n\n"
        "- [\\[A\\] \\*b\\*](https://a.org/x%20%28y): About \\_it_\n"
    )


@pytest.mark.parametrize(
    ("html", "made"),
    [
        ("<p><span style='font-weight:400;text-decoration:none'>a # b</span></p>", "plain # b"),
        ("<p><span style='font-weight:700'>a</span> # b</p><h1>c</h1>", "**a** # b\n\n# c"),
        ('<p><span style="font-weight:700">a<\\/span><\\/p>', "**a**"),
    ],
)
def test_keep_formatting_is_preserved(
    html: str, made: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    """Formatted text is converted from its HTML, and other text is unchanged."""
    note = {"title": "T", "textContent": "plain # b", "textContentHtml": html}
    assert keep(run, folder, tmp_path, note).text("T.md").endswith(f"---\n\n{made}\n")


def test_keep_takeout_list_is_not_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    """The page that Takeout adds to each export is not reported as an unread file."""
    write(tmp_path, "Takeout/archive_browser.html", "<html></html>")
    write(
        tmp_path,
        "Takeout/Keep/a.json",
        json.dumps(
            {
                "title": "T",
                "textContent": "x",
                "isTrashed": False,
                "color": "DEFAULT",
                "isPinned": False,
                "isArchived": False,
                "userEditedTimestampUsec": TIME,
            }
        ),
    )
    got = Imported(run, folder, tmp_path / "Takeout", "keep")
    assert "otherFiles" not in got.found


def test_keep_states_and_times_are_preserved(run: Run, folder: Path, tmp_path: Path) -> None:
    """Color, labels, pins and people are in the header, and trashed notes are counted."""
    note = {
        "title": "T",
        "textContent": "x",
        "color": "RED",
        "isPinned": True,
        "isArchived": True,
        "labels": [{"name": "to do"}],
        "sharees": [{"email": "me@a.org", "isOwner": True}, {"email": "b@a.org", "type": "WRITER"}],
        "createdTimestampUsec": TIME,
        "userEditedTimestampUsec": 0,
        "reminders": [{"a": 1}],
    }
    trashed = {"title": "Gone", "textContent": "x", "isTrashed": True}
    got = keep(run, folder, tmp_path, note, trashed, {"title": "", "textContent": "# First\nb"})
    header = header_of(got, "T.md")
    assert header["tags"] == ["to-do", "pinned", "archived"]
    assert (header["color"], header["shared_with"]) == ("red", ["b@a.org"])
    assert str(header["created"]) == str(header["modified"])
    assert "\\# First\nb" in got.text("First.md")
    assert got.omitted == {"note in the trash": 1, 'note property "reminders"': 1}


def test_keep_files_are_found_with_other_extensions(run: Run, folder: Path, tmp_path: Path) -> None:
    """Attachments are linked even if their extension is wrong or their name has odd characters."""
    names = ("a.jpeg", "b.jpg", "c.JPEG", "d #1.png", "e", "gone.png")
    for name in ("a.jpg", "b.jpeg", "c.jpg", "d #1.png", "e.gif"):
        write(tmp_path, f"Takeout/Google Notizen/{name}", name.encode())
    write(tmp_path, "Takeout/Google Notizen/Labels.txt", "to do\n")
    files = [{"filePath": name, "mimetype": "image/jpeg"} for name in names]
    files[4]["mimetype"] = "image/gif"
    note = {"title": "T", "attachments": files}
    got = keep(run, folder, tmp_path, note, name="Google Notizen")
    assert got.unreadable == {("Google Notizen/n0.json, gone.png", "missing from the export")}
    text = got.text("T.md")
    for name in ("a.jpg", "b.jpeg", "c.jpg", "e.gif"):
        assert f"![[Google Notizen/{name}]]" in text
    assert "![](Google%20Notizen/d%20-1.png)" in text
    assert got.found["attachments"] == 5
