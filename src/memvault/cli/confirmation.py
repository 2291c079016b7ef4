"""Confirmation prompts at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from memvault import sanitize


def has_terminal() -> bool:
    """Return whether standard input and standard error are terminals."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def agrees(lines: Iterable[str], question: str) -> bool:
    """Print lines and a yes/no question to standard error; return whether the answer is yes."""
    for line in lines:
        print(sanitize.escape_line(line), file=sys.stderr)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
