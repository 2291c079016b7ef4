"""A decrypted backup of Standard Notes, format 004, with a note of each type.

The format follows the source of the packages web and features; no real backup was available.
"""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

PICTURE = b"\x89PNG of a loom"
BACKUP = "Standard Notes Backup and Import File.txt"
PLAIN, SUPER, TASKS, RICH, CODE, KEYS, SHEET, MARKED = (f"{number}-note" for number in range(8))
HOME, WORK = "home-tag", "work-tag"


def item(item_id: str, kind: str, content: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    """Return an item."""
    times = {"created_at": "2026-11-03T09:15:00.000Z", "updated_at": "2026-11-04T10:15:00.000Z"}
    return {"uuid": item_id, "content_type": kind, "content": content, **times, **more}


def note(item_id: str, title: str, text: str, kind: str, **more: Any) -> dict[str, Any]:
    """Return a note."""
    own = {"client_updated_at": "2026-11-05T11:15:00.000Z", "pinned": title == "Plain"}
    content = {
        "title": title,
        "text": text,
        "references": [],
        "noteType": kind,
        "appData": {"org.standardnotes.sn": own},
        "preview_plain": text[:40],
        **more,
    }
    return item(item_id, "Note", content)


def text(words: str, bits: int = 0) -> dict[str, Any]:
    """Return a node of text."""
    return {"type": "text", "text": words, "format": bits, "mode": "normal", "version": 1}


def node(kind: str, *children: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a node."""
    return {"type": kind, "version": 1, **more, "children": list(children)}


def document() -> str:
    """Return a Super note."""
    tasks = node(
        "list",
        node("listitem", text("warp"), checked=True),
        node("listitem", text("weft"), checked=False),
        node("listitem", node("list", node("listitem", text("blue")), listType="bullet")),
        listType="check",
    )
    row = node(
        "tablerow",
        node("tablecell", node("paragraph", text("a|b")), headerState=1),
        node("tablecell", node("paragraph", {"type": "snbubble", "itemUuid": PLAIN})),
    )
    src = "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    root = node(
        "root",
        node("heading", text("Loom"), tag="h1"),
        node(
            "paragraph",
            text("A "),
            text("bold", 1),
            text(" loom & <b>, see "),
            {"type": "snbubble", "itemUuid": PLAIN},
            text(" and "),
            node("link", text("a shop"), url="https://loom.example/1"),
        ),
        tasks,
        node("quote", text("Weave.")),
        node(
            "code",
            {"type": "code-highlight", "text": "if *x*:"},
            {"type": "linebreak"},
            {"type": "code-highlight", "text": "    [[y]]"},
            language="python",
        ),
        node("table", row, row),
        {"type": "inline-file", "src": src, "mimeType": "image/png", "fileName": "loom.png"},
        {"type": "snfile", "fileUuid": "a-file"},
        {"type": "horizontalrule"},
        node("equation", text("x = 1")),
    )
    return json.dumps({"root": root}, separators=(",", ":"))


def backup() -> dict[str, Any]:
    """Return a backup's contents."""
    checklist = {"name": "Shop", "tasks": [{"description": "oil #1", "completed": True}]}
    cells = [{"value": "price", "index": 0}, {"value": 7, "index": 2}]
    items = [
        item("keys", "SN|ItemsKey", {"itemsKey": "00", "version": "004"}),
        note(PLAIN, "Plain", "# no heading\nsnake_case", "plain-text"),
        note(SUPER, "Weaving", document(), "super"),
        note(
            TASKS,
            "Tasks",
            json.dumps({"schemaVersion": "1.0.0", "groups": [checklist]}),
            "task",
            references=[{"uuid": PLAIN, "content_type": "Note", "reference_type": "NoteToNote"}],
        ),
        note(RICH, "Rich", "<p>Some <b>words</b>.</p>", "rich-text", archived=True),
        note(CODE, "Code", "a = '```'\n# *x*", "code", customField={"a": 1}),
        note(KEYS, "Keys", '[{"service":"x","account":"y","secret":"JBSWY3DP"}]', "authentication"),
        note(SHEET, "Sheet", json.dumps({"sheets": [{"rows": [{"cells": cells}]}]}), "spreadsheet"),
        note(MARKED, "Plain", "**Twin** of one title.", "markdown"),
        note("gone", "Gone", "Old.", "plain-text", trashed=True),
        item(HOME, "Tag", {"title": "home", "references": []}),
        item(
            WORK,
            "Tag",
            {
                "title": "big loom",
                "references": [
                    {"uuid": PLAIN, "content_type": "Note"},
                    {"uuid": HOME, "content_type": "Tag", "reference_type": "TagToParentTag"},
                ],
            },
        ),
        item("a-file", "File", {"name": "plan.pdf", "references": []}),
    ]
    return {"version": "004", "items": items}


def make(folder: Path) -> Path:
    """Write the zip."""
    made_at = folder / "Standard Notes Backup - Tue Nov 10 2026 09_15_00 GMT+0000.zip"
    with zipfile.ZipFile(made_at, "w") as made:
        made.writestr(BACKUP, json.dumps(backup(), indent=2))
        made.writestr("Items/Note/Plain-1fa7d986.txt", "# no heading\nsnake_case")
    return made_at


def make_encrypted(folder: Path) -> Path:
    """Write an encrypted backup and a note that is not encrypted."""
    items = [item("1", "Note", "004:bm9uY2U=:Y2lwaGVy:e30="), *backup()["items"][1:2]]
    (folder / BACKUP).write_text(json.dumps({"version": "004", "items": items}), "utf-8")
    return folder / BACKUP
