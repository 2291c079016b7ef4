"""The built-in embedder: a table of token vectors, no model to load, no network.

A text's vector is the normalised sum of its tokens' rows. The table and the
tokenizer come with the package; ``scripts/build_static_embedder.py`` makes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memvault.errors import EmbedderError
from memvault.index.embed import BUILTIN, Calibration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

__all__ = ["DATA", "StaticEmbedder"]

DATA = Path(__file__).resolve().parents[1] / "data" / "embedder"
_BATCH_TOKENS = 16_384


class StaticEmbedder:
    """Token vectors as 8-bit integers with one scale a row, shape (vocabulary, dimension)."""

    name = BUILTIN

    def __init__(self, folder: Path = DATA) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import numpy as np
        from tokenizers import Tokenizer

        try:
            card = json.loads((folder / "card.json").read_text("utf-8"))
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._table: npt.NDArray[np.int8] = np.load(folder / "table.npy", mmap_mode="r")
            self._scales: Matrix = np.load(folder / "scales.npy")
        except Exception as error:  # tokenizers raises plain Exception
            raise EmbedderError(
                f"The built-in embedder cannot be loaded: {error}",
                "pip install --force-reinstall memvault",
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.version = str(card["version"])
        self.dimension = int(card["dimension"])
        self.calibration = Calibration(float(card["slope"]), float(card["midpoint"]))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension); of a text without a token, zeros."""
        import numpy as np

        parts = [self._sums(batch) for batch in self._batches(texts)]
        if not parts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        sums = np.concatenate(parts)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        vectors: Matrix = (sums / np.maximum(lengths, 1e-12)).astype(np.float32)
        return vectors

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector; shape (dimension,)."""
        vector: Matrix = self.embed([text])[0]
        return vector

    def _batches(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        """Yield token ids of texts, few enough together to be gathered in a small matrix."""
        batch: list[list[int]] = []
        held = 0
        for start in range(0, len(texts), 64):
            encodings = self._tokenizer.encode_batch(
                list(texts[start : start + 64]), add_special_tokens=False
            )
            for encoding in encodings:
                ids = encoding.ids
                if batch and held + len(ids) > _BATCH_TOKENS:
                    yield batch
                    batch, held = [], 0
                batch.append(ids)
                held += len(ids)
        if batch:
            yield batch

    def _sums(self, batch: list[list[int]]) -> Matrix:
        import numpy as np

        sums = np.zeros((len(batch), self.dimension), dtype=np.float32)
        filled = [place for place, ids in enumerate(batch) if ids]
        if not filled:
            return sums
        flat = np.concatenate([np.asarray(batch[place], dtype=np.int64) for place in filled])
        starts = np.cumsum([0, *(len(batch[place]) for place in filled[:-1])])
        rows = self._table[flat].astype(np.float32) * self._scales[flat, None]
        sums[filled] = np.add.reduceat(rows, starts, axis=0)
        return sums
