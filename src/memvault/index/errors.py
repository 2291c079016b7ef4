"""The errors of the index's own: no user sees them; writer and engine mend what is wrong."""

from __future__ import annotations

from memvault.errors import MemvaultError


class IndexCorrupted(Exception):
    """The index on disk cannot be used; it is made anew, never repaired."""


class VectorsCorrupted(IndexCorrupted):
    """Only an embedder's vectors cannot be used; they are looked at again, and made anew alone."""


def given_up(error: Exception) -> MemvaultError:
    """Return what a user is told where making it anew did not help."""
    return MemvaultError(
        f"The index was damaged again while it was being read: {error}",
        "memvault reindex makes it anew",
    )


class LostIndex(IndexCorrupted):
    """What a view reads from went away meanwhile; ``reason`` is what the next look says of it."""

    def __init__(self, reason: MemvaultError) -> None:
        super().__init__(reason.message)
        self.reason = reason
