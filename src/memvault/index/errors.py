"""The errors of the index's own: no user sees them; writer and engine mend what is wrong."""

from __future__ import annotations


class DamagedIndex(Exception):
    """The index on disk cannot be used; it is made anew, never repaired."""


class DamagedVectors(DamagedIndex):
    """Only an embedder's vectors cannot be used; they are looked at again, and made anew alone."""
