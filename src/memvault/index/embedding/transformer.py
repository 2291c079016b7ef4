"""The built-in deep embedder: a transformer of 8-bit integers that comes with the package.

Passages are embedded through fastembed. A query is not: importing fastembed
takes most of a second, ONNX Runtime alone a tenth of that. Both doors give the
same vectors, because the model's graph was optimised when it was made, and
because each text runs alone: the integers of a batch depend on all of its texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.errors import EmbedderError
from memvault.index.embedding.embedder import BUILTIN, MODELS, Calibration, fingerprint_of

if TYPE_CHECKING:
    from memvault.index.embedding.embedder import Matrix
    from memvault.index.embedding.onnx_model import OnnxEmbedder
    from memvault.index.embedding.query_session import QuerySession

DATA = Path(__file__).resolve().parents[2] / "data" / "deep"
_MOST_WORKERS = 4
_AGAIN = "pip install --force-reinstall memvault"


def read_card() -> dict[str, Any]:
    """Return what is known of the model without loading it.

    Raises:
        EmbedderError: it is not there.
    """
    try:
        card: dict[str, Any] = json.loads((DATA / "card.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise EmbedderError(f"The built-in model cannot be read: {error}", _AGAIN) from error
    return card


def read_calibration() -> Calibration:
    """Return what the model's cosines mean; errors as for ``read_card``."""
    return Calibration.of(read_card())


class BuiltinTransformer:
    """The model in the package; each of its two doors is opened when it is first used, for all."""

    name = BUILTIN

    def __init__(self) -> None:
        card = read_card()
        if not (DATA / "model.onnx").is_file():
            raise EmbedderError("The built-in model is not in the package", _AGAIN)
        self._tokens = int(card["tokens"])
        self.version = str(card["version"])
        self.dimension = int(card["dimension"])
        self.calibration = read_calibration()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension).

        Each processor works on a text of its own: two that share one spend half
        of their time waiting for each other.
        """
        import numpy as np

        workers = min(_MOST_WORKERS, os.cpu_count() or 1, len(texts))
        if workers < 2:
            return self._passages.embed(texts)
        from concurrent.futures import ThreadPoolExecutor

        model = self._passages
        found = np.empty((len(texts), self.dimension), np.float32)
        with ThreadPoolExecutor(workers) as pool:
            parts = [texts[start::workers] for start in range(workers)]
            for start, rows in enumerate(pool.map(model.embed, parts)):
                found[start::workers] = rows
        return found

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector, shape (dimension,)."""
        return self._queries.embed(text)

    @cached_property
    def _passages(self) -> OnnxEmbedder:
        from memvault.index.embedding.onnx_model import OnnxEmbedder

        return MODELS.get(
            ("passages", fingerprint_of(DATA)),
            lambda: OnnxEmbedder(BUILTIN, None, batch=1, threads=1),
        )

    @cached_property
    def _queries(self) -> QuerySession:
        from memvault.index.embedding.query_session import QuerySession

        return MODELS.get(
            ("queries", fingerprint_of(DATA)),
            lambda: QuerySession(DATA / "model.onnx", self._tokens),
        )
