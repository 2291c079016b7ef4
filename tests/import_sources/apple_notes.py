"""Apple's copy of notes of November 2026, and notes exported as markdown by macOS 26.

The copy follows users' descriptions; no real copy or export was available.
"""

from __future__ import annotations

from pathlib import Path

from conftest import write

PICTURE = b"a sketch"


def make(folder: Path) -> Path:
    """Write the folder of Apple's copy."""
    made = folder / "iCloud Notes"
    write(made, "Notes/Garden/Garden.txt", "Garden\n\nPrune the roses in March.\n")
    write(made, "Notes/Garden/sketch.png", PICTURE)
    write(made, "Notes/Work/Ideas/Ideas.txt", "Ideas\n\nA shed.\n")
    tasks = "\t\u25e6\toil #1\n\t\u2713\tscrews\n* wood\n"
    shed = f"Shed\n# no heading\n{tasks}Then \ufffc and\n\ufffc\n"
    write(made, "Notes/Work/Shed/Shed.txt", shed)
    write(made, "Notes/Work/Shed/Attachment.png", PICTURE)
    write(made, "Notes/Work/Shed/Attachment-10.png", PICTURE)
    write(made, "Notes/Work/Shed/Attachment-2.png", PICTURE)
    write(made, "Notes/Work/Shed/Shed-1.txt", "Shed\nAnother shed.\n")
    write(made, "Recently Deleted/Old/Old.txt", "Old\n")
    write(
        made,
        "Notes Details.csv",
        "Title, Created On, Modified On, Pinned, Deleted, Drawing/Handwriting\n"
        "Garden,11-03-2026 09:15:00,11-04-2026 10:15:00,Yes,No,No\n"
        "Shed,11-03-2026 09:15:00,11-04-2026 10:15:00,No,No,No\n"
        "Shed,11-05-2026 09:15:00,11-06-2026 10:15:00,No,No,No\n",
    )
    return made


def make_markdown(folder: Path) -> Path:
    """Write a folder of notes exported as markdown."""
    made = folder / "Notes export"
    write(made, "Garden/Garden.md", "# Garden\n\n![sketch](Attachments/sketch.png)\n")
    write(made, "Garden/Attachments/sketch.png", PICTURE)
    write(made, "Work/Ideas/Ideas.md", "# Ideas\n")
    write(made, "Lamp.md", "# Lamp\n\nIt takes E14.\n")
    return made
