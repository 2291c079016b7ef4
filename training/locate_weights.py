#!/usr/bin/env python3
"""Write the offsets of the built-in transformer's weights in its ``model.onnx``.

    python training/locate_weights.py [FOLDER]

FOLDER contains ``model.onnx`` from ``quantize_deep_embedder.py``, by default the one in the
package. Writes ``weights.json`` next to it, with which ``numpy_transformer.py`` reads the weights
without ONNX Runtime, and fails if the graph computes something different from that module.
"""

from __future__ import annotations

import argparse
import json
import mmap
from collections.abc import Iterator
from math import isclose, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from memvault.index.embedding.numpy_transformer import EXACT, WEIGHTS, raw_header
from memvault.index.embedding.transformer import DATA

_EMBEDDINGS = "m.embeddings."
_PRODUCTS = {
    "query": "attention/self/query",
    "key": "attention/self/key",
    "value": "attention/self/value",
    "output": "attention/output/dense",
    "inner": "intermediate/dense",
    "outer": "output/dense",
}
"""The products of a layer, each with its name in the graph."""
_NORMS = {"middle": "attention.output.LayerNorm", "state": "output.LayerNorm"}


def locate(path: Path) -> dict[str, Any]:
    """Return the contents of ``weights.json``.

    Raises:
        ValueError: if the graph differs from the one that ``numpy_transformer`` computes.
    """
    graph = onnx.load(str(path)).graph
    constants = {constant.name: constant for constant in graph.initializer}
    values = {name: numpy_helper.to_array(constant) for name, constant in constants.items()}
    products = {node.name: node for node in graph.node if "MatMul" in node.op_type}
    layers = sum(node.op_type.endswith("Gelu") for node in graph.node)
    names = dict(_embeddings())
    for number in range(layers):
        for name, place in _PRODUCTS.items():
            node = products[f"/m/encoder/layer.{number}/{place}/MatMul_quant"]
            weights, bias = node.input[1], node.input[-1]
            stem = weights.removesuffix("_quantized")
            _check_product(values[weights], values[f"{stem}_zero_point"])
            names[f"{number}.{name}.weights"] = weights
            names[f"{number}.{name}.scales"] = f"{stem}_scale"
            names[f"{number}.{name}.bias"] = bias
        for name, place in _NORMS.items():
            for part in ("weight", "bias"):
                names[f"{number}.{name}.{part}"] = f"m.encoder.layer.{number}.{place}.{part}"
    (scale,) = {
        attribute.f
        for node in graph.node
        if node.op_type == "FusedMatMul"
        for attribute in node.attribute
        if attribute.name == "alpha"
    }
    width = values[names["word"]].shape[1]
    heads = round(scale**2 * width)
    if not isclose(scale, sqrt(heads / width), rel_tol=1e-6):
        raise ValueError(f"the attention is scaled by {scale}")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        tensors = {name: _tensor(data, constants[own]) for name, own in names.items()}
    return {
        "size": path.stat().st_size,
        "layers": layers,
        "heads": heads,
        "quantization": {
            name: [float(values[f"{stem}_scale"]), int(values[f"{stem}_zero_point"])]
            for name, own in _embeddings()
            if (stem := own.removesuffix("_quantized")) != own
        },
        "tensors": tensors,
    }


def _embeddings() -> Iterator[tuple[str, str]]:
    """Yield the tensors before the first layer, with their names in the graph."""
    for name, own in (("word", "word"), ("type", "token_type"), ("position", "position")):
        yield name, f"{_EMBEDDINGS}{own}_embeddings.weight_quantized"
    for part in ("weight", "bias"):
        yield f"embedded.{part}", f"{_EMBEDDINGS}LayerNorm.{part}"


def _check_product(weights: np.ndarray[Any, Any], zero_points: np.ndarray[Any, Any]) -> None:
    """Raise ValueError if products of 8-bit integers would not be exact in float32."""
    if zero_points.any() or weights.dtype != np.int8:
        raise ValueError("weights are not symmetric 8-bit integers")
    largest = 255 * np.abs(weights.astype(np.int64)).sum(axis=0).max()
    if largest > EXACT:
        raise ValueError(f"a sum of products may be {largest}, which float32 does not represent")


def _tensor(data: mmap.mmap, constant: Any) -> list[Any]:
    """Return a constant's type, its offset in the file, and its shape."""
    array = numpy_helper.to_array(constant)
    offset = data.find(raw_header(array.nbytes) + array.tobytes())
    if offset < 0:
        raise ValueError(f"{constant.name} does not lie in the file in one piece")
    return [array.dtype.name, offset + len(raw_header(array.nbytes)), *array.shape]


def write_weights(folder: Path) -> None:
    """Write ``weights.json`` next to a folder's ``model.onnx``."""
    found = locate(folder / "model.onnx")
    tensors = ",\n  ".join(
        f"{json.dumps(name)}: {json.dumps(place)}" for name, place in found.pop("tensors").items()
    )
    rest = json.dumps(found)[1:-1]
    text = f'{{{rest},\n "tensors": {{\n  {tensors}\n }}\n}}\n'
    (folder / WEIGHTS).write_text(text, "utf-8", newline="\n")


def main() -> None:
    """Write the file of one folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=DATA)
    write_weights(parser.parse_args().folder)


if __name__ == "__main__":
    main()
