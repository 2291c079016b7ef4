"""The static vectors of every memory's passages, stored by uid.

The rows of a memory are adjacent and in passage order. Uids only increase, so memories with a uid
above the last row are not embedded yet. Rows of removed memories remain until ``compact``. Each row
has the hash of its passage's text, which is also the key of its transformer vector
(``transformer_vectors``). The card has the identity of the manifest to which the uids belong. If
the vectors are in an engine, the file has only uids and hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from memvault.index.embedding.arrays import Hashes, Integers, Matrix
from memvault.index.vectors.nearest import ScoredPassages, is_in
from memvault.index.vectors.vector_file import VectorCard, VectorFile

COLUMNS = (("uids", "i64"), ("hashes", "u64"))


def append_rows(
    file: VectorFile, uids: Sequence[int], counts: Sequence[int], hashes: Hashes, vectors: Matrix
) -> None:
    """Append the rows of memories; ``counts`` has the number of ``vectors`` of each memory.

    Uids must be ascending and above the last one.
    """
    file.append(vectors, np.repeat(np.asarray(uids, np.int64), counts), hashes, last_uid=uids[-1])


def passages(file: VectorFile) -> tuple[Integers, Hashes]:
    """Return the uid of each row's memory, and the hash of its text."""
    _, (uids, hashes) = file.load()
    return uids, hashes


def memories(file: VectorFile) -> int:
    """Return the number of memories with rows, including removed ones."""
    uids, _ = passages(file)
    return int(np.count_nonzero(uids[1:] != uids[:-1])) + bool(len(uids))


def compact(file: VectorFile, alive: Set[int]) -> None:
    """Drop the rows of removed memories."""
    rows, (uids, hashes) = file.load()
    is_alive = is_in(uids, alive)
    file.replace(rows.select(is_alive), uids[is_alive], hashes[is_alive])


class LocalVectorStore(NamedTuple):
    """The static vectors of one index's memories, in a file on this machine."""

    file: VectorFile

    @classmethod
    def open(cls, folder: Path, manifest: int) -> Self | None:
        """Open the vectors of a manifest; None if they are missing or incomplete."""
        file = VectorFile.open(folder, COLUMNS, manifest)
        return cls(file) if file is not None else None

    @classmethod
    def create(cls, folder: Path, card: VectorCard) -> Self:
        """Create an empty store."""
        return cls(VectorFile.create(folder, card, COLUMNS))

    def append(
        self, uids: Sequence[int], counts: Sequence[int], hashes: Hashes, vectors: Matrix
    ) -> None:
        """Append the rows of memories."""
        append_rows(self.file, uids, counts, hashes, vectors)

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """See ``Vectors.rows_of``."""
        rows, (uids, hashes) = self.file.load()
        asked_uids = np.array(list(passages), np.int64)
        positions = np.searchsorted(uids, asked_uids) + np.array(list(passages.values()), np.int64)
        is_stored = positions < np.searchsorted(uids, asked_uids + 1)
        positions = positions[is_stored]
        vectors = zip(rows.decode(positions), hashes[positions], strict=True)
        return dict(zip(asked_uids[is_stored].tolist(), vectors, strict=True))

    def search(
        self,
        query: Matrix,
        limit: int,  # noqa: ARG002  # all rows are scored
        also: Set[int],  # noqa: ARG002  # all rows are scored
        among: Set[int] | None,  # noqa: ARG002  # all rows are scored
    ) -> ScoredPassages:
        """Return all passages with their cosines to a query, since a full scan is fast."""
        rows, (uids, hashes) = self.file.load()
        return ScoredPassages(uids, hashes, rows.cosines(query))
