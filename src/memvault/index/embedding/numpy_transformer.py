"""Run the built-in English transformer in numpy on one short text: a query.

Importing ONNX Runtime and preparing the model takes 70 ms; this takes 10 ms including the run. The
weights are 8-bit integers, mapped from ``model.onnx`` at the offsets in ``weights.json``
(``training/locate_weights.py``). Only the rows for the text's tokens are read from the token table.

Matrix products match ONNX's ``DynamicQuantizeLinear`` and ``MatMulInteger``: the left side is
quantized to 256 steps between its minimum and maximum. Numpy has no fast integer product, so BLAS
multiplies the integers as float32, which is exact because no sum exceeds 2**24. Products are
divided until BLAS runs each in one thread (``threads.MAX_SINGLE_THREADED``).

The norms, the softmax and the activation differ from ONNX Runtime's in the last bit, just as ONNX
Runtime's own results differ between processors. If such a bit changes a quantization step, the
cosine between this module's vector and ONNX Runtime's is .9938 to .9999; otherwise it is 1.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memvault import threads
from memvault.index.embedding.arrays import Codes, Matrix
from memvault.named_tuple import NamedTuple

WEIGHTS = "weights.json"
EXACT = 2**24
"""The largest number up to which float32 represents all integers."""
_MAX_ROWS, _MAX_DEPTH = 16, 128
"""The maximum numbers of rows and columns of the left matrix that are multiplied in one step."""
_EXACT_DEPTH = 512
"""The depth up to which no sum of a product exceeds ``EXACT``: 512 * 255 * 128 < 2**24."""
_COLUMNS = 256
"""The number of columns that are converted at once, so that they stay in the processor's cache."""
_STEPS = np.float32(255.0)
_EPSILON = np.float32(1e-12)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_SQRT_HALF = np.float32(0.5**0.5)
_ERF_RATE = np.float32(0.3275911)
_ERF = tuple(map(np.float32, (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)))
"""Coefficients of ``_gelu``'s polynomial, highest power first."""


Integers8 = np.ndarray[Any, np.dtype[np.int8]]


class Product(NamedTuple):
    """The right side of a product: integers of shape (depth, width), split into column blocks.

    ``scales`` has one scale per column, and ``bias`` is added; shape (width,).
    """

    parts: tuple[Integers8, ...]
    scales: Matrix
    bias: Matrix


class Norm(NamedTuple):
    """The factors and offsets of a normalization, shape (dimension,)."""

    weight: Matrix
    bias: Matrix


class Layer(NamedTuple):
    """An encoder layer: self-attention, and two products per token."""

    attention: Product
    output: Product
    middle: Norm
    inner: Product
    outer: Product
    state: Norm


class Embedding(NamedTuple):
    """A table of 8-bit vectors, shape (rows, dimension)."""

    table: Codes
    scale: np.float32
    zero: np.float32

    def rows(self, ids: slice | Sequence[int]) -> Matrix:
        """Return the vectors in the given rows."""
        rows: Matrix = (self.table[ids].astype(np.float32) - self.zero) * self.scale
        return rows


class NumpyTransformer:
    """A BERT encoder with 8-bit weights. It is thread-safe.

    Raises:
        OSError: if a file in the folder cannot be read.
        ValueError: if a file is damaged, or the files do not match.
    """

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / WEIGHTS).read_text("utf-8"))
        with (folder / "model.onnx").open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            if len(data) != about["size"]:
                raise ValueError(f"model.onnx does not have the size in {WEIGHTS}")
            tensors = {name: _read(data, *location) for name, location in about["tensors"].items()}
            self._embeddings = [
                Embedding(tensors[name], *map(np.float32, about["quantization"][name]))
                for name in ("word", "type", "position")
            ]
            self._norm = _norm_of(tensors, "embedded")
            self._layers = [_layer_of(tensors, number) for number in range(about["layers"])]
            self._heads = int(about["heads"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{WEIGHTS} is damaged: {error}") from error

    def run(self, token_ids: Sequence[int]) -> Matrix:
        """Return the last hidden state of a sequence of tokens, shape (tokens, dimension).

        Raises:
            ValueError: if the weights are damaged.
        """
        with np.errstate(all="ignore"):  # damaged weights cause floating-point errors
            state = self._run(token_ids)
        if not np.isfinite(state).all():
            raise ValueError("its weights are damaged")
        return state

    def _run(self, token_ids: Sequence[int]) -> Matrix:
        word_rows, types, positions = self._embeddings
        summed = word_rows.rows(token_ids) + types.rows([0]) + positions.rows(slice(len(token_ids)))
        state = _normalize(summed, self._norm)
        for layer in self._layers:
            attended = self._attend(_multiply(state, layer.attention))
            middle = _normalize(_multiply(attended, layer.output) + state, layer.middle)
            inner = _gelu(_multiply(middle, layer.inner))
            state = _normalize(_multiply(inner, layer.outer) + middle, layer.state)
        return state

    def _attend(self, projected: Matrix) -> Matrix:
        """Return, for each token, the mean of all values, weighted by the softmax of its products.

        ``projected`` has queries, keys and values side by side.
        """
        count = len(projected)
        by_head = projected.reshape(count, 3, self._heads, -1).transpose(1, 2, 0, 3)
        queries, keys, values = by_head
        width = queries.shape[-1]
        attended = np.empty((count, self._heads, width), np.float32)
        rows = max(1, threads.MAX_SINGLE_THREADED // (count * width))
        for row in range(0, count, rows):
            weights = queries[:, row : row + rows] @ keys.transpose(0, 2, 1)
            weights *= np.float32(width**-0.5)
            weights -= weights.max(axis=-1, keepdims=True)
            np.exp(weights, out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            attended[row : row + rows] = (weights @ values).transpose(1, 0, 2)
        return attended.reshape(count, -1)


def raw_header(size: int) -> bytes:
    """Return the bytes that precede a tensor in an ONNX file: field 9 with ``size`` bytes."""
    header = bytearray([9 << 3 | 2])
    while size > 127:
        header.append(size & 127 | 128)
        size >>= 7
    return bytes([*header, size])


def _read(data: mmap.mmap, kind: str, offset: int, *shape: int) -> Any:
    """Return a tensor; raise ValueError if no tensor of its size begins at the offset."""
    count = 1
    for length in shape:
        count *= length
    dtype = np.dtype(kind)
    header = raw_header(count * dtype.itemsize)
    if data[offset - len(header) : offset] != header:
        raise ValueError(f"model.onnx has no tensor at {offset}")
    tensor = np.frombuffer(data, dtype, count, offset).reshape(shape)
    return tensor if tensor.flags.aligned else tensor.copy()


def _norm_of(tensors: Mapping[str, Any], name: str) -> Norm:
    return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])


def _product_of(tensors: Mapping[str, Any], *names: str) -> Product:
    """Return one product that combines the columns of several products, side by side."""
    parts, scales, biases = (
        [tensors[f"{name}.{kind}"] for name in names] for kind in ("weights", "scales", "bias")
    )
    return Product(tuple(parts), np.concatenate(scales), np.concatenate(biases))


def _layer_of(tensors: Mapping[str, Any], number: int) -> Layer:
    return Layer(
        _product_of(tensors, *(f"{number}.{name}" for name in ("query", "key", "value"))),
        _product_of(tensors, f"{number}.output"),
        _norm_of(tensors, f"{number}.middle"),
        _product_of(tensors, f"{number}.inner"),
        _product_of(tensors, f"{number}.outer"),
        _norm_of(tensors, f"{number}.state"),
    )


def _multiply(left: Matrix, right: Product) -> Matrix:
    """Quantize rows to 8 bits and multiply them by integers; shape (rows, width)."""
    least = np.minimum(left.min(), _ZERO)
    step = (np.maximum(left.max(), _ZERO) - least) / _STEPS or _ONE
    zero = np.rint(-least / step)
    steps = np.rint(left / step)
    np.clip(steps, -zero, _STEPS - zero, out=steps)
    product = np.concatenate([_multiply_exactly(steps, part) for part in right.parts], axis=1)
    product *= right.scales * step
    product += right.bias
    return product


def _multiply_exactly(left: Matrix, right: Integers8) -> Matrix:
    """Return the product of two integer matrices, exact if no sum exceeds ``EXACT``."""
    product = np.zeros((len(left), right.shape[1]), np.float32)
    if threads.blas_has_one:
        rows, depth, columns = len(left), _EXACT_DEPTH, _COLUMNS
    else:
        rows, depth = min(len(left), _MAX_ROWS), min(len(right), _MAX_DEPTH)
        columns = threads.MAX_SINGLE_THREADED // (rows * depth)
    converted = np.empty(depth * columns, np.float32)
    for column in range(0, right.shape[1], columns):
        across = slice(column, column + columns)
        for start in range(0, len(right), depth):
            along = slice(start, start + depth)
            part = right[along, across]
            wide = converted[: part.size].reshape(part.shape)
            wide[...] = part
            for row in range(0, len(left), rows):
                down = slice(row, row + rows)
                product[down, across] += left[down, along] @ wide
    return product


def _normalize(rows: Matrix, norm: Norm) -> Matrix:
    """Scale rows to mean 0 and variance 1, then apply a norm's factors and offsets."""
    means = rows.mean(axis=1, keepdims=True)
    squares = (rows * rows).mean(axis=1, keepdims=True)
    normalized: Matrix = (rows - means) / np.sqrt(squares - means * means + _EPSILON)
    normalized *= norm.weight
    normalized += norm.bias
    return normalized


def _gelu(numbers: Matrix) -> Matrix:
    """Return the Gaussian error linear units, x (1 + erf(x / √2)) / 2.

    The error function is formula 7.1.26 of Abramowitz and Stegun 1964, accurate to 1.5e-7.
    """
    scaled = numbers * _SQRT_HALF
    size = np.abs(scaled)
    factor = _ONE / (_ONE + _ERF_RATE * size)
    rest = factor * _ERF[0]
    for coefficient in _ERF[1:]:
        rest += coefficient
        rest *= factor
    rest *= np.exp(-size * size)
    error: Matrix = np.copysign(_ONE - rest, scaled)
    error += _ONE
    error *= numbers * _HALF
    return error
