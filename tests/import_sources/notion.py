"""Notion's export as Markdown & CSV of November 2026: pages, a database and an image."""

from __future__ import annotations

import zipfile
from pathlib import Path

PAGE, SUB, ROW, BASE = "0123456789abcdef" * 2, "1" * 32, "2" * 32, "3" * 32
PICTURE = b"\x89PNG of a plan"


def make(folder: Path) -> Path:
    """Write the zip."""
    with zipfile.ZipFile(folder / "Export-notion.zip", "w") as made:
        made.writestr(
            f"Home {PAGE}.md",
            f"# Home\n\nSee [the plan](Home%20{PAGE}/The%20plan%20{SUB}.md).\n\n"
            f"![plan](Home%20{PAGE}/plan.png)\n",
        )
        top = f"Home {PAGE}"
        made.writestr(f"{top}/The plan {SUB}.md", "# The plan\n\nPaint the fence.\n")
        made.writestr(f"{top}/plan.png", PICTURE)
        made.writestr(
            f"{top}/Tasks {BASE}/Buy paint {ROW}.md",
            "# Buy paint\n\nTags: house, spring work\nStatus: open\n"
            "Created: November 3, 2026 9:15 AM\n\nGreen, two cans.\n",
        )
        made.writestr(f"{top}/Tasks {BASE}.csv", "Name,Status\nBuy paint,open\n")
        made.writestr(f"{top}/Tasks {BASE}_all.csv", "Name,Status\nBuy paint,open\nOld,done\n")
    return folder / "Export-notion.zip"
