"""The static vectors of one vault's memories, stored in Milvus.

The publisher of a vault searches its local vectors, and uploads them for other machines. The other
machines ask the engine for the memories with the nearest passages, and then fetch and compare all
passages of these memories, so that a memory's cosine is the cosine of its nearest passage, as in
the local index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from memvault.index.embedding.arrays import Matrix, distinct
from memvault.index.local.manifest import Manifest
from memvault.index.milvus.client import EngineClient, pushdown_keys
from memvault.index.milvus.publication import vector_generation
from memvault.index.milvus.text_rows import UploadState, read_upload_state, write_upload_state
from memvault.index.vectors.nearest import ScoredPassages
from memvault.index.vectors.vector_store import VectorStore
from memvault.named_tuple import NamedTuple

_PASSAGES_PER_MEMORY = 4
"""The number of passages to search for per requested memory, because several passages of one may
be close.
"""
_BATCH = 256
_STATE_FILE = "uploaded_vectors.json"


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
        """Return all passages of the nearest memories and of the memories in ``also``.

        Each passage has its cosine similarity.
        """
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


def has_pending(manifest: Manifest, folder: Path) -> bool:
    """Return whether any memory's vectors still have to be uploaded."""
    uids, _ = manifest.passages.all()
    return bool(len(uids)) and int(uids[-1]) > upload_state(manifest, folder).last


def uploaded_generation(manifest: Manifest, folder: Path) -> str:
    """Return the generation of the uploaded vectors, or an empty string if there are none."""
    uploaded = upload_state(manifest, folder)
    return uploaded.generation if uploaded.last else ""


def upload(
    engine: EngineClient, vault: str, manifest: Manifest, store: VectorStore, folder: Path
) -> None:
    """Upload the vectors that were not uploaded yet, lowest uid first.

    ``folder`` stores the state of the upload. Nothing is uploaded while any passage lacks a vector;
    the refresh that computes the last one uploads them all.
    """
    passages, uploaded = manifest.passages.all(), upload_state(manifest, folder)
    uids, hashes = passages
    rows = store.row_numbers(hashes)
    pending = distinct(uids[uids > uploaded.last]).tolist() if (rows >= 0).all() else []
    columns = uids, passages.numbers, hashes.astype(np.int64)
    for start in range(0, len(pending), _BATCH):
        batch = pending[start : start + _BATCH]
        part = slice(*np.searchsorted(uids, [batch[0], batch[-1] + 1]).tolist())
        values = (column[part].tolist() for column in columns)
        # An interrupted attempt may have left rows with stale passages.
        engine.delete("passages", vault, uploaded.generation, batch)
        engine.upsert(
            "passages",
            [
                {
                    "id": f"{vault}-{uploaded.generation}-{uid}-{passage}",
                    "vault": vault,
                    "generation": uploaded.generation,
                    "uid": uid,
                    "passage": passage,
                    "hash": text_hash,
                    "dense": vector.tolist(),
                }
                for uid, passage, text_hash, vector in zip(
                    *values, store.rows(rows[part]), strict=True
                )
            ],
            lambda _: None,
        )
        uploaded = uploaded._replace(last=batch[-1])
        write_upload_state(folder / _STATE_FILE, uploaded)


def upload_state(manifest: Manifest, folder: Path) -> UploadState:
    """Return the upload state of a manifest's vectors, whose rows form one generation."""
    generation, uploaded = (
        vector_generation(manifest.identity()),
        read_upload_state(folder / _STATE_FILE),
    )
    return uploaded if uploaded.generation == generation else UploadState(generation)
