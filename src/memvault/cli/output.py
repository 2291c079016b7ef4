"""Results to standard output, talk to standard error; rich only when a person looks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from memvault.errors import MemvaultError

__all__ = ["Progress", "failure", "prepare", "result"]

_PATIENCE = 1.0


def prepare() -> None:
    """Have both streams take any text: UTF-8, and what it cannot spell escaped."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            encoding = "utf-8" if os.name == "nt" and not stream.isatty() else None
            reconfigure(encoding=encoding, errors="backslashreplace")


def result(name: str, found: Mapping[str, Any], as_json: bool, quiet: bool) -> None:
    """Write a tool's result, and its warnings."""
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return
    from memvault.cli import render

    _write(render.lines(name, found), sys.stdout)
    if not quiet:
        for warning in found.get("warnings", ()):
            print(f"note: {warning}", file=sys.stderr)


def failure(error: MemvaultError, as_json: bool) -> None:
    """Write a failed result: JSON to standard output, else a sentence to standard error."""
    if as_json:
        print(json.dumps(error.result(), ensure_ascii=False, indent=2))
        return
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    from memvault.cli import render

    _write(render.details(error.details), sys.stderr)


def _write(lines: list[Any], stream: TextIO) -> None:
    """Write styled lines: with colour on a terminal, the same text without it elsewhere."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        for line in lines:
            print("".join(text for text, _ in line), file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, soft_wrap=True, highlight=False)
    for line in lines:
        console.print(Text.assemble(*line))


class Progress:
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
            self._tasks[what] = self._bar.add_task(what, total=total)
        self._bar.update(self._tasks[what], completed=done, total=total)

    def _start(self) -> None:
        import atexit

        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        atexit.register(self._bar.stop)
