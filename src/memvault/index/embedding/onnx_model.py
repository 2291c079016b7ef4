"""Any ONNX sentence-embedding model, through fastembed: one it knows, or a local folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.index.embedding.embedder import normalize
from memvault.index.embedding.fastembed_models import EMBEDDING, load, map_model_errors

if TYPE_CHECKING:
    from memvault.index.embedding.embedder import Matrix

_BATCH = 16
"""Texts at once, unless the model's vectors depend on their neighbours."""


class OnnxEmbedder:
    """A transformer run by ONNX Runtime on the processor."""

    calibration = None  # index/calibrate.py finds it

    def __init__(
        self,
        name: str,
        root: Path | None,
        download: bool = False,
        batch: int = _BATCH,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self._batch = batch
        self._model, self.version = load(EMBEDDING, name, root, download, threads)
        with map_model_errors(EMBEDDING, name):
            self.dimension = len(next(iter(self._model.embed(["dimension"]))))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension)."""
        import numpy as np

        with map_model_errors(EMBEDDING, self.name):
            rows = list(self._model.passage_embed(list(texts), batch_size=self._batch))
        if not rows:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return normalize(np.asarray(rows, dtype=np.float32))

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, shape (dimension,), with the model's own query prefix."""
        import numpy as np

        with map_model_errors(EMBEDDING, self.name):
            row = next(iter(self._model.query_embed(text)))
        vector: Matrix = normalize(np.asarray([row], dtype=np.float32))[0]
        return vector
