"""A JEX file and a RAW folder of Joplin 3, based on the source of its class ``BaseItem``.

No real export was available.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

PICTURE = b"\x89PNG of a hive"
BEES, HONEY, TODO, GONE, SECRET, PAGE, TWIN = (digit * 32 for digit in "1234567")
GARDEN, HIVES, TAG, FILE, OTHER, LOST = (digit * 32 for digit in "89abcd")


def item(title: str | None, text: str, kind: int, item_id: str, **more: object) -> str:
    """Return an item as Joplin writes it."""
    times = {
        "created_time": "2026-11-03T09:15:00.000Z",
        "updated_time": "2026-11-04T10:15:00.000Z",
    }
    properties = {"id": item_id, "parent_id": "", **times, **more, "type_": kind}
    last = "\n".join(f"{key}: {value}" for key, value in properties.items())
    return "\n\n".join([*([] if title is None else [title]), *([text] if text else []), last])


def files() -> dict[str, bytes]:
    """Return the files of an export by name."""
    note = {"markup_language": 1, "is_todo": 0, "is_conflict": 0, "latitude": "0.00000000"}
    items = [
        item("Garden", "", 2, GARDEN, icon=""),
        item("Hives", "", 2, HIVES, parent_id=GARDEN),
        item(
            "Bees",
            f"# Care\n\nSee [the honey](:/{HONEY}) and ![a hive](:/{FILE}).\n\n"
            f"| a | b |\n| --- | --- |\n| [h](:/{HONEY}) | [gone](:/{LOST}) |\n\n"
            f'<img src=":/{OTHER}" width="20"/>\n\n    [code](:/{HONEY})',
            1,
            BEES,
            **{
                **note,
                "parent_id": HIVES,
                "source_url": "https://bees.example/1",
                "latitude": "52.52000000",
                "author": "Ana",
                "user_data": '{"x": 1}',
            },
        ),
        item("Honey", "Sell it.", 1, HONEY, **note, user_created_time="2020-01-02T03:04:05.000Z"),
        item(
            "Wax the frames",
            "Both sides.",
            1,
            TODO,
            **{**note, "is_todo": 1, "todo_due": 1795100400000, "todo_completed": 1795000000000},
        ),
        item("Gone", "Old.", 1, GONE, **note, deleted_time=1795000000000),
        item(None, "", 1, SECRET, encryption_applied=1, encryption_cipher_text="JED01000022"),
        item(
            "A page",
            f'<p>Cut <b>hay</b>, see <a href=":/{HONEY}">honey</a>.</p><img src=":/{FILE}">',
            1,
            PAGE,
            **{**note, "markup_language": 2},
        ),
        item("Honey", "Mine.", 1, TWIN, **{**note, "is_conflict": 1}),
        item("bee keeping", "", 5, TAG),
        item("hive.png", "", 4, FILE, mime="image/png", file_extension="png", ocr_text="hum"),
        item("hive.png", "", 4, OTHER, mime="image/png", file_extension="png"),
        item("lost.pdf", "", 4, LOST, mime="application/pdf", file_extension="pdf"),
        item(None, "", 6, "e" * 32, note_id=BEES, tag_id=TAG),
        item("Old words", "", 13, "f" * 32),
    ]
    ids = (line.split("\nid: ")[-1][:32] if "\nid: " in line else line[4:36] for line in items)
    found = {f"{item_id}.md": text.encode() for item_id, text in zip(ids, items, strict=True)}
    found[f"resources/{FILE}.png"] = PICTURE
    found[f"resources/{OTHER}.png"] = PICTURE + b" 2"
    return found


def make(folder: Path) -> Path:
    """Write the JEX file."""
    with tarfile.open(folder / "notes.jex", "w") as made:
        for name, data in files().items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), 1_762_161_300
            made.addfile(entry, io.BytesIO(data))
    return folder / "notes.jex"


def make_raw(folder: Path) -> Path:
    """Write the RAW folder."""
    made = folder / "joplin raw"
    for name, data in files().items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(data)
    return made
