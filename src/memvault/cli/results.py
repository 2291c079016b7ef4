"""Printing of results in the chosen format: JSON, CSV, a template, or text for people."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.errors import MemvaultError, UsageError
from memvault.settings.locate import THIS

if TYPE_CHECKING:
    from memvault.cli.render import Line

_PASSAGE_PREFIX = "   > "
"""Prefix of the lines of a recalled memory's passage."""


def check(options: GlobalOptions) -> None:
    """Check the options for the output format, before the command runs.

    Raises:
        UsageError: If several formats are chosen, or the template is invalid.
    """
    if options.json + options.csv + (options.row_format is not None) > 1:
        raise UsageError("--json, --csv and --format exclude each other", "choose one of them")
    if options.row_format is not None:
        from memvault.cli import listing

        listing.validate_format(options.row_format)


def print_result(
    options: GlobalOptions, name: str, found: Mapping[str, Any], query: str = ""
) -> None:
    """Write a result and its warnings; ``query`` is the text searched for, to be highlighted.

    Raises:
        UsageError: If a template has a key that no entry of the result has.
    """
    if options.json:
        output.json(found)
        return
    if options.csv or options.row_format is not None:
        _print_rows(options, name, found)
    else:
        _print_human(options, name, found, query)
    if not options.quiet:
        output.notes([*found.get("warnings", ()), *_other_vault_note(name, found)])


def _print_rows(options: GlobalOptions, name: str, found: Mapping[str, Any]) -> None:
    from memvault.cli import listing

    if options.row_format is None:
        output.write_raw(listing.as_csv(found))
        return
    try:
        output.write_raw(listing.format_rows(name, found, options.row_format))
    except UsageError as error:
        if not _is_from_writing_tool(name):
            raise
        _print_human(options, name, found, "")
        output.notes([f"--format was not followed: {error.message}"])


def _is_from_writing_tool(name: str) -> bool:
    """Return whether a result is from a tool that writes, which must always be reported."""
    from memvault.tools.core import registry

    tool = registry.lookup(name)
    return tool is not None and not tool.read_only


def _other_vault_note(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note for a change in another vault, which an undo in this vault does not revert."""
    vault = found.get("vault")
    if isinstance(vault, str) and vault != THIS and _is_from_writing_tool(name):
        yield f"that was in the vault {vault}; memvault --vault {vault} undo takes it back"


def _print_human(options: GlobalOptions, name: str, found: Mapping[str, Any], query: str) -> None:
    from memvault.cli import render

    if sys.stdout is None or not sys.stdout.isatty():
        output.write(render.lines(name, found))
        return
    coloured = output.is_coloured(sys.stdout)
    rendered = _highlighted(name, found, query) if coloured else render.lines(name, found)
    lines = list(output.styled(rendered, coloured))
    may_page = not options.no_pager and sys.stdin is not None and sys.stdin.isatty()
    if may_page and os.environ.get("TERM") != "dumb":
        from memvault.cli import terminal

        output.flush()
        text = "".join(f"{line}\n" for line in lines)
        if terminal.exceeds_screen(lines) and terminal.show(text, _root(options)):
            return
    output.write_raw("".join(f"{line}\n" for line in lines))


def _root(options: GlobalOptions) -> Path | None:
    """Return the vault, from which no pager may be run; None if there is no vault."""
    from memvault.settings.locate import find_vault

    try:
        return find_vault(options.vault)
    except MemvaultError:
        return None


def _highlighted(name: str, found: Mapping[str, Any], query: str) -> Iterator[Line]:
    """Yield the lines for a terminal, with markdown rendered and the query's words highlighted."""
    from memvault.cli import render, terminal

    content = found.get("content") if name == "memory_show" else None
    for line in render.lines(name, {**found, "content": ""} if content else found):
        is_passage = (
            name == "memory_recall" and "".join(text for text, _ in line)[:5] == _PASSAGE_PREFIX
        )
        yield terminal.highlight(line, query) if query and is_passage else line
    for line in terminal.markdown(content, shutil.get_terminal_size().columns) if content else ():
        yield terminal.highlight(line, query) if query else line
