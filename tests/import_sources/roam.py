"""Roam's export as JSON of November 2026: a page, a day, references, tasks, formats."""

from __future__ import annotations

import json
from pathlib import Path

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


def make(folder: Path) -> Path:
    """Write the file."""
    (folder / "roam.json").write_text(json.dumps(PAGES), "utf-8")
    return folder / "roam.json"
