"""Long output on a terminal, a page at a time."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from rich.cells import cell_len

from memvault import process
from memvault.errors import UsageError

_USUAL = "less"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def exceeds_screen(lines: Sequence[str]) -> bool:
    """Say whether lines do not fit on the terminal, on which a long one takes several rows."""
    columns, rows = shutil.get_terminal_size()
    widths = (cell_len(_COLOURS.sub("", line)) for line in lines)
    return sum(1 + max(0, width - 1) // columns for width in widths) >= rows


def show(text: str, root: Path | None) -> bool:
    """Show a text in the pager that MEMVAULT_PAGER or PAGER names; say whether that worked.

    Without either it is less, which ends by itself at the end of a short text. An empty one,
    and cat, is none. No folder of a vault at ``root`` is searched for it.
    """
    own = dict(os.environ) if root is None else process.environment(root)
    environment = {"LESS": "FRX", **own}
    command = environment.get("MEMVAULT_PAGER", environment.get("PAGER", _USUAL))
    try:
        words = process.words_of(command, "the pager")
        if not words or words == ["cat"]:
            return False
        return process.run_interactive(words, environment, text) == 0
    except UsageError:
        return False
