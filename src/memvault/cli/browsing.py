"""The command browse."""

from __future__ import annotations

from typing import Annotated

from memvault.arguments.parameters import Arg
from memvault.cli import commands
from memvault.cli.browse import start
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.tools.core import registry


@command(
    "browse", ("memvault browse", "memvault browse which database tag:work"), group="historian"
)
def browse(
    options: GlobalOptions,
    query: Annotated[
        str,
        Arg("What to look for; type:, tag:, since: and until: filter",
            positional=True, join_words=True, names="search"),
    ] = "",
) -> None:  # fmt: skip
    """Find, read and change memories on the whole screen, as you type.

    Enter opens the editor at the line that fits, F1 shows the keys. Where there is no
    terminal, what is found is listed.
    """
    if start.has_screen(options):
        start.run(options, query)
        return
    from memvault.cli.browse.session import parse_line

    words, arguments = parse_line(query)
    name = "memory_recall" if words else "memory_list"
    arguments |= {"query": words} if words else {}
    commands.run_tool(name, arguments, options, registry.find(name))
