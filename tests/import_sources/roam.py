"""Roam's export as JSON of November 2026: a page, a day, references, tasks, formats; and more.

The fields follow public exports; no export was available.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

PAGES = [
    {
        "title": "Bees",
        "create-time": 1762161300000,
        "edit-time": 1762164900000,
        "uid": "pageBees1",
        "children": [
            {
                "string": "Care",
                "uid": "careBlock",
                "heading": 2,
                "children": [
                    {"string": "{{[[TODO]]}} check the ^^frames^^", "uid": "todoBlock"},
                    {"string": "{{[[DONE]]}} feed __now__", "uid": "doneBlock"},
                ],
            },
        ],
    },
    {
        "title": "November 3rd, 2026",
        "uid": "11-03-2026",
        "children": [
            {"string": "Saw ((todoBlock)) at [[Bees]] #[[bee house]]", "uid": "dayBlock1"}
        ],
    },
]


def block(string: str, *children: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a block."""
    return {"string": string, "uid": keys.pop("uid", "aaaaaaaaa"), "children": [*children], **keys}


def page(title: str, *children: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a page."""
    return {"title": title, "uid": f"uid {title}", "children": [*children], **keys}


GRAPH = [
    page(
        "Honey",
        block("Tags:: #sweet [[bee house]]"),
        block("a ((hiveBlock)) b", uid="refBlock1", **{"edit-time": 1762251300000}),
        block("[the hive](((hiveBlock))) and [honey]([[Hive [[One]]]]) on [[June 3rd, 2024]]"),
        block("{{[[embed]]: ((hiveBlock))}} {{embed: [[Hive [[One]]]]}}"),
        block("```javascript\n- {{[[TODO]]}} [[x]] ^^y^^\n  # z```", uid="codeBlock"),
        block("`((hiveBlock)) {{[[TODO]]}}` #bee-house a#b"),
        block("{{[[table]]}}", block("Name", block("Count")), block("Buckfast|x", block("3"))),
        block("{{[[kanban]]}}", block("To do", block("feed"))),
        block("{{[[query]]: {and: [[Honey]] {not: [[x]]}}}}"),
        block("{{[[video]]: https://example.org/v.mp4}}"),
        block("numbers", block("one"), block("two"), **{"children-view-type": "numbered"}),
        block("prose", block("para one"), block("para two"), **{"children-view-type": "document"}),
        block(":hiccup [:div [:b 1]]"),
        block("# not a heading\n- not a list\n1. nor this, 2 * 3 * 4 and *x* _y_ <b>"),
        block("[[>]] quoted **words**\nmore"),
        block("![comb](https://firebasestorage.googleapis.com/v0/b/x?alt=media&token=1)"),
        block("$$a_1 [[b]]$$ ~~gone~~", **{"text-align": "center", "emojis": [{"emoji": "x"}]}),
        **{"create-time": 1762161300000, "edit-time": 1762164900000, "create-email": "a@b.org"},
    ),
    page(
        "Hive [[One]]",
        block(
            "{{[[TODO]]}} paint the **hive**",
            uid="hiveBlock",
            **{":create/user": {":user/uid": "u1"}},
        ),
        block("see [[One]] and [[Gone [[One]]]]"),
        block("here ((hiveBlock))"),
    ),
    page("One"),
    page("June 3rd, 2024", block("a day")),
]


def make(folder: Path) -> Path:
    """Write the file."""
    (folder / "roam.json").write_text(json.dumps(PAGES), "utf-8")
    return folder / "roam.json"


def make_graphs(folder: Path) -> Path:
    """Write a zip of two graphs."""
    with zipfile.ZipFile(folder / "Roam-Export-1762.zip", "w") as made:
        made.writestr("bees.json", json.dumps(PAGES))
        made.writestr("honey.json", json.dumps(GRAPH))
    return folder / "Roam-Export-1762.zip"
