"""A terminal driver that exits after a termination signal even if the terminal is frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memvault.cli.shutdown import finishes, termination_requested

if TYPE_CHECKING:
    from textual.driver import Driver

_SECONDS = 0.2
"""Seconds to wait for the terminal to accept the last output after a termination signal."""


def ending(base: type[Driver]) -> type[Driver]:
    """Return a subclass of Textual's driver that waits only briefly for its last output.

    Textual's own driver waits until the terminal has accepted everything, which a frozen terminal
    never does.
    """

    class EndingDriver(base):  # type: ignore[misc, valid-type]  # which base depends on the system
        """The driver of ``base``, with a limit on the output after a termination signal."""

        _is_stuck = False

        def write(self, data: str) -> None:
            """Write to the terminal."""
            self._limited(lambda: base.write(self, data))

        def disable_input(self) -> None:
            """Stop reading keys; the reading thread may also be waiting for the terminal."""
            ended = getattr(self, "exit_event", None)
            if ended is not None and termination_requested():
                ended.set()
            else:
                super().disable_input()

        def close(self) -> None:
            """Wait until everything has been written."""
            self._limited(lambda: base.close(self))

        def _limited(self, work: Callable[[], object]) -> None:
            if not termination_requested():
                work()
            elif not self._is_stuck:
                self._is_stuck = not finishes(work, _SECONDS)

    return EndingDriver
