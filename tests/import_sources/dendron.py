"""A vault of Dendron 0.124: notes in a hierarchy of dots, a link with its label first."""

from __future__ import annotations

from pathlib import Path

from conftest import write

_TIMES = "updated: 1762164900000\ncreated: 1762161300000"


def _header(key: str, title: str) -> str:
    return f"---\nid: {key}\ntitle: {title}\ndesc: ''\n{_TIMES}\n---\n\n"


def make(folder: Path) -> Path:
    """Write the folder."""
    made = folder / "dendron"
    write(made, "dendron.yml", "version: 5\n")
    write(made, "vault/root.md", _header("root1", "Root") + "# Welcome\n")
    text = "See [[the design|proj.design]].\n\n![[proj.design#goals,1:#*]]\n"
    write(made, "vault/proj.site.md", _header("abc123", "Site") + text)
    write(made, "vault/proj.design.md", _header("def456", "Design") + "## goals\n\nSmall.\n")
    write(made, "vault/root.schema.yml", "version: 1\n")
    return made
