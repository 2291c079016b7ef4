"""The types of arrays in this package, and the normalization of vectors.

They are what ``numpy.typing.NDArray`` means, whose module takes 9 ms to import.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Matrix = np.ndarray[Any, np.dtype[np.float32]]
"""One vector, or one vector per row."""
Codes = np.ndarray[Any, np.dtype[np.uint8]]
"""Quantised token vectors (``token_vectors.TokenCodec``), one per row."""
Hashes = np.ndarray[Any, np.dtype[np.uint64]]
"""Hashes of texts (``local.vectors.hashes_of``)."""
Integers = np.ndarray[Any, np.dtype[np.int64]]
"""Uids, rows or ids of subwords."""
Places = np.ndarray[Any, np.dtype[np.intp]]
"""Indices of an array."""
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]


def normalize(rows: Matrix) -> Matrix:
    """Scale vectors to length 1 along the last axis; zero vectors are unchanged."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled


def distinct(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the distinct values in ascending order."""
    # Without the counts NumPy looks for masked arrays, whose module takes 7 ms to load.
    unique_values: np.ndarray[Any, Any] = np.unique(values, return_counts=True)[0]
    return unique_values
