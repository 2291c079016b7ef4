"""The zip of Simplenote for desktops 2.23, based on the source of its lib/utils/export.

No real export was available.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

SHOP, TEA = "0b4f1c1e-7a4e-4c0d-9a83-5f2f30d4f6aa", "c56a4180-65aa-42ec-a945-5fd21dec0538"


def _note(note_id: str, content: str, **more: Any) -> dict[str, Any]:
    return {
        "id": note_id,
        "content": content.replace("\n", "\r\n"),
        "creationDate": "2026-11-03T09:15:00.000Z",
        "lastModified": "2026-11-04T10:15:00.000Z",
        **more,
    }


def notes() -> dict[str, Any]:
    """Return the contents of notes.json."""
    plain = (
        "Shopping #1\n\n- [ ] oil *cold pressed*\n- [x] screws\nAsk Ana.\n# no heading\n"
        f"See [Tea_time](simplenote://note/{TEA}) or simplenote://note/gone\n    four spaces"
    )
    markdown = f"# Tea\n\n**Green**, from [the shop](simplenote://note/{SHOP}).\n\n    # code\n"
    return {
        "activeNotes": [
            _note(SHOP, plain, tags=["to buy", "home"], pinned=True),
            _note(TEA, markdown, markdown=True, publicURL="http://simp.ly/p/AbC"),
            _note("third", "Shopping #1\nAnother one.", collaboratorEmails=["ana@example.org"]),
        ],
        "trashedNotes": [_note("gone", "Old\n")],
    }


def make(folder: Path) -> Path:
    """Write the zip."""
    with zipfile.ZipFile(folder / "notes.zip", "w") as made:
        made.writestr("source/notes.json", json.dumps(notes(), indent=2).replace("\n", "\r\n"))
        made.writestr("Shopping-#1.txt", "Shopping #1\n\nTags:\n  home, to buy")
        made.writestr("Tea.txt", "# Tea")
        made.writestr("Shopping-#1 (1).txt", "Shopping #1\nAnother one.")
        made.writestr("trash/Old.txt", "Old\n")
    return folder / "notes.zip"
