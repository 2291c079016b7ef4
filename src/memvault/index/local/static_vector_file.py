"""The quick vectors: the built-in table's of every memory's passages, kept by uid.

A memory's rows are neighbours in its passages' order, and uids only rise, so
"what is not embedded yet" is every memory with a uid above the last. Rows of
memories that are gone stay until ``compact``. Beside each row stands the hash of
its passage's text, by which deep vectors are found (``deep_vectors``). The card
holds the identity of the manifest whose uids they are.
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
    """The vectors of one index's memories."""

    columns: ClassVar = (("uids", "i64"), ("hashes", "u64"))

    def append(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        hashes: npt.NDArray[np.uint64],
        vectors: Matrix,
    ) -> None:
        """Add memories' rows; ``counts`` says how many of ``vectors`` each memory has.

        uids must rise and lie above the last.
        """
        import numpy as np

        self.extend(vectors, np.repeat(np.asarray(uids, dtype=np.int64), counts), hashes)
        self.card = self.card._replace(last_uid=int(uids[-1]))
        self.write_card()

    def remove(self, uids: Sequence[int]) -> None:
        """Leave the rows of memories that are gone until they are compacted."""

    def passages(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
        """Return whose each row is, and the hash of its text."""
        _, (uids, hashes) = self.load()
        return uids, hashes

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and the hash of one passage of each memory; some may be gone."""
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
        """Return all passages with their cosines to a query: that is quick enough."""
        rows, (uids, hashes) = self.load()
        return ScoredPassages(uids, hashes, rows @ query)

    def dead(self, alive: Set[int]) -> float:
        """Return the share of rows whose memory is gone."""
        _, (uids, _) = self.load()
        return 1.0 - float(is_in(uids, alive).mean()) if len(uids) else 0.0

    def compact(self, alive: Set[int]) -> None:
        """Drop the rows of memories that are gone."""
        rows, (uids, hashes) = self.load()
        kept = is_in(uids, alive)
        self.replace(rows[kept], uids[kept], hashes[kept])
