"""A graph of Logseq 0.10: a page with properties, a journal, a block reference, an asset."""

from __future__ import annotations

from pathlib import Path

from conftest import write

BLOCK = "65f0a1b2-0000-4000-8000-000000000001"


def make(folder: Path) -> Path:
    """Write the folder."""
    made = folder / "graph"
    write(made, "logseq/config.edn", "{:meta/version 1}\n")
    write(
        made,
        "pages/recipes___bread.md",
        "tags:: [[baking]], #sour dough\nalias:: Loaf\nserves:: 4\n\n- Mix it.\n"
        f"\t- Let it rest.\n\t  id:: {BLOCK}\n\t  collapsed:: true\n"
        "- ![crust](../assets/crust.png)\n",
    )
    journal = f"- TODO bake, see (({BLOCK}))\n- DONE [[recipes/bread]]\n"
    write(made, "journals/2026_11_03.md", journal)
    write(made, "assets/crust.png", b"a crust")
    write(made, "logseq/bak/old.md", "old\n")
    return made
