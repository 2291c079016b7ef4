"""Start of the browser, also as the picker of commands that need a memory and were given none."""

from __future__ import annotations

import os

from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.cli.shutdown import Exit

_LEFT = 130
"""The exit code of a picker that was left without a choice, as of an interrupted command."""


def pick(options: GlobalOptions) -> tuple[str, str] | None:
    """Let a person choose a memory; return its path and title, None without a terminal.

    Raises:
        Exit: If none was chosen.
    """
    if not has_screen(options):
        return None
    chosen = run(options, "", picks=True)
    if chosen is None:
        raise Exit(_LEFT)
    return chosen


def has_screen(options: GlobalOptions) -> bool:
    """Return whether there is a terminal on which the browser can be shown."""
    if not options.may_ask or os.environ.get("TERM", "dumb") == "dumb":
        return False
    output.require_terminal()
    return True


def run(options: GlobalOptions, query: str, picks: bool = False) -> tuple[str, str] | None:
    """Run the browser; return the path and title of the chosen memory, if it picks one."""
    from memvault.cli.browse.app import MemoryBrowser
    from memvault.cli.browse.session import BrowserSession

    session = BrowserSession(options.root(), options.caller())
    browser = MemoryBrowser(options, session, query, picks)
    session.progress = browser.progress
    try:
        chosen = browser.run()
    finally:
        browser.end_input()
        session.close()
    return None if chosen is None else (chosen.path, chosen.title)
