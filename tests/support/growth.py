"""Measure the CPU time of work, and how it grows with the size of the input.

Wall times depend on a machine and its load more than on the work: with a limit of 20 s, a step of
0.1 s would have to become two hundred times slower to be noticed. Here the same work is done at two
sizes, and its time may grow linearly but not quadratically.
"""

from __future__ import annotations

import contextlib
import gc
import io
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from memvault.__main__ import main
from patterns import limited

__all__ = ["Steps", "check_growth", "said", "seconds"]

Steps = Iterable[Callable[[], object]]
_TIMES = 4
_MOST = 8.0
"""Four times the size takes four times as long, or sixteen times where it is the square."""
_LEAST = 0.01
"""Seconds below which a time says nothing."""
_TRIES = 3
"""Another process may slow the caches down; what is slow each time is slow."""
_GIVE_UP = 20.0


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process for some work.

    Raises:
        TooSlow: if it takes more than twenty.
    """
    gc.disable()
    began = time.process_time()
    try:
        with limited(_GIVE_UP):
            work()
    finally:
        gc.enable()
    return time.process_time() - began


def said(root: Path, *line: str) -> str:
    """Run a command line that must succeed in this process; return its output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main(["--vault", str(root), *line]) == 0, (line, out.getvalue())
    return out.getvalue()


def check_growth(steps: Callable[[int], Steps], size: int) -> None:
    """Check that no step takes eight times as long for four times the size."""

    def timed(size: int) -> list[float]:
        return [seconds(step) for step in steps(size)]

    timed(max(1, size // 16))  # what they load is loaded then
    found = []
    for _ in range(_TRIES):
        times = list(zip(timed(size), timed(_TIMES * size), strict=True))
        if all(large < _MOST * max(small, _LEAST) for small, large in times):
            return
        found.append(times)
    pytest.fail(f"{size:,} and {_TIMES * size:,}, in seconds a step: {found}")
