"""Print the overview pages of the help without importing Typer."""

from __future__ import annotations

import os
import re
import sys

from memvault.cli.options import GLOBAL_OPTIONS
from memvault.command_table import HELP_GROUPS, visible_commands

_NARROW = 80
_HEADING = re.compile(r"^(?:Usage:|[A-Z][\w ,:&'-]*:$)", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
_COMMAND = re.compile(r"^(  )(memvault [a-z].*)$", re.MULTILINE)
_BOLD, _CYAN, _PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def width() -> int:
    """Return the width of help pages: the terminal's, or 80 columns if output is not a terminal."""
    import shutil

    return shutil.get_terminal_size().columns if _is_looked_at() else _NARROW


def with_footer(text: str, examples: tuple[str, ...]) -> str:
    """Append the location of the global options and the examples to a command's help."""
    shown = "".join(f"  {line}\n" for line in examples)
    footer = f"\n\nExamples:\n{shown}" if examples else "\n"
    return f"{text.rstrip()}\n\nGlobal options: see `memvault help --all`{footer}"


def colored(text: str) -> str:
    """Highlight headings, options and examples if the output is a terminal with colors."""
    if not _is_looked_at() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = _OPTION.sub(lambda match: f"{_CYAN}{match[0]}{_PLAIN}", text)
    text = _COMMAND.sub(lambda match: f"{match[1]}{_CYAN}{match[2]}{_PLAIN}", text)
    return _HEADING.sub(lambda match: f"{_BOLD}{match[0]}{_PLAIN}", text)


def _is_looked_at() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


_OVERVIEW = {
    "Find and read": (
        ("recall QUESTION", "Find the memories that answer a question, best first"),
        ("browse", "Find, read and edit in a full-screen view"),
        ("show MEMORY", "Read a whole memory"),
        ("list", "List memories, newest change first"),
        ("tasks", "List the tasks in all notes"),
        ("context TASK", "Print the memories for a task as one block for a prompt"),
    ),
    "Write and maintain": (
        ("remember TITLE TEXT", "Write a new memory"),
        ("today TEXT", "Add a thought to today's daily note"),
        ("capture TEXT", "Remember a thought without a title"),
        ("compound MEMORY TEXT", "Add to a memory"),
        ("edit MEMORY", "Edit a memory in your editor"),
        ("forget MEMORY", "Move a memory to the trash, after a preview"),
        ("undo", "Undo your last change"),
        ("review", "Go through duplicates, conflicts, secrets and more"),
        ("doctor", "Find problems; `--fix` repairs them"),
        ("git sync", "Commit, pull and push"),
    ),
    "Set up": (
        ("init", "Create a vault in a folder"),
        ("import PATH", "Import notes from other programs, or agents' sessions"),
        ("setup PROGRAM", "Connect an agent program, such as Claude Code"),
        ("web", "Show the vault in a browser"),
        ("completion install", "Complete commands and names with the Tab key"),
        ("help --all", "List all commands by purpose, and the global options"),
        ("help COMMAND", "Show a command's arguments and examples"),
    ),
}
"""The most used commands, which the overview page lists."""
_USAGE = (
    "Usage: memvault [OPTIONS] COMMAND [ARGS]...",
    "",
    "A memory shared by people and their agents: a folder of plain markdown.",
    "",
)


def overview() -> str:
    """Return the overview page: the most used commands, and how to list all commands."""
    lines = [*_USAGE]
    for heading, entries in _OVERVIEW.items():
        lines += [f"{heading}:", *_rows(list(entries)), ""]
    return "\n".join(lines)


def all_commands_page() -> str:
    """Return the page that lists all commands, grouped by purpose."""
    lines = [*_USAGE]
    commands = visible_commands()
    for group, heading in HELP_GROUPS.items():
        entries = [(entry.words, entry.summary) for entry in commands if entry.group == group]
        lines += [f"{heading}:", *_rows(entries), ""]
    lines += ["Options (before or after the command):", *_rows(_options()), ""]
    lines.append("Run `memvault help COMMAND` to see a command's arguments.")
    return "\n".join(lines) + "\n"


def _options() -> list[tuple[str, str]]:
    options = [(f"{flag} {takes}".strip(), text) for _, flag, takes, text in GLOBAL_OPTIONS]
    return [
        *options,
        ("--version", "Show the version"),
        ("--help", "Show this page, or a command's help"),
    ]


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    """Return the lines of a table with two columns, wrapping the second column."""
    from textwrap import wrap

    column = max(len(name) for name, _ in entries) + 4
    gap = " " * column
    return [
        line
        for name, text in entries
        for line in wrap(
            text,
            max(width(), column + 20),
            initial_indent=f"  {name}".ljust(column),
            subsequent_indent=gap,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]
