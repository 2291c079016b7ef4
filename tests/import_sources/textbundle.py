"""Bear 2's backup, a folder of TextBundles (textbundle.org, version 2) and a TextPack.

The names and keys follow backups among the tests of obsidian-importer, not a real backup.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from conftest import write

PICTURE = b"\x89PNG of a fox"
_MARKDOWN = "net.daringfireball.markdown"


def _info(number: int, **more: Any) -> str:
    bear = {
        "uniqueIdentifier": f"EA7C5067-B623-45E3-ABED-2B7B64B5F15{number}",
        "creationDate": "2026-11-03T09:15:00Z",
        "modificationDate": "2026-11-04T10:15:00Z",
        "lastEditingDevice": "a laptop",
        **dict.fromkeys(("trashed", "archived", "pinned"), 0),
        **dict.fromkeys(("trashedDate", "archivedDate", "pinnedDate")),
        **more,
    }
    known = {"type": _MARKDOWN, "version": 2, "transient": False}
    return json.dumps({**known, "creatorIdentifier": "net.shinyfrog.bear", _BEAR: bear}, indent=2)


_BEAR = "net.shinyfrog.bear"
_FOX = """# Fox/den

#animals/wild #two words# and ::marked:: ~under~ ==🟢green==

![](assets/fox%201.png)<!-- {"width":269} -->

See [[Hen]], [[Hen/The house|house]], [[Nobody]].

In ~/a and ~/b, #one #two, #end # and std::a::b. ![](assets/fu\u0308r.png)

```
#two words# ~x~ [[Hen]]
```
"""


def make(folder: Path) -> Path:
    """Write the backup."""
    made_at = folder / "Bear Notes 2026-11-10 at 10.12.bear2bk"
    bundles = {
        "Fox-den": (_FOX, _info(1, pinned=1)),
        "Hen": ("# Hen\n\n## The house\n\n[image:5C4A/fox 1.png] #farm", _info(2, archived=1)),
        "Hen 1": ("# Hen\n\nAnother hen.", _info(3, colour="red")),
        "Gone": ("# Gone\n", _info(4, trashed=1)),
        "Safe": ("", _info(5, encrypted=1, encryptedData="AAEB", title="Safe")),
    }
    with zipfile.ZipFile(made_at, "w") as made:
        top = made_at.name
        made.writestr(f"{top}/tags.json", json.dumps({"tags": [{"title": "farm"}]}))
        for name, (text, info) in bundles.items():
            made.writestr(f"{top}/{name}.textbundle/text.md", text)
            made.writestr(f"{top}/{name}.textbundle/info.json", info)
        for name in ("Fox-den", "Hen"):
            made.writestr(f"{top}/{name}.textbundle/assets/fox 1.png", PICTURE)
        made.writestr(f"{top}/Fox-den.textbundle/assets/f\u00fcr.png", PICTURE)
    return made_at


def _pack(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        info = {"type": _MARKDOWN, "version": 2, "sourceURL": "https://fox.example/1"}
        made.writestr("Letter.textbundle/info.json", json.dumps(info))
        made.writestr("Letter.textbundle/text.markdown", "# Letter\n\n![a](assets/a.png) ~x~\n")
        made.writestr("Letter.textbundle/assets/a.png", PICTURE)
    return path


def make_pack(folder: Path) -> Path:
    """Write a TextPack."""
    return _pack(folder / "Letter.textpack")


def make_folder(folder: Path) -> Path:
    """Write a folder with a TextBundle of plain text and a TextPack."""
    made = folder / "Writing"
    info = {"version": 2, "type": "public.plain-text", "com.example.writer": {"goal": 500}}
    write(made, "Drafts/Poem.textbundle/info.json", json.dumps(info))
    write(made, "Drafts/Poem.textbundle/text.txt", "# not a heading\n*Stars*\n")
    write(made, "Drafts/Poem.textbundle/assets/star.png", PICTURE)
    _pack(made / "Letter.textpack")
    return made
