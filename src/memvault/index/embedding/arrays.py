"""The types of arrays in this package, and the normalization of vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
"""One vector, or one vector per row."""
Hashes = npt.NDArray[np.uint64]
"""Hashes of texts (``local.vectors.hashes_of``)."""
Integers = npt.NDArray[np.int64]
"""Uids, rows or ids of subwords."""
Places = npt.NDArray[np.intp]
"""Indices of an array."""
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


def normalize(rows: Matrix) -> Matrix:
    """Scale vectors to length 1 along the last axis; zero vectors are unchanged."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    scaled: Matrix = (rows / np.maximum(lengths, 1e-12)).astype(np.float32)
    return scaled
