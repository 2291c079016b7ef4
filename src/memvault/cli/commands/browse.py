"""The command browse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from memvault import sanitize
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

    Enter opens the editor at the matching line; F1 shows the keyboard shortcuts. Without a
    terminal, it prints a list of results.
    """
    if start.has_screen(options):
        start.run(options, query)
        return
    from memvault.recall import query_filters
    from memvault.tools.core import registry
    from memvault.tools.recall import memory_recall
    from memvault.tools.vault import memory_list

    if query_filters.parse(query).words.strip():
        run_command.run_function(options, memory_recall, query=query)
        return
    tool = registry.find(memory_list.__name__)
    argument = f"{sanitize.quote_argument(query)} " if query else ""

    def prepare(result: Mapping[str, Any]) -> Mapping[str, Any]:
        """Name the command that shows more, because browse has no ``--offset``."""
        assert tool.view.prepare is not None
        shown = tool.view.prepare(result)
        if "next" not in result:
            return shown
        command = f"`memvault list {argument}--offset {result['next']}`"
        return {**shown, "nextCommand": command}

    listing = tool._replace(view=tool.view._replace(prepare=prepare))
    run_command.run_tool(tool.name, {"query": query}, options, listing)
