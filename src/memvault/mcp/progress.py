"""How far a call is, for a client that asked to be told.

The tool's thread notes it, and the server tells it a few times a second. What is told only ever
grows, as the protocol wants it, also from one piece of work to the next, and while a tool waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import NamedTuple

import anyio

_OFTEN = 0.25
"""Seconds between two looks at how far a call is."""
SILENCE = 5.0
"""Seconds after which a call that says nothing is said to go on."""


class ProgressUpdate(NamedTuple):
    """What is told: how much is done, of how much if that is known, and of what."""

    progress: float
    total: float | None
    message: str


class ProgressTracker:
    """How far one call is."""

    def __init__(self) -> None:
        self._what = ""
        self._before = 0.0
        self._step = ProgressUpdate(0, None, "")

    def note(self, what: str, done: int, total: int) -> None:
        """Take down how far a piece of work is."""
        if what != self._what:
            self._before = self._step.progress
            self._what = what
        before = self._before
        told = f"{what.capitalize()}: {done:,} of {total:,}"
        self._step = ProgressUpdate(max(self._step.progress, before + done), before + total, told)

    async def tell(self, report: Callable[[float, float | None, str], Awaitable[None]]) -> None:
        """Report each step until cancelled, and in between that the call goes on."""
        begun = told_at = time.monotonic()
        told = self._step
        while True:
            await asyncio.sleep(_OFTEN)
            now = time.monotonic()
            if self._step.progress <= told.progress and now - told_at >= SILENCE:
                self._go_on(round(now - begun))
            if self._step.progress > told.progress:
                told, told_at = self._step, now
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await report(*told)

    def _go_on(self, seconds: int) -> None:
        """Count a moment in which nothing was noted as a step too."""
        self._before += 1
        step = self._step
        total = None if step.total is None else step.total + 1
        self._step = ProgressUpdate(step.progress + 1, total, f"At work for {seconds} s")


CURRENT: ContextVar[ProgressTracker | None] = ContextVar("steps", default=None)
"""The steps of the call that a thread is at work for."""


def report_progress(what: str, done: int, total: int) -> None:
    """Take down how far a piece of work is, for the call that it is done for."""
    steps = CURRENT.get()
    if steps is not None:
        steps.note(what, done, total)
