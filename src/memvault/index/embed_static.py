"""The built-in embedder: a table of token vectors, no model to load, no network.

A text's vector is the normalised sum of its tokens' rows. The table and the
tokenizer come with the package; ``scripts/train_static_embedder.py`` makes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memvault.errors import EmbedderError
from memvault.index.embed import BUILTIN, Calibration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

__all__ = ["DATA", "StaticEmbedder", "read_card"]

DATA = Path(__file__).resolve().parents[1] / "data" / "embedder"
_BATCH = 64


def read_card(folder: Path = DATA) -> dict[str, Any]:
    """Return what is known of the table without loading it: name, version, dimension, constants.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    card: dict[str, Any] = json.loads((folder / "card.json").read_text("utf-8"))
    return card


class StaticEmbedder:
    """Token vectors as 8-bit integers with one scale a row, shape (vocabulary, dimension)."""

    name = BUILTIN

    def __init__(self, folder: Path = DATA) -> None:
        import numpy as np
        from tokenizers import Tokenizer

        try:
            card = read_card(folder)
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            mapped = np.load(folder / "table.npy", mmap_mode="r")
            self._table: npt.NDArray[np.int8] = np.asarray(mapped)
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

        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            for place, encoding in enumerate(
                self._tokenizer.encode_batch_fast(batch, add_special_tokens=False), start
            ):
                ids = np.asarray(encoding.ids, dtype=np.int64)
                # One product a text: np.add.reduceat over a whole batch took eight times as long.
                sums[place] = self._scales[ids] @ self._table[ids].astype(np.float32)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        vectors: Matrix = (sums / np.maximum(lengths, 1e-12)).astype(np.float32)
        return vectors

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector; shape (dimension,)."""
        vector: Matrix = self.embed([text])[0]
        return vector
