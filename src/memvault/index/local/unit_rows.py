"""Unit vectors as 8-bit integers, a quarter of the size of 32-bit floats.

A component is a multiple of the vector's largest one / 127, so a cosine of two texts differs by
less than 0.01 from that of floats. The length of the integers is stored with them; divided by it,
they are a unit vector again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from memvault.index.embedding.arrays import Codes, Matrix

_LENGTH_BYTES = 4
_LARGEST = 127
_BLOCK = 512
"""Rows that are converted to floats at once, so that they stay in the processor's cache."""


def width(dimension: int) -> int:
    """Return the number of bytes of a stored vector."""
    return _LENGTH_BYTES + dimension


class UnitRows(NamedTuple):
    """Stored unit vectors: a little-endian 32-bit float, the length of the integers behind it.

    ``stored`` has the shape (rows, 4 + dimension).
    """

    stored: Codes

    @classmethod
    def encode(cls, vectors: Matrix) -> Self:
        """Encode unit vectors, shape (rows, dimension); a zero vector remains one."""
        rows, dimension = vectors.shape
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=1e-12)
        integers = np.rint(vectors * (_LARGEST / largest)).astype(np.int8)
        lengths = np.linalg.norm(integers.astype(np.float32), axis=1)
        stored = np.empty((rows, width(dimension)), np.uint8)
        stored[:, :_LENGTH_BYTES] = (
            np.maximum(lengths, 1.0).astype("<f4").view(np.uint8).reshape(rows, _LENGTH_BYTES)
        )
        stored[:, _LENGTH_BYTES:] = integers.view(np.uint8)
        return cls(stored)

    @property
    def size(self) -> int:
        """The number of vectors."""
        return len(self.stored)

    def select(self, places: Any) -> UnitRows:
        """Return the vectors that an index of NumPy's selects, without decoding them."""
        return UnitRows(self.stored[places])

    def decode(self, places: Any) -> Matrix:
        """Return the vectors that an index of NumPy's selects, shape (selected, dimension)."""
        selected = self.stored[places]
        vectors: Matrix = _integers(selected).astype(np.float32) / _lengths(selected)[:, None]
        return vectors

    def cosines(self, query: Matrix) -> Matrix:
        """Return the cosine of each vector to a unit vector, shape (dimension,)."""
        products = np.empty(self.size, np.float32)
        integers = _integers(self.stored)
        for start in range(0, self.size, _BLOCK):
            block = integers[start : start + _BLOCK].astype(np.float32)
            np.matmul(block, query, out=products[start : start + _BLOCK])
        found: Matrix = products / _lengths(self.stored)
        return found


def _integers(stored: Codes) -> Any:
    return stored[:, _LENGTH_BYTES:].view(np.int8)


def _lengths(stored: Codes) -> Matrix:
    lengths: Matrix = np.ascontiguousarray(stored[:, :_LENGTH_BYTES]).view("<f4")[:, 0]
    return lengths
