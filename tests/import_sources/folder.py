"""A folder of markdown from an editor (CommonMark 0.31, Obsidian's links)."""

from __future__ import annotations

from pathlib import Path

from conftest import write

PICTURE = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def make(folder: Path) -> Path:
    """Write four notes, one of them Latin-1, with an image, a setting and an outside link."""
    root = folder / "Notes"
    write(root, "Projects/Alpha.md", "# Alpha\n\n[[Beta]], ![[plan.png]], [home](../Home.md).\n")
    write(root, "Beta.md", "---\ntags: [x] # mine\nsource: https://example.org\n---\n[[Nowhere]]\n")
    write(root, "Home.md", "Start here: [[Projects/Alpha|the project]]\n")
    write(root, "C# notes.md", "Le café\n".encode("latin-1"))
    write(root, "pictures/plan.png", PICTURE)
    write(root, ".obsidian/app.json", "{}")
    (root / "passwords.md").symlink_to("/etc/passwd")
    return root
