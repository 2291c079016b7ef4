"""Measure the CPU time of work, and how it grows with the input's size.

Wall times depend more on the machine and its load than on the work: with a limit of 20 s, a step
that takes 0.1 s would have to become two hundred times slower before anyone noticed. Instead, the
same work is done at two sizes, and its time may grow linearly but not quadratically.
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
"""The maximum growth of the time for four times the size: linear growth is 4, quadratic 16."""
_LEAST = 0.01
"""Measured times below this many seconds are meaningless."""
_TRIES = 3
"""Number of measurements; a step is slow only if it is slow each time, because other processes may
evict caches.
"""
_GIVE_UP = 20.0


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process for some work.

    Raises:
        TooSlow: if the work takes more than twenty seconds.
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

    timed(max(1, size // 16))  # warm up, so that modules are loaded
    found = []
    for _ in range(_TRIES):
        times = list(zip(timed(size), timed(_TIMES * size), strict=True))
        if all(large < _MOST * max(small, _LEAST) for small, large in times):
            return
        found.append(times)
    pytest.fail(f"{size:,} and {_TIMES * size:,}, in seconds a step: {found}")
