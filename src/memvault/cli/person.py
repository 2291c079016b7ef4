"""Whether a person may be asked, or shown something over time, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PersonNeeded(BaseException):
    """Raised where a person would be asked or shown something over time, and cannot be."""


_is_reachable = True


@contextmanager
def unreachable() -> Iterator[None]:
    """Raise ``PersonNeeded`` for prompts, pagers and progress bars in the block."""
    global _is_reachable  # noqa: PLW0603  # a process runs one command at a time
    _is_reachable = False
    try:
        yield
    finally:
        _is_reachable = True


def require() -> None:
    """Check that a person may be asked, or shown something over time.

    Raises:
        PersonNeeded: If not.
    """
    if not _is_reachable:
        raise PersonNeeded
