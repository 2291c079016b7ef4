"""The commands ``today`` and ``capture``, for notes without a title."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any

from memvault import process
from memvault.arguments.parameters import Arg
from memvault.cli import print_result, run_command, run_editor
from memvault.cli.options import GlobalOptions
from memvault.cli.registry import command
from memvault.errors import Refused, UsageError

_PASTE_COMMANDS = {"darwin": ("pbpaste",)}
_PASTE_COMMANDS_ELSEWHERE = (
    "wl-paste --no-newline",
    "xclip -selection clipboard -out",
    "xsel --clipboard --output",
    "powershell.exe -NoProfile -Command Get-Clipboard",
)
"""Programs that print the clipboard; the last one is for WSL."""
_MAX_CLIPBOARD = 10_000_000
_SECONDS = 10.0
Text = Annotated[
    str,
    Arg("The text; omit it to read from a pipe or open your editor",
        positional=True, join_words=True, unbounded=True),
]  # fmt: skip


@command(
    "today",
    ("memvault today bought the tickets", "memvault today '[ ] call Ann'", "memvault today"),
    group="daily",
)
def today(
    options: GlobalOptions,
    text: Text = "",
    day: Annotated[
        str, Arg("Another day, such as yesterday or 2026-11-05", key="date", flag="--date")
    ] = "",
) -> dict[str, Any] | None:
    """Add a thought to today's daily note, or open the note in your editor.

    The text becomes a list item with the time, or a task if it begins with [ ]. A new note is
    created from the vault's template. The path, template and target heading come from settings; the
    path and template can also come from Obsidian's daily notes. Without a terminal for the editor,
    the note is printed.
    """
    entered_text = text or _piped(options, required=False)
    if entered_text or not options.may_ask:
        from memvault.tools.daily import memory_today

        run_command.run_function(options, memory_today, text=entered_text, day=day or None)
        return None
    from memvault import clock
    from memvault.memories import daily_notes
    from memvault.tools.core.shared_args import parse_date_argument

    with run_editor.open_call(options) as (call, _):
        chosen = clock.today(parse_date_argument(day, "date", False))
        memory, _ = daily_notes.ensure(call.store, chosen)
        edited = run_editor.edit_memory(call, memory, memory.line_at(len(memory.body.rstrip())))
    print_result.print_result(options, {"success": True, **edited}, run_editor.EDITED, writes=True)
    return None


@command(
    "capture",
    (
        "memvault capture the printer needs the old driver",
        "memvault capture --clip --tags later",
        'date | memvault capture --to "Deploy notes"',
    ),
    group="daily",
)
def capture(
    options: GlobalOptions,
    text: Text = "",
    clip: Annotated[bool, Arg("Use the text in the clipboard")] = False,
    to: Annotated[
        str, Arg("Append it to this memory: memory id, path, title, or words", completes="memory")
    ] = "",
    memory_type: Annotated[
        str, Arg("The memory's type, context by default", flag="--type", completes="type")
    ] = "",
    tags: Annotated[list[str] | None, Arg("The memory's tags", completes="tag")] = None,
) -> None:
    """Remember a thought without a title: its first words become the title.

    The text comes from the arguments, the clipboard, a pipe or your editor. `--to`
    appends it to a memory instead.
    """
    if clip and text:
        raise UsageError("`--clip` cannot be combined with text", "omit one of them")
    if to and (memory_type or tags):
        raise UsageError("`--to` cannot change the type or the tags", "omit `--type` and `--tags`")
    if clip:
        _remember(options, _clipboard(options), to, memory_type, tags)
        return
    entered_text = text or _piped(options, required=not options.may_ask)
    if entered_text:
        _remember(options, entered_text, to, memory_type, tags)
        return
    if not options.may_ask:
        raise UsageError(
            "The text is missing", "pass it as an argument, pipe it in, or use `--clip`"
        )
    with run_editor.text_from_editor(options, "Thought", memory_type) as text:
        _remember(options, text, to, memory_type, tags)


def _remember(
    options: GlobalOptions, text: str, to: str, memory_type: str, tags: list[str] | None
) -> None:
    """Append text to a memory, or store it as a new memory titled by its first words."""
    from memvault.memories import create
    from memvault.tools.recall import memory_compound, memory_remember

    if to:
        run_command.run_function(options, memory_compound, query=to, modifications=text)
    else:
        run_command.run_function(
            options,
            memory_remember,
            title=create.title_of(text),
            content=text,
            memory_type=memory_type or None,
            tags=tags,
        )


def _piped(options: GlobalOptions, required: bool) -> str:
    """Return the text piped to standard input, or an empty string."""
    from memvault.cli.stdin import piped

    return piped("TEXT", False, options.quiet, required) or ""


def _clipboard(options: GlobalOptions) -> str:
    """Return the text in the clipboard.

    Raises:
        Refused: no program can print it, or it contains no text.
    """
    from memvault.vault import decoding

    if sys.platform == "win32":  # `process.run` does not support Windows.
        raise Refused(
            "The clipboard cannot be read on Windows",
            "run `Get-Clipboard | memvault capture` in PowerShell",
        )
    environment = process.environment(options.root())
    for line in _PASTE_COMMANDS.get(sys.platform, _PASTE_COMMANDS_ELSEWHERE):
        with contextlib.suppress(UsageError):  # The program is not installed.
            done = process.run(line.split(), "", _SECONDS, _MAX_CLIPBOARD, environment=environment)
            text = decoding.decode(done.stdout).text if done.code == 0 else ""
            if text.strip():
                return text
    raise Refused(
        "The clipboard cannot be read, or contains no text",
        "install wl-clipboard, xclip or xsel, or pipe in the text",
    )
