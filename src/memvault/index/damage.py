"""The one error of the index's own: no user sees it, ``sync`` and the engine mend it."""

from __future__ import annotations

__all__ = ["DamagedIndex"]


class DamagedIndex(Exception):
    """The index on disk cannot be used; it is made anew, never repaired."""
