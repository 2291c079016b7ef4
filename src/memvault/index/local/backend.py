"""The parts that an index is composed of: a keyword index and a store of static vectors.

The manifest and the subwords of sentences are always on this machine. The keyword index and the
vectors are either next to them or in an engine that several machines share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memvault.files.file_stamps import FileStamp
from memvault.index.local.keyword import KeywordIndex
from memvault.index.local.nearest import ScoredPassages
from memvault.index.local.static_vector_file import StaticVectorFile
from memvault.index.local.vectors import VectorCard
from memvault.index.protocol import KeywordQuery
from memvault.index.text.bm25f import KeywordDocument, Segment

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class KeywordStore(Protocol):
    """A keyword index of one commit."""

    @property
    def stores_records(self) -> bool:
        """Whether others read it, so that memories whose records change must be sent again."""

    def apply(
        self, removed: Iterable[int], added: Sequence[KeywordDocument], merge: bool = False
    ) -> None:
        """Remove memories and add documents."""

    def files(self) -> dict[str, FileStamp]:
        """Return the states of its files, by name."""

    def deleted_share(self) -> float:
        """Return the share of its documents that are deleted."""

    def candidates(self, query: KeywordQuery) -> list[Segment]:
        """Return the documents that may match a query's terms best, for ``bm25f``."""

    def close(self) -> None:
        """Close open files."""


class KeywordStoreOpener(Protocol):
    """A factory of keyword indexes by the folder of their files."""

    def __call__(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """Open the keyword index of a commit's files in a folder, or an empty one."""

    def create(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""


class VectorStore(Protocol):
    """The static vectors of one index's memories."""

    card: VectorCard

    @property
    def is_unchanged(self) -> bool:
        """Whether the files are as the card describes and can be searched at once."""

    def write_card(self) -> None:
        """Write the card with the current states of the files."""

    def append(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        hashes: npt.NDArray[np.uint64],
        vectors: Matrix,
    ) -> None:
        """Add the rows of memories."""

    def remove(self, uids: Sequence[int]) -> None:
        """Remove the rows of removed memories, unless they are kept until ``compact``."""

    def passages(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Return the uid of each row's memory, and the hash of its text."""

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and hash of one passage of each memory, except removed memories."""

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return the passages of the nearest memories and of ``also``, or all passages.

        ``among`` are the memories that the search is limited to; None for no limit.
        """

    def dead(self, alive: Set[int]) -> float:
        """Return the share of rows whose memory was removed."""

    def compact(self, alive: Set[int]) -> None:
        """Drop the rows of removed memories."""


class VectorStoreOpener(Protocol):
    """A factory of vector stores by the folder of their files."""

    def open(self, folder: Path, manifest: int) -> VectorStore | None:
        """Open the vectors that belong to a manifest; None if they are missing or incomplete."""

    def create(self, folder: Path, card: VectorCard) -> VectorStore:
        """Create an empty store."""

    def empty(self, folder: Path, card: VectorCard) -> VectorStore:
        """Return an empty store that is never written."""


class WhooshOpener:
    """A factory of keyword indexes in Whoosh's files."""

    def __call__(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:  # noqa: ARG002 - Whoosh finds its files
        """Open the keyword index in a folder, or an empty one."""
        return KeywordIndex(folder)

    def create(self, folder: Path) -> KeywordStore:
        """Create an empty keyword index in an empty folder."""
        return KeywordIndex.create(folder)


class FlatVectorOpener:
    """A factory of vector stores in flat files."""

    def open(self, folder: Path, manifest: int) -> VectorStore | None:
        """Open the vectors that belong to a manifest; None if they are missing or incomplete."""
        return StaticVectorFile.open(folder, manifest)

    def create(self, folder: Path, card: VectorCard) -> VectorStore:
        """Create an empty store."""
        return StaticVectorFile.create(folder, card)

    def empty(self, folder: Path, card: VectorCard) -> VectorStore:
        """Return an empty store that is never written."""
        return StaticVectorFile(folder, card)


class Backend(NamedTuple):
    """The factories of an index's keyword index and static vectors."""

    words: KeywordStoreOpener = WhooshOpener()
    vectors: VectorStoreOpener = FlatVectorOpener()


LOCAL = Backend()
"""Files next to the manifest."""
