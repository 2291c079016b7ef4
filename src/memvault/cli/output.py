"""Results to standard output, talk to standard error; rich only when a person looks."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from memvault import sanitize
from memvault.cli.shutdown import map_output_errors
from memvault.errors import MemvaultError

_PATIENCE = 1.0


def text(whole: str, as_json: bool) -> None:
    """Write a text that the program made, or as JSON its result ``text``."""
    if as_json:
        json({"success": True, "text": whole})
        return
    _write([[(line, "")] for line in whole.splitlines()], _standard_output())


def notes(texts: Iterable[str]) -> None:
    """Write to standard error what is to be said beside a result."""
    for note in texts:
        _write([[(f"note: {note}", "")]], sys.stderr)


def failure(error: MemvaultError, as_json: bool) -> None:
    """Write a failed result: JSON to standard output, else a sentence to standard error."""
    if as_json:
        json(error.result())
        return
    from memvault.cli import render

    texts = [f"error: {error.message}", *([f"hint: {error.hint}"] if error.hint else [])]
    _write([[(text.replace("\n", " "), "")] for text in texts], sys.stderr)
    _write(render.lines("a failure", error.details), sys.stderr)


def flush() -> None:
    """See to it that what was written has left this process."""
    if sys.stdout is not None:
        with map_output_errors():
            sys.stdout.flush()


def _standard_output() -> TextIO:
    """Return standard output.

    Raises:
        OutputError: the process was started without one.
    """
    if sys.stdout is None:
        with map_output_errors():
            raise OSError(errno.EBADF, "Standard output is closed")
    return sys.stdout


def write(lines: list[Any]) -> None:
    """Write styled lines to standard output."""
    _write(lines, _standard_output())


def write_raw(whole: str) -> None:
    """Write a text that is safe to look at to standard output."""
    stream = _standard_output()
    with map_output_errors():
        stream.write(whole)


def json(found: Mapping[str, Any]) -> None:
    """Write a result as JSON."""
    with map_output_errors():
        print(sanitize.as_json_lines(found), file=_standard_output())


def is_coloured(stream: TextIO | None) -> bool:
    """Say whether a person looks at a stream, on a terminal that has colours."""
    if stream is None or not stream.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(lines: Iterable[Any], coloured: bool) -> Iterator[str]:
    """Yield lines as they are written: each stays one line, and no text can steer a terminal."""
    for line in lines:
        pieces = [(sanitize.escape_line(text), style) for text, style in line]
        yield "".join(_styled(*piece) if coloured else piece[0] for piece in pieces)


def _write(lines: list[Any], stream: TextIO | None) -> None:
    """Write styled lines: with colour on a terminal, the same text without it elsewhere."""
    if stream is None:
        return
    with map_output_errors():
        for line in styled(lines, is_coloured(stream)):
            print(line, file=stream)


def _styled(text: str, style: str) -> str:
    from rich.color import ColorSystem
    from rich.style import Style

    return Style.parse(style).render(text, color_system=ColorSystem.STANDARD) if style else text


class ProgressBar:
    """A bar on standard error for what takes longer than a second, where a person looks."""

    def __init__(self, quiet: bool) -> None:
        self._silent = quiet or not sys.stderr.isatty()
        self._begun: dict[str, float] = {}
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show how far a piece of work is."""
        if self._silent:
            return
        begun = self._begun.setdefault(what, time.monotonic())
        if self._bar is None and time.monotonic() - begun < _PATIENCE:
            return
        if self._bar is None:
            self._start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(sanitize.escape_line(what), total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def _start(self) -> None:
        import atexit

        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        atexit.register(self._bar.stop)
