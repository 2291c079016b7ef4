"""The static vectors of one vault's memories, stored in Milvus.

The uid and the text's hash of each passage are also kept on this machine, as the local index keeps
them: computing transformer vectors needs all of them, and so needs no engine. A search in the
engine returns the memories with the nearest passages. All passages of these are then fetched and
compared here, so that a memory's cosine is that of its nearest passage, as in the local index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from memvault.index.local.nearest import ScoredPassages
from memvault.index.local.static_vector_file import StaticVectorFile
from memvault.index.local.vectors import VectorCard
from memvault.index.milvus.client import EngineClient, Row, pushdown_keys

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

_PASSAGES_PER_MEMORY = 4
"""Passages to search for each memory wanted, as one memory may have several near ones."""
_PLACEHOLDER_DIMENSION = 1
"""The dimension of the rows kept here, which stand in for vectors in the engine."""


class MilvusVectorStore(StaticVectorFile):
    """The vectors of one index's memories: placeholder rows here, and the vectors in the engine.

    The rows of one manifest are one generation in the engine, so rows that are uploaded again
    replace the earlier ones.
    """

    engine: EngineClient
    vault: str

    @classmethod
    def at(cls, engine: EngineClient, vault: str, folder: Path, manifest: int) -> Self | None:
        """Open the vectors of a manifest; None if there are none."""
        found = cls.open(folder, manifest)
        return found.by(engine, vault) if found is not None else None

    @classmethod
    def begun(cls, engine: EngineClient, vault: str, folder: Path, card: VectorCard) -> Self:
        """Create an empty store."""
        return cls.create(folder, card._replace(dimension=_PLACEHOLDER_DIMENSION)).by(engine, vault)

    def by(self, engine: EngineClient, vault: str) -> Self:
        """Set the engine and the vault id, and return the store itself."""
        self.engine, self.vault = engine, vault
        return self

    @property
    def generation(self) -> str:
        """The generation of its rows in the engine."""
        return f"{self.card.manifest:x}"

    def append(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        hashes: npt.NDArray[np.uint64],
        vectors: Matrix,
    ) -> None:
        """Upload the rows of memories, and then record their uids and hashes here."""
        import numpy as np

        rows: list[Row] = []
        for uid, count in zip(uids, counts, strict=True):
            for passage in range(count):
                place = len(rows)
                rows.append(
                    {
                        "id": f"{self.vault}-{self.generation}-{uid}-{passage}",
                        "vault": self.vault,
                        "generation": self.generation,
                        "uid": uid,
                        "passage": passage,
                        "hash": int(hashes[place].astype("int64")),
                        "dense": vectors[place].tolist(),
                    }
                )
        self.remove(uids)  # an interrupted attempt may have left rows of other texts
        self.engine.put("passages", rows, lambda _: None)
        super().append(
            uids, counts, hashes, np.zeros((len(rows), _PLACEHOLDER_DIMENSION), dtype=np.float32)
        )

    def remove(self, uids: Sequence[int]) -> None:
        """Delete the vectors of removed memories."""
        for first in range(0, len(uids), 1_000):
            batch = list(uids[first : first + 1_000])
            self.engine.delete("passages", self.vault, self.generation, batch)

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and hash of one passage of each memory, except removed memories."""
        import numpy as np

        found: dict[int, tuple[Matrix, Any]] = {}
        for row in self._rows([uid for uid in passages if uid >= 0]):
            if passages[row["uid"]] == row["passage"]:
                vector = np.array(row["dense"], dtype=np.float32)
                found[row["uid"]] = vector, np.int64(row["hash"]).astype(np.uint64)
        return found

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return all passages of the nearest memories and of ``also``, with their cosines."""
        import numpy as np

        passage_limit = _PASSAGES_PER_MEMORY * max(limit, 1)
        with self.engine.viewing():
            hits = self.engine.nearest(
                self.vault, self.generation, query.tolist(), passage_limit, pushdown_keys(among)
            )
        near = {hit.row["uid"] for hit in hits} | {uid for uid in also if uid >= 0}
        rows = sorted(self._rows(sorted(near)), key=lambda row: (row["uid"], row["passage"]))
        vectors = np.array([row["dense"] for row in rows], dtype=np.float32)
        return ScoredPassages(
            np.array([row["uid"] for row in rows], dtype=np.int64),
            np.array([row["hash"] for row in rows], dtype=np.int64).astype(np.uint64),
            vectors @ query if rows else np.zeros(0, dtype=np.float32),
        )

    def _rows(self, uids: Sequence[int]) -> list[dict[str, Any]]:
        fields = ("uid", "passage", "hash", "dense")
        with self.engine.viewing():
            return list(self.engine.rows("passages", self.vault, self.generation, uids, fields))
