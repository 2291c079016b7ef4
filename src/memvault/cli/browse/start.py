"""Start the browser, or use it to pick a memory for a command that was given none."""

from __future__ import annotations

import contextlib
import os

from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.cli.shutdown import Exit
from memvault.errors import MemvaultError

_LEFT = 130
"""The exit code if nothing was picked, the same as after an interrupt."""


def pick(options: GlobalOptions) -> tuple[str, str] | None:
    """Let the user pick a memory; return its path and title, or None without a terminal.

    Raises:
        Exit: nothing was picked.
    """
    if not has_screen(options):
        return None
    chosen = run(options, "", picks=True)
    if chosen is None:
        raise Exit(_LEFT)
    return chosen


def has_screen(options: GlobalOptions) -> bool:
    """Return whether there is a terminal for the browser."""
    if not options.may_ask or os.environ.get("TERM", "dumb") == "dumb":
        return False
    output.require_terminal()
    return True


def is_default() -> bool:
    """Return whether ``memvault`` without a command opens the browser here."""
    from memvault.settings import locate, user_settings

    with contextlib.suppress(MemvaultError):
        if user_settings.load().start == "browse":
            return locate.find_vault(None) is not None
    return False


def run(options: GlobalOptions, query: str, picks: bool = False) -> tuple[str, str] | None:
    """Run the browser; return the path and title of the picked memory, or None."""
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
