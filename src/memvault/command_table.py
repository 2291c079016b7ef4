"""The table of all commands and their modules, which ``make docs`` generates."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "data" / "commands.tsv"


class Command(NamedTuple):
    """A command: its words, module, group with heading, and summary.

    ``tool`` is the exact name of its tool, or empty if it is not generated from one; ``core`` is
    not empty if MCP clients are offered the tool by default.
    """

    tool: str
    words: str
    module: str
    group: str
    heading: str
    core: str
    summary: str


COMMANDS = tuple(Command(*line.split("\t")) for line in FILE.read_text("utf-8").splitlines())
"""Every command, in the order of the help; those that are not generated from a tool come first."""
TOOLS = tuple(command for command in COMMANDS if command.tool)
"""The commands of the tools."""
GROUPS = {command.group: command.heading for command in TOOLS}
"""The heading of each group of tools, in the same order."""
HELP_GROUPS = GROUPS | {command.group: command.heading for command in COMMANDS if command.heading}
"""The heading of each group of commands in the help: those of tools, then the others."""


def visible_commands() -> list[Command]:
    """Return each command once, in the order of the help.

    A command that is not generated from a tool comes before one of the same words that is.
    """
    return list({command.words: command for command in reversed(COMMANDS)}.values())[::-1]
