"""What an index is put together from: where its words are looked up, and where its vectors.

Manifest and sentences always lie on this machine. Words and vectors lie beside them, or in an
engine that several machines share.
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
from memvault.index.protocol import KeywordAnswer, KeywordQuery
from memvault.index.text.bm25f import KeywordDocument

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class KeywordStore(Protocol):
    """A keyword index of one commit."""

    @property
    def stores_records(self) -> bool:
        """Whether others follow it, so that a memory whose record changes is sent anew."""

    def apply(
        self, removed: Iterable[int], added: Sequence[KeywordDocument], merge: bool = False
    ) -> None:
        """Take out memories and put in documents."""

    def files(self) -> dict[str, FileStamp]:
        """Return the states of the files that it is made of, by their names."""

    def deleted_share(self) -> float:
        """Return the share of what it holds that is of use no more."""

    def search(
        self,
        query: KeywordQuery,
        lengths: Mapping[str, float],
        overlay: Sequence[KeywordDocument],
    ) -> KeywordAnswer:
        """Return the best memories for a query's words."""

    def close(self) -> None:
        """Let go of what is open."""


class KeywordStoreOpener(Protocol):
    """Opens words by the folder of their files."""

    def __call__(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:
        """Open those of a commit's files in a folder, or none."""

    def create(self, folder: Path) -> KeywordStore:
        """Begin with none in an empty folder."""


class VectorStore(Protocol):
    """The quick vectors of one index's memories."""

    card: VectorCard

    @property
    def is_unchanged(self) -> bool:
        """Whether they can be searched at once."""

    def write_card(self) -> None:
        """Say on disk how they are now."""

    def append(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        hashes: npt.NDArray[np.uint64],
        vectors: Matrix,
    ) -> None:
        """Add memories' rows."""

    def remove(self, uids: Sequence[int]) -> None:
        """Take out the rows of memories that are gone, where they do not wait for ``compact``."""

    def passages(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Return whose each row is, and the hash of its text."""

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and the hash of one passage of each memory; some may be gone."""

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return the passages of the nearest memories and of ``also``, or of all.

        ``among`` are those that a search is limited to, where it is.
        """

    def dead(self, alive: Set[int]) -> float:
        """Return the share of rows whose memory is gone."""

    def compact(self, alive: Set[int]) -> None:
        """Drop the rows of memories that are gone."""


class VectorStoreOpener(Protocol):
    """Opens vectors by the folder of their files."""

    def open(self, folder: Path, manifest: int) -> VectorStore | None:
        """Open those of a manifest, if they are whole."""

    def create(self, folder: Path, card: VectorCard) -> VectorStore:
        """Begin with none."""

    def empty(self, folder: Path, card: VectorCard) -> VectorStore:
        """Return none, which are never written."""


class WhooshOpener:
    """The words in Whoosh's files."""

    def __call__(self, folder: Path | None, files: Iterable[str]) -> KeywordStore:  # noqa: ARG002 - Whoosh knows
        """Open those of a folder, or none."""
        return KeywordIndex(folder)

    def create(self, folder: Path) -> KeywordStore:
        """Begin with none in an empty folder."""
        return KeywordIndex.create(folder)


class FlatVectorOpener:
    """The vectors in flat files."""

    def open(self, folder: Path, manifest: int) -> VectorStore | None:
        """Open those of a manifest, if they are whole."""
        return StaticVectorFile.open(folder, manifest)

    def create(self, folder: Path, card: VectorCard) -> VectorStore:
        """Begin with none."""
        return StaticVectorFile.create(folder, card)

    def empty(self, folder: Path, card: VectorCard) -> VectorStore:
        """Return none, which are never written."""
        return StaticVectorFile(folder, card)


class Backend(NamedTuple):
    """Where words and vectors lie."""

    words: KeywordStoreOpener = WhooshOpener()
    vectors: VectorStoreOpener = FlatVectorOpener()


LOCAL = Backend()
"""In files beside the manifest."""
