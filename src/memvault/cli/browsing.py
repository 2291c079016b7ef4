"""The command browse, and the picker of commands that need a memory and were given none."""

from __future__ import annotations

import os
from typing import Annotated

from memvault.arguments.parameters import Arg
from memvault.cli import commands, output
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.cli.shutdown import Exit
from memvault.settings.locate import find_vault
from memvault.tools.core import registry

_LEFT = 130
"""The exit code of a picker that was left without a choice, as of an interrupted command."""


@command("browse", ("memvault browse", "memvault browse which database tag:work"))
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
    if _has_screen(options):
        _run(options, query, picks=False)
        return
    from memvault.cli.browse.session import parse_line

    words, arguments = parse_line(query)
    name = "memory_recall" if words else "memory_list"
    arguments |= {"query": words} if words else {}
    commands.run_tool(name, arguments, options, registry.find(name))


def pick(options: GlobalOptions) -> tuple[str, str] | None:
    """Let a person choose a memory; return its path and title, None without a terminal.

    Raises:
        Exit: If none was chosen.
    """
    if not _has_screen(options):
        return None
    chosen = _run(options, "", picks=True)
    if chosen is None:
        raise Exit(_LEFT)
    return chosen


def _has_screen(options: GlobalOptions) -> bool:
    if not options.may_ask or os.environ.get("TERM", "dumb") == "dumb":
        return False
    output.require_terminal()
    return True


def _run(options: GlobalOptions, query: str, picks: bool) -> tuple[str, str] | None:
    """Run the browser; return the path and title of the chosen memory."""
    from memvault.cli.browse.app import MemoryBrowser
    from memvault.cli.browse.session import BrowserSession

    session = BrowserSession(find_vault(options.vault), options.caller())
    browser = MemoryBrowser(options, session, query, picks)
    session.progress = browser.progress
    try:
        chosen = browser.run()
    finally:
        session.close()
    return None if chosen is None else (chosen.path, chosen.title)
