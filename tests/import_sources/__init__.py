"""Sources to import, in the format that each program documents.

Each module creates the source of one format: ``make(folder)`` writes it and returns the path to
import. Its docstring states the version of the format and its documentation.
"""

from __future__ import annotations

from memvault.importers.state import VaultFiles, VaultState


class _NoFiles(VaultFiles):
    """The files of an empty vault."""

    def __init__(self) -> None:
        pass

    def exists(self, path: str) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def has_content(self, path: str, data: bytes) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def type_of(self, path: str, data: bytes) -> str:  # noqa: ARG002
        """Return the default memory type."""
        return "context"

    def is_memory(self, path: str) -> bool:  # noqa: ARG002
        """Return True."""
        return True


EMPTY_VAULT = VaultState({}, (), _NoFiles())
"""The state of an empty vault."""
