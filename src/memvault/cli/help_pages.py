"""The overview pages of the help, which are printed without importing Typer."""

from __future__ import annotations

import os
import re
import sys

from memvault.cli.options import GLOBAL_OPTIONS
from memvault.command_table import COMMANDS, GROUPS

_NARROW = 80
_HEADING = re.compile(r"^(?:Usage|[A-Z][\w ,&'-]*):", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
_COMMAND = re.compile(r"^(  )(memvault [a-z].*)$", re.MULTILINE)
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def width() -> int:
    """Return the width of help pages: the terminal's, or 80 columns if output is not a terminal."""
    import shutil

    return shutil.get_terminal_size().columns if _is_looked_at() else _NARROW


def with_examples(text: str, examples: tuple[str, ...]) -> str:
    """Append the examples of a command to its help."""
    shown = "".join(f"  {line}\n" for line in examples)
    return f"{text.rstrip()}\n\nExamples:\n{shown}" if examples else text


def coloured(text: str) -> str:
    """Highlight headings, options and examples, if the output is a terminal with colours."""
    if not _is_looked_at() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = _OPTION.sub(lambda match: f"{_CYAN}{match[0]}{_PLAIN}", text)
    text = _COMMAND.sub(lambda match: f"{match[1]}{_CYAN}{match[2]}{_PLAIN}", text)
    return _HEADING.sub(lambda match: f"{_BOLD}{match[0]}{_PLAIN}", text)


def _is_looked_at() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


_DAILY = (
    ("recall QUESTION", "Find what is known, the best first"),
    ("remember TITLE TEXT", "Write a new memory"),
    ("show MEMORY", "Read a whole memory"),
    ("list", "List memories, newest change first"),
    ("compound MEMORY TEXT", "Add to what is known"),
    ("forget MEMORY", "Move a memory to the trash, after a preview"),
    ("undo", "Undo your last change"),
    ("context TASK", "Write what fits a task as one block for a prompt"),
    ("git sync", "Commit, pull and push"),
    ("doctor", "Find problems, and with --fix repair them"),
)
"""The ten most used commands, as the overview page shows them."""
_USAGE = (
    "Usage: memvault [OPTIONS] COMMAND [ARGS]...",
    "",
    "The memory that people and their agents share: a folder of plain markdown.",
    "",
)


def overview() -> str:
    """Return the overview page: the most used commands, and how to list all others."""
    lines = [*_USAGE, "Every day:", *_rows(list(_DAILY))]
    lines += [
        "",
        "More:",
        *_rows(
            [
                ("init", "Create a vault in a folder"),
                ("setup PROGRAM", "Use it in an agent's program, such as Claude Code"),
                ("help --all", "All commands, by purpose"),
                ("help COMMAND", "What a command takes, with examples"),
                ("completion install", "Complete commands and names with the Tab key"),
            ]
        ),
        "",
        "Options, before or after the command:",
        *_rows(_options()),
    ]
    return "\n".join(lines) + "\n"


def everything() -> str:
    """Return the page that lists all commands, grouped by purpose."""
    lines = [*_USAGE]
    groups: dict[str, dict[str, str]] = {name: {} for name in GROUPS}
    for command in COMMANDS:
        groups[command.group][command.words] = command.summary
    for name, entries in groups.items():
        lines += [f"{GROUPS[name]}:", *_rows([*entries.items()]), ""]
    lines += ["Options, before or after the command:", *_rows(_options()), ""]
    lines.append("memvault help COMMAND shows the arguments of a command.")
    return "\n".join(lines) + "\n"


def _options() -> list[tuple[str, str]]:
    options = [(f"{flag} {takes}".strip(), text) for _, flag, takes, text in GLOBAL_OPTIONS]
    return [*options, ("--version", "Show the version"), ("--help", "Show this, or a command's")]


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in entries) + 2
    return [f"  {name:<{width}}{text}" for name, text in entries]
