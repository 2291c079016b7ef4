"""The static vectors of one vault's memories, stored in Milvus.

The uid and text hash of each passage are also stored on this machine, so that transformer vectors
can be computed without the engine. The engine returns the memories with the nearest passages. All
passages of these memories are then fetched and compared here, so that a memory's cosine is the
cosine of its nearest passage, as in the local index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from memvault.index.embedding.arrays import Hashes, Matrix
from memvault.index.milvus.client import EngineClient, Row, pushdown_keys
from memvault.index.milvus.publication import vector_generation
from memvault.index.vectors.nearest import ScoredPassages
from memvault.index.vectors.static_vector_file import COLUMNS, append_rows
from memvault.index.vectors.vector_file import VectorCard, VectorFile

_PASSAGES_PER_MEMORY = 4
"""Passages to search for per requested memory, since a memory may have several near ones."""


class MilvusVectors(NamedTuple):
    """The vectors of one generation in the engine."""

    engine: EngineClient
    vault: str
    generation: str

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """See ``Vectors.rows_of``."""
        vectors: dict[int, tuple[Matrix, Any]] = {}
        for row in self._rows([uid for uid in passages if uid >= 0]):
            if passages[row["uid"]] == row["passage"]:
                vector = np.array(row["dense"], dtype=np.float32)
                vectors[row["uid"]] = vector, np.int64(row["hash"]).astype(np.uint64)
        return vectors

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return all passages of the nearest memories and of ``also``, with their cosines."""
        passage_limit = _PASSAGES_PER_MEMORY * max(limit, 1)
        with self.engine.deadlines.search():
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
        with self.engine.deadlines.search():
            return list(self.engine.rows("passages", self.vault, self.generation, uids, fields))


class MilvusVectorStore(NamedTuple):
    """The vectors of one index's memories in the engine; the local file has only their columns.

    The rows of one manifest are one generation in the engine, so repeated uploads replace the
    earlier rows.
    """

    file: VectorFile
    stored: MilvusVectors

    @classmethod
    def open(cls, engine: EngineClient, vault: str, folder: Path, manifest: int) -> Self | None:
        """Open the vectors of a manifest; None if there are none."""
        file = VectorFile.open(folder, COLUMNS, manifest)
        return cls(file, _vectors(engine, vault, file)) if file is not None else None

    @classmethod
    def create(cls, engine: EngineClient, vault: str, folder: Path, card: VectorCard) -> Self:
        """Create an empty store."""
        file = VectorFile.create(folder, card._replace(dimension=0), COLUMNS)
        return cls(file, _vectors(engine, vault, file))

    def append(
        self, uids: Sequence[int], counts: Sequence[int], hashes: Hashes, vectors: Matrix
    ) -> None:
        """Upload the rows of memories, then record their uids and hashes locally."""
        engine, vault, generation = self.stored
        rows: list[Row] = []
        for uid, count in zip(uids, counts, strict=True):
            for passage in range(count):
                number = len(rows)
                rows.append(
                    {
                        "id": f"{vault}-{generation}-{uid}-{passage}",
                        "vault": vault,
                        "generation": generation,
                        "uid": uid,
                        "passage": passage,
                        "hash": int(hashes[number].astype("int64")),
                        "dense": vectors[number].tolist(),
                    }
                )
        # An interrupted attempt may have left rows of other texts.
        engine.delete("passages", vault, generation, uids)
        engine.upsert("passages", rows, lambda _: None)
        placeholders = np.zeros((len(rows), self.file.card.dimension), dtype=np.float32)
        append_rows(self.file, uids, counts, hashes, placeholders)

    def rows_of(self, passages: Mapping[int, int]) -> dict[int, tuple[Matrix, int]]:
        """See ``Vectors.rows_of``."""
        return self.stored.rows_of(passages)

    def search(
        self, query: Matrix, limit: int, also: Set[int], among: Set[int] | None
    ) -> ScoredPassages:
        """Return all passages of the nearest memories and of ``also``, with their cosines."""
        return self.stored.search(query, limit, also, among)


def _vectors(engine: EngineClient, vault: str, file: VectorFile) -> MilvusVectors:
    return MilvusVectors(engine, vault, vector_generation(file.card.manifest))
