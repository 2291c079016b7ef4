"""The quick vectors of one vault's memories in Milvus.

Whose each passage is, and the hash of its text, is kept on this machine as the local engine keeps
it: who makes deep vectors asks for all of them, and needs no engine for that. A search gives the
memories with the nearest passages; of those all passages are fetched and measured here, so that
a memory's cosine is that of its nearest passage, as in the local engine.
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

_TIMES = 4
"""Passages that are searched for each memory that is wanted: one memory may have several near."""
_NOTHING = 1
"""Numbers in a row that is kept here, where the vector itself is not."""


class MilvusVectorStore(StaticVectorFile):
    """The vectors of one index's memories; each row here is empty, and its vector in the engine.

    The rows of one manifest are a generation there, so those that are sent again take the
    place of those that were.
    """

    engine: EngineClient
    vault: str

    @classmethod
    def at(cls, engine: EngineClient, vault: str, folder: Path, manifest: int) -> Self | None:
        """Open those of a manifest; None where there are none."""
        found = cls.open(folder, manifest)
        return found.by(engine, vault) if found is not None else None

    @classmethod
    def begun(cls, engine: EngineClient, vault: str, folder: Path, card: VectorCard) -> Self:
        """Begin with none."""
        return cls.create(folder, card._replace(dimension=_NOTHING)).by(engine, vault)

    def by(self, engine: EngineClient, vault: str) -> Self:
        """Return itself, with where its vectors are."""
        self.engine, self.vault = engine, vault
        return self

    @property
    def generation(self) -> str:
        """Which rows of the engine are these."""
        return f"{self.card.manifest:x}"

    def append(
        self,
        uids: Sequence[int],
        counts: Sequence[int],
        hashes: npt.NDArray[np.uint64],
        vectors: Matrix,
    ) -> None:
        """Send memories' rows, and then keep whose they are."""
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
        self.remove(uids)  # an attempt that was cut off may have left some of other texts
        self.engine.put("passages", rows, lambda _: None)
        super().append(uids, counts, hashes, np.zeros((len(rows), _NOTHING), dtype=np.float32))

    def remove(self, uids: Sequence[int]) -> None:
        """Delete the vectors of memories that are gone."""
        for first in range(0, len(uids), 1_000):
            among = list(uids[first : first + 1_000])
            self.engine.delete("passages", self.vault, self.generation, among)

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """Return the vector and the hash of one passage of each memory; some may be gone."""
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

        most = _TIMES * max(limit, 1)
        with self.engine.viewing():
            hits = self.engine.nearest(
                self.vault, self.generation, query.tolist(), most, pushdown_keys(among)
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
