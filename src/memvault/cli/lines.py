"""What a result is shown as to people: lines, each a list of (text, style) pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Line", "Result", "quoted"]

Line = list[tuple[str, str]]
Result = Mapping[str, Any]


def quoted(text: str, style: str = "") -> list[Line]:
    """Return what a memory says, each line behind a mark that no memory can leave out."""
    return [[(f"   > {line}", style)] for line in text.strip("\n").splitlines()]
