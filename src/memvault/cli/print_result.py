"""Print results in the selected format: JSON, CSV, a template, or text for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.cli import output
from memvault.cli.options import GlobalOptions
from memvault.errors import MemvaultError, UsageError, exclusive
from memvault.settings.locate import THIS

if TYPE_CHECKING:
    from memvault.tools.core.render import Line, Template

_PASSAGE_PREFIX = "   > "
"""Prefix of lines of a recalled passage."""


def check(options: GlobalOptions) -> None:
    """Check the options for the output format, before the command runs.

    Raises:
        UsageError: several formats are selected, or the template is invalid.
    """
    has_format = options.row_format is not None
    exclusive({"--json": options.json, "--csv": options.csv, "--format": has_format})
    if options.row_format is not None:
        from memvault.cli import rows

        rows.validate_format(options.row_format)


def print_result(
    options: GlobalOptions,
    result: Mapping[str, Any],
    view: Template,
    query: str = "",
    writes: bool = False,
) -> None:
    """Write a result and its warnings.

    ``query`` is the text that was searched for; its words are highlighted. If ``writes`` is set,
    the tool has changed the vault, so its result is printed even if the template is invalid.

    Raises:
        UsageError: a template has a key that no entry in the result has.
    """
    if options.json:
        output.json(result)
        return
    if options.csv or options.row_format is not None:
        _print_rows(options, result, view, writes)
    else:
        _print_human(options, result, view, query)
    if not options.quiet:
        vault = result.get("vault")
        output.notes(result.get("warnings", ()))
        if writes and isinstance(vault, str) and vault != THIS:  # A plain undo would not revert it.
            undo = f"`memvault --vault {vault} undo`"
            output.notes([f"this changed the vault {vault}; to revert it, run {undo}"])


def _print_rows(
    options: GlobalOptions, result: Mapping[str, Any], view: Template, writes: bool
) -> None:
    from memvault.cli import rows

    if options.row_format is None:
        output.write_raw(rows.as_csv(result))
        return
    try:
        output.write_raw(rows.format_rows(view, result, options.row_format))
    except UsageError as error:
        if not writes:
            raise
        _print_human(options, result, view, "")
        output.notes([f"`--format` was ignored: {error.message}"])


def _print_human(
    options: GlobalOptions, result: Mapping[str, Any], view: Template, query: str
) -> None:
    from memvault.tools.core import render

    if sys.stdout is None or not sys.stdout.isatty():
        output.write(render.lines(view, result))
        return
    colored = output.is_colored(sys.stdout)
    rendered = _highlighted(view, result, query) if colored else render.lines(view, result)
    lines = list(output.styled(rendered, colored, output.width_of(sys.stdout)))
    may_page = not options.no_pager and sys.stdin is not None and sys.stdin.isatty()
    if may_page and os.environ.get("TERM") != "dumb":
        from memvault.cli import terminal

        output.flush()
        text = "".join(f"{line}\n" for line in lines)
        if terminal.exceeds_screen(lines):
            output.require_terminal()
            if terminal.show(text, _root(options)):
                return
    output.write_raw("".join(f"{line}\n" for line in lines))


def _root(options: GlobalOptions) -> Path | None:
    """Return the vault's folder, or None; a pager inside it must not be run."""
    try:
        return options.root()
    except MemvaultError:
        return None


def _highlighted(view: Template, result: Mapping[str, Any], query: str) -> Iterator[Line]:
    """Yield the lines for a terminal, with markdown rendered and the query's words highlighted."""
    import shutil

    from memvault.cli import terminal
    from memvault.tools.core import render

    def markdown(text: str) -> list[Line]:
        rendered = terminal.markdown(text, shutil.get_terminal_size().columns)
        return [terminal.highlight(line, query) for line in rendered] if query else rendered

    for line in render.lines(view, result, markdown):
        is_passage = "".join(text for text, _ in line).startswith(_PASSAGE_PREFIX)
        yield terminal.highlight(line, query) if query and is_passage else line
