#!/usr/bin/env python3
"""Create the built-in transformer by rounding a model's weights to 8-bit integers.

    python training/quantize_deep_embedder.py MODEL_FOLDER [PAIRS]

MODEL_FOLDER contains all-MiniLM-L6-v2 as ``model.onnx`` and ``tokenizer.json``. Writes
``model.onnx``, ``weights.json`` and ``card.json`` to ``src/memvault/data/deep``. The tokenizer is
not written, because it is identical to the static table's.

- Weights become integers with one scale per channel. Only seven of the eight bits are used, because
  processors without VNNI saturate when they add products of 8-bit integers.
- The graph is optimized once, by this script. ONNX Runtime then changes nothing more at any
  optimization level, so the vectors are always the same, and loading takes a third of the time.
- The calibration of its cosines is fitted to labeled pairs, as for the static table
  (``calibrate.py`` describes PAIRS). Without PAIRS, the card keeps its calibration.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path

import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

from calibrate import write_card
from locate_weights import write_weights
from memvault.index.embedding.embedder import read_card
from memvault.index.embedding.transformer import DATA, BuiltinTransformer
from memvault.index.embedding.wordpiece import DATA as TOKENIZER

NAME = "all-MiniLM-L6-v2-int8"
VERSION = "2"
DIMENSION = 384
TOKENS = 256


def quantize(source: Path, target: Path) -> None:
    """Round a model's weights and optimize its graph."""
    logging.getLogger().setLevel(logging.ERROR)  # it would suggest useless preprocessing
    with tempfile.TemporaryDirectory() as scratch:
        rounded = Path(scratch, "rounded.onnx")
        quantize_dynamic(
            source, rounded, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(target)
        onnxruntime.InferenceSession(str(rounded), options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Create the model, and calibrate its cosines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("pairs", type=Path, nargs="?")
    options = parser.parse_args()
    shipped = (TOKENIZER / "tokenizer.json").read_bytes()
    if (options.folder / "tokenizer.json").read_bytes() != shipped:
        parser.error("its tokenizer is not the static table's")
    DATA.mkdir(parents=True, exist_ok=True)
    quantize(options.folder / "model.onnx", DATA / "model.onnx")
    write_weights(DATA)
    about = {
        "name": NAME,
        "version": VERSION,
        "dimension": DIMENSION,
        "tokens": TOKENS,
        "source": "sentence-transformers/all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "languages": ["english"],
    }
    card = DATA / "card.json"
    known = [read_card(DATA).calibration] if card.is_file() else []
    write_card(card, about, BuiltinTransformer, options.pairs, *known)


if __name__ == "__main__":
    main()
