"""How lines for people show that a text is quoted: as ``context`` does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memvault.cli.render import Line

__all__ = ["quoted"]


def quoted(text: str, style: str = "") -> list[Line]:
    """Return what a memory says, each line behind a mark that no memory can leave out."""
    return [[(f"   > {line}", style)] for line in text.strip("\n").splitlines()]
