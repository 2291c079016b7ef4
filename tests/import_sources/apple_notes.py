"""Apple's copy of notes of November 2026, and notes exported as markdown by macOS 26."""

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
    write(made, "Notes/Recently Deleted/Old/Old.txt", "Old\n")
    return made


def make_markdown(folder: Path) -> Path:
    """Write a folder of notes exported as markdown."""
    made = folder / "Notes export"
    write(made, "Garden/Garden.md", "# Garden\n\n![sketch](Attachments/sketch.png)\n")
    write(made, "Garden/Attachments/sketch.png", PICTURE)
    return made
