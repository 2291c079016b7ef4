"""How help looks: a command's page with its examples, in colour where a person looks."""

from __future__ import annotations

import os
import re
import shutil
import sys

_NARROW = 80
_HEADING = re.compile(r"^(?:Usage|[A-Z][\w ,&'-]*):", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
_COMMAND = re.compile(r"^(  )(memvault [a-z].*)$", re.MULTILINE)
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def width() -> int:
    """Return how wide help is: as the terminal, or narrow where it is piped."""
    return shutil.get_terminal_size().columns if _is_looked_at() else _NARROW


def with_examples(text: str, words: str) -> str:
    """Return a command's help with its examples at the end."""
    from memvault.cli.examples import EXAMPLES

    lines = EXAMPLES.get(words, ())
    shown = "".join(f"  {line}\n" for line in lines)
    return f"{text.rstrip()}\n\nExamples:\n{shown}" if lines else text


def coloured(text: str) -> str:
    """Return a page with its headings, options and examples marked, on a terminal."""
    if not _is_looked_at() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = _OPTION.sub(lambda match: f"{_CYAN}{match[0]}{_PLAIN}", text)
    text = _COMMAND.sub(lambda match: f"{match[1]}{_CYAN}{match[2]}{_PLAIN}", text)
    return _HEADING.sub(lambda match: f"{_BOLD}{match[0]}{_PLAIN}", text)


def _is_looked_at() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
