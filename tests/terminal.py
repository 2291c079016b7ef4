"""Commands on a terminal of their own, as a person runs them."""

from __future__ import annotations

import os
import pty
import select
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def at_terminal(
    folder: Path,
    *words: str,
    answer: str | Sequence[str] = "",
    asked: str = "[y/N]",
    meanwhile: Callable[[], object] = lambda: None,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = ("-m", "memvault"),
) -> tuple[int, str]:
    """Run a command on a terminal of 20 lines; return its exit code and what stood there.

    An ``answer`` is typed once the command has ``asked``, and after ``meanwhile`` was done; of
    several answers, each once it has asked again. The terminal must be left as it was. ``program``
    are the arguments with which Python runs memvault.
    """
    answers = [answer] if isinstance(answer, str) else [*answer]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.pop("NO_COLOR", None)
        os.environ |= {"TERM": "xterm", "LINES": "20", "COLUMNS": "80", **(environment or {})}
        os.execv(sys.executable, [sys.executable, *program, *words])
    modes = termios.tcgetattr(terminal)
    shown, seen = b"", 0
    while select.select([terminal], [], [], 60)[0]:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # the terminal's other end is gone
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
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, shown.decode("utf-8", "replace").replace("\r\n", "\n")
