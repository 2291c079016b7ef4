"""The command ``call``, which runs a tool by its exact name with JSON arguments."""

from __future__ import annotations

from typing import Annotated

from memvault.arguments.binding import read_object
from memvault.arguments.parameters import Arg
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.cli.run_command import long_text, run_tool
from memvault.cli.stdin import has_waiting_data
from memvault.errors import UsageError

_UNREAD = "standard input was not read; pass `-` to read the JSON arguments from it"


@command(
    "call",
    examples=(
        """memvault call memory_recall '{"query": "database"}'""",
        "echo '{}' | memvault call memory_list -",
    ),
    group="catalog",
    always_json=True,
)
def call(
    options: GlobalOptions,
    name: Annotated[str, Arg("The tool's exact name", positional=True)],
    arguments: Annotated[
        str,
        Arg("Its arguments as one JSON object", positional=True, metavar="JSON", unbounded=True),
    ] = "",
) -> None:
    """Run a tool by its exact name with JSON arguments, and print its result as JSON.

    - reads the arguments from standard input, and @file reads them from a file. Without JSON, the
    tool gets no arguments, and standard input is not read.
    """
    from memvault.tools.core import registry

    hint = """pass a JSON object such as '{"query": "words"}'"""
    tool_arguments = read_object(long_text(arguments), "The arguments are", hint)
    tool = registry.lookup(name)
    try:
        run_tool(tool.name if tool else name, tool_arguments, options, tool, by_tool_name=True)
    except UsageError as error:
        if not arguments and tool and has_waiting_data():
            error.hint = f"{error.hint}; {_UNREAD}" if error.hint else _UNREAD
        raise
