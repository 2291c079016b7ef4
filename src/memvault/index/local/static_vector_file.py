"""The static vectors of every memory's passages, stored by uid.

The rows of a memory are adjacent and in the order of its passages. uids only increase, so the
memories that are not embedded yet are those with a uid above the last. Rows of removed memories
remain until ``compact``. Each row has the hash of its passage's text, by which transformer vectors
are found (``transformer_vectors``). The card holds the identity of the manifest that the uids
belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, ClassVar

from memvault.index.local.nearest import ScoredPassages, is_in
from memvault.index.local.vectors import VectorFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]


class StaticVectorFile(VectorFile):
    """The static vectors of one index's memories, in flat files."""

    columns: ClassVar = (("uids", "i64"), ("hashes", "u64"))

    def append(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        hashes: npt.NDArray[np.uint64],
        vectors: Matrix,
    ) -> None:
        """Append the rows of memories; ``counts`` is the number of ``vectors`` of each memory.

        uids must be ascending and above the last one.
        """
        import numpy as np

        self.extend(vectors, np.repeat(np.asarray(uids, dtype=np.int64), counts), hashes)
        self.card = self.card._replace(last_uid=int(uids[-1]))
        self.write_card()

    def remove(self, uids: Sequence[int]) -> None:
        """Do nothing: rows of removed memories are kept until they are compacted."""

    def passages(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Return the uid of each row's memory, and the hash of its text."""
        _, (uids, hashes) = self.load()
        return uids, hashes

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and hash of one passage of each memory, except removed memories."""
        import numpy as np

        rows, (uids, hashes) = self.load()
        found = {}
        for uid, number in passages.items():
            first, end = np.searchsorted(uids, (uid, uid + 1))
            if first + number < end:
                found[uid] = rows[first + number], hashes[first + number]
        return found

    def search(
        self,
        query: Matrix,
        limit: int,  # noqa: ARG002
        also: Set[int],  # noqa: ARG002
        among: Set[int] | None,  # noqa: ARG002
    ) -> ScoredPassages:
        """Return all passages with their cosines to a query, which is fast enough."""
        rows, (uids, hashes) = self.load()
        return ScoredPassages(uids, hashes, rows @ query)

    def dead(self, alive: Set[int]) -> float:
        """Return the share of rows whose memory was removed."""
        _, (uids, _) = self.load()
        return 1.0 - float(is_in(uids, alive).mean()) if len(uids) else 0.0

    def compact(self, alive: Set[int]) -> None:
        """Drop the rows of removed memories."""
        rows, (uids, hashes) = self.load()
        is_alive = is_in(uids, alive)
        self.replace(rows[is_alive], uids[is_alive], hashes[is_alive])
