"""A vault, and its export by ``memvault export``."""

from __future__ import annotations

from pathlib import Path

from conftest import write


def make(folder: Path) -> Path:
    """Write a vault with a memory, a file that is not UTF-8, an image, and a hidden file."""
    write(folder, "other/memvault.toml", "version = 1\n")
    memory = "---\nid: deploys-7k2m9q\nmemory_type: fact\ntags: [ops] # why\n---\n\nOn Mondays.\n"
    write(folder, "other/fact/deploys.md", memory)
    write(folder, "other/old.md", "caf\u00e9\r\n".encode("latin-1"))
    write(folder, "other/pictures/x.png", b"\x89PNG\r\n\0")
    write(folder, "other/.obsidian/app.json", "{}")
    return folder / "other"
