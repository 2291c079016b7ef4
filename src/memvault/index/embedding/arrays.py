"""Array types of this package, and vector normalization.

The aliases equal ``numpy.typing.NDArray`` types, without the 9 ms that importing that module takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Matrix = np.ndarray[Any, np.dtype[np.float32]]
"""One vector, or one vector per row."""
Codes = np.ndarray[Any, np.dtype[np.uint8]]
"""Quantized token vectors (``token_vectors.TokenCodec``), one per row."""
Hashes = np.ndarray[Any, np.dtype[np.uint64]]
"""Text hashes (``local.vectors.hashes_of``)."""
Integers = np.ndarray[Any, np.dtype[np.int64]]
"""Uids, rows or subword ids."""
Places = np.ndarray[Any, np.dtype[np.intp]]
"""Indices into an array."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def normalize(rows: Matrix) -> Matrix:
    """Scale vectors to length 1 along the last axis; zero vectors stay zero."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled


def distinct(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the distinct values in ascending order."""
    # Unless counts are requested, NumPy imports its module for masked arrays, which takes 7 ms.
    unique_values: np.ndarray[Any, Any] = np.unique(values, return_counts=True)[0]
    return unique_values
