"""The table of all commands and their modules, which ``make docs`` generates."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "data" / "commands.tsv"


class Command(NamedTuple):
    """A tool's exact name, the words of its command, its module, group, heading and summary."""

    tool: str
    words: str
    module: str
    group: str
    heading: str
    summary: str


COMMANDS = tuple(Command(*line.split("\t")) for line in FILE.read_text("utf-8").splitlines())
"""Every tool, in the order of the help."""
GROUPS = {command.group: command.heading for command in COMMANDS}
"""The heading of each group, in the same order."""
