"""Convert records of a source one at a time, so that a failure does not affect other records.

Exports may be untrusted or damaged: a value may be missing, have the wrong type, be nested too
deeply, or be crafted to take minutes. ``convert_record`` turns any exception into a
``SkippedItem``, and limits the time of the conversion.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

from memvault.importers.items import Item, SkippedItem

SECONDS = 20
"""Maximum CPU time of the conversion of one record, in seconds."""


class RecordTooSlow(Exception):
    """Raised if converting a record takes longer than ``SECONDS``."""


class _Timer:
    """The timer of this process's CPU time; not available on Windows."""

    is_on = False
    """Whether conversions have a time limit."""
    _is_running = False

    def set(self, seconds: float) -> None:
        """Start the timer; stop it with 0."""
        self._is_running = seconds > 0
        if sys.platform != "win32":  # repeat, in case a library swallows the exception
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1 if seconds else 0)

    def fire(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_running:  # the conversion ended just before the signal
            self.set(0)
            return
        raise RecordTooSlow(f"takes more than {SECONDS} seconds")


_timer = _Timer()


def limit_time() -> None:
    """Limit the time of each conversion in this process; call it in the main thread."""
    if sys.platform != "win32":
        signal.signal(signal.SIGVTALRM, _timer.fire)
        _timer.is_on = True


def convert_record(
    location: str, convert: Callable[..., Item | Iterable[Item] | None], *arguments: Any
) -> list[Item]:
    """Return the items that ``convert`` returns for a record, or why it cannot be converted.

    ``location`` describes the record to users.
    """
    try:
        return _timed(convert, *arguments) if _timer.is_on else _listed(convert(*arguments))
    except Exception as error:
        return [SkippedItem(location, reason_for(error))]


def convert_each(
    entries: Iterable[tuple[str, Any] | SkippedItem],
    convert: Callable[..., Item | Iterable[Item] | None],
    *arguments: Any,
) -> Iterator[Item]:
    """Yield each entry's items; ``convert`` gets its location, its value and ``arguments``."""
    for entry in entries:
        if isinstance(entry, SkippedItem):
            yield entry
        else:
            yield from convert_record(entry[0], convert, *entry, *arguments)


def _timed(convert: Callable[..., Item | Iterable[Item] | None], *arguments: Any) -> list[Item]:
    _timer.set(SECONDS)
    try:
        return _listed(convert(*arguments))
    finally:
        _timer.set(0)


def _listed(converted: Item | Iterable[Item] | None) -> list[Item]:
    if isinstance(converted, Item):
        return [converted]
    return [] if converted is None else list(converted)


def reason_for(error: BaseException) -> str:
    """Return why a record or file cannot be read, as a message for users."""
    if isinstance(error, RecordTooSlow):
        return str(error)
    if isinstance(error, MemoryError):
        return "exceeds the memory limit"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, OSError | ValueError) and not isinstance(error, UnicodeError):
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        if reason:
            return str(reason)
    return f"not in the expected format ({type(error).__name__})"
