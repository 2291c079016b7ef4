"""Token vectors with one bit per component, and their cosines to a query's tokens.

A transformer embedder computes a vector for each token; the text's vector is their mean. Late
interaction (Khattab and Zaharia 2020) compares the tokens themselves. Tokens of similar meaning,
such as repetitions of a word, share one vector (token pooling, Clavié, Chaffin and Adams 2024).
Each component is stored as the sign of its difference from the model's mean token vector; decoding
adds or subtracts the model's mean absolute difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from memvault.errors import EmbedderError
from memvault.index.embedding.arrays import Codes, Integers, Matrix, normalize
from memvault.index.embedding.embedder import Embedder, reinstall_hint
from memvault.named_tuple import NamedTuple

TOKENS_PER_VECTOR = 2.0
"""The average number of tokens that share one vector."""
_STATISTICS, _IGNORED = "token_statistics.npy", "ignored_tokens.npy"
_CODES_AT_ONCE = 512
"""The number of codes to decode in one step, so that their components fit the processor's cache."""


class TextVectors(NamedTuple):
    """The unit vector of a text, shape (dimension,), and its token vectors with the token ids.

    ``tokens`` has the shape (tokens, dimension), with no rows if the embedder does not return token
    vectors.
    """

    vector: Matrix
    tokens: Matrix
    ids: Integers


class TokenCodec(NamedTuple):
    """The codec that quantizes a model's token vectors.

    ``mean`` is the mean token vector, and ``deviation`` is the mean absolute difference from it;
    both have the shape (dimension,). ``ignored`` has the sorted ids of tokens that are not stored:
    punctuation and stop words.
    """

    mean: Matrix
    deviation: Matrix
    ignored: Integers

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the token statistics from a model's folder.

        Raises:
            EmbedderError: if the statistics are missing or invalid.
        """
        try:
            mean, deviation = np.load(folder / _STATISTICS)
            return cls(mean, deviation, np.load(folder / _IGNORED).astype(np.int64))
        except (OSError, ValueError) as error:
            raise EmbedderError(
                f"A built-in model cannot be read: {error}", reinstall_hint(error)
            ) from error

    def write(self, folder: Path) -> None:
        """Write the statistics to a model's folder."""
        np.save(folder / _STATISTICS, np.stack([self.mean, self.deviation]).astype(np.float32))
        np.save(folder / _IGNORED, self.ignored.astype(np.uint32))

    @property
    def width(self) -> int:
        """Return the number of bytes of a token's code."""
        return len(self.mean) // 8

    def encode(self, text: TextVectors) -> Codes:
        """Return the pooled codes of a text's tokens, except ignored ones; shape (codes, width)."""
        tokens = text.tokens[~np.isin(text.ids, self.ignored)]
        return np.packbits(pool(tokens) > self.mean, axis=1)

    def cosines(self, query: Matrix, codes: Codes) -> Matrix:
        """Return the approximate cosine of each query token to each code.

        ``query`` has unit vectors, shape (query tokens, dimension). The result has the shape (query
        tokens, codes).
        """
        scaled = query * self.deviation
        # query · (mean + deviation · (2 signs − 1))
        offset = query @ self.mean - scaled.sum(axis=1)
        factors = np.ascontiguousarray(2.0 * scaled.T)
        products = np.empty((len(codes), len(query)), np.float32)
        for first in range(0, len(codes), _CODES_AT_ONCE):
            batch = slice(first, first + _CODES_AT_ONCE)
            signs = np.unpackbits(codes[batch], axis=1).astype(np.float32)
            np.matmul(signs, factors, out=products[batch])
        result: Matrix = products.T + offset[:, None]
        return result


def pool(tokens: Matrix, per_vector: float = TOKENS_PER_VECTOR) -> Matrix:
    """Merge the most similar tokens of a text, and return the unit vectors of their means.

    Mutual nearest neighbors are merged, highest cosine first, until there is one vector for every
    ``per_vector`` tokens.
    """
    sums = units = tokens
    surplus = len(tokens) - ceil(len(tokens) / per_vector)
    while surplus > 0:
        cosines = units @ units.T
        np.fill_diagonal(cosines, -np.inf)
        nearest = cosines.argmax(axis=1)
        unit_numbers = np.arange(len(units))
        pairs = np.flatnonzero((nearest[nearest] == unit_numbers) & (unit_numbers < nearest))
        if not len(pairs):  # if a component is NaN
            break
        best = pairs[np.argsort(-cosines[pairs, nearest[pairs]])[:surplus]]
        sums = sums.copy()
        sums[best] += sums[nearest[best]]
        sums = np.delete(sums, nearest[best], axis=0)
        units = normalize(sums)
        surplus -= len(best)
    return units


class TokenEmbedder(Embedder, Protocol):
    """An embedder that can also return token vectors from the same run."""

    @property
    def codec(self) -> TokenCodec | None:
        """Return the codec for the embedder's token vectors, or None if it does not produce any."""

    def embed_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        """Return the vector of each passage with its token vectors."""

    def embed_few_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        """Return the vectors and token vectors of a few short texts, avoiding a slow startup."""

    def embed_query_tokens(self, text: str) -> TextVectors:
        """Return a query's vector with its token vectors."""
