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
    "init": "Make a folder a vault; files that are there stay as they are",
    "call": 'Run a tool with JSON arguments, as memvault call memory_recall \'{"query": "x"}\'',
    "mcp": "Serve the tools and memories to an MCP client, on standard input and output",
    "serve": "Serve named vaults to a team: MCP over HTTP, for whoever has a token",
    "completion bash": "Print the script that completes memvault in bash",
    "completion zsh": "Print the script that completes memvault in zsh",
    "completion fish": "Print the script that completes memvault in fish",
    "completion install": "Switch completion on in bash, zsh or fish",
    "skill": "Print what an agent needs to know: which tool when, and how",
    "edit": "Open a memory in your editor, and say what changed",
    "open": "Open a memory in Obsidian, or in your editor",
    "path": "Print the path of a memory's file, or of the vault",
    "new": "Write a new memory from a template of the vault",
    "setup": "Set memvault up in Claude Code, Codex, OpenCode, Gemini CLI or Cursor",
    "hook": "Tell a program's agent what it should know at an event; setup writes it in there",
    "vaults add": "Give a vault a name, by which recall --vaults takes it",
    "vaults list": "List the vaults that have names",
    "vaults remove": "Take a vault's name away; the vault stays as it is",
    "vaults default": "Choose the vaults that recall asks unasked",
    "vaults trust": "Use a vault of another user without naming it",
    "vaults untrust": "Stop using a vault of another user without naming it",
    "index push": "Send the vault to the engine that memvault.toml names",
    "index status": "Compare what was sent to the engine with what that holds",
    "index drop": "Take the vault out of its engine",
    "tokens add": "Make a token for memvault serve, and show it this once",
    "tokens list": "List the tokens: what each opens, and as which agent",
    "tokens remove": "End a token at once",
    "tools trust": "Let a registered tool run on this machine, as it is now",
    "tools untrust": "Stop a registered tool from running on this machine",
}
"""Summaries of the commands that are not generated from a tool."""


_DAILY = (
    ("recall QUESTION", "Find what is known, the best first"),
    ("remember TITLE TEXT", "Write a new memory"),
    ("show MEMORY", "Read a memory whole"),
    ("list", "List memories, newest change first"),
    ("compound MEMORY TEXT", "Add to what is known"),
    ("forget MEMORY", "Move a memory to the trash, after a preview"),
    ("undo", "Take back your last change"),
    ("context TASK", "Write what fits a task as one block for a prompt"),
    ("git sync", "Commit, pull and push"),
    ("doctor", "Find what is wrong, and with --fix put it right"),
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
                ("init", "Make a folder a vault"),
                ("setup PROGRAM", "Use it in Claude Code, Codex, OpenCode, Gemini or Cursor"),
                ("help --all", "All commands, by what they are for"),
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
    lines.append("memvault help COMMAND says what a command takes.")
    return "\n".join(lines) + "\n"


def _options() -> list[tuple[str, str]]:
    options = [(f"{flag} {takes}".strip(), text) for _, flag, takes, text in GLOBAL_OPTIONS]
    return [*options, ("--version", "Show the version"), ("--help", "Show this, or a command's")]


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in entries) + 2
    return [f"  {name:<{width}}{text}" for name, text in entries]
