"""Google Keep in Takeout of November 2026: a note, a list with an image, a note in the trash."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

PICTURE = b"\xff\xd8 of a shelf"


def _note(title: str, **more: Any) -> str:
    times = {
        "createdTimestampUsec": 1762161300000000,
        "userEditedTimestampUsec": 1762164900000000,
    }
    flags = {"isTrashed": False, "isPinned": False, "isArchived": False, "color": "DEFAULT"}
    return json.dumps({**flags, **times, "title": title, **more})


def make(folder: Path) -> Path:
    """Write the zip."""
    shelf = {"filePath": "shelf.jpeg", "mimetype": "image/jpeg"}
    link = {"url": "https://wood.example", "title": "Wood", "source": "WEBLINK"}
    items = [{"text": "screws", "isChecked": True}, {"text": "oil", "isChecked": False}]
    with zipfile.ZipFile(folder / "takeout.zip", "w") as made:
        made.writestr("Takeout/Keep/Lamp.json", _note("", textContent="The lamp takes E14."))
        made.writestr(
            "Takeout/Keep/Shelf.json",
            _note(
                "Shelf",
                listContent=items,
                labels=[{"name": "to buy"}],
                attachments=[shelf],
                annotations=[link],
                isPinned=True,
            ),
        )
        made.writestr("Takeout/Keep/Gone.json", _note("Gone", textContent="x", isTrashed=True))
        made.writestr("Takeout/Keep/Shelf.html", "<html></html>")
        made.writestr("Takeout/Keep/shelf.jpg", PICTURE)
    return folder / "takeout.zip"
