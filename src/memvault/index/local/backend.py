"""The backend of an index: where its keyword index and its static vectors are stored.

The manifest and the subwords of sentences are always on this machine. The keyword index and the
vectors are either next to them or in an engine that several machines share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memvault.files.plain_files import FileStamp
from memvault.index.keyword.bm25f import KeywordDocument, Segment
from memvault.index.keyword.keyword_index import KeywordIndex
from memvault.index.protocol import KeywordQuery

if TYPE_CHECKING:
    from memvault.index.embedding.arrays import Hashes, Matrix
    from memvault.index.vectors.nearest import ScoredPassages
    from memvault.index.vectors.vector_file import VectorCard, VectorFile

Progress = Callable[[str, int, int], None]
"""A callback for progress: the name of the step, how much is done, and the total.

They are bytes in the step ``indexing``, where each byte counts once when its file has been read and
once when it is indexed, and items in all others.
"""


class KeywordStore(Protocol):
    """A keyword index of one commit."""

    @property
    def stores_records(self) -> bool:
        """Whether others read it, so that memories whose records change must be sent again."""

    def apply(self, removed: Iterable[int], added: Sequence[KeywordDocument]) -> KeywordStore:
        """Remove memories and add documents; return the index to commit."""

    def files(self) -> dict[str, FileStamp]:
        """Return the states of its files, by name."""

    def candidates(self, query: KeywordQuery) -> list[Segment]:
        """Return the documents that may match a query's terms best, for ``bm25f``."""

    def close(self) -> None:
        """Close open files."""


class Vectors(Protocol):
    """The static vectors of one index's memories."""

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and hash of one passage of each memory, except removed memories."""

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return the passages of the nearest memories and of ``also``, or all passages.

        ``among`` are the memories that the search is limited to; None for no limit.
        """


class VectorStore(Vectors, Protocol):
    """Static vectors to which others can be added."""

    @property
    def file(self) -> VectorFile:
        """The file with the uid and hash of each passage (``static_vector_file``)."""

    def append(
        self, uids: Sequence[int], counts: Sequence[int], hashes: Hashes, vectors: Matrix
    ) -> None:
        """Append the rows of memories; ``counts`` is the number of ``vectors`` of each memory."""


class Backend(Protocol):
    """The place of the keyword index and the static vectors of an index."""

    def open_keyword(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """Open the keyword index of a commit's files in a folder, or an empty one."""

    def create_keyword(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""

    def open_vectors(self, folder: Path, manifest: int) -> VectorStore | None:
        """Open the vectors that belong to a manifest; None if they are missing or incomplete."""

    def create_vectors(self, folder: Path, card: VectorCard) -> VectorStore:
        """Create an empty store of vectors."""

    def delete_vectors(self, manifest: int, uids: Sequence[int]) -> None:
        """Delete the vectors of removed memories, unless they are kept until compacted."""


class LocalBackend:
    """Files next to the manifest."""

    def open_keyword(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """Open the keyword index of a commit's files in a folder, or an empty one."""
        return KeywordIndex(folder, files)

    def create_keyword(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""
        return KeywordIndex.create(folder)

    def open_vectors(self, folder: Path, manifest: int) -> VectorStore | None:
        """Open the vectors that belong to a manifest; None if they are missing or incomplete."""
        from memvault.index.vectors.static_vector_file import LocalVectorStore

        return LocalVectorStore.open(folder, manifest)

    def create_vectors(self, folder: Path, card: VectorCard) -> VectorStore:
        """Create an empty store of vectors."""
        from memvault.index.vectors.static_vector_file import LocalVectorStore

        return LocalVectorStore.create(folder, card)

    def delete_vectors(self, manifest: int, uids: Sequence[int]) -> None:
        """Do nothing: vectors of removed memories are kept until they are compacted."""


LOCAL = LocalBackend()
