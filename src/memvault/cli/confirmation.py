"""Questions to the person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from memvault import sanitize


def has_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def agrees(lines: Iterable[str], question: str) -> bool:
    """Show lines, ask a question, and return whether the answer is yes."""
    for line in lines:
        print(sanitize.escape_line(line), file=sys.stderr)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
