"""The built-in embedder: static vectors from a subword table, without a model or network access.

A text's vector is the normalized sum of its subwords' rows. The table and the tokenizer are part of
the package; ``training/train_static_embedder.py`` generates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from memvault import threads
from memvault.errors import EmbedderError
from memvault.index.embedding.arrays import Integers, Matrix, normalize
from memvault.index.embedding.embedder import (
    BUILTIN,
    MODELS,
    fingerprint_of,
    read_card,
    reinstall_hint,
)
from memvault.index.embedding.wordpiece import DATA, open_wordpiece

if TYPE_CHECKING:
    import numpy.typing as npt

Subwords = np.ndarray[Any, np.dtype[np.uint16]]
"""The type of subword ids; a WordPiece vocabulary has about 30,000."""
_BATCH = 64
_MIN_ROWS = 32


def open_table() -> StaticEmbedder:
    """Return the built-in embedder, loaded once per process; raises ``EmbedderError``."""
    return MODELS.get(("table", fingerprint_of(DATA)), StaticEmbedder)


class StaticEmbedder:
    """Subword vectors as 8-bit integers with one scale per row, shape (vocabulary, dimension)."""

    name = BUILTIN

    def __init__(self, folder: Path = DATA) -> None:
        card = read_card(folder)
        self._wordpiece = open_wordpiece(folder)
        self._unknown = self._wordpiece.unknown
        try:
            mapped = np.load(folder / "table.npy", mmap_mode="r")
            self._table: npt.NDArray[np.int8] = np.asarray(mapped)
            self._scales: Matrix = np.load(folder / "scales.npy")
        except Exception as error:
            raise EmbedderError(
                f"The built-in embedder cannot be loaded: {error}", reinstall_hint(error)
            ) from error
        self.version = card.version
        self.dimension = card.dimension
        self.calibration = card.calibration

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return unit vectors, shape (len(texts), dimension); zero for texts without subwords."""
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            for number, ids in enumerate(self._ids(batch), start):
                # One product per text, because np.add.reduceat over a whole batch takes eight times
                # as long.
                sums[number] = self._sum(ids)
        return normalize(sums)

    def embed_query(self, text: str) -> Matrix:
        """Return a query's unit vector of shape (dimension,), zero if no subword is known."""
        return normalize(self._sum(self._known_ids(text)))

    def _known_ids(self, query: str) -> Integers:
        return np.fromiter(self._wordpiece.known(query), np.int64)

    def _sum(self, ids: Integers | Subwords) -> Matrix:
        total: Matrix = self._scales[ids] @ self._table[ids].astype(np.float32)
        return total

    def tokens(self, texts: Sequence[str]) -> list[Subwords]:
        """Return each text's subwords; a text without any known ones gets a placeholder.

        The placeholder is not similar to any subword.
        """
        unknown = np.array([max(self._unknown, 0)], np.uint16)
        return [ids if len(ids) else unknown for ids in self._ids(texts)]

    @property
    def vocabulary(self) -> int:
        """Return the number of subwords."""
        return len(self._table)

    def query_subwords(self, query: str) -> tuple[Integers, Matrix]:
        """Return a query's known subwords and their weights.

        A weight is the length of the subword's row times its count, which is its contribution to
        the query's vector.
        """
        ids, counts = np.unique(self._known_ids(query), return_counts=True)
        return ids, np.linalg.norm(self._rows(ids), axis=1) * counts

    def subword_similarities(self, asked: Integers, stored: Subwords) -> Matrix:
        """Return the cosine of each queried subword to each stored one, at least 0.

        The shape is (len(asked), len(stored)). Unknown subwords have cosine 0.
        """
        occurs = np.zeros(self.vocabulary, dtype=np.bool_)
        occurs[stored] = True
        ids = np.flatnonzero(occurs)
        row_numbers = np.zeros(self.vocabulary, dtype=np.intp)
        row_numbers[ids] = np.arange(len(ids))
        units = normalize(self._rows(asked)).T
        cosines = np.empty((len(asked), len(ids)), np.float32)
        step = max(_MIN_ROWS, threads.MAX_SINGLE_THREADED // max(1, units.size))
        for start in range(0, len(ids), step):
            part = slice(start, start + step)
            rows = self._rows(ids[part])
            lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", rows, rows)), 1e-12)
            np.divide((rows @ units).T, lengths, out=cosines[:, part])
        np.maximum(cosines, 0.0, out=cosines)
        cosines[:, ids == self._unknown] = 0.0
        result: Matrix = cosines[:, row_numbers[stored]]
        return result

    def _ids(self, texts: Sequence[str]) -> list[Subwords]:
        """Return each text's subword ids."""
        return [np.frombuffer(ids, np.uint16) for ids in self._wordpiece.encode_each(texts)]

    def _rows(self, ids: Integers) -> Matrix:
        """Return the rows of subwords, shape (len(ids), dimension)."""
        rows: Matrix = self._table[ids].astype(np.float32) * self._scales[ids][:, None]
        return rows
