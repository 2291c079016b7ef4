"""The backend of an index: where its keyword index is stored, and whether others read the index.

The manifest, the vectors and the subwords of sentences are always on this machine. The keyword
index is either next to them or in an engine that several machines share, and then texts and vectors
are uploaded for these.
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
"""A callback for progress: the name of the step, how much is done, and the total.

They are bytes in the step ``indexing``, where each byte counts once when its file has been read and
once when it is indexed, and items in all others.
"""


class BackendUnavailable(MemvaultError):
    """The place of an index does not answer; an index on this machine may answer instead."""


class Backend(Protocol):
    """The place of the keyword index, and of what other machines read."""

    @property
    def is_shared(self) -> bool:
        """Whether other machines read the index, so that changed records must be uploaded again."""

    def refreshing(
        self, files: IndexFiles, is_patient: bool = False
    ) -> AbstractContextManager[None]:
        """Prepare a refresh of an index, and complete it when the block ends without an error.

        With ``is_patient`` the user waits for the complete work, so that each step may take long.

        Raises:
            BackendUnavailable: the place does not answer.
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
    """Files next to the manifest, for this machine only."""

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
        """Open the keyword index of a commit's files in a folder, or an empty one."""
        return KeywordIndex(folder, files)

    def create_keyword(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""
        return KeywordIndex.create(folder)

    def delete_vectors(self, manifest: int, uids: Sequence[int]) -> None:
        """Do nothing, as nothing is published."""


LOCAL = LocalBackend()
