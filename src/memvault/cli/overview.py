"""The first page of help, written without loading the command line's library."""

from __future__ import annotations

from memvault.cli.options import SHARED
from memvault.command_table import COMMANDS, GROUPS

EXTRA_COMMANDS = {
    "init": "Make a folder a vault; files that are there stay as they are",
    "call": 'Run a tool with JSON arguments, as memvault call memory_recall \'{"query": "x"}\'',
    "mcp": "Serve the tools and memories to an MCP client, on standard input and output",
    "completion bash": "Print the script that completes memvault in bash",
    "completion zsh": "Print the script that completes memvault in zsh",
    "completion fish": "Print the script that completes memvault in fish",
    "completion install": "Switch completion on in bash, zsh or fish",
    "skill": "Print what an agent needs to know: which tool when, and how",
    "vaults trust": "Use a vault of another user without naming it",
    "vaults untrust": "Stop using a vault of another user without naming it",
    "tools trust": "Let a registered tool run on this machine, as it is now",
    "tools untrust": "Stop a registered tool from running on this machine",
}
"""Commands that no tool stands for, or, of ``call``, one with other words."""


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
"""The ten commands of every day, as the first page spells them."""
_USAGE = (
    "Usage: memvault [OPTIONS] COMMAND [ARGS]...",
    "",
    "The memory that people and their agents share: a folder of plain markdown.",
    "",
)


def overview() -> str:
    """Return the first page: the commands of every day, and the way to all others."""
    lines = [*_USAGE, "Every day:", *_rows(list(_DAILY))]
    lines += [
        "",
        "More:",
        *_rows(
            [
                ("init", "Make a folder a vault"),
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
    """Return the page of all commands, by what they are for."""
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
    options = [(f"{flag} {takes}".strip(), text) for _, flag, takes, text in SHARED]
    return [*options, ("--version", "Show the version"), ("--help", "Show this, or a command's")]


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in entries) + 2
    return [f"  {name:<{width}}{text}" for name, text in entries]
