"""Run commands on a separate terminal, as a person would."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher import Process, launcher_with


class TerminalStream(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def open_terminal(
    folder: Path,
    variables: Mapping[str, str],
    *words: str,
    program: Sequence[str] = (),
    others: tuple[str, ...] = (),
) -> tuple[Process, int]:
    """Start a command on a new terminal; return its process and our end of the terminal.

    The process is forked from the launcher that has loaded ``others``, unless Python runs a
    ``program``.
    """
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment |= variables
    terminal, theirs = pty.openpty()
    process: Process | None = None
    if not program:
        launcher = launcher_with(others)
        process = launcher.start_at_terminal(words, folder, environment, theirs)
    if process is None:
        process = subprocess.Popen(
            [sys.executable, *(program or ("-m", "memvault")), *words],
            cwd=folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # one call
        )
    os.close(theirs)
    return process, terminal


def at_terminal(
    folder: Path,
    *words: str,
    answer: str | Sequence[str] = "",
    asked: str = "[y/N]",
    meanwhile: Callable[[], object] = lambda: None,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = (),
) -> tuple[int, str]:
    """Run a command on a terminal of 20 lines; return its exit code and the displayed text.

    The ``answer`` is typed after the command has ``asked`` and ``meanwhile`` was called; each of
    several answers is typed after the command has asked again. The terminal settings must be
    restored at the end. ``program`` are arguments with which Python runs memvault, instead of
    forking the launcher.
    """
    answers = [answer] if isinstance(answer, str) else [*answer]
    variables = {"TERM": "xterm", "LINES": "20", "COLUMNS": "80", **(environment or {})}
    process, terminal = open_terminal(folder, variables, *words, program=program)
    modes = termios.tcgetattr(terminal)
    shown, seen = b"", 0
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the other end of the terminal is closed
            break
        if not piece:
            break
        shown += piece
        if any(answers) and asked.encode() in shown[seen:]:
            seen = len(shown)
            meanwhile()
            os.write(terminal, answers.pop(0).encode())
    assert termios.tcgetattr(terminal) == modes
    os.close(terminal)
    return process.wait(60), shown.decode("utf-8", "replace").replace("\r\n", "\n")
