"""The overview pages of the help, which are printed without importing Typer."""

from __future__ import annotations

import os
import re
import shutil
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
    return shutil.get_terminal_size().columns if _is_looked_at() else _NARROW


def with_examples(text: str, words: str) -> str:
    """Append the examples of a command to its help."""
    from memvault.cli.examples import EXAMPLES

    lines = EXAMPLES.get(words, ())
    shown = "".join(f"  {line}\n" for line in lines)
    return f"{text.rstrip()}\n\nExamples:\n{shown}" if lines else text


def coloured(text: str) -> str:
    """Highlight headings, options and examples, if the output is a terminal with colours."""
    if not _is_looked_at() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = _OPTION.sub(lambda match: f"{_CYAN}{match[0]}{_PLAIN}", text)
    text = _COMMAND.sub(lambda match: f"{match[1]}{_CYAN}{match[2]}{_PLAIN}", text)
    return _HEADING.sub(lambda match: f"{_BOLD}{match[0]}{_PLAIN}", text)


def _is_looked_at() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


EXTRA_COMMANDS = {
    "init": "Create a vault in a folder; existing files are not changed",
    "call": 'Run a tool with JSON arguments, as memvault call memory_recall \'{"query": "x"}\'',
    "mcp": "Serve the tools and memories to an MCP client, on standard input and output",
    "serve": "Serve named vaults to a team: MCP over HTTP, for clients that have a token",
    "completion bash": "Print the bash completion script",
    "completion zsh": "Print the zsh completion script",
    "completion fish": "Print the fish completion script",
    "completion install": "Install completion for bash, zsh or fish",
    "skill": "Print the guide for agents: which tool to use when, and how",
    "edit": "Open a memory in your editor, and show what changed",
    "open": "Open a memory in Obsidian, or in your editor",
    "path": "Print the path of a memory's file, or of the vault",
    "new": "Create a memory from a template of the vault",
    "setup": "Set memvault up in an agent's program, such as Claude Code",
    "hook": "Print context for a program's agent at an event; setup installs it there",
    "vaults add": "Register a name for a vault, for use with recall --vaults",
    "vaults list": "List the named vaults",
    "vaults remove": "Remove a vault's name; the vault itself is not changed",
    "vaults default": "Set the vaults that recall searches by default",
    "vaults trust": "Trust a vault that belongs to another user",
    "vaults untrust": "Revoke the trust in a vault of another user",
    "index push": "Upload the vault to the engine set in memvault.toml",
    "index status": "Compare what was sent to the engine with the engine's contents",
    "index drop": "Delete the vault from its engine",
    "tokens add": "Create a token for memvault serve; it is shown only once",
    "tokens list": "List the tokens with their vaults, scope and agent",
    "tokens remove": "Revoke a token at once",
    "tools trust": "Allow a registered tool, in its current version, to run on this machine",
    "tools untrust": "Revoke the permission of a registered tool to run on this machine",
}
"""Summaries of the commands that are not generated from a tool."""


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
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in GROUPS}
    for command in COMMANDS:
        groups[command.group].append((command.words, command.summary))
    shown = {command for entries in groups.values() for command, _ in entries}
    extra = [entry for entry in EXTRA_COMMANDS.items() if entry[0] not in shown]
    tools = [entry for entry in extra if entry[0].startswith("tools ")]
    groups["vault"] = [*(entry for entry in extra if entry not in tools), *groups["vault"]]
    groups["catalogue"] += tools
    for name, entries in groups.items():
        lines += [f"{GROUPS[name]}:", *_rows(entries), ""]
    lines += ["Options, before or after the command:", *_rows(_options()), ""]
    lines.append("memvault help COMMAND shows the arguments of a command.")
    return "\n".join(lines) + "\n"


def _options() -> list[tuple[str, str]]:
    options = [(f"{flag} {takes}".strip(), text) for _, flag, takes, text in GLOBAL_OPTIONS]
    return [*options, ("--version", "Show the version"), ("--help", "Show this, or a command's")]


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in entries) + 2
    return [f"  {name:<{width}}{text}" for name, text in entries]
