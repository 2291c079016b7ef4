"""Which module holds which command, as ``make docs`` writes it down."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).parent / "data" / "commands.tsv"


class Command(NamedTuple):
    """A tool's exact name, its command's words, its module, group, heading and summary."""

    tool: str
    words: str
    module: str
    group: str
    heading: str
    summary: str


COMMANDS = tuple(Command(*line.split("\t")) for line in FILE.read_text("utf-8").splitlines())
"""Every tool, in the order of the help."""
GROUPS = {command.group: command.heading for command in COMMANDS}
"""Each group and its heading, in the same order."""
