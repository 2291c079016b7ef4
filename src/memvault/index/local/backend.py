"""Storage backends for keyword indexes.

The manifest, the vectors and the subwords of sentences are always on this machine. The keyword
index is either in the same folder or in a shared engine. In the latter case, texts and vectors are
also uploaded for other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memvault.errors import MemvaultError
from memvault.index.keyword.keyword_index import KeywordIndex

if TYPE_CHECKING:
    from memvault.index.local.index_files import IndexFiles
    from memvault.index.local.stores import KeywordStore

Progress = Callable[[str, int, int], None]
"""A progress callback: the name of the step, the amount done, and the total. In the step
``indexing``, amounts are bytes, and each byte counts once when read and once when indexed. In other
steps, amounts are items.
"""


class BackendUnavailable(MemvaultError):
    """The storage of an index is unavailable; a local index may answer instead."""


class Backend(Protocol):
    """Storage for the keyword index, and for the rows that other machines read."""

    @property
    def is_shared(self) -> bool:
        """Return whether other machines read the index, in which case changes must be uploaded."""

    def refreshing(
        self, files: IndexFiles, is_patient: bool = False
    ) -> AbstractContextManager[None]:
        """Prepare a refresh of an index, and complete it if the block ends without an error.

        With ``is_patient``, steps may take a long time, because the user is waiting for all of the
        work.

        Raises:
            BackendUnavailable: if the storage does not respond.
        """

    def close(self) -> None:
        """Close the connection, if there is one."""

    def open_keyword(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """Open the keyword index of a commit's files in a folder, or an empty one."""

    def create_keyword(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""

    def delete_vectors(self, manifest: int, uids: Sequence[int]) -> None:
        """Delete the published vectors of removed memories."""


class LocalBackend:
    """A backend that stores its files next to the manifest."""

    is_shared = False

    def refreshing(
        self,
        files: IndexFiles,  # noqa: ARG002  # nothing is prepared
        is_patient: bool = False,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing."""

    def open_keyword(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """See ``Backend.open_keyword``."""
        return KeywordIndex(folder, files)

    def create_keyword(self, folder: Path) -> KeywordStore:
        """See ``Backend.create_keyword``."""
        return KeywordIndex.create(folder)

    def delete_vectors(self, manifest: int, uids: Sequence[int]) -> None:
        """Do nothing, because nothing is published."""


LOCAL = LocalBackend()
