"""The command browse."""

from __future__ import annotations

from typing import Annotated

from memvault.arguments.parameters import Arg
from memvault.cli import run_command
from memvault.cli.browse import start
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.tools.core.shared_args import QUERY_FILTERS


@command(
    "browse", ("memvault browse", "memvault browse which database tag:work"), group="historian"
)
def browse(
    options: GlobalOptions,
    query: Annotated[
        str,
        Arg(f"Search query; {QUERY_FILTERS}",
            positional=True, join_words=True, completes="query"),
    ] = "",
) -> None:  # fmt: skip
    """Search, read and edit memories in a full-screen view that updates as you type.

    Enter opens the editor at the matching line; F1 shows the keys. Without a terminal, it prints a
    list of results.
    """
    if start.has_screen(options):
        start.run(options, query)
        return
    from memvault.recall import query_filters
    from memvault.tools.recall import memory_recall
    from memvault.tools.vault import memory_list

    if query_filters.parse(query).words.strip():
        run_command.run_function(options, memory_recall, query=query)
    else:
        run_command.run_function(options, memory_list, query=query)
