"""The first page of help, written without loading the command line's library."""

from __future__ import annotations

from memvault.tools import registry

__all__ = ["EXTRA_COMMANDS", "GLOBAL_OPTIONS", "overview"]

EXTRA_COMMANDS = {
    "init": "Make a folder a vault; files that are there stay as they are",
    "call": 'Run a tool with JSON arguments, as memvault call memory_recall \'{"query": "x"}\'',
}
"""Commands that are no tools: one makes vaults, one runs tools."""

GLOBAL_OPTIONS = (
    ("--vault DIR", "The vault; else MEMVAULT_VAULT, else the nearest folder with memvault.toml"),
    ("--agent NAME", "Who is asking; else MEMVAULT_AGENT, else main"),
    ("--json", "Give the result as JSON; MEMVAULT_JSON=1 does the same"),
    ("--quiet", "No notes, warnings or progress on standard error"),
    ("--version", "Show the version"),
    ("--help", "Show this page; after a command, the command's"),
)
_GROUPS = {
    "historian": "Remember and recall",
    "vault": "The vault",
}


def overview() -> str:
    """Return the page that ``memvault --help`` shows."""
    lines = [
        "Usage: memvault [OPTIONS] COMMAND [ARGS]...",
        "",
        "The memory that people and their agents share: a folder of plain markdown.",
        "",
    ]
    groups: dict[str, list[tuple[str, str]]] = {name: [] for name in _GROUPS}
    for tool in registry.all_tools():
        groups.setdefault(tool.group, []).append((tool.command, tool.summary))
    groups["vault"] = [*EXTRA_COMMANDS.items(), *groups["vault"]]
    for name, entries in groups.items():
        lines += [f"{_GROUPS.get(name, name.capitalize())}:", *_rows(entries), ""]
    lines += ["Options, before or after the command:", *_rows(list(GLOBAL_OPTIONS)), ""]
    lines.append("memvault COMMAND --help says what a command takes.")
    return "\n".join(lines) + "\n"


def _rows(entries: list[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in entries) + 2
    return [f"  {name:<{width}}{text}" for name, text in entries]
