"""The first page of help, written without loading the command line's library."""

from __future__ import annotations

from memvault.cli.options import SHARED
from memvault.command_table import COMMANDS, GROUPS

EXTRA_COMMANDS = {
    "init": "Make a folder a vault; files that are there stay as they are",
    "call": 'Run a tool with JSON arguments, as memvault call memory_recall \'{"query": "x"}\'',
    "mcp": "Serve the tools and memories to an MCP client, on standard input and output",
    "skill": "Print what an agent needs to know: which tool when, and how",
    "vaults trust": "Use a vault of another user without naming it",
    "vaults untrust": "Stop using a vault of another user without naming it",
    "tools trust": "Let a registered tool run on this machine, as it is now",
    "tools untrust": "Stop a registered tool from running on this machine",
}
"""Commands that no tool stands for, or, of ``call``, one with other words."""


def overview() -> str:
    """Return the page that ``memvault --help`` shows."""
    lines = [
        "Usage: memvault [OPTIONS] COMMAND [ARGS]...",
        "",
        "The memory that people and their agents share: a folder of plain markdown.",
        "",
    ]
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
    options = [(f"{flag} {takes}".strip(), text) for _, flag, takes, text in SHARED]
    options += [("--version", "Show the version"), ("--help", "Show this page, or the command's")]
    lines += ["Options, before or after the command:", *_rows(options), ""]
    lines.append("memvault COMMAND --help says what a command takes.")
    return "\n".join(lines) + "\n"


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in entries) + 2
    return [f"  {name:<{width}}{text}" for name, text in entries]
